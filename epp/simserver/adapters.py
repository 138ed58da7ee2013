"""Adapters that are loaded and unloaded while the server runs (VLLM_ALLOW_RUNTIME_LORA_UPDATING=1)."""

from dataclasses import replace

from epp.simserver.core import SimCore
from epp.simserver.errors import ApiError
from epp.simserver.exchange import Exchange
from epp.simserver.fields import optional
from epp.simserver.inference import json_body

__all__ = ["AdapterRoutes"]


class AdapterRoutes:
    """`/v1/load_lora_adapter` and `/v1/unload_lora_adapter`; no file is ever read."""

    def __init__(self, core: SimCore) -> None:
        self._core = core

    async def load(self, exchange: Exchange) -> None:
        """POST /v1/load_lora_adapter {"lora_name", "lora_path", "load_inplace"}."""
        data = json_body(exchange)
        name = optional(data, "lora_name", str)
        if not name or not optional(data, "lora_path", str):
            message = "Both 'lora_name' and 'lora_path' must be provided."
            raise ApiError(400, message, "InvalidUserInput")
        if name == self._core.settings.model:
            message = f"The lora adapter '{name}' conflicts with a served base model."
            raise ApiError(400, message, "InvalidUserInput")
        if name in self._core.settings.lora and not optional(data, "load_inplace", bool):
            message = (
                f"The lora adapter '{name}' has already been loaded. If you want to load the adapter in "
                "place, set 'load_inplace' to True."
            )
            raise ApiError(400, message, "InvalidUserInput")
        self._set(tuple(dict.fromkeys((*self._core.settings.lora, name))))
        await exchange.answer(200, f"Success: LoRA adapter '{name}' added successfully.".encode(), None)

    async def unload(self, exchange: Exchange) -> None:
        """POST /v1/unload_lora_adapter {"lora_name"}."""
        name = optional(json_body(exchange), "lora_name", str)
        if not name:
            message = "'lora_name' needs to be provided to unload a LoRA adapter."
            raise ApiError(400, message, "InvalidUserInput")
        if name not in self._core.settings.lora:
            raise ApiError(404, f"The lora adapter '{name}' cannot be found.", "NotFoundError")
        self._set(tuple(other for other in self._core.settings.lora if other != name))
        await exchange.answer(200, f"Success: LoRA adapter '{name}' removed successfully.".encode(), None)

    def _set(self, adapters: tuple[str, ...]) -> None:
        self._core.settings = replace(self._core.settings, lora=adapters)
