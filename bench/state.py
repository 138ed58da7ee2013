"""What a save and a warm start cost the event loop: steps in CPU time, for a large index.

    .venv/bin/python bench/state.py [endpoints]

Conversations over a few shared system prompts, three turns each, in two tiers.
"""

import gc
import random
import sys
import time
from collections.abc import Generator, Iterator

from epp.prefix import PrefixIndex
from epp.prefix.saving import Entries, RunTable, entries_of, restore_entries

TIERS = 2
ENDPOINTS = 64
CONVERSATIONS = 150
ROOM = 1 << 40


def filled(endpoints: int) -> PrefixIndex:
    """An index in which every endpoint holds its conversations, in both tiers."""
    draw = random.Random(1)
    index = PrefixIndex()
    tiers = [index.add_view(ROOM) for _ in range(TIERS)]
    prompts = [[draw.getrandbits(64) for _ in range(60)] for _ in range(8)]
    for endpoint in range(endpoints):
        for _ in range(CONVERSATIONS):
            chain = list(draw.choice(prompts))
            for _ in range(3):
                chain += [draw.getrandbits(64) for _ in range(draw.randint(5, 40))]
                for tier in tiers:
                    index.touch(tier, endpoint, chain, 64)
    return index


def timed(name: str, steps: Iterator[None]) -> None:
    """Drive `steps` to their end, and print what they took."""
    times: list[float] = []
    done = False
    while not done:
        began = time.thread_time()
        done = next(steps, True) is True
        times.append(time.thread_time() - began)
    times.sort()
    p99, worst = times[int(0.99 * len(times))], times[-1]
    print(
        f"{name}: {len(times)} steps, {sum(times):.3f} s, p99 {p99 * 1e3:.2f} ms, worst {worst * 1e3:.2f} ms"
    )


def saving(
    index: PrefixIndex, endpoints: int, table: RunTable, saved: dict[tuple[int, int], Entries]
) -> Generator[None, None, None]:
    """Read every list."""
    for tier in range(TIERS):
        for endpoint in range(endpoints):
            residency = index.residency(tier, endpoint)
            entries = None if residency is None else (yield from entries_of(residency, table))
            if entries is not None:
                saved[tier, endpoint] = entries


def restoring(
    index: PrefixIndex, table: RunTable, saved: dict[tuple[int, int], Entries]
) -> Generator[None, None, None]:
    """Put every list back."""
    for (tier, endpoint), entries in saved.items():
        yield from restore_entries(index, tier, endpoint, entries, table)


def main() -> None:
    """Save a large index and put it back."""
    endpoints = int(sys.argv[1]) if len(sys.argv) > 1 else ENDPOINTS
    index = filled(endpoints)
    gc.freeze()
    blocks = sum(index.size(tier) for tier in range(TIERS))
    print(f"{endpoints} endpoints, {blocks:,} blocks, {index.nodes():,} runs")
    table, saved = RunTable(), dict[tuple[int, int], Entries]()
    timed("save", saving(index, endpoints, table, saved))
    for _ in table.place_all():
        pass  # in a thread, before anything is put back
    other = PrefixIndex()
    for _ in range(TIERS):
        other.add_view(ROOM)
    timed("warm start", restoring(other, table, saved))


if __name__ == "__main__":
    main()
