"""One stream of a gateway through the real director, without a server."""

import json
from dataclasses import dataclass, field

from epp.gateway.codec import Codec
from epp.gateway.events import ResponseDepth
from epp.gateway.picked import Limits, PickedRequest, Surroundings
from epp.http.budget import BodyBudget
from tests.director.core import Pool
from tests.gateway.wire import told

CODEC = Codec()
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hello " * 100}]}).encode()


@dataclass
class Stage:
    """A pool of `n` endpoints and what all streams share; `now` is the time."""

    n: int = 2
    depth: str = "headers"
    pool: Pool = None
    now: float = 1.0
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        self.pool = self.pool or Pool(n=self.n)
        limits = {
            "max_body_bytes": 1 << 20,
            "body_timeout_s": 5.0,
            **self.options.pop("limits", {}),
        }
        settings = {
            "closed": lambda _path: "",
            "explain": lambda _exchange, _headers: None,
            "budget": BodyBudget(1 << 30),
            **self.options,
        }
        self.around = Surroundings(
            director=self.pool.director,
            codec=CODEC,
            limits=Limits(**limits),
            depth=ResponseDepth(self.depth),
            now=lambda: self.now,
            new_request_id=lambda: b"made-up",
            **settings,
        )

    def stream(self):
        return Stream(self)

    @property
    def records(self):
        return self.pool.records

    def in_flight(self):
        return self.pool.ledger.total()

    def tokens(self):
        return sum(self.pool.ledger.tokens)


class Stream:
    """One stream; `say` sends messages in bytes and returns the answers, read."""

    def __init__(self, stage):
        self.request = PickedRequest(stage.around)

    def say(self, *messages):
        answers = []
        for message in messages:
            answers += [told(a) for a in self.request.receive(CODEC.decode(message)) if a is not None]
        return answers

    def time_out(self):
        return [told(a) for a in self.request.time_out() if a is not None]

    @property
    def over(self):
        return self.request.over

    def close(self, **how):
        self.request.close(**how)
