"""Certificates of the picker's port, from files or made at the start."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

__all__ = ["CertificateError", "KeyPair", "read_key_pair", "self_signed"]

_VALID: Final = dt.timedelta(days=3650)
_SKEW: Final = dt.timedelta(hours=1)


class CertificateError(Exception):
    """A certificate or its key cannot be used; says which file and why."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """A private key and its certificate with the chain, in PEM."""

    key: bytes
    certificates: bytes


def self_signed(now: dt.datetime, host: str = "localhost") -> KeyPair:
    """A pair that nobody can verify: it hides traffic from listeners only, like the Go picker's default."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Inference Ext")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(pem, certificate.public_bytes(Encoding.PEM))


def read_key_pair(cert: str, key: str) -> KeyPair:
    """The pair in two files, checked: gRPC itself would say nothing of a faulty one.

    Raises:
        CertificateError: one cannot be read or used, or they do not belong together.
    """
    pair = KeyPair(_read(key), _read(cert))
    try:
        chain = x509.load_pem_x509_certificates(pair.certificates)
    except ValueError:
        raise CertificateError(f"{cert}: no certificate in PEM") from None
    try:
        private = load_pem_private_key(pair.key, None)
    except (ValueError, TypeError):  # TypeError: it needs a passphrase
        raise CertificateError(f"{key}: no private key in PEM without a passphrase") from None
    if private.public_key() != chain[0].public_key():
        raise CertificateError(f"{cert} with {key}: they do not belong together")
    return pair


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise CertificateError(f"{file}: {error.strerror or error}") from None
