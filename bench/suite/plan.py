"""What is run, and in which order: workloads, sessions, and the rows of bars they serve. Pure.

A session is one start of one stack in front of so many model servers, and the workloads it then gets. All
stacks of a run come one after the other, then the next run begins: A B C A B C.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .bodies import Body

__all__ = [
    "ROWS",
    "SESSIONS",
    "Load",
    "Session",
    "Watch",
    "rows_of",
    "sessions_for",
    "step_takes_part",
    "takes_part",
]

PROMPT_SIZES = (1_000, 4_000, 16_000, 64_000, 256_000, 1_000_000)
STREAMS = ((1, 2.0), (8, 5.0), (64, 20.0), (512, 40.0), (2_000, 100.0))  # how many, ms between chunks
STREAM_COUNTS = tuple(count for count, _ in STREAMS)
ENDPOINT_COUNTS = (8, 64, 512)
INTERVAL_MS = 40
START_S = {"direct": 0.2, "nginx": 0.3}
OTHER_START_S = 1.2
WARM_S = 0.7


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one kind. `connections` at a time; `seconds` long, or `requests` in all; `rate`: Poisson.

    `chunks` 0: answers in one piece. `beside`: a second load that runs meanwhile, to /v1/completions, which
    always answers in one piece.
    """

    name: str
    body: Body
    connections: int
    seconds: float = 1.5
    requests: int = 0
    rate: float = 0.0
    chunks: int = 0
    interval_ms: float = 0.0
    beside: "Load | None" = None

    @property
    def estimate_s(self) -> float:
        return self.chunks * self.interval_ms / 1000 * 1.05 + 0.4 if self.chunks else self.seconds + 0.3


@dataclass(frozen=True, slots=True)
class Watch:
    """Nothing is sent; the CPU time of so many seconds is taken, after `settle_s`."""

    name: str
    seconds: float = 3.0
    settle_s: float = 1.0

    @property
    def estimate_s(self) -> float:
        return self.seconds + self.settle_s


@dataclass(frozen=True, slots=True)
class Session:
    """`stacks` is which take part: "all", "cache_aware" (without other modes) or "epp"."""

    name: str
    steps: tuple[Load | Watch, ...]
    stacks: str = "all"
    endpoints: int = 4
    flags: tuple[str, ...] = ()  # of epp
    share_of_runs: float = 1.0
    warm: bool = True
    rows: frozenset[str] = field(default_factory=frozenset)

    def estimate_s(self, stack: str, mode: str) -> float:
        """Of one stack in this session, from start to stop."""
        start = START_S.get(stack, OTHER_START_S) + (WARM_S if self.warm else 0)
        steps = [step for step in self.steps if step_takes_part(step, stack, mode)]
        return start + sum(step.estimate_s for step in steps)


def _streams(name: str, count: int, seconds: float = 4.0, interval_ms: float = INTERVAL_MS) -> Load:
    chunks = round(seconds * 1000 / interval_ms)
    body = Body(1_000, stream=True, max_tokens=chunks)
    return Load(name, body, count, requests=count, chunks=chunks, interval_ms=interval_ms)


def _plain(name: str, body: Body, connections: int = 16, seconds: float = 1.5) -> Load:
    return Load(name, body, connections, seconds=seconds)


def _fill(size: int, requests: int) -> Load:
    """Prompts that share nothing, to fill every endpoint's index."""
    return Load("fill", Body(size, shared=0.0, groups=4), 16, seconds=15.0, requests=requests)


