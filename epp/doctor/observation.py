"""What one endpoint answered, and what that says."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import msgspec

from epp.endpoints.types import EndpointMetrics, EndpointSpec, ModelInfo
from epp.scrape import CoreNames, Page, PageError, PageReader, ScrapeError, read_models
from epp.scrape.exposition import SampleFinder

__all__ = ["Answer", "Observation", "Version", "read_observation", "read_version"]

Version = tuple[int, int, int]

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_ENGINES_OWN: Final = CoreNames()
_NO_LENGTHS: Final[Mapping[str, int]] = MappingProxyType({})
_CACHE_CONFIG: Final = "vllm:cache_config_info"
_NAME: Final = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)[{ \t]", re.MULTILINE)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_OLDEST: Final = (0, 8, 0)  # builds from a source tree without tags call themselves 0.1.dev…


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request.

    Attributes:
        status: None when there is no answer; `fault` says why.
        body: of the answer.
        fault: what went wrong on the way, "" when an answer came.
        unreachable: no connection could be made.
        took_s: from the request to the whole answer.
        keep_alive_s: what the server says in `keep-alive: timeout=…`.
    """

    status: int | None
    body: bytes = b""
    fault: str = ""
    unreachable: bool = False
    took_s: float = 0.0
    keep_alive_s: float | None = None

    @property
    def ok(self) -> bool:
        """A 200 came."""
        return self.status == 200

    def shown(self, path: str) -> str:
        """What came of asking for `path`, for people."""
        return f"{path}: {self.fault}" if self.status is None else f"{path} answered {self.status}"


@dataclass(frozen=True, slots=True)
class Observation:
    """One endpoint at the time of the check. None: not told, or not asked.

    Attributes:
        spec: where it is.
        health, page, models_list, version_page: answers to the four requests that every endpoint gets.
        probe: answer to the completion, None when it was not sent.
        page_path: where the metrics page was looked for.
        metrics: of a page that could be read.
        rejected: fields of `metrics` that are None because their value cannot be true.
        page_fault: why the page cannot be read, "" when it can or did not come.
        names: every metric name on the page.
        cache_config: labels of `vllm:cache_config_info`.
        models: as listed.
        models_fault: why the list cannot be read.
        context_tokens: longest sequence by model.
        version_text, version: as told, and as numbers.
        tells_cached_tokens: whether the probe's usage has `prompt_tokens_details.cached_tokens`.
    """

    spec: EndpointSpec
    health: Answer
    page: Answer
    models_list: Answer
    version_page: Answer
    probe: Answer | None = None
    page_path: str = "/metrics"
    metrics: EndpointMetrics | None = None
    rejected: frozenset[str] = frozenset()
    page_fault: str = ""
    names: frozenset[str] = frozenset()
    cache_config: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    models: tuple[ModelInfo, ...] | None = None
    models_fault: str = ""
    context_tokens: Mapping[str, int] = field(default_factory=lambda: _NO_LENGTHS)
    version_text: str | None = None
    version: Version | None = None
    tells_cached_tokens: bool | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return self.spec.address

    @property
    def engine(self) -> str | None:
        """As guessed from the names on the page."""
        return self.metrics.engine if self.metrics else None

    @property
    def base_models(self) -> tuple[ModelInfo, ...]:
        """Models that are no adapters."""
        return tuple(model for model in self.models or () if model.parent is None)

    @property
    def adapters(self) -> tuple[ModelInfo, ...]:
        """Models with a parent."""
        return tuple(model for model in self.models or () if model.parent is not None)

    def older_than(self, major: int, minor: int, patch: int = 0) -> bool:
        """It is a vLLM that is known to be older than this version."""
        return self.engine == "vllm" and self.version is not None and self.version < (major, minor, patch)

    def at_least(self, major: int, minor: int, patch: int = 0) -> bool:
        """It is a vLLM that is known to be of this version or newer."""
        return self.engine == "vllm" and self.version is not None and self.version >= (major, minor, patch)


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens_details: _Details | None = None


class _Completion(msgspec.Struct):
    usage: _Usage | None = None


class _Told(msgspec.Struct):
    version: str


class _Lengths(msgspec.Struct):
    max_model_len: int | None = None


@dataclass(frozen=True, slots=True)
class _Read:
    """A page as far as it could be read."""

    page: Page | None = None
    fault: str = ""
    names: frozenset[str] = frozenset()
    cache_config: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


def read_observation(
    spec: EndpointSpec,
    *,
    health: Answer,
    page: Answer,
    models_list: Answer,
    version_page: Answer,
    probe: Answer | None = None,
    page_path: str = "/metrics",
    names: CoreNames = _ENGINES_OWN,
) -> Observation:
    """What the answers say; what cannot be read is kept as a fault, never raised. `names` go before those of
    the engines.
    """
    read = _read_page(page.body, names) if page.ok else _Read()
    models, models_fault = _read_models(models_list)
    version_text = _read_version_text(version_page)
    return Observation(
        spec=spec,
        health=health,
        page=page,
        models_list=models_list,
        version_page=version_page,
        probe=probe,
        page_path=page_path,
        metrics=read.page.metrics if read.page else None,
        rejected=read.page.rejected if read.page else frozenset(),
        page_fault=read.fault,
        names=read.names,
        cache_config=read.cache_config,
        models=models,
        models_fault=models_fault,
        context_tokens=_context_tokens(models or ()),
        version_text=version_text,
        version=read_version(version_text) if version_text else None,
        tells_cached_tokens=_tells_cached_tokens(probe) if probe and probe.ok else None,
    )


def read_version(text: str) -> Version | None:
    """The numbers at the beginning of a version; None where they say nothing (builds without a tag)."""
    match = _VERSION.match(text)
    if match is None:
        return None
    version = (int(match[1]), int(match[2]), int(match[3] or 0))
    return version if version >= _OLDEST else None


def _read_page(body: bytes, wanted: CoreNames) -> _Read:
    try:
        page = PageReader(wanted).read(body)
        labels = SampleFinder([_CACHE_CONFIG]).find(body).get(_CACHE_CONFIG, [])
    except PageError as error:
        return _Read(fault=str(error))
    names = frozenset(name.decode() for name in _NAME.findall(body))
    return _Read(page, names=names, cache_config=labels[0].labels if labels else _NOTHING)


def _read_models(answer: Answer) -> tuple[tuple[ModelInfo, ...] | None, str]:
    if not answer.ok:
        return None, ""
    try:
        return read_models(answer.body), ""
    except ScrapeError as error:
        return None, error.detail


def _read_version_text(answer: Answer) -> str | None:
    try:
        return msgspec.json.decode(answer.body, type=_Told).version if answer.ok else None
    except msgspec.DecodeError:
        return None


def _context_tokens(models: tuple[ModelInfo, ...]) -> dict[str, int]:
    lengths = {model.id: _read_length(model.raw) for model in models}
    return {name: length for name, length in lengths.items() if length is not None}


def _read_length(raw: bytes) -> int | None:
    try:
        return msgspec.json.decode(raw, type=_Lengths).max_model_len
    except msgspec.DecodeError:
        return None


def _tells_cached_tokens(probe: Answer) -> bool:
    try:
        usage = msgspec.json.decode(probe.body, type=_Completion).usage
    except msgspec.DecodeError:
        return False
    details = usage.prompt_tokens_details if usage else None
    return details is not None and details.cached_tokens is not None
