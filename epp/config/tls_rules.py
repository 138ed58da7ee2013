"""Rules over the settings of certificates."""

from collections.abc import Mapping
from typing import Any, Final

from epp.errors import ConfigProblem

__all__ = ["tls_contradictions"]

_PAIRS: Final = ("tls", "adminTls", "upstream.tls")


def tls_contradictions(values: Mapping[str, Any]) -> list[ConfigProblem]:
    """What does not go together in `values` (key path → value)."""
    problems = [problem for section in _PAIRS for problem in _half_pair(values, section)]
    if values["tls.cert"] is None:
        problems += _needs(values, "tls.clientCa", "tls.cert")
    if values["tls.cert"] is None and values["adminTls.cert"] is None:
        problems += _needs(values, "adminTls.clientCa", "tls.cert or adminTls.cert")
    for key in ("adminTls.cert", "adminTls.clientCa"):
        if not values["adminPort"]:
            problems += _needs(values, key, "adminPort")
        elif not values["adminTls.enabled"]:
            problems += _needs(values, key, "adminTls.enabled")
    if values["upstream.tls.insecureSkipVerify"] and values["upstream.tls.ca"] is not None:
        message = "has no effect beside upstream.tls.insecureSkipVerify"
        problems.append(ConfigProblem("upstream.tls.ca", message, "leave one of them out"))
    return problems


def _half_pair(values: Mapping[str, Any], section: str) -> list[ConfigProblem]:
    """A certificate is of no use without its key, nor the key without it."""
    cert, key = f"{section}.cert", f"{section}.key"
    if (values[cert] is None) == (values[key] is None):
        return []
    given, missing = (cert, key) if values[key] is None else (key, cert)
    return [ConfigProblem(given, f"is given without {missing}", "give both")]


def _needs(values: Mapping[str, Any], key: str, needed: str) -> list[ConfigProblem]:
    if values[key] is None:
        return []
    return [ConfigProblem(key, f"needs {needed}", f"give {needed}, or leave {key} out")]
