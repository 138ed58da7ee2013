"""A core on record, in memory."""

import io

from epp.compose import CoreOptions, compose
from epp.config import load_config
from epp.director.director import Limits
from epp.director.retry import RetryPolicy
from epp.endpoints.health import HealthPolicy
from epp.endpoints.spec import parse_endpoint
from epp.endpoints.types import EndpointMetrics, ModelInfo
from epp.recording.events import FORMAT, Configuration, Header, Options
from epp.recording.framing import FIRST_LINE, Entries, frame
from epp.recording.tape import Tape
from epp.simulate.replay import Replay
from tests.director.core import TIERED, Pool

RANDOM = TIERED.replace(
    "- type: queue-scorer",
    "- {type: weighted-random-picker, parameters: {maxNumOfEndpoints: 2}}\n- type: queue-scorer",
).replace("  plugins:\n  - {plugin", "  plugins:\n  - pluginRef: weighted-random-picker\n  - {plugin")


def header(config=TIERED, shadow=None, **changes):
    """That of a recording of `config` with seed 7."""
    options = Options(
        seed=7,
        retry=RetryPolicy(),
        limits=Limits(),
        health=HealthPolicy(),
        slow_start_s=0.0,
        staleness_s=2.0,
        scrape_interval_s=0.5,
    )
    values = {"format": FORMAT, "version": "0.1.0", "created": 1.0, "options": options}
    return Header(**(values | {"config": told(config), "shadow": shadow and told(shadow)} | changes))


def told(text):
    """A configuration as it is on record."""
    return Configuration("test", load_config(text, "test").hash, text)


class RecordedPool(Pool):
    """As `Pool`, on record; slow start is off."""

    def __init__(self, n=3, config=TIERED, shadow=None):
        self.n, self.config, self.records, self.pieces = n, config, [], []
        self.tape = Tape(header(config, shadow), self.take)
        self.core = compose(
            load_config(config, "test"),
            CoreOptions(seed=7, timer=lambda: 0.0, slow_start_s=0.0),
            shadow=shadow and load_config(shadow, "shadow"),
            observers=[self.records.append],
            tape=self.tape,
        )
        self.director, self.upkeep = self.core.director, self.core.upkeep
        self.ledger, self.index = self.core.state.ledger, self.core.state.index
        self.specs = [spec(i) for i in range(1, n + 1)]
        self.upkeep.sync_endpoints(self.specs, 0.0)

    def take(self, piece):
        """What a file does."""
        self.pieces.append(bytes(piece))
        return True

    def scrape(self, i, now, **values):
        """The i-th endpoint told its metrics."""
        endpoint = self.endpoint(i)
        self.upkeep.on_metrics(endpoint.address, endpoint.incarnation, EndpointMetrics(**values), now)

    def tell_models(self, i, *names, now=0.0):
        """It listed its models."""
        endpoint = self.endpoint(i)
        infos = tuple(ModelInfo(name) for name in names)
        self.upkeep.on_models(endpoint.address, endpoint.incarnation, infos, now)

    def written(self):
        """The bytes of the recording, which ends here."""
        self.tape.stop("the router stopped")
        return FIRST_LINE + b"".join(map(frame, self.pieces))

    def replayed(self, config=None):
        """The replay of it."""
        return replayed(self.written(), config)


def spec(i):
    """The i-th endpoint."""
    return parse_endpoint(f"http://10.0.0.{i}:8000,zone=z{i}")


def events_of(content):
    """All events, and how they end."""
    entries = Entries(io.BytesIO(content))
    return list(entries), entries


def replayed(content, config=None):
    """A replay of bytes."""
    entries = Entries(io.BytesIO(content))
    replay = Replay(entries.header, config)
    for event in entries:
        replay.apply(event)
    return replay
