"""Eight simulated servers that can be killed, disturbed and started again: in this process, or as processes."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from functools import cache
from unittest.mock import patch

from epp.simserver import SimServer, core

__all__ = ["HttpServer", "InProcess", "free_port", "one_vocabulary"]

SETTINGS = {"time_scale": 4.0, "answer_tokens": (20, 40), "gpu_blocks": 2048}


@contextlib.contextmanager
def one_vocabulary():
    """Servers of this process share a tokenizer: reading it takes longer than starting one."""
    with patch.object(core, "Vocabulary", cache(core.Vocabulary)):
        yield


def free_port(hosts: list[str]) -> int:
    """A port on which nobody listens on any of these hosts at this moment."""
    while True:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(socket.create_server((hosts[0], 0)))
            port: int = first.getsockname()[1]
            with contextlib.suppress(OSError):
                for host in hosts[1:]:
                    stack.enter_context(socket.create_server((host, port)))
                return port


class InProcess:
    """A server in this process; to die is to reset every connection and close the port."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self._server = SimServer(host=host, port=port, **SETTINGS)

    async def start(self) -> None:
        await self._server.start()

    async def kill(self) -> None:
        await self._server.kill()

    async def disturb(self, fault: str, times: int, path: str = "") -> None:
        self._server.core.faults.add(fault, times=times, path=path)

    async def calm(self) -> None:
        self._server.core.faults.clear()


class HttpServer:
    """`epp sim-server` as a process of its own, killed with SIGKILL."""

    def __init__(self, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self._host, self._port = host, port
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        low, high = SETTINGS["answer_tokens"]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "epp", "sim-server", "--host", self._host, "--port", str(self._port),
            "--time-scale", str(SETTINGS["time_scale"]), "--answer-tokens", f"{low}:{high}",
            "--gpu-blocks", str(SETTINGS["gpu_blocks"]),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        async with asyncio.timeout(60):
            while not await self._listens():
                await asyncio.sleep(0.1)

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            return False
        writer.close()
        return True

    async def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    async def disturb(self, fault: str, times: int, path: str = "") -> None:
        body = json.dumps({"fault": fault, "times": times, "path": path}).encode()
        await self._control(b"POST", body)

    async def calm(self) -> None:
        await self._control(b"DELETE", b"")

    async def _control(self, method: bytes, body: bytes) -> None:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        head = b"%b /sim/faults HTTP/1.1\r\nhost: sim\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        writer.write(head % (method, len(body)) + body)
        await reader.read()
        writer.close()
