"""Do the endpoints fit together."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from epp.doctor.checks_cache import differs
from epp.doctor.finding import POOL, Finding, finding
from epp.doctor.observation import Observation

__all__ = ["check_pool"]

_Value = TypeVar("_Value", bound=Hashable)
_SHOWN: Final = 4  # addresses beside one value


def check_pool(pool: Sequence[Observation]) -> Iterator[Finding]:
    """What differs, and what should."""
    yield from _engines(pool)
    yield from _versions(pool)
    yield from _models(pool)
    yield from _adapters(pool)
    yield from _contexts(pool)
    yield from _block_sizes(pool)
    yield from _capacities(pool)
    yield from _twins(pool)


def _groups(
    pool: Sequence[Observation], value_of: Callable[[Observation], _Value | None]
) -> dict[_Value, list[str]]:
    """Value → addresses; endpoints that do not tell it are left out."""
    groups: dict[_Value, list[str]] = {}
    for seen in pool:
        value = value_of(seen)
        if value is not None:
            groups.setdefault(value, []).append(seen.address)
    return groups


def _shown(groups: dict[_Value, list[str]], text: Callable[[_Value], str] = str) -> str:
    return "; ".join(f"{text(value)} at {_listed(addresses)}" for value, addresses in groups.items())


def _listed(addresses: Sequence[str]) -> str:
    more = len(addresses) - _SHOWN
    return ", ".join(addresses[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _engines(pool: Sequence[Observation]) -> Iterator[Finding]:
    groups = _groups(pool, lambda seen: seen.engine)
    if len(groups) > 1:
        yield finding(
            "engines-differ",
            POOL,
            _shown(groups),
            "epp reads each by its own names; queue lengths and cache usage of different engines are "
            "compared as they are",
            "none needed if it is meant",
        )


def _versions(pool: Sequence[Observation]) -> Iterator[Finding]:
    for engine in sorted({seen.engine for seen in pool if seen.engine}):
        groups = _groups([seen for seen in pool if seen.engine == engine], lambda seen: seen.version_text)
        if len(groups) > 1:
            yield finding(
                "versions-differ",
                POOL,
                f"{engine} {_shown(groups)}",
                "versions cache, offload and count differently, so one configuration fits only some of them",
                "finish the rollout, or pin one version",
            )


def _base_names(seen: Observation) -> tuple[str, ...] | None:
    return tuple(sorted(model.id for model in seen.base_models)) or None


def _models(pool: Sequence[Observation]) -> Iterator[Finding]:
    groups = _groups(pool, _base_names)
    if len(groups) > 1:
        yield finding(
            "models-differ",
            POOL,
            _shown(groups, ", ".join),
            "a request goes only to endpoints that list its model, and one without a model is refused with "
            "400; scores do not know that models cost differently",
            "give each model a router of its own, or leave it so if it is meant; a name with a typing error "
            "is set by --served-model-name",
        )


def _adapters(pool: Sequence[Observation]) -> Iterator[Finding]:
    by_base = _groups(pool, _base_names)
    for base, addresses in by_base.items():
        alike = [seen for seen in pool if seen.address in addresses]
        groups = _groups(alike, lambda seen: tuple(sorted(model.id for model in seen.adapters)))
        if len(groups) > 1:
            yield finding(
                "adapters-differ",
                POOL,
                f"{', '.join(base)} with {_shown(groups, lambda names: ', '.join(names) or 'no adapter')}",
                "requests for an adapter go only to the endpoints that list it, which are busier then",
                "load the same adapters everywhere (POST /v1/load_lora_adapter at each endpoint)",
            )


def _contexts(pool: Sequence[Observation]) -> Iterator[Finding]:
    names = sorted({name for seen in pool for name in seen.context_tokens})
    for name in names:
        groups = _groups(pool, partial(_context_of, name))
        if len(groups) > 1:
            yield finding(
                "context-differs",
                POOL,
                f"max_model_len of {name}: {_shown(groups)}",
                "a long prompt that one endpoint takes is refused by another with 400, which is not repeated",
                "start all with the same --max-model-len",
            )


def _context_of(model: str, seen: Observation) -> int | None:
    return seen.context_tokens.get(model)


def _block_sizes(pool: Sequence[Observation]) -> Iterator[Finding]:
    groups = _groups(pool, lambda seen: seen.metrics.block_tokens if seen.metrics else None)
    if len(groups) > 1:
        yield finding(
            "block-sizes-differ",
            POOL,
            f"tokens in a block: {_shown(groups)}",
            "lruCapacityPerServer counts engine blocks, so one number means different sizes; hits land on "
            "different borders",
            "start all with the same --block-size, or rely on autoTune: true",
        )


def _capacities(pool: Sequence[Observation]) -> Iterator[Finding]:
    groups = _groups(pool, lambda seen: seen.metrics.gpu_capacity_tokens if seen.metrics else None)
    if len(groups) > 1 and differs(max(groups), min(groups)):
        yield finding(
            "capacities-differ",
            POOL,
            f"tokens in the GPU tier: {_shown(groups)}",
            "with autoTune each endpoint has its own size in the index; cache usage in percent means "
            "different amounts",
            "none needed with autoTune: true",
        )


def _identity(seen: Observation) -> tuple[float, str | None, tuple[str, ...]] | None:
    """Start time to the hundredth of a second, version and models: hardly the same for two processes."""
    start = seen.metrics.process_start if seen.metrics else None
    return (start, seen.version_text, _base_names(seen) or ()) if start is not None else None


def _twins(pool: Sequence[Observation]) -> Iterator[Finding]:
    for (start, *_), addresses in _groups(pool, _identity).items():
        if len(addresses) > 1:
            yield finding(
                "same-server-twice",
                POOL,
                f"process_start_time_seconds {start:.2f}, version and models are the same at "
                f"{_listed(addresses)}",
                "its load is counted apart for each address, and each gets a prefix index of its own",
                "keep one of these --endpoint values; an address that balances over servers must be replaced "
                "by those of the servers",
            )
