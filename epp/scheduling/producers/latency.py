"""How long a prompt takes an endpoint, learned online from first tokens.

    time to first token = fixed + token * effective + load * loaded        in seconds
    effective = miss + miss * (hit + miss / 2) / 39,000

with `miss` tokens to compute, `hit` tokens before them and `loaded` tokens to fetch from a CPU tier. A token
that attends to 39,000 others costs twice as much as one that attends to none: so it is for Qwen3-32B, and
within a factor of two for dense models of 8B to 70B. The three coefficients start at figures of Qwen3-32B on
two H100 and move by recursive least squares with forgetting, so that nothing needs to be configured, and
another GPU, model or link is learned from its first answers.
"""

from dataclasses import dataclass, field
from typing import Final

import msgspec

__all__ = ["LearnedLatency", "Work"]

_ATTENTION_TOKENS: Final = 39_000.0
_TOKEN_SCALE: Final = 1e-3  # features of about 1, so that their weights are alike
_LOAD_SCALE: Final = 1e-4
_START: Final = (0.06, 0.060, 0.10)  # coefficients of scaled features, seconds
_DOUBT: Final = (0.003, 0.003, 0.03)  # how far they may be off, squared
_SIZE: Final = range(len(_START))
_FORGET: Final = 0.998
_NOISE: Final = 0.2  # of a time, relative to its prediction
_MOST_DOUBT: Final = 4.0
_FLOOR_S: Final = 0.05  # errors count relative to the prediction, but not to less than this
_OUTLIER: Final = 4.0  # a time that is so many times the prediction had another reason ...
_PATIENCE: Final = 8  # ... unless so many follow each other

Vector = tuple[float, float, float]


class Work(msgspec.Struct, frozen=True):
    """What a request asks of an endpoint, in tokens."""

    miss: float
    hit: float
    load: float

    def features(self) -> Vector:
        """What the time is linear in, scaled."""
        effective = self.miss * (1 + (self.hit + self.miss / 2) / _ATTENTION_TOKENS)
        return 1.0, effective * _TOKEN_SCALE, self.load * _LOAD_SCALE


@dataclass(slots=True)
class LearnedLatency:
    """Coefficients and their covariance."""

    coefficients: list[float] = field(default_factory=lambda: list(_START))
    samples: int = 0
    _covariance: list[list[float]] = field(
        default_factory=lambda: [[_DOUBT[i] if i == j else 0.0 for j in _SIZE] for i in _SIZE]
    )
    _strange: int = 0

    def prefill_s(self, work: Work) -> float:
        """Seconds until the first token on an endpoint that has nothing else to prefill."""
        _, token, load = self.coefficients
        _, tokens, loaded = work.features()
        return max(0.0, token) * tokens + max(0.0, load) * loaded

    @property
    def fixed_s(self) -> float:
        """The part that every request pays."""
        return max(0.0, self.coefficients[0])

    def learn(self, work: Work, seconds: float) -> None:
        """A request with nothing before it had its first token after `seconds`."""
        expected = self.fixed_s + self.prefill_s(work)
        if not expected / _OUTLIER <= seconds <= expected * _OUTLIER:
            self._strange += 1
            if self._strange < _PATIENCE:
                return
        self._strange = 0
        self.samples += 1
        self._update(work.features(), seconds, max(expected, _FLOOR_S))

    def _update(self, features: Vector, seconds: float, scale: float) -> None:
        """One step of recursive least squares; the error is relative to `scale`."""
        x = [value / scale for value in features]
        p = self._covariance
        px = [sum(row[j] * x[j] for j in _SIZE) for row in p]
        denominator = _FORGET * _NOISE**2 + sum(x[i] * px[i] for i in _SIZE)
        error = seconds / scale - sum(x[i] * self.coefficients[i] for i in _SIZE)
        gain = [value / denominator for value in px]
        for i in _SIZE:
            self.coefficients[i] += gain[i] * error
            for j in _SIZE:
                p[i][j] = (p[i][j] - gain[i] * px[j]) / _FORGET
        for i in _SIZE:
            if p[i][i] > _MOST_DOUBT * _DOUBT[i]:
                self._calm(i)

    def _calm(self, i: int) -> None:
        """Without news, forgetting must not make a coefficient arbitrary."""
        share = (_MOST_DOUBT * _DOUBT[i] / self._covariance[i][i]) ** 0.5
        for j in _SIZE:
            self._covariance[i][j] *= share
            self._covariance[j][i] *= share
