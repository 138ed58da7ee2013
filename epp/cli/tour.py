"""`epp tour`: shows on a running router what the two tiers do to routing."""

import argparse
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from epp.cli.numbers import between

__all__ = ["Step", "Tour", "add_parser", "run"]

_WORDS = (
    "river", "stone", "winter", "harbour", "engine", "quiet", "letter", "garden", "copper", "window",
    "market", "signal", "forest", "paper", "bridge", "candle", "orbit", "meadow", "anchor", "violet",
    "thunder", "basket", "mirror", "summit",
)  # fmt: skip

_HEADER = f"{'step':<34} {'endpoint':<22} {'prompt':>7} {'predicted':>17} {'cached':>7}"


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "tour",
        allow_abbrev=False,
        help="show on a running router what the tiers do",
        description="Send one long system prompt twice, fill the GPU tier of the server that holds it with "
        "other prompts, and ask again: the CPU tier still attracts the request. Prints for each step where "
        "it went, how many tokens were predicted to be cached in which tier, and how many really were.",
    )
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the router (%(default)s)")
    parser.add_argument(
        "--fill",
        type=between(0, 10_000),
        default=0,
        metavar="N",
        help="prompts that fill (as many as needed)",
    )
    parser.set_defaults(run=run)


@dataclass(frozen=True, slots=True)
class Step:
    """What one request showed. Tokens; None where the answer or the receipt does not say."""

    name: str
    endpoint: str
    prompt: int | None
    predicted_gpu: int | None
    predicted_cpu: int | None
    cached: int | None

    def line(self) -> str:
        """One row of the table."""
        predicted = f"gpu {_shown(self.predicted_gpu)} cpu {_shown(self.predicted_cpu)}"
        start = f"{self.name:<34} {self.endpoint:<22} {_shown(self.prompt):>7}"
        return f"{start} {predicted:>17} {_shown(self.cached):>7}"


def _shown(value: int | None) -> str:
    return "-" if value is None else str(value)


def _text(seed: int, words: int) -> str:
    """Distinct prose-like text, the same for the same seed."""
    numbered = (
        f"{_WORDS[(seed * 7 + i * i) % len(_WORDS)]} {_WORDS[(seed + i) % len(_WORDS)]}"
        for i in itertools.count()
    )
    return f"Document {seed}. " + " ".join(itertools.islice(numbered, words // 2)) + "."


class Tour:
    """Sends the tour's requests through `client`, whose base URL is the router."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def steps(self, fill: int = 0) -> Iterator[Step]:
        """The whole tour; `fill` prompts fill the GPU tiers, 0: until the first prompt has left its tier.

        Raises:
            httpx.HTTPError: the router does not answer as it should.
        """
        system = _text(1, 1400)
        yield self.ask("1 a long system prompt, first time", system, "What is this about?")
        held = self.ask("2 the same, another question", system, "And who wrote it?")
        yield held
        for number in range(1, (fill or 200) + 1):
            step = self.ask(f"3 fill: other prompt {number}", _text(100 + number, 1400), "Summarise.")
            yield step
            if not fill and number % 4 == 0 and self._left_gpu(held.endpoint, system):
                break
        yield self.ask("4 the first prompt once more", system, "What is this about?")

    def ask(self, name: str, system: str, question: str) -> Step:
        """One request; what it showed."""
        body = self._body(system, question)
        answer = self._client.post("/v1/chat/completions", json=body, headers={"x-epp-explain": "1"})
        answer.raise_for_status()
        usage: dict[str, Any] = answer.json().get("usage") or {}
        details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
        hits = _hits(answer.headers.get("x-epp-decision", ""))
        return Step(
            name,
            answer.headers.get("x-epp-endpoint", "-"),
            usage.get("prompt_tokens"),
            hits.get("gpu"),
            hits.get("cpu"),
            details.get("cached_tokens"),
        )

    def _left_gpu(self, endpoint: str, system: str) -> bool:
        """Whether the router believes that the GPU tier of `endpoint` holds nothing of the prompt."""
        answer = self._client.post("/pick", json=self._body(system, "?"))
        answer.raise_for_status()
        candidates: list[dict[str, Any]] = answer.json().get("receipt", {}).get("candidates", [])
        hits = (c["predicted_hit_tokens"]["gpu"] for c in candidates if c["endpoint"] == endpoint)
        return not next(hits, 0)

    @staticmethod
    def _body(system: str, question: str) -> dict[str, Any]:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        return {"messages": messages, "max_tokens": 8}


def _hits(decision: str) -> dict[str, int]:
    """`hit=gpu:N,cpu:N` of an `x-epp-decision` header."""
    word = next((w for w in decision.split() if w.startswith("hit=")), "hit=")
    pairs = (pair.split(":") for pair in word.removeprefix("hit=").split(",") if pair)
    return {tier: int(tokens) for tier, tokens in pairs}


def run(arguments: argparse.Namespace) -> int:
    """Print the tour; exit code 1 when the router does not answer."""
    print(_HEADER)
    try:
        with httpx.Client(base_url=arguments.url, timeout=120, trust_env=False) as client:
            steps = [_printed(step) for step in Tour(client).steps(arguments.fill)]
    except httpx.HTTPError as error:
        print(f"epp tour: {arguments.url}: {error}; is the router running? try `epp demo`", file=sys.stderr)
        return 1
    print(_summary(steps))
    return 0


def _printed(step: Step) -> Step:
    print(step.line(), flush=True)
    return step


def _summary(steps: list[Step]) -> str:
    first, second, last = steps[0], steps[1], steps[-1]
    stayed = "the same server" if last.endpoint == first.endpoint else "another server"
    return (
        f"\nThe repeat found {_shown(second.cached)} of {_shown(second.prompt)} tokens cached. After "
        f"{len(steps) - 3} other prompts the GPU tier held {_shown(last.predicted_gpu)} tokens of it and the "
        f"CPU tier the rest: the request went to {stayed}, which had {_shown(last.cached)} tokens cached."
    )
