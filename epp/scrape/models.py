"""Asks every endpoint what it serves, and once per model how many bytes a token has."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from epp.clock import Clock
from epp.endpoints.types import Endpoint, ModelInfo
from epp.http import UpstreamRequest
from epp.scrape.probing import Fetch, ScrapeError, ScrapeFault, Sleep, ask, probe_headers
from epp.scrape.repeats import RepeatLog
from epp.scrape.watch import Watch, Watched

__all__ = ["ModelProbe", "ModelProbeSettings", "ModelSink", "read_models"]

# Prose, code, JSON and a second script, roughly as prompts mix them: a first guess until requests teach.
SAMPLE_TEXT: Final = (
    "You are a helpful assistant. Answer the user's question from the documents below, and say so if they "
    "do not contain the answer. Cite the document you used by its number.\n\n"
    "Document 1. The committee met on Tuesday to review the quarterly figures. Revenue had grown by 4.2 "
    "percent, mostly in the northern region, while the cost of transport remained the largest item.\n\n"
    "def moving_average(values: list[float], width: int) -> list[float]:\n"
    "    return [sum(values[i : i + width]) / width for i in range(len(values) - width + 1)]\n\n"
    '{"role": "user", "content": "How did revenue change?", "temperature": 0.7, "tags": ["q3"]}\n\n'
    "Hãy tóm tắt văn bản trên bằng ba câu ngắn gọn. Các bên đã thống nhất lịch họp vào tuần sau.\n"
)


class ModelSink(Protocol):
    """Takes what the probe learns."""

    def on_models(self, address: str, incarnation: int, models: tuple[ModelInfo, ...], now: float) -> None:
        """The endpoint listed what it serves, adapters included."""
        ...

    def on_token_ratio(self, model: str, bytes_per_token: float) -> None:
        """A sample text has so many UTF-8 bytes a token with the model's tokenizer."""
        ...


@dataclass(frozen=True, slots=True)
class ModelProbeSettings:
    """How to probe.

    Attributes:
        interval_s: from one list of models to the next.
        retry_s: the same after a failure.
        timeout_s: of one request.
        scheme: overrides the endpoints' own.
        api_key: sent as a bearer token; None sends no authorization.
    """

    interval_s: float = 60.0
    retry_s: float = 5.0
    timeout_s: float = 5.0
    scheme: str | None = None
    api_key: str | None = None


class _Entry(msgspec.Struct):
    id: str
    parent: str | None = None
    root: str | None = None


class _List(msgspec.Struct):
    data: list[msgspec.Raw]


class _Count(msgspec.Struct):
    count: int


def read_models(body: bytes) -> tuple[ModelInfo, ...]:
    """The entries of a `/v1/models` answer, each with its JSON as it came; those without an id are left out.

    Raises:
        ScrapeError: it is not such a list.
    """
    try:
        entries = msgspec.json.decode(body.decode(), type=_List).data
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ScrapeError(ScrapeFault.PARSE, f"not a list of models: {error}") from None
    return tuple(model for model in map(_read_entry, entries) if model is not None)


def _read_entry(raw: msgspec.Raw) -> ModelInfo | None:
    try:
        entry = msgspec.json.decode(raw, type=_Entry)
    except msgspec.DecodeError:
        return None
    # Nobody can ask for a model without a name: no model means the pool's only one.
    return ModelInfo(entry.id, entry.parent, entry.root, bytes(raw)) if entry.id else None


class ModelProbe:
    """Probes each endpoint when it comes, when its incarnation changes, and every `interval_s`.

    Bytes per token are asked once for each base model, at the first endpoint whose `/tokenize` answers.
    """

    def __init__(
        self,
        fetch: Fetch,
        sink: ModelSink,
        settings: ModelProbeSettings,
        *,
        clock: Clock,
        sleep: Sleep,
        log: Callable[[str], None],
    ) -> None:
        self._fetch = fetch
        self._sink = sink
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self._log = log
        self._headers = probe_headers(b"application/json", settings.api_key)
        self._measured: set[str] = set()  # also those being measured
        self._watch = Watch(self._probe_for_ever, anew=True)

    def use_key(self, api_key: str) -> None:
        """Send another bearer token from the next probe on."""
        self._headers = probe_headers(b"application/json", api_key)

    def sync(self, endpoints: Iterable[Endpoint]) -> None:
        """Probe exactly these endpoints, a new one and a new incarnation at once."""
        self._watch.sync(endpoints)

    def refresh(self, address: str) -> None:
        """Probe one endpoint at once: what it serves has changed."""
        self._watch.restart(address)

    def start(self) -> None:
        """Begin; needs a running event loop."""
        self._watch.start()

    async def stop(self) -> None:
        """End every task."""
        await self._watch.stop()

    async def _probe_for_ever(self, watched: Watched) -> None:
        repeats = RepeatLog(self._log, f"listing the models of {watched.endpoint.address}")
        asked: set[str] = set()
        while True:
            wait_s = self._settings.interval_s
            try:
                await self._probe(watched.endpoint, asked)
                repeats.worked()
            except Exception as error:  # noqa: BLE001  whatever it is, the next probe may succeed
                repeats.failed(str(error), self._clock.monotonic())
                wait_s = self._settings.retry_s
            await self._sleep(wait_s)

    async def _probe(self, endpoint: Endpoint, asked: set[str]) -> None:
        """One list of models, and the ratio of each base model that this endpoint was not `asked` for yet."""
        incarnation = endpoint.incarnation
        models = read_models(await self._ask(endpoint, b"GET", b"/v1/models"))
        self._sink.on_models(endpoint.address, incarnation, models, self._clock.monotonic())
        for model in models:
            if model.parent is None and model.id not in asked and model.id not in self._measured:
                asked.add(model.id)
                await self._measure(endpoint, model.id)

    async def _measure(self, endpoint: Endpoint, model: str) -> None:
        """Tell the ratio of `model`; when it cannot be had here, another endpoint may be asked."""
        self._measured.add(model)
        count = 0
        try:
            count = await self._count_sample(endpoint, model)
        finally:
            if count <= 0:
                self._measured.discard(model)
        if count > 0:
            self._sink.on_token_ratio(model, len(SAMPLE_TEXT.encode()) / count)

    async def _count_sample(self, endpoint: Endpoint, model: str) -> int:
        """Tokens of the sample text; 0 where the engine has no `/tokenize` or answers otherwise."""
        body = msgspec.json.encode({"model": model, "prompt": SAMPLE_TEXT, "add_special_tokens": False})
        try:
            answer = await self._ask(endpoint, b"POST", b"/tokenize", body)
            return msgspec.json.decode(answer, type=_Count).count
        except (ScrapeError, msgspec.DecodeError):
            return 0

    async def _ask(self, endpoint: Endpoint, method: bytes, target: bytes, body: bytes = b"") -> bytes:
        headers = [*self._headers, (b"content-type", b"application/json")] if body else self._headers
        request = UpstreamRequest(method, target, headers, body)
        return await ask(self._fetch, endpoint, self._settings.scheme, request, self._settings.timeout_s)