STANDARD = (
    _plain("1kb", Body(1_000), 32),
    _plain("120kb", Body(120_000)),
    _plain("120kb-chinese", Body(120_000, "chinese"), seconds=0.8),
    _plain("120kb-chinese-escaped", Body(120_000, "chinese", escaped=True), seconds=0.8),
    _plain("120kb-vietnamese", Body(120_000, "vietnamese"), seconds=0.8),
    _plain("120kb-vietnamese-escaped", Body(120_000, "vietnamese", escaped=True), seconds=0.8),
    _streams("sse512", 512),
    Load("rate200", Body(1_000), 64, seconds=3.0, rate=200.0),
)
HEAVY = Load(
    "heavy",
    Body(400_000, shared=0.95, stream=True, max_tokens=1000, groups=8),
    50,
    requests=50,
    chunks=1000,
    interval_ms=4.0,
)
STALL = replace(
    _streams("stall", 16, 3.0, interval_ms=10.0),
    beside=_plain("stall-bodies", Body(1_000_000, prompt=True, groups=4), connections=4, seconds=3.0),
)
STEP_ROWS = {
    "1kb": {"1"},
    "120kb": {"2", "2b"},
    "120kb-chinese": {"2", "2b"},
    "120kb-chinese-escaped": {"2", "2b"},
    "120kb-vietnamese": {"2", "2b"},
    "120kb-vietnamese-escaped": {"2", "2b"},
    "sse512": {"3", "4", "9"},
    "rate200": {"5"},
}
SESSIONS = (
    Session("standard", STANDARD, rows=frozenset({"1", "2", "2b", "3", "4", "5", "9", "10"})),
    Session("heavy", (HEAVY,), stacks="cache_aware", endpoints=100, rows=frozenset({"9"})),
    Session(
        "scrape-50ms",
        (Watch("scrape-50ms"),),
        stacks="epp",
        endpoints=100,
        flags=("--metrics-refresh-interval", "50ms"),
        warm=False,
        rows=frozenset({"8"}),
    ),
    Session("scrape-idle", (Watch("scrape-idle"),), "cache_aware", 100, warm=False, rows=frozenset({"8"})),
    Session(
        "full", (_fill(120_000, 14_000),), "epp", 512, share_of_runs=0.2, warm=False, rows=frozenset({"10"})
    ),
    *(
        Session(
            f"endpoints-{count}",
            (
                _plain(f"endpoints-{count}-1kb", Body(1_000), 32, 1.0),
                _plain(f"endpoints-{count}", Body(120_000), seconds=1.0),
            ),
            "growth",
            count,
            share_of_runs=0.4,
            rows=frozenset({"11"}),
        )
        for count in ENDPOINT_COUNTS
    ),
    Session(
        "growth",
        (
            *(_plain(f"prompt-{size}", Body(size, groups=8), 8, 0.7) for size in PROMPT_SIZES),
            *(_streams(f"streams-{count}", count, 2.0, interval) for count, interval in STREAMS),
            STALL,
        ),
        "growth",
        share_of_runs=0.4,
        rows=frozenset({"11"}),
    ),
)
DECISION_ROWS = frozenset({"6", "7"})  # measured without servers, by programs of their own
ROWS = ("1", "2", "2b", "3", "4", "5", "6", "7", "8", "9", "10", "11")


def rows_of(only: str | None) -> frozenset[str]:
    """The rows that `--only` names; all of them without it. Raises ValueError."""
    if only is None:
        return frozenset(ROWS)
    named = frozenset(word.strip() for word in only.split(",") if word.strip())
    unknown = sorted(named - set(ROWS))
    if unknown or not named:
        raise ValueError(f"--only: no row {', '.join(unknown) or 'named'}; there are {', '.join(ROWS)}")
    return named


def sessions_for(rows: frozenset[str], run: int, runs: int) -> list[Session]:
    """The sessions of one run (from 0), each with the steps that the rows need."""
    chosen = []
    for session in SESSIONS:
        if not session.rows & rows or run >= max(1, round(session.share_of_runs * runs)):
            continue
        steps: tuple[Load | Watch, ...] = session.steps
        if session.name == "standard" and "10" not in rows:  # row 10 is memory after all of them
            steps = tuple(step for step in steps if STEP_ROWS[step.name] & rows)
        chosen.append(replace(session, steps=steps))
    return chosen


def takes_part(session: Session, name: str, mode: str, *, peers: Sequence[str]) -> bool:
    """Whether a stack runs in a session. `peers`: routers of others that are measured for growth."""
    is_epp = name.startswith("epp")
    if session.stacks == "epp":
        return is_epp and name == "epp"
    if session.stacks == "growth":
        return name in {"epp", "nginx", *peers}
    if session.stacks == "cache_aware":
        return name in {"epp", "nginx"} or mode == "cache_aware"
    return True


def step_takes_part(step: Load | Watch, name: str, mode: str) -> bool:
    """Routers in turn are measured where they are compared; other CPython versions not in every script."""
    if name == "direct":
        return step.name == "rate200"
    if mode == "round_robin":
        return step.name in {"1kb", "120kb", "sse512"}
    return True
