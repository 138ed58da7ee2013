"""The bars, and whether they are met. Pure: figures in, bars out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PEERS = ("lmetric", "dynamo", "sglang", "llm-d-affinity", "consistent-hash")
OURS = "ttft-cost"
OLD = "tiered-2211"
LEAST = "least-in-flight"
RATES = ("10", "20", "30", "40")
GOODPUT_BARS = {"conversation 1.0": 0.80, "conversation 1.4": 0.68, "synthetic 1.0": 0.80}
SHARE = 0.03  # that a peer may be better by
LADDER_SHARE = 0.10
WRONG_SHARE = 1.6  # of the TTFT of a router that starts from the truth

Figures = Mapping[str, float]
Found = Mapping[str, Mapping[str, Figures]]
"""Figures by workload and policy."""


@dataclass(frozen=True)
class Bar:
    """`value` must be at most `bar`, or with `least` at least it."""

    name: str
    value: float
    bar: float
    least: bool = False
    against: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.bar if self.least else self.value <= self.bar


def policy_bars(found: Found) -> Iterator[Bar]:
    """Of every workload that was run."""
    yield from _absolute(found)
    yield from _low(found)
    for workload, rows in found.items():
        peers = {peer: rows[peer] for peer in PEERS if peer in rows}
        if OURS in rows and peers:
            yield from _against_peers(workload, rows[OURS], peers)
        if "default" in rows and LEAST in rows:
            yield _default(workload, rows["default"], rows[LEAST])


def _absolute(found: Found) -> Iterator[Bar]:
    if row := found.get("high native", {}).get(OURS):
        yield Bar("high native: mean TTFT, s", row["ttft_mean_s"], 2.0)
        yield Bar("high native: P90 TTFT, s", row["ttft_p90_s"], 6.0)
        yield Bar("high native: tokens/s", row["tok_s"], 53_000, least=True)
    if row := found.get("high HBM", {}).get(OURS):
        yield Bar("high HBM: mean TTFT, s", row["ttft_mean_s"], 2.0)
        yield Bar("high HBM: tokens/s", row["tok_s"], 50_000, least=True)
    for workload, bar in GOODPUT_BARS.items():
        if row := found.get(workload, {}).get(OURS):
            yield Bar(f"{workload}: goodput", row["goodput"], bar, least=True)


def _low(found: Found) -> Iterator[Bar]:
    rows = found.get("low native", {})
    if OURS not in rows or OLD not in rows:
        return
    ours, old = rows[OURS], rows[OLD]
    yield Bar("low native: E2E over 2:2:1:1's", ours["e2e_mean_s"] / old["e2e_mean_s"], 1.01)
    yield Bar("low native: tokens/s over 2:2:1:1's", ours["tok_s"] / old["tok_s"], 0.99, least=True)
    yield Bar("low native: mean TTFT above 2:2:1:1's, s", ours["ttft_mean_s"] - old["ttft_mean_s"], 0.02)


def _against_peers(workload: str, ours: Figures, peers: Mapping[str, Figures]) -> Iterator[Bar]:
    if workload in GOODPUT_BARS:
        best = max(peers, key=lambda peer: peers[peer]["goodput"])
        share = ours["goodput"] / peers[best]["goodput"]
        yield Bar(f"{workload}: goodput over the best peer's", share, 1 - SHARE, least=True, against=best)
        return
    keys = ["ttft_mean_s"]
    if workload == "ladder":
        keys = [key for rate in RATES if (key := f"ttft_mean_s at {rate}") in ours]
    for key in keys:
        best = min(peers, key=lambda peer: peers[peer][key])
        most = 1 + (LADDER_SHARE if workload == "ladder" else SHARE)
        name = f"{workload}: {key.replace('ttft_mean_s', 'mean TTFT')} over the best peer's"
        yield Bar(name, ours[key] / peers[best][key], most, against=best)


def _default(workload: str, default: Figures, least: Figures) -> Bar:
    if workload in GOODPUT_BARS:
        share = default["goodput"] / least["goodput"]
        return Bar(f"{workload}: goodput of the default over least-in-flight's", share, 1.0, least=True)
    share = default["ttft_mean_s"] / least["ttft_mean_s"]
    return Bar(f"{workload}: mean TTFT of the default over least-in-flight's", share, 1.0)


def robustness_bars(exact: Figures, wrong: Mapping[str, Figures]) -> Iterator[Bar]:
    """Of a router that is mistaken, against one that is not."""
    for name, row in wrong.items():
        yield Bar(f"{name}: mean TTFT over exact", row["ttft_mean_s"] / exact["ttft_mean_s"], WRONG_SHARE)


def overload_bars(rows: Mapping[str, Figures]) -> Iterator[Bar]:
    """Of a fleet that is asked for twice what it can do."""
    if OURS in rows and LEAST in rows:
        share = rows[OURS]["ttft_p99_s"] / rows[LEAST]["ttft_p99_s"]
        yield Bar("2 x overload: P99 TTFT over least-in-flight's", share, 1.0)


def speed_bars(seconds: Mapping[str, float]) -> Sequence[Bar]:
    """Of the simulator itself."""
    most = {
        "seed row, s": 4.0,
        "seed table of 3 seeds, s": 30.0,
        "conversation trace, s": 10.0,
        "share of router code": 0.40,
    }
    return [Bar(f"speed: {name}", seconds[name], bar) for name, bar in most.items() if name in seconds]
