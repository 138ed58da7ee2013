"""Plugin types that configurations for the Go picker list and that configure nothing here.

They are accepted with the parameters that say what this router does anyway; any other is refused, so that
nothing an operator asks for is dropped in silence.
"""

from dataclasses import dataclass
from typing import Final

from epp.scheduling.contracts import BuildContext
from epp.scheduling.registry import NoParameters, PluginKind, PluginType, param

__all__ = ["SERVED_VERIFIER", "inert_types"]

# Of the conformance suite; what it does is done where a gateway's answers are seen.
SERVED_VERIFIER: Final = "destination-endpoint-served-verifier"


@dataclass(frozen=True, slots=True)
class MetricsDataSourceParameters:
    """What every endpoint is scraped with."""

    scheme: str | None = param(
        None, key="scheme", doc="Ignored: each endpoint's own scheme is used.", choices=("http", "https")
    )
    path: str | None = param(None, key="path", doc="The path that is scraped.", choices=("/metrics",))


@dataclass(frozen=True, slots=True)
class InflightLoadParameters:
    """What the one ledger does anyway."""

    prefix_match_info_producer_name: str | None = param(
        None,
        key="prefixMatchInfoProducerName",
        doc="Ignored: uncached tokens are counted by the best match that any producer knows.",
    )


def _nothing(_name: str, _parameters: object, _context: BuildContext) -> None:
    """Builds no plugin."""


def inert_types() -> list[PluginType]:
    """The accepted types that mean nothing here, each with the reason."""
    scraped = "Endpoints are always scraped; engines and metric names are recognised from the page."
    parsed = "The parser is chosen by the request's path."
    ledger = "Requests in flight are always counted, in one ledger."
    reasons: list[tuple[str, type, str]] = [
        ("metrics-data-source", MetricsDataSourceParameters, scraped),
        ("core-metrics-extractor", NoParameters, scraped),
        ("openai-parser", NoParameters, parsed),
        ("anthropic-parser", NoParameters, parsed),
        ("vllmhttp-parser", NoParameters, parsed),
        ("passthrough-parser", NoParameters, parsed),
        ("inflight-load-producer", InflightLoadParameters, ledger),
    ]
    served = (
        "Answers of a gateway that reports who served get its address in x-conformance-test-served-endpoint."
    )
    return [
        *(
            PluginType(name, PluginKind.INERT, parameters, _nothing, f"Accepted, configures nothing. {why}")
            for name, parameters, why in reasons
        ),
        PluginType(SERVED_VERIFIER, PluginKind.RESPONSE, NoParameters, _nothing, served),
    ]
