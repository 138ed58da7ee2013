"""`epp explain`: why a request goes where it goes, from a snapshot, without a router."""

import argparse
import json
import sys
from pathlib import Path

from epp.compose import Core, CoreOptions, compose
from epp.config import load_config
from epp.config.builtin import builtin_config
from epp.director.pick import Pick, pick_now
from epp.director.snapshot import read_state, restore
from epp.director.types import RequestHead
from epp.errors import ConfigError, ConfigProblem, EppError

__all__ = ["add_parser", "run"]

EPILOG = """\
examples:
  curl -s localhost:8080/debug/state > state.json
  epp explain --endpoints-state state.json request.json
  epp explain --config config/tiered-prefix-cpu.yaml --endpoints-state state.json request.json
      the same moment under another configuration: what would it have done?

exit codes: 0 a decision; 1 the request would be refused (the message says how); 2 a file cannot be used
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "explain",
        allow_abbrev=False,
        help="why a request goes where it goes",
        description="Decide for the request in REQUEST from what /debug/state told, and print every "
        "candidate with each scorer's number, weight and share, and the hits predicted by tier.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("request", metavar="REQUEST", help="file with the body as the client sends it")
    parser.add_argument("--endpoints-state", required=True, metavar="FILE", help="what /debug/state returned")
    parser.add_argument("--config", metavar="FILE", help="an EndpointPickerConfig (the built-in one)")
    parser.add_argument("--path", default="/v1/chat/completions", help="path of the request (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of random choices among ties (%(default)s)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the decision."""
    core, now = _restored(arguments)
    body = _read(arguments.request, "request")
    head = RequestHead("", "POST", arguments.path)
    try:
        pick = pick_now(core.director, head, body, now, commit=False)
    except EppError as error:
        print(f"refused: {error.status} {error.code}: {error.message}", file=sys.stderr)
        return 1
    if arguments.format == "json":
        print(json.dumps({"endpoints": list(pick.endpoints), "receipt": pick.receipt}, indent=2))
    else:
        print(_as_text(pick))
    return 0


def _restored(arguments: argparse.Namespace) -> tuple[Core, float]:
    """A core in the state of the snapshot, and the moment it is of."""
    text = _read(arguments.config, "config").decode() if arguments.config else builtin_config()
    config = load_config(text, arguments.config or "built-in default.yaml")
    core = compose(config, CoreOptions(seed=arguments.seed))
    try:
        snapshot = read_state(_read(arguments.endpoints_state, "endpoints-state"))
        restore(core.state, snapshot)
    except ValueError as error:
        remedy = "save what GET /debug/state returns"
        problem = ConfigProblem("--endpoints-state", f"{arguments.endpoints_state}: {error}", remedy)
        raise ConfigError([problem]) from None
    return core, snapshot.now


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError([ConfigProblem(what, f"{path}: {reason}", "name a readable file")]) from None


def _as_text(pick: Pick) -> str:
    receipt = pick.receipt
    lines = [
        (
            f"picked {receipt['picked']}  (model {receipt['model'] or '-'}, profile {receipt['profile']}, "
            f"about {receipt['prompt_tokens']} prompt tokens)"
        ),
        "",
    ]
    for candidate in receipt["candidates"]:
        hit = candidate["predicted_hit_tokens"]
        hits = ", ".join(f"{tier} {n}" for tier, n in hit.items() if n is not None) or "none"
        stale = "" if candidate["fresh"] else "  [metrics stale or missing]"
        lines.append(
            f"{candidate['endpoint']}  total {candidate['total']:.3f} of {receipt['weight_sum']:g}  "
            f"predicted hit tokens: {hits}{stale}"
        )
        for scorer, score in candidate["scores"].items():
            numbers = f"{score['score']:.3f} x {score['weight']:g}"
            lines.append(f"    {scorer:<36} {numbers:<14} {score['share']:6.1%} of the total")
    lines += [f"{e['endpoint']}  excluded: {e['reason']}" for e in receipt["excluded"]]
    return "\n".join(lines)
