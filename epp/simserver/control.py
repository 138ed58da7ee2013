"""The routes that do not generate: models, tokenizer, probes, metrics, administration, faults."""

import uuid
from typing import Any
from urllib.parse import parse_qs

from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError, sleeping, validation_error
from epp.simserver.exchange import Exchange
from epp.simserver.fields import optional, parse_json
from epp.simserver.metrics import CONTENT_TYPE_PLAIN_1_0_0
from epp.simserver.requests import parse_tokenize

__all__ = ["ControlRoutes"]

VERSION = "0.32.0"


class ControlRoutes:
    """Everything but inference."""

    def __init__(self, core: SimCore) -> None:
        self._core = core

    # ---------------------------------------------------------------- what vLLM always serves

    async def models(self, exchange: Exchange) -> None:
        """GET /v1/models: the base model, then its adapters."""
        settings = self._core.settings
        cards = [self._card(settings.model, f"/models/{settings.model}", None, settings.context_tokens)]
        cards += [self._card(name, f"/adapters/{name}", settings.model, None) for name in settings.lora]
        await exchange.answer_json(200, {"object": "list", "data": cards})

    def _card(self, name: str, root: str, parent: str | None, max_model_len: int | None) -> dict[str, Any]:
        permission = {
            "id": f"modelperm-{uuid.uuid4().hex[:16]}",
            "object": "model_permission",
            "created": self._core.created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        return {
            "id": name,
            "object": "model",
            "created": self._core.created,
            "owned_by": "vllm",
            "root": root,
            "parent": parent,
            "max_model_len": max_model_len,
            "permission": [permission],
        }

    async def tokenize(self, exchange: Exchange) -> None:
        """POST /tokenize: a prompt or messages."""
        tokens = parse_tokenize(parse_json(exchange.body), self._core.vocabulary)
        await exchange.answer_json(
            200,
            {
                "count": len(tokens),
                "max_model_len": self._core.settings.context_tokens,
                "tokens": tokens,
                "token_strs": None,
            },
        )

    async def detokenize(self, exchange: Exchange) -> None:
        """POST /detokenize: the text of token ids."""
        tokens = parse_json(exchange.body).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, int) for token in tokens):
            raise validation_error("list_type", "body.tokens", "Input should be a valid list")
        await exchange.answer_json(200, {"prompt": self._core.vocabulary.decode(tokens)})

    async def health(self, exchange: Exchange) -> None:
        """GET /health, /ping: 200 for as long as the process lives, draining or asleep too."""
        await exchange.answer(200, content_type=None)

    async def version(self, exchange: Exchange) -> None:
        """GET /version."""
        await exchange.answer_json(200, {"version": VERSION})

    async def load(self, exchange: Exchange) -> None:
        """GET /load: inference requests in flight."""
        await exchange.answer_json(200, {"server_load": self._core.inference_in_flight})

    async def metrics(self, exchange: Exchange) -> None:
        """GET /metrics."""
        await exchange.answer(200, self._core.metrics.page(), CONTENT_TYPE_PLAIN_1_0_0.encode())

    # ---------------------------------------------------------------- development mode

    async def reset_prefix_cache(self, exchange: Exchange) -> None:
        """POST /reset_prefix_cache: forget the GPU tier, with `reset_external=true` the CPU tier too."""
        external = _query(exchange, "reset_external", "false").lower() in ("true", "1")
        done = self._core.engine.reset_prefix_cache(external=external)
        await exchange.answer_json(200, {"success": done})

    async def sleep(self, exchange: Exchange) -> None:
        """POST /sleep?level=1: end what runs, forget the GPU tier, refuse requests."""
        level = _query(exchange, "level", "1")
        if level not in ("1", "2"):
            raise ApiError(400, "level must be 1 or 2", "BadRequestError", "level")
        self._core.sleep_level = int(level)
        self._core.refusal = sleeping
        self._core.runner.fail_all(sleeping())
        self._core.engine.reset_prefix_cache()
        self._core.metrics.set_sleep_level(self._core.sleep_level)
        await exchange.answer(200, content_type=None)

    async def wake_up(self, exchange: Exchange) -> None:
        """POST /wake_up."""
        self._core.sleep_level = 0
        self._core.refusal = None
        self._core.metrics.set_sleep_level(0)
        await exchange.answer(200, content_type=None)

    async def is_sleeping(self, exchange: Exchange) -> None:
        """GET /is_sleeping."""
        await exchange.answer_json(200, {"is_sleeping": self._core.sleep_level > 0})

    # ---------------------------------------------------------------- faults

    async def list_faults(self, exchange: Exchange) -> None:
        """GET /sim/faults: how many wait for requests."""
        await exchange.answer_json(200, {"waiting": len(self._core.faults)})

    async def add_fault(self, exchange: Exchange) -> None:
        """POST /sim/faults {"fault", "times" (1 unless told, null for ever), "path"}."""
        data = parse_json(exchange.body)
        text = optional(data, "fault", str) or ""
        times = optional(data, "times", int) if "times" in data else 1
        path = optional(data, "path", str) or ""
        try:
            self._core.faults.add(text, times=times, path=path)
        except ValueError as error:
            raise ApiError(400, str(error), "BadRequestError", "fault") from error
        await exchange.answer_json(200, {"waiting": len(self._core.faults)})

    async def clear_faults(self, exchange: Exchange) -> None:
        """DELETE /sim/faults."""
        self._core.faults.clear()
        await exchange.answer_json(200, {"waiting": 0})


def _query(exchange: Exchange, name: str, default: str) -> str:
    return parse_qs(exchange.query.decode("latin-1")).get(name, [default])[0]
