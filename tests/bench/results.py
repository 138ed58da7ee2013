"""A small set of results: two runs of epp, nginx and two routers."""

from bench.suite.samples import Samples

PEERS = {"a cache_aware": "cache_aware", "b cache_aware": "cache_aware", "b round_robin": "round_robin"}
COSTS = {
    "1kb": {"epp": 90, "nginx": 20, "a cache_aware": 160, "b cache_aware": 400, "b round_robin": 70},
    "120kb": {"epp": 240, "nginx": 70, "a cache_aware": 480, "b cache_aware": 1500, "b round_robin": 230},
}


def samples() -> Samples:
    found = Samples()
    for workload, costs in COSTS.items():
        for stack, cost in costs.items():
            for run in (-1, 1):
                found.add(workload, stack, {"cpu_us": cost + run, "errors": 0})
    return found


def facts(python: tuple[int, int, int] = (3, 13, 0)) -> dict:
    return {
        "measured": "2026-11-30 12:00 UTC",
        "machine": {
            "processor": "CPU",
            "cores": 2,
            "memory_gib": 24,
            "kernel": "6.18",
            "system": "Debian GNU/Linux 12",
        },
        "versions": {"epp python": list(python), "nginx": "1.22.1", "peers": {"a": "1.0", "b": "2.0"}},
        "settings": {"runs": 2},
        "peers": dict(PEERS),
        "skipped": {"c": "no wheel"},
    }
