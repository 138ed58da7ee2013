"""What is measured, and how each is started: epp as its users start it, nginx, other routers, and nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Place", "Stack", "direct", "epp", "nginx", "peer"]

NGINX_CONF = """\
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  keepalive_requests 100000000;
  client_max_body_size 64m;
  client_body_buffer_size 2m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream servers {{
{servers}
    keepalive 2048;
    keepalive_requests 100000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://servers;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stack runs: its port, one for metrics, the ports of the servers, a folder for its files."""

    port: int
    metrics_port: int
    servers: Sequence[int]
    folder: Path

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.servers]


@dataclass(frozen=True, slots=True)
class Stack:
    """`mode` is "cache_aware" or "round_robin" for routers of others, else empty.

    `command` may write into the place's folder. None: requests go to the first server, nothing is between.
    """

    name: str
    mode: str
    command: Callable[[Place], list[str]] | None

    @property
    def is_peer(self) -> bool:
        return bool(self.mode)


def direct() -> Stack:
    """No proxy: what servers and load generator cost by themselves."""
    return Stack("direct", "", None)


def epp(name: str, python: str, flags: Sequence[str] = ()) -> Stack:
    """epp under an interpreter: the tiered configuration, access log to a file, the rest at its defaults."""

    def command(place: Place) -> list[str]:
        endpoints = [word for url in place.urls for word in ("--endpoint", url)]
        log = str(place.folder / "access.log")
        start = [python, "-m", "epp", "serve", "--config", "config/tiered-prefix-cpu.yaml"]
        listen = ["--host", "127.0.0.1", "--port", str(place.port), "--access-log-file", log]
        return [*start, *listen, *flags, *endpoints]

    return Stack(name, "", command)


def nginx(binary: str) -> Stack:
    """A plain proxy in turn, without any decision and without an access log."""

    def command(place: Place) -> list[str]:
        servers = "\n".join(f"    server 127.0.0.1:{port} max_fails=0;" for port in place.servers)
        conf = place.folder / "nginx.conf"
        conf.write_text(NGINX_CONF.format(folder=place.folder, servers=servers, port=place.port))
        return [binary, "-c", str(conf), "-p", str(place.folder), "-g", "daemon off;"]

    return Stack("nginx", "", command)


LAUNCH: dict[str, tuple[list[str], str]] = {
    "vllm-router": (["vllm-router"], "warning"),
    "sglang-router": (["sglang-router", "launch"], "warn"),
    "smg": (["smg", "launch"], "warn"),
}


def peer(name: str, mode: str, commands: Path) -> Stack:
    """A router of others at its defaults but for the policy, and logging warnings only."""
    (program, *words), level = LAUNCH[name]

    def command(place: Place) -> list[str]:
        listen = [
            "--host",
            "127.0.0.1",
            "--port",
            str(place.port),
            "--prometheus-port",
            str(place.metrics_port),
        ]
        options = ["--policy", mode, "--log-level", level, "--worker-urls", *place.urls]
        return [str(commands / program), *words, *listen, *options]

    return Stack(f"{name} {mode}", mode, command)
