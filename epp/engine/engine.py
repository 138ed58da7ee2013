"""A vLLM V1 server as a model: continuous batching over two cache tiers, one step at a time.

The engine knows no clock and sleeps nowhere: `step(now)` tells how long the step takes and what comes out of
it, and the driver decides what a second is. Everything it does is a function of the calls made to it.

What is modelled, as vLLM 0.32 behaves: token budget per step, running sequences first, first come first
served admission, chunked prefill, recompute preemption of the youngest, a hit of full blocks that leaves at
least one token to compute, blocks matchable from the step that computes them, freed tail first, write-through
of full prompt blocks to the CPU tier after the step that computed them, transfers back over one link in
order.
"""

from collections import deque
from collections.abc import MutableSequence

from epp.engine.cpu_tier import CpuTier
from epp.engine.forecast import Surroundings, first_token_s
from epp.engine.gpu_tier import GpuTier
from epp.engine.latency import LatencyProfile
from epp.engine.run import Batch, StepRun, load_of, longest_run, run_of
from epp.engine.sequence import Sequence
from epp.engine.types import (
    EngineConfig,
    EngineCounters,
    EngineGauges,
    EngineRequest,
    StepOutput,
    StepResult,
)

__all__ = ["Engine"]


class Engine:
    """One server. Not thread-safe; a driver owns it."""

    def __init__(
        self, config: EngineConfig, latency: LatencyProfile, cpu_tier: CpuTier | None = None
    ) -> None:
        """`cpu_tier` is given where several servers share one; None makes one of `config.cpu_blocks`."""
        self.config = config
        self.counters = EngineCounters()
        self._latency = latency
        self._block_tokens = config.block_tokens
        self._gpu = GpuTier(config.usable_gpu_blocks)
        self._cpu = CpuTier(config.cpu_blocks) if cpu_tier is None else cpu_tier
        self._sequences: dict[str, Sequence] = {}
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._loading: list[Sequence] = []
        self._link_free_s = 0.0
        self._step_load_s = 0.0  # of transfers that are part of the step being scheduled

    # ---------------------------------------------------------------- requests

    def submit(self, request: EngineRequest, now: float) -> None:
        """Queue a request.

        Raises:
            ValueError: the id is live already, or the sequence could never fit the GPU tier.
        """
        if request.request_id in self._sequences:
            raise ValueError(f"request id {request.request_id!r} is in use")
        if request.kv_tokens > self.config.capacity_tokens:
            raise ValueError(
                f"a sequence of {request.kv_tokens} tokens cannot fit {self.config.capacity_tokens} tokens"
            )
        sequence = Sequence(request, now)
        self._sequences[request.request_id] = sequence
        self._waiting.append(sequence)

    def abort(self, request_id: str) -> bool:
        """Drop a request and free its blocks; False when it is not live (it may have ended)."""
        sequence = self._sequences.pop(request_id, None)
        if sequence is None:
            return False
        queues: tuple[MutableSequence[Sequence], ...] = (self._running, self._loading, self._waiting)
        next(queue for queue in queues if sequence in queue).remove(sequence)
        self._release(sequence)
        return True

    def reset_prefix_cache(self, *, external: bool = False) -> bool:
        """Forget the GPU tier, and with `external` the CPU tier too; False while a sequence holds blocks."""
        if self._gpu.free_blocks < self._gpu.capacity:
            return False
        self._gpu.clear()
        if external:
            self._cpu.clear()
        return True

    def lose_cpu_tier(self) -> None:
        """The CPU tier fails: it holds nothing from now on. Transfers under way still end."""
        self._cpu = CpuTier(0)

    # ---------------------------------------------------------------- state

    def gauges(self) -> EngineGauges:
        """State at this moment."""
        return EngineGauges(
            running=len(self._running),
            waiting=len(self._waiting),
            loading=len(self._loading),
            kv_usage=1 - self._gpu.free_blocks / self._gpu.capacity,
        )

    def forecast(self, request: EngineRequest, start_s: float) -> float:
        """When `request` would have its first token, were it queued now; steps begin at `start_s`."""
        queued = [*self._loading, *self._waiting]
        around = Surroundings(
            self.config, self._latency, self._gpu, self._cpu, self._running, queued, self._link_free_s
        )
        return first_token_s(around, request, start_s)

    @property
    def live_requests(self) -> int:
        """Sequences that are queued, loading or running."""
        return len(self._sequences)

    @property
    def cpu_blocks_held(self) -> int:
        """Blocks that the CPU tier holds."""
        return len(self._cpu)

    def check_integrity(self) -> None:
        """Raise AssertionError unless blocks, queues and tiers agree with each other."""
        queued = [*self._waiting, *self._running, *self._loading]
        if len(queued) != len(set(map(id, queued))) or set(queued) != set(self._sequences.values()):
            raise AssertionError("a sequence is in no queue or in two")
        if len(self._running) > self.config.max_num_seqs:
            raise AssertionError(f"{len(self._running)} sequences run, {self.config.max_num_seqs} may")
        references = [0] * self._gpu.capacity
        for sequence in queued:
            for block in sequence.blocks:
                references[block] += 1
            if not sequence.computed_tokens <= len(sequence.blocks) * self.config.block_tokens:
                raise AssertionError(f"{sequence.request.request_id} has tokens without blocks")
        self._gpu.check_integrity(references)
        self._cpu.check_integrity()

    # ---------------------------------------------------------------- a step

    def step(self, now: float) -> StepResult:
        """Schedule and compute one step that begins at `now`.

        The outputs become known at `now + duration_s`, which is when the next step may begin.
        """
        run = self.begin(now, most_steps=1)
        return StepResult(duration_s=None, wake_s=self.wake_s) if run is None else self.finish(run)

    @property
    def wake_s(self) -> float | None:
        """When the next transfer ends, None while there is none."""
        return min((s.ready_s for s in self._loading if s.ready_s is not None), default=None)

    def begin(self, now: float, most_steps: int | None = None) -> StepRun | None:
        """Schedule the steps that begin at `now` and are alike, at most `most_steps`; None: nothing to do.

        Until `finish` has been called for them, only `submit` may be, after which the driver calls
        `StepRun.cut` with the time if the run is `open`.
        """
        self._finish_loads(now)
        self._step_load_s = 0.0
        batch, preempted = self._schedule_running()
        if not preempted or not batch:
            self._admit(batch, now)
        if not batch:
            return None
        steps = 1
        if most_steps != 1 and not preempted:
            steps = longest_run(batch, self._gpu.free_blocks, self.config.block_tokens)
        run = run_of(batch, load_of(batch), self._latency, now, steps, self._step_load_s)
        run.open = not self._waiting and len(self._running) < self.config.max_num_seqs
        if self._loading and (wake_s := self.wake_s) is not None:
            run.cut(wake_s)
        return run

    def finish(self, run: StepRun, *, brief: bool = False) -> StepResult:
        """The steps have ended, at `run.end_s`: what came out; `brief`: first and last tokens alone."""
        if run.steps > 1:
            for sequence, _ in run.batch:
                self._grow(sequence, run.steps - 1)
                sequence.generated_tokens += run.steps - 1
        outputs = self._complete(run, brief=brief)
        return StepResult(
            run.end_s - run.start_s, outputs, computed_tokens=sum(tokens for _, tokens in run.batch)
        )

    def _finish_loads(self, now: float) -> None:
        """Put sequences whose transfer has ended at the head of the queue, oldest first."""
        ready = [s for s in self._loading if s.ready_s is not None and s.ready_s <= now]
        for sequence in reversed(ready):
            self._loading.remove(sequence)
            sequence.ready_s = None
            self._register(sequence)
            self._waiting.appendleft(sequence)

    def _schedule_running(self) -> tuple[Batch, bool]:
        """Give running sequences their tokens, the oldest first; tells whether one was preempted."""
        batch: Batch = []
        budget = self.config.max_num_batched_tokens
        preempted = False
        position = 0
        while position < len(self._running) and budget > 0:
            sequence = self._running[position]
            tokens = min(sequence.remaining_tokens, budget)
            while not self._grow(sequence, tokens):
                preempted = True
                # Alone in the batch it would otherwise give way, for ever, to one that only queues.
                if len(self._running) == 1 and self._take_from_queued(None):
                    continue
                victim = self._running.pop()
                self._preempt(victim)
                self._waiting.appendleft(victim)
                if victim is sequence:
                    return batch, True
            batch.append((sequence, tokens))
            budget -= tokens
            position += 1
        return batch, preempted

    def _preempt(self, sequence: Sequence) -> None:
        """Take the blocks away; it is computed again from what the tiers still hold by then."""
        self._release(sequence)
        sequence.preemptions += 1
        self.counters.preemptions += 1

    def _admit(self, batch: Batch, now: float) -> None:
        """Take sequences from the head of the queue while budget, places and blocks last."""
        budget = self.config.max_num_batched_tokens - sum(tokens for _, tokens in batch)
        while self._waiting and budget > 0 and len(self._running) < self.config.max_num_seqs:
            sequence = self._waiting[0]
            has_blocks = bool(sequence.blocks) or self._look_up(sequence, budget, now)
            if sequence.ready_s is not None:
                self._loading.append(self._waiting.popleft())
                continue
            tokens = min(sequence.remaining_tokens, budget)
            if not has_blocks or not self._grow(sequence, tokens):
                if not self._reclaim(sequence, batch):
                    return
                continue
            self._running.append(self._waiting.popleft())
            batch.append((sequence, tokens))
            budget -= tokens

    def _look_up(self, sequence: Sequence, budget: int, now: float) -> bool:
        """Match the tiers and reference what they hold; False, and nothing done, when blocks are short.

        Blocks of a CPU hit are allocated at once and the sequence is parked until the transfer ends;
        otherwise there must be room for the first chunk.
        """
        size = self._block_tokens
        keys = sequence.matchable_keys(size)
        held = self._gpu.match(keys)
        cpu_hits = self._cpu_hits(keys, len(held))
        chunk_tokens = min(sequence.known_tokens - len(held) * size, budget)
        if self._gpu.count_free(held) + (cpu_hits or -(-chunk_tokens // size)) > self._gpu.free_blocks:
            return False
        self._gpu.reference(held)
        sequence.blocks = held + self._gpu.allocate(cpu_hits)
        sequence.registered_blocks = len(held)
        sequence.computed_tokens = len(sequence.blocks) * size
        if not sequence.admitted:
            self._count_lookup(sequence, len(held) * size, cpu_hits * size)
            sequence.admitted = True
            sequence.scheduled_s = now
        if cpu_hits:
            self._start_load(sequence, cpu_hits, now)
        return True

    def _cpu_hits(self, keys: tuple[int, ...], held: int) -> int:
        """Blocks that the CPU tier can give beyond `held`, up to the last whole unit."""
        if not self.config.cpu_blocks:
            return 0
        reach = held + self._cpu.match(keys[held:])
        return max(0, reach - reach % self.config.cpu_unit_blocks - held)

    def _start_load(self, sequence: Sequence, blocks: int, now: float) -> None:
        """Queue a transfer on the link, which serves one at a time, or make it part of this step."""
        size_bytes = blocks * self.config.block_tokens * self.config.kv_bytes_per_token
        seconds = self._latency.load_s(size_bytes)
        if self.config.cpu_synchronous:
            self._step_load_s += seconds
            self._register(sequence)
        else:
            self._link_free_s = max(now, self._link_free_s) + seconds
            sequence.ready_s = self._link_free_s
        self.counters.loads += 1
        self.counters.load_bytes += size_bytes
        self.counters.load_s += seconds

    def _count_lookup(self, sequence: Sequence, gpu_hit_tokens: int, cpu_hit_tokens: int) -> None:
        sequence.gpu_hit_tokens = gpu_hit_tokens
        sequence.cpu_hit_tokens = cpu_hit_tokens
        external = cpu_hit_tokens if self.config.cpu_blocks else None
        self.counters.count_lookup(sequence.prompt_tokens, gpu_hit_tokens, external)

    def _reclaim(self, sequence: Sequence, batch: Batch) -> bool:
        """When nothing runs, blocks that another queued sequence holds are taken for `sequence`.

        Sequences that came back from a transfer hold blocks while they queue; two of them could otherwise
        wait for each other for ever.
        """
        return not (batch or self._running) and self._take_from_queued(sequence)

    def _take_from_queued(self, but: Sequence | None) -> bool:
        """Free the blocks of the last queued sequence that holds some, `but` not; False: there is none."""
        for holder in reversed(self._waiting):
            if holder.blocks and holder is not but:
                self._preempt(holder)
                return True
        return False

    # ---------------------------------------------------------------- blocks

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        """Get blocks for `tokens` more and make the full ones matchable; False when there are too few."""
        computed_tokens = sequence.computed_tokens + tokens
        needed = -(-computed_tokens // self._block_tokens) - len(sequence.blocks)
        if needed > 0:
            if needed > self._gpu.free_blocks:
                return False
            sequence.blocks += self._gpu.allocate(needed)
        sequence.computed_tokens = computed_tokens
        if sequence.registered_blocks < sequence.keys:
            self._register(sequence)
        return True

    def _register(self, sequence: Sequence) -> None:
        """Make blocks matchable that are full."""
        keys, known = sequence.request.keys, sequence.registered_blocks
        full = min(sequence.computed_tokens // self._block_tokens, len(keys))
        if full > known:
            self._gpu.register(sequence.blocks[known:full], keys[known:full])
            sequence.registered_blocks = full

    def _release(self, sequence: Sequence) -> None:
        """Give all blocks back, tail first, so that the tail is evicted first."""
        self._gpu.release(reversed(sequence.blocks))
        sequence.blocks = []
        sequence.registered_blocks = 0
        sequence.computed_tokens = 0
        sequence.ready_s = None

    def _write_through(self, sequence: Sequence) -> None:
        """Offer prompt blocks that are full to the CPU tier, which marks the whole path as used."""
        request, size = sequence.request, self._block_tokens
        full = min(min(sequence.computed_tokens, request.prompt_tokens) // size, len(request.keys))
        if full <= sequence.stored_blocks:
            return
        stored = self._cpu.write(request.keys[:full], sequence.stored_blocks)
        sequence.stored_blocks = full
        if stored is None:
            self.counters.stores_skipped += 1
        elif stored:
            self.counters.stores += 1
            self.counters.store_bytes += stored * size * self.config.kv_bytes_per_token

    # ---------------------------------------------------------------- outputs

    def _complete(self, run: StepRun, *, brief: bool) -> tuple[StepOutput, ...]:
        """What the batch yields: a token a step for each sequence whose known tokens are all computed."""
        end_s = run.end_s
        stores = self.config.cpu_blocks > 0
        outputs = []
        for sequence, _ in run.batch:
            if stores and sequence.stored_blocks < sequence.keys:
                self._write_through(sequence)
            if sequence.remaining_tokens == 0:
                output = self._emit(sequence, end_s, run.steps, brief=brief)
                if output is not None:
                    outputs.append(output)
        return tuple(outputs)

    def _emit(self, sequence: Sequence, end_s: float, tokens: int, *, brief: bool) -> StepOutput | None:
        """The last of `tokens` new tokens; the others are counted already."""
        request = sequence.request
        sequence.generated_tokens += 1
        self.counters.generation += tokens
        first = sequence.generated_tokens == 1
        elapsed_s = end_s - (sequence.arrival_s if first else sequence.last_token_s)
        sequence.last_token_s = end_s
        if first:
            sequence.first_token_s = end_s
            self.counters.count_prompt(
                sequence.prompt_tokens, sequence.gpu_hit_tokens, sequence.cpu_hit_tokens
            )
        finished = sequence.generated_tokens == request.output_tokens
        if finished:
            self.counters.count_end(request.finish_reason)
            self.abort(request.request_id)
        elif brief and not first:
            return None
        return StepOutput(
            request.request_id,
            new_tokens=tokens,
            elapsed_s=elapsed_s,
            finish_reason=request.finish_reason if finished else None,
            timeline=sequence.timeline() if first or finished else None,
        )
