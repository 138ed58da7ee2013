"""A pool with its state, decisions and records for tests."""

import msgspec

from epp.clock import ManualClock
from epp.director.record import RequestRecord
from epp.director.types import EndReason
from epp.endpoints.health import PassiveHealth
from epp.endpoints.ledger import Ledger
from epp.endpoints.models import ModelCatalog
from epp.endpoints.table import EndpointTable
from epp.endpoints.types import EndpointMetrics, EndpointSpec, ModelInfo
from epp.observability.change_metrics import Changes
from epp.observability.metrics import BuildInfo, IndexView, Metrics, MetricsOptions, Sources, ViewLabels
from epp.request.types import Api, InferenceRequest, Prompt
from epp.response.types import Usage
from epp.scheduling.columns import CandidateSlots, SegmentColumn
from epp.scheduling.contracts import Cycle, Decision, PrefixMatch, ProfileResult, ScoredColumn

SENTINEL = "SENTINEL-9f3"
GPU = ViewLabels("gpu", "prefix-cache-scorer", "gpu", block_bytes=256)
CPU = ViewLabels("cpu", "prefix-cache-scorer", "cpu", block_bytes=256)
E1, E2 = "10.0.0.1:8000", "10.0.0.2:8000"


def address(number: int) -> str:
    return f"10.0.{number // 250}.{number % 250 + 1}:8000"


class World:
    """`endpoints` endpoints that serve the model m, scraped at the clock's time, and metrics over them."""

    def __init__(
        self,
        endpoints: int = 2,
        *,
        told: bool = True,
        changes: dict | None = None,
        rewritten=frozenset(),
        **options,
    ) -> None:
        self.clock = ManualClock()
        self.ledger = Ledger()
        self.table = EndpointTable(self.ledger, lambda _: None, lambda _: True)
        self.health = PassiveHealth()
        self.catalog = ModelCatalog()
        self.index: dict[tuple[str, int], tuple[int, int]] = {}
        self.running: dict[tuple[str, str, str, int], int] = {}
        self.mismatch: float | None = None
        self.saturation: float | None = 0.75
        self.table.sync([self.spec(n) for n in range(endpoints)], self.clock.monotonic())
        for n in range(endpoints if told else 0):
            self.table.set_models(address(n), (ModelInfo("m"),), self.clock.monotonic())
        self.metrics = Metrics(
            Sources(
                table=self.table,
                ledger=self.ledger,
                health=self.health,
                catalog=self.catalog,
                now=self.clock.monotonic,
                index_views=lambda: (self.view("gpu"), self.view("cpu")),
                running=lambda: self.running,
                bytes_per_token=lambda: {"m": 4.25},
                buffered_bytes=lambda: 12345,
                dropped_lines=lambda: 6,
                changes=Changes(**{"config_hash": lambda: "h4sh", **(changes or {})}),
                saturation=lambda: self.saturation,
                rewrites_model=rewritten.__contains__,
            ),
            BuildInfo("1.2.3", "abc", "main", "3.11.7"),
            (GPU, CPU),
            MetricsOptions(pool_name="fleet", **options),
        )

    @staticmethod
    def spec(number: int, name: str = "") -> EndpointSpec:
        host, _, port = address(number).rpartition(":")
        return EndpointSpec("http", host, int(port), name=name)

    def view(self, tier: str) -> IndexView:
        return IndexView(
            plugin_name=tier,
            plugin_type="prefix-cache-scorer",
            tier=tier,
            entries=lambda slot: self.index.get((tier, slot), (0, 0))[0],
            tokens=lambda slot: self.index.get((tier, slot), (0, 0))[1],
            capacity_tokens=lambda endpoint: 1000 if tier == "gpu" else 4000,
            mismatch=lambda endpoint: self.mismatch if tier == "cpu" else None,
        )

    def scrape(self, number: int, **fields) -> None:
        self.table.update_metrics(address(number), EndpointMetrics(**fields), self.clock.monotonic())

    def observe(self, *records: RequestRecord) -> None:
        self.metrics.observe(records)

    def page(self) -> str:
        return b"".join(self.metrics.render_slices()).decode()

    def samples(self, name: str) -> dict[str, float]:
        """Label text → value of the samples that are called `name`."""
        found = {}
        for line in self.page().splitlines():
            sample, _, value = line.rpartition(" ")
            called, _, labels = sample.partition("{")
            if called == name:
                found[labels.rstrip("}")] = float(value)
        return found

    def decision(self, slot: int = 0, gpu_blocks: int = 3, cpu_blocks: int = 4) -> Decision:
        """Two scorers over all endpoints: 1.0 x 2 for everybody, 0.5 x 1 for the one that holds a prefix."""
        candidates = self.table.pool.endpoints
        matches = {
            "gpu": PrefixMatch(((1 << slot, gpu_blocks),) if gpu_blocks else (), 4, 64.0),
            "cpu": PrefixMatch(((1 << slot, cpu_blocks),) if cpu_blocks else (), 4, 64.0),
        }
        request = InferenceRequest(
            Api.CHAT, "m", "salt", (Prompt(SENTINEL.encode() * 100),), stream=True, body_bytes=1300
        )
        cycle = Cycle(
            request=request,
            model="m",
            adapter="",
            prompt_tokens=256,
            candidates=candidates,
            pool_version=1,
            matches=matches,
            ledger=self.ledger,
            now=1000.0,
            headers={"authorization": f"Bearer {SENTINEL}"},
        )
        prefix = SegmentColumn(CandidateSlots(candidates), 0.0, ((1 << slot, 0.5),))
        totals = [2.5 if e.slot == slot else 2.0 for e in candidates]
        columns = (
            ScoredColumn("queue", "queue-scorer", 2.0, [1.0] * len(candidates)),
            ScoredColumn("gpu", "prefix-cache-scorer", 1.0, prefix),
        )
        order = (e for e in candidates if cycle)
        result = ProfileResult("default", candidates, (), columns, totals, order)
        return Decision(cycle, result, {"default": result})

    def record(self, number: int = 0, **fields) -> RequestRecord:
        """A streamed chat of 812 ms that endpoint `number` answered."""
        return msgspec.structs.replace(
            RequestRecord(
                request_id="req-1",
                method="POST",
                path="/v1/chat/completions",
                arrived=1000.0,
                ended_at=1000.812,
                reason=EndReason.COMPLETE,
                api=Api.CHAT,
                model="m",
                target_model="m",
                first_byte_at=1000.112,
                prepare_s=0.00003,
                decision_s=0.00004,
                status=200,
                endpoint=address(number),
                slot=number,
                attempts=1,
                executions=1,
                stream=True,
                request_bytes=1300,
                response_bytes=30,
                prompt_tokens_estimated=256,
                predicted_gpu_tokens=192,
                predicted_cpu_tokens=48,
                usage=Usage(250, 71, 224),
                chain=(0x1234, 0xABCDEF0123456789),
                decision=self.decision(number),
            ),
            **fields,
        )
