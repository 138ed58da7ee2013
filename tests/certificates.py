"""Certificates made for one test, as files."""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path

import httpx
import trustme

__all__ = ["Authority", "Pair", "serial"]


@dataclass(frozen=True)
class Pair:
    """A certificate with its chain, and its key."""

    cert: str
    key: str
    serial: int

    def replace_by(self, other: "Pair") -> None:
        """Put another pair into these files, the certificate first."""
        Path(self.cert).write_bytes(Path(other.cert).read_bytes())
        Path(self.key).write_bytes(Path(other.key).read_bytes())

    def break_key(self) -> None:
        """Put something else into the key's file."""
        Path(self.key).write_text("not a key")


class Authority:
    """A CA of its own whose files stand in `folder` under `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._authority = trustme.CA(organization_name=name)
        self._folder = folder
        self.name = name
        self.file = str(folder / f"{name}.ca.pem")
        self._authority.cert_pem.write_to_path(self.file)

    def copy_to(self, file: Path) -> None:
        """Put its certificate into `file`."""
        file.write_bytes(Path(self.file).read_bytes())

    def issue(self, name: str = "", *identities: str) -> Pair:
        """A pair for `identities`, by default those of this machine."""
        issued = self._authority.issue_cert(*(identities or ("localhost", "127.0.0.1")))
        stem = self._folder / f"{self.name}.{name or 'leaf'}"
        cert, key = f"{stem}.pem", f"{stem}.key.pem"
        Path(cert).write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return Pair(cert, key, _serial(issued.cert_chain_pems[0].bytes()))

    def client(self, pair: Pair | None = None, *, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """What a client needs that trusts this authority and shows `pair`."""
        context = ssl.create_default_context(cafile=self.file)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context

    def server(self, pair: Pair, *, clients: "Authority | None" = None) -> ssl.SSLContext:
        """What a server needs that shows `pair` and, with `clients`, asks for certificates of that authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        if clients is not None:
            context.load_verify_locations(clients.file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _serial(pem: bytes) -> int:
    from cryptography import x509

    return x509.load_pem_x509_certificate(pem).serial_number


async def serial(url: str, context: ssl.SSLContext) -> int:
    """Of the certificate that a new connection sees."""
    address = httpx.URL(url)
    _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        return int(writer.get_extra_info("ssl_object").getpeercert()["serialNumber"], 16)
    finally:
        writer.transport.abort()
