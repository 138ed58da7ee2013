"""Endpoints and pools for tests, with one line each."""

from types import MappingProxyType

from epp.endpoints.types import Endpoint, EndpointMetrics, EndpointSpec, ModelInfo, Pool


def spec(last: int = 1, uid: str = "", **labels: str) -> EndpointSpec:
    """10.0.0.`last`:8000."""
    return EndpointSpec("http", f"10.0.0.{last}", 8000, labels, uid)


def endpoint(slot: int, *models: ModelInfo, told: bool = True, **fields) -> Endpoint:
    """The endpoint 10.0.0.<slot + 1>:8000 with what it serves; `told=False`: unknown."""
    fields.setdefault("incarnation", slot + 1)
    return Endpoint(slot=slot, spec=spec(slot + 1), models=models if told else None, **fields)


def asleep(slot: int, *, fresh: bool = True) -> Endpoint:
    return endpoint(slot, metrics=EndpointMetrics(awake=False), fresh=fresh)


def pool(*endpoints: Endpoint, version: int = 1, topology: int | None = None) -> Pool:
    by_address = MappingProxyType({e.address: e for e in endpoints})
    return Pool(version, endpoints, by_address, topology)


def model(name: str, root: str | None = None, parent: str | None = None) -> ModelInfo:
    return ModelInfo(name, parent, root, f'{{"id":"{name}"}}'.encode())
