"""TLS contexts from files, and the pool that uses them, on real sockets."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from epp.http import ErrorKind, Origin, UpstreamPool, UpstreamSettings
from epp.http.tls import EndpointTls, ListenerTls, TlsFileError, endpoint_context, listener_context
from tests.certificates import Authority
from tests.http.servers import AwaitableSink, answering, endpoint, get

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture
def ca(tmp_path):
    return Authority(tmp_path, "ours")


@pytest.fixture
def other(tmp_path):
    return Authority(tmp_path, "other")


def listener(pair, **options):
    return listener_context(ListenerTls(pair.cert, pair.key, **options))


async def negotiate(server: ssl.SSLContext, client: ssl.SSLContext, name="localhost") -> ssl.SSLObject:
    """The client's end of a connection whose server echoes a byte."""

    async def echo(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            writer.write(await reader.readexactly(1))
            await writer.drain()
        writer.close()

    serving = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server)
    async with serving:
        port = serving.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
        try:
            writer.write(b"x")
            if (
                await reader.read(1) != b"x"
            ):  # TLS 1.3 tells a client only now that its certificate is refused
                raise ConnectionResetError
            return writer.get_extra_info("ssl_object")
        finally:
            writer.transport.abort()


async def test_a_port_speaks_http11_over_tls_13_and_12_with_forward_secrecy(ca):
    server = listener(ca.issue())
    for version, cipher in ((ssl.TLSVersion.TLSv1_3, "TLS_"), (ssl.TLSVersion.TLSv1_2, "ECDHE-")):
        client = ca.client(version=version)
        client.set_alpn_protocols(["h2", "http/1.1"])
        negotiated = await negotiate(server, client)
        assert negotiated.selected_alpn_protocol() == "http/1.1"
        assert negotiated.cipher()[0].startswith(cipher)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_a_port_speaks_nothing_older(ca, version):
    client = ca.client(version=version)
    client.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises(OSError):
        await negotiate(listener(ca.issue()), client)


async def test_a_port_does_not_speak_ciphers_without_forward_secrecy(ca):
    client = ca.client(version=ssl.TLSVersion.TLSv1_2)
    client.set_ciphers("AES256-GCM-SHA384:ECDHE-ECDSA-AES256-SHA384:DHE-RSA-AES256-GCM-SHA384")
    with pytest.raises(OSError):
        await negotiate(listener(ca.issue()), client)


async def test_a_port_may_insist_on_tls_13(ca):
    server = listener(ca.issue(), min_version="1.3")
    assert (await negotiate(server, ca.client())).version() == "TLSv1.3"
    with pytest.raises(OSError):
        await negotiate(server, ca.client(version=ssl.TLSVersion.TLSv1_2))


async def test_a_port_with_a_client_ca_takes_its_certificates_alone(ca, other):
    server = listener(ca.issue("server"), client_ca=other.file)
    assert await negotiate(server, ca.client(other.issue("client")))
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for pair in (None, ca.issue("stranger")):
            with pytest.raises(OSError):
                await negotiate(server, ca.client(pair, version=version))


def test_the_system_is_trusted_unless_a_ca_is_given(ca, monkeypatch):
    loaded = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda self, *_: loaded.append(self))

    context = endpoint_context(EndpointTls())
    assert loaded == [context]
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert endpoint_context(EndpointTls(ca=ca.file)).get_ca_certs()
    assert len(loaded) == 1


def test_the_files_of_a_context_are_known():
    assert ListenerTls("c", "k").files == ("c", "k")
    assert ListenerTls("c", "k", "a").files == ("c", "k", "a")
    assert EndpointTls(verify=False).files == ()
    assert EndpointTls("a", "c", "k").files == ("a", "c", "k")


def encrypted(pair) -> str:
    key = serialization.load_pem_private_key(Path(pair.key).read_bytes(), None)
    Path(pair.key).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"x"),
        )
    )
    return pair.key


def test_files_that_cannot_be_used_are_named_with_the_reason(ca, tmp_path):
    good, second, locked = ca.issue("a"), ca.issue("b"), ca.issue("c")
    junk = tmp_path / "junk"
    junk.write_text("junk")
    cases = {
        (good.cert, second.key): f"{good.cert} with {second.key}: KEY_VALUES_MISMATCH",
        (str(junk), good.key): f"{junk} with {good.key}: not a certificate and a key in PEM",
        ("/gone", good.key): "/gone: No such file or directory",
        (good.cert, "/gone"): "/gone: No such file or directory",
        (
            locked.cert,
            encrypted(locked),
        ): f"{locked.cert} with {locked.key}: the key is encrypted; give it without a passphrase",
    }
    for (cert, key), message in cases.items():
        with pytest.raises(TlsFileError) as raised:
            listener_context(ListenerTls(cert, key))
        assert str(raised.value) == message
        with pytest.raises(TlsFileError):
            endpoint_context(EndpointTls(ca.file, cert, key))
    for file, message in (
        (str(junk), f"{junk}: NO_CERTIFICATE_OR_CRL_FOUND"),
        ("/gone", "/gone: No such file or directory"),
    ):
        with pytest.raises(TlsFileError) as raised:
            endpoint_context(EndpointTls(ca=file))
        assert str(raised.value) == message


