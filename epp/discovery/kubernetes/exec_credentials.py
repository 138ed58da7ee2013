"""Bearer tokens from a command that a kubeconfig names, as cloud providers' kubeconfigs do."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from epp.discovery.kubernetes.access_error import AccessError

__all__ = ["ExecCommand", "ExecToken", "exec_command"]

_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_ANSWER_S: Final = 30.0
_MARGIN_S: Final = 60.0  # before a token ends: clocks differ, and requests take their time
_NO_END_S: Final = 300.0  # how long a token is used that says nothing of its end
_TOLD: Final = 300
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """What to run, `environ` being all that the command sees, and what to tell where it is not installed."""

    arguments: tuple[str, ...]
    environ: tuple[tuple[str, str], ...]
    hint: str


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    expiration_timestamp: str | None = None


class _Credential(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def exec_command(spec: Any, folder: Path, environ: Mapping[str, str]) -> ExecCommand:
    """The command of `exec` in a kubeconfig of `folder`, where a relative path begins.

    Raises:
        AccessError: it cannot be used here.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get("command"), str) or not spec["command"]:
        raise AccessError("exec names no command")
    version = spec.get("apiVersion")
    if version not in _VERSIONS:
        raise AccessError(f"exec speaks {version!r}; {_VERSIONS[0]} and {_VERSIONS[1]} are known")
    if spec.get("interactiveMode") == "Always":
        raise AccessError(
            "exec wants a terminal (interactiveMode: Always); use a token: kubectl create token"
        )
    command = spec["command"]
    if "/" in command:
        command = str(folder / command)
    own = {str(item["name"]): str(item["value"]) for item in spec.get("env") or ()}
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    told = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
    arguments = (command, *(str(argument) for argument in spec.get("args") or ()))
    seen = tuple(sorted({**environ, **own, **told}.items()))
    return ExecCommand(arguments, seen, str(spec.get("installHint") or "").strip())


class ExecToken:
    """The token of a command, which is run again a minute before the token ends, and after a 401."""

    def __init__(self, command: ExecCommand, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._command = command
        self._now = now
        self._token = ""
        self._good_until: float = 0.0
        self._turn = asyncio.Lock()

    def token(self) -> str:
        """That of this moment; "" before the first `renew`."""
        return self._token

    def reject(self, token: str) -> None:
        """The API server did not take `token`: the next `renew` asks for another."""
        if token == self._token:
            self._good_until = 0.0

    async def renew(self) -> None:
        """Run the command if the token is about to end.

        Raises:
            AccessError: it failed, or said nothing that can be used.
        """
        async with self._turn:
            if self._now().timestamp() >= self._good_until:
                self._take(await self._run())

    async def _run(self) -> bytes:
        name = self._command.arguments[0]
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=dict(self._command.environ),
                limit=_MOST_BYTES,
            )
        except OSError as error:
            hint = f"; {self._command.hint}" if self._command.hint else ""
            raise AccessError(f"cannot run {name}: {error.strerror}{hint}") from None
        try:
            async with asyncio.timeout(_ANSWER_S):
                out, told = await process.communicate()
        except TimeoutError:
            raise AccessError(f"{name} did not end in {_ANSWER_S:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            why = " ".join(told.decode("utf-8", "replace").split())[-_TOLD:]
            raise AccessError(f"{name} ended with status {process.returncode}: {why}")
        return out

    def _take(self, out: bytes) -> None:
        name = self._command.arguments[0]
        try:
            status = msgspec.json.decode(out, type=_Credential).status
            end = status.expiration_timestamp
            until = datetime.fromisoformat(end).timestamp() if end else None
        except ValueError:
            raise AccessError(f"{name} printed no ExecCredential that can be read") from None
        if not status.token:
            raise AccessError(f"{name} gave no token; client certificates from exec are not supported")
        now = self._now().timestamp()
        self._token = status.token
        self._good_until = now + _NO_END_S if until is None else until - _MARGIN_S
