"""epp as operators start it, in front of the real servers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import httpx
import openai

from tests.real_vllm import pages
from tests.real_vllm.servers import VllmServer

__all__ = ["Router"]

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


class Router:
    """`epp serve` in a process of its own; leaving the context ends it.

    Attributes:
        url: of its listener.
        openai: the official client, without retries of its own.
    """

    def __init__(self, servers: Sequence[VllmServer], log: Path) -> None:
        self._servers = servers
        self._log = log
        self.url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "epp", "serve", "--host", "127.0.0.1", "--port", "0", "--seed", "1"]
        command += ["--config", str(_HERE / "picker.yaml"), "--log-format", "json"]
        for server in self._servers:
            command += ["--endpoint", server.url]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("EPP_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=_ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=log
            )
        try:
            pages.until(self._listening, "epp listens")
            self._http = httpx.Client(base_url=self.url, timeout=60)
            pages.until(self._knows_its_endpoints, "every endpoint was scraped and told its models")
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.openai = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)
        return self

    def __exit__(self, *_: object) -> None:
        self.openai.close()
        self._http.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        assert status == 0, self._log.read_text()

    def _listening(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        entries = [json.loads(line) for line in self._log.read_text().splitlines() if line.endswith("}")]
        self.url = next((entry["url"] for entry in entries if entry["message"] == "listening"), "")
        return bool(self.url)

    def _knows_its_endpoints(self) -> bool:
        state = self.state()
        return bool(state["ratios"]) and all(e["metrics"] and e["models"] for e in state["endpoints"])

    def chat(self, document: str, question: str, **options: Any) -> str:
        """Ask about a document, as retrieval does; returns the address of the server that answered."""
        answer = self.openai.chat.completions.with_raw_response.create(
            model="tiny",
            messages=[{"role": "system", "content": document}, {"role": "user", "content": question}],
            max_tokens=4,
            **options,
        )
        assert answer.parse().choices
        return answer.headers["x-epp-endpoint"]

    def complete(self, prompt: str | list[int]) -> str:
        """Continue a text or token ids; returns the address of the server that answered."""
        answer = self.openai.completions.with_raw_response.create(model="tiny", prompt=prompt, max_tokens=4)
        assert answer.parse().choices
        return answer.headers["x-epp-endpoint"]

    def async_client(self) -> openai.AsyncOpenAI:
        """The official client for many requests at a time; the caller closes it."""
        return openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=120)

    def state(self) -> dict[str, Any]:
        """What the router knows of endpoints."""
        answer = self._http.get("/debug/state", params={"index": "false"})
        return dict(answer.raise_for_status().json())

    def endpoint(self, server: VllmServer) -> dict[str, Any]:
        """What the router knows of one server."""
        return next(e for e in self.state()["endpoints"] if e["url"] == server.url)

    def metric(self, name: str, **labels: str) -> float:
        """One number of the router's metrics page."""
        return pages.read(self.url, name, **labels)

    def predicted_tokens(self, server: VllmServer, tier: str) -> float:
        """Hit tokens predicted for all requests that a server answered."""
        return self.metric("epp_endpoint_predicted_hit_tokens_total", endpoint=server.address, tier=tier)

    def ended(self) -> float:
        """Requests whose life has ended: their predictions are counted."""
        return self.metric("epp_requests_total")