@contextlib.asynccontextmanager
async def pool(tls: EndpointTls, **settings):
    upstream = UpstreamPool(UpstreamSettings(ssl_context=endpoint_context(tls), **settings))
    try:
        yield upstream
    finally:
        await upstream.close()


async def fetch(upstream: UpstreamPool, origin: Origin) -> tuple[bytes, ErrorKind | None]:
    sink = AwaitableSink()
    upstream.send(origin, get(), sink)
    failure = await sink.done
    return sink.body, failure and failure.kind


async def test_an_endpoint_of_another_authority_or_name_is_no_endpoint(ca, other):
    async with (
        endpoint(answering(OK), ssl=ca.server(ca.issue("ours"))) as ours,
        endpoint(answering(OK), ssl=ca.server(ca.issue("named", "vllm.internal"))) as named,
        endpoint(answering(OK), ssl=other.server(other.issue())) as strange,
        pool(EndpointTls(ca.file)) as upstream,
    ):
        assert await fetch(upstream, ours) == (b"ok", None)
        assert await fetch(upstream, named) == (b"", ErrorKind.CONNECT)
        assert await fetch(upstream, strange) == (b"", ErrorKind.CONNECT)


async def test_a_server_name_stands_for_every_endpoints_host(ca):
    async with (
        endpoint(answering(OK), ssl=ca.server(ca.issue("named", "vllm.internal"))) as named,
        pool(EndpointTls(ca.file), server_name="vllm.internal") as upstream,
    ):
        assert await fetch(upstream, named) == (b"ok", None)


async def test_without_verification_any_certificate_will_do(other):
    async with (
        endpoint(answering(OK), ssl=other.server(other.issue("x", "elsewhere"))) as strange,
        pool(EndpointTls(verify=False)) as upstream,
    ):
        assert await fetch(upstream, strange) == (b"ok", None)


async def test_a_certificate_is_shown_to_endpoints_that_ask(ca, other):
    shown = other.issue("router")
    async with endpoint(answering(OK), ssl=ca.server(ca.issue(), clients=other)) as asking:
        async with pool(EndpointTls(ca.file, shown.cert, shown.key)) as upstream:
            assert await fetch(upstream, asking) == (b"ok", None)
        async with pool(EndpointTls(ca.file)) as upstream:
            assert (await fetch(upstream, asking))[1] in (ErrorKind.CONNECT, ErrorKind.BROKEN)


async def test_after_a_change_no_request_goes_out_on_a_connection_made_before(ca):
    release = asyncio.Event()

    async def slow(peer):
        while True:
            await peer.request()
            await release.wait()
            await peer.send(OK)

    async with (
        endpoint(answering(OK), ssl=ca.server(ca.issue())) as quick,
        endpoint(slow, ssl=ca.server(ca.issue())) as waiting,
        endpoint(answering(OK)) as plain,
        pool(EndpointTls(ca.file)) as upstream,
    ):
        assert await fetch(upstream, quick) == (b"ok", None)
        assert await fetch(upstream, plain) == (b"ok", None)
        under_way = asyncio.create_task(fetch(upstream, waiting))
        while upstream.stats().active == 0:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert upstream.stats().opened_total == 3

        upstream.use_tls(endpoint_context(EndpointTls(ca.file)))
        release.set()

        assert await under_way == (b"ok", None)
        for origin in (quick, waiting, plain):
            assert await fetch(upstream, origin) == (b"ok", None)
        assert (upstream.stats().opened_total, upstream.stats().reused_total) == (5, 1)


async def test_a_change_of_the_authority_holds_for_the_next_connection(ca, other):
    async with (
        endpoint(answering(OK), ssl=ca.server(ca.issue())) as origin,
        pool(EndpointTls(other.file)) as upstream,
    ):
        assert (await fetch(upstream, origin))[1] is ErrorKind.CONNECT
        upstream.use_tls(endpoint_context(EndpointTls(ca.file)))
        assert await fetch(upstream, origin) == (b"ok", None)
        upstream.use_tls(endpoint_context(EndpointTls(other.file)))
        assert (await fetch(upstream, origin))[1] is ErrorKind.CONNECT
