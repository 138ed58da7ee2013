"""The engine against naive models, under any order of calls."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from epp.engine import Engine, EngineConfig, EngineRequest, LinearLatency, block_keys

BLOCK = 4
UNHURRIED = settings(deadline=None)
"""The machine may be busy; only the results count."""

LATENCY = LinearLatency(base_s=1.0, token_s=0.01, link_bytes_per_s=8.0, link_latency_s=0.5)
PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=40)


def make_engine(gpu_blocks, cpu_blocks=0, **config):
    return Engine(
        EngineConfig(
            gpu_blocks=gpu_blocks, cpu_blocks=cpu_blocks, block_tokens=BLOCK, kv_bytes_per_token=1, **config
        ),
        LATENCY,
    )


def make_request(name, prompt, output):
    answer = [1_000_000 + hash((name, position)) % 1_000_000 for position in range(output)]
    return EngineRequest(name, len(prompt), output, block_keys([*prompt, *answer], BLOCK))


def drive(server, now=0.0, limit=10_000):
    """Step until nothing is live; every step in order."""
    results = []
    for _ in range(limit):
        if not server.live_requests:
            return now, results
        result = server.step(now)
        results.append(result)
        server.check_integrity()
        now = result.wake_s if result.duration_s is None else now + result.duration_s
    raise AssertionError("the engine makes no progress")


def timeline_of(results, name):
    return next(o.timeline for result in results for o in result.outputs if o.request_id == name)


# -------------------------------------------------------------------- hits against naive models


def common_blocks(left, right):
    """Full blocks that two lists of tokens share from their start, compared token by token."""
    count = 0
    while (count + 1) * BLOCK <= min(len(left), len(right)) and all(
        left[i] == right[i] for i in range(count * BLOCK, (count + 1) * BLOCK)
    ):
        count += 1
    return count


@UNHURRIED
@given(st.lists(PROMPTS, min_size=1, max_size=8))
def test_with_room_for_all_a_hit_is_the_longest_shared_prefix(prompts):
    server = make_engine(gpu_blocks=1000)
    now = 0.0
    for position, prompt in enumerate(prompts):
        server.submit(make_request(f"r{position}", prompt, 1), now)
        now, results = drive(server, now)
        longest = max((common_blocks(prompt, earlier) for earlier in prompts[:position]), default=0)
        expected = min(longest, (len(prompt) - 1) // BLOCK) * BLOCK

        assert timeline_of(results, f"r{position}").gpu_hit_tokens == expected


@UNHURRIED
@given(st.lists(PROMPTS, min_size=1, max_size=8))
def test_a_cpu_tier_with_room_for_all_loses_no_prompt(prompts):
    """However small the GPU tier is, both tiers together know every prompt."""
    server = make_engine(gpu_blocks=12, cpu_blocks=1000)
    now = 0.0
    for position, prompt in enumerate(prompts):
        server.submit(make_request(f"r{position}", prompt, 1), now)
        now, results = drive(server, now)
        longest = max((common_blocks(prompt, earlier) for earlier in prompts[:position]), default=0)
        expected = min(longest, (len(prompt) - 1) // BLOCK) * BLOCK
        timeline = timeline_of(results, f"r{position}")

        assert timeline.gpu_hit_tokens + timeline.cpu_hit_tokens == expected


class NaiveGpu:
    """One request at a time over a list of free blocks, the first to be evicted first; None holds nothing."""

    def __init__(self, blocks):
        self.free = [(serial, None) for serial in range(blocks)]
        self.serial = blocks

    def serve(self, prompt, kv_tokens):
        """Blocks hit; afterwards the free list is as the request leaves it."""
        prefixes = [tuple(prompt[: end * BLOCK]) for end in range(1, len(prompt) // BLOCK + 1)]
        held = []
        for prefix in prefixes[: (len(prompt) - 1) // BLOCK]:
            holders = [entry for entry in self.free if entry[1] == prefix]
            if not holders:
                break
            held.append(min(holders))
        for entry in held:
            self.free.remove(entry)
        blocks = list(held)
        for index in range(len(held), -(-kv_tokens // BLOCK)):
            self.free.pop(0)
            content = prefixes[index] if index < len(prefixes) else None
            self.serial += 1
            blocks.append((self.serial, content))
        self.free += reversed(blocks)
        return len(held)


@UNHURRIED
@given(
    st.lists(st.tuples(PROMPTS, st.integers(1, 9)), min_size=1, max_size=20),
    st.integers(12, 20),
    st.integers(3, 50),
)
def test_one_at_a_time_the_gpu_tier_is_an_lru_of_freed_blocks(requests, blocks, budget):
    server = make_engine(gpu_blocks=blocks + 1, max_num_batched_tokens=budget)
    naive = NaiveGpu(blocks)
    now = 0.0
    for position, (prompt, output) in enumerate(requests):
        keys = block_keys(prompt, BLOCK)
        server.submit(EngineRequest(f"r{position}", len(prompt), output, keys), now)
        now, results = drive(server, now)

        expected = naive.serve(prompt, len(prompt) + output - 1) * BLOCK
        assert timeline_of(results, f"r{position}").gpu_hit_tokens == expected


# -------------------------------------------------------------------- determinism


@UNHURRIED
@given(st.lists(st.tuples(PROMPTS, st.integers(1, 6)), min_size=1, max_size=10), st.integers(12, 30))
def test_the_same_calls_give_the_same_steps(requests, gpu_blocks):
    def history():
        server = make_engine(gpu_blocks, cpu_blocks=16, max_num_seqs=3, max_num_batched_tokens=16)
        for position, (prompt, output) in enumerate(requests):
            server.submit(make_request(f"r{position}", prompt, output), 0.0)
        return drive(server), server.counters

    assert history() == history()


# -------------------------------------------------------------------- any order of calls


class EngineMachine(RuleBasedStateMachine):
    """Submits, steps and aborts as it likes; everything must be conserved, and everything must end."""

    @initialize(
        gpu_blocks=st.integers(13, 20),
        cpu_blocks=st.sampled_from([0, 3, 40]),
        seqs=st.integers(1, 5),
        budget=st.integers(1, 40),
    )
    def start(self, gpu_blocks, cpu_blocks, seqs, budget):
        self.server = make_engine(gpu_blocks, cpu_blocks, max_num_seqs=seqs, max_num_batched_tokens=budget)
        self.now = 0.0
        self.expected = {}
        self.received = {}
        self.aborted = set()

    @rule(prompt=PROMPTS, output=st.integers(1, 8))
    def submit(self, prompt, output):
        name = f"r{len(self.expected)}"
        self.expected[name] = (len(prompt), output)
        self.received[name] = 0
        self.server.submit(make_request(name, prompt, output), self.now)

    @rule()
    def step(self):
        result = self.server.step(self.now)
        if result.duration_s is not None:
            self.now += result.duration_s
        elif result.wake_s is not None:
            assert result.wake_s > self.now
            self.now = result.wake_s
        for output in result.outputs:
            self.received[output.request_id] += output.new_tokens

    @precondition(lambda self: self.expected)
    @rule(data=st.data())
    def abort(self, data):
        name = data.draw(st.sampled_from(sorted(self.expected)))
        if self.server.abort(name):
            self.aborted.add(name)

    @rule(external=st.booleans())
    def reset(self, external):
        done = self.server.reset_prefix_cache(external=external)
        assert done == (self.server.gauges().kv_usage == 0.0)

    @invariant()
    def agrees_with_itself(self):
        self.server.check_integrity()
        gauges = self.server.gauges()
        assert gauges.running + gauges.waiting + gauges.loading == self.server.live_requests
        assert 0.0 <= gauges.kv_usage <= 1.0
        assert self.server.cpu_blocks_held <= self.server.config.cpu_blocks

    def teardown(self):
        self.now, results = drive(self.server, self.now)
        for result in results:
            for output in result.outputs:
                self.received[output.request_id] += output.new_tokens
        for name, (_, output) in self.expected.items():
            assert name in self.aborted or self.received[name] == output
        counters = self.server.counters
        assert self.server.gauges().kv_usage == 0.0
        assert counters.generation == sum(self.received.values())
        assert counters.prompt_computed + counters.prompt_cached == counters.prompt
        assert counters.prompt_gpu_hit <= counters.prefix_hits
        assert counters.prompt_cpu_hit <= counters.external_hits
        finished = [name for name in self.expected if name not in self.aborted]
        assert counters.finished_length == len(finished)


EngineMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow], deadline=None
)
TestEngineMachine = EngineMachine.TestCase
