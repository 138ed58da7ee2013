"""Which `EPP_*` variables are settings, which come from Kubernetes' service links, and which are unknown.

For a Service named `epp` Kubernetes puts `EPP_SERVICE_HOST=10.0.0.1`, `EPP_PORT=tcp://10.0.0.1:8080`,
`EPP_PORT_8080_TCP_ADDR=…` and more into every container of the namespace.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from epp.config.leaf import ENVIRONMENT_PREFIX
from epp.config.reader import closest, listed

__all__ = ["SETTINGS_VARIABLE", "Environment", "read_environment"]

SETTINGS_VARIABLE: Final = "EPP_SETTINGS"

_SERVICE_NAME: Final = re.compile(
    r"EPP(_\w+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)
_SERVICE_URL: Final = re.compile(r"(tcp|udp|sctp)://.*")


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables that hold settings, and what to tell about the others."""

    values: Mapping[str, str]
    notices: tuple[str, ...]


def read_environment(environ: Mapping[str, str], known: Collection[str]) -> Environment:
    """Sort the `EPP_*` variables. An empty one counts as unset; other prefixes are not looked at."""
    ours = {k: v for k, v in sorted(environ.items()) if k.startswith(ENVIRONMENT_PREFIX) and v}
    links = [k for k, v in ours.items() if _is_service_link(k, v)]
    values = {k: v for k, v in ours.items() if k in known and k not in links}
    notices = [_unknown(k, known) for k in ours if k not in known and k not in links]
    if links:
        notices.insert(0, f"ignored, as they describe a Kubernetes Service: {listed(links)}")
    return Environment(values, tuple(notices))


def _is_service_link(name: str, value: str) -> bool:
    if _SERVICE_NAME.fullmatch(name):
        return True
    return name.endswith("_PORT") and _SERVICE_URL.fullmatch(value) is not None


def _unknown(name: str, known: Collection[str]) -> str:
    near = closest(name, known)
    guess = f"; did you mean {near}?" if near else ""
    return f"environment variable {name} is no setting and is ignored{guess}"
