"""TLS in both directions on a whole router, with certificates that change on the disk."""

import signal
import ssl

import httpx
import pytest

from epp.app.guards import build_guards
from epp.app.watched import WatchedFiles
from epp.config import Settings
from epp.config.security_settings import AdminTlsSettings, EndpointTlsSettings, TlsSettings
from epp.config.settings import UpstreamSettings
from epp.errors import ConfigError
from tests.certificates import Authority, serial
from tests.e2e.kit import chat, eventually, free_port


@pytest.fixture
def clients(tmp_path):
    """The authority of clients' certificates, the router's towards endpoints among them."""
    return Authority(tmp_path, "clients")


def listening(pair, **options):
    return TlsSettings(pair.cert, pair.key, **options)


def to_endpoints(**options):
    return UpstreamSettings(tls=EndpointTlsSettings(**options))


async def test_clients_and_endpoints_over_tls_with_certificates_both_ways(serve, route, connect, ca, clients):
    mine, theirs = clients.issue("router"), clients.issue("client")
    endpoint = await serve(ca.server(ca.issue("endpoint"), clients=clients))
    router = await route(
        endpoint,
        tls=listening(ca.issue("router"), client_ca=clients.file),
        upstream=to_endpoints(ca=ca.file, cert=mine.cert, key=mine.key),
    )
    assert router.url.startswith("https://")
    client = await connect(router.url, verify=ca.client(theirs))
    await eventually(lambda: endpoint.to("/metrics") and endpoint.to("/tokenize"))
    answer = await client.post("/v1/chat/completions", json=chat())
    assert answer.status_code == 200
    assert endpoint.to("/v1/chat/completions")[0].values("x-forwarded-proto") == ["https"]
    assert (await client.get("/readyz")).json()["detail"]["files"] == {
        "tls": "in use",
        "upstream.tls": "in use",
    }
    stranger = await connect(router.url, verify=ca.client())
    with pytest.raises(httpx.TransportError):
        await stranger.get("/healthz")


async def test_an_endpoint_that_is_not_verified_gets_nothing(serve, route, ca, clients):
    endpoint = await serve(ca.server(ca.issue("endpoint")))
    router = await route(endpoint, upstream=to_endpoints(ca=clients.file))
    answer = await router.chat()
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_connect_failed")
    assert endpoint.received == []


async def test_a_changed_certificate_is_shown_and_a_broken_one_is_not(serve, route, connect, ca, tmp_path):
    first, second, third = ca.issue("first"), ca.issue("second"), ca.issue("third")
    (used := ca.issue("used")).replace_by(first)
    router = await route(await serve(), tls=listening(used))
    context = ca.client()
    client = await connect(router.url, verify=context)

    async def state():
        return (await client.get("/readyz")).json()["detail"]["files"]["tls"]

    assert await serial(router.url, context) == first.serial

    used.replace_by(second)
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(serial(router.url, context), second.serial))

    used.break_key()
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(state(), f"{used.cert} with {used.key}: not a certificate and a key in PEM"))
    assert await serial(router.url, context) == second.serial
    metrics = (await client.get("/metrics")).text
    assert 'epp_file_fault{files="tls"} 1' in metrics

    used.replace_by(third)
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(serial(router.url, context), third.serial))
    assert await state() == "in use"


async def _is(wanted, value):
    return await wanted == value


async def test_a_changed_authority_of_endpoints_holds_for_requests_and_scrapes(
    serve, route, ca, clients, tmp_path
):
    endpoint = await serve(ca.server(ca.issue("endpoint")))
    trusted = tmp_path / "trusted.pem"
    clients.copy_to(trusted)
    router = await route(endpoint, upstream=to_endpoints(ca=str(trusted)))
    assert (await router.chat()).status_code == 502
    ca.copy_to(trusted)
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: endpoint.to("/metrics"))
    await eventually(lambda: _answers(router))
    clients.copy_to(trusted)
    signal.raise_signal(signal.SIGHUP)
    await eventually(lambda: _is(_answers(router), False))


async def _answers(router):
    return (await router.chat()).status_code == 200


@pytest.mark.parametrize(
    ("admin", "scheme"), [(AdminTlsSettings(), "https"), (AdminTlsSettings(enabled=False), "http")]
)
async def test_the_admin_listener_shares_the_certificate_unless_it_is_switched_off(
    serve, route, connect, ca, clients, admin, scheme
):
    router = await route(
        await serve(),
        admin_port=free_port(),
        tls=listening(ca.issue(), client_ca=clients.file),
        admin_tls=admin,
    )
    assert router.admin_url.startswith(f"{scheme}://")
    admin_client = await connect(router.admin_url, verify=ca.client())
    assert (await admin_client.get("/healthz")).status_code == 200


async def test_the_admin_listener_may_have_a_certificate_and_authority_of_its_own(
    serve, route, connect, ca, clients
):
    own = clients.issue("admin")
    router = await route(
        await serve(),
        admin_port=free_port(),
        admin_tls=AdminTlsSettings(cert=own.cert, key=own.key, client_ca=ca.file),
    )
    assert router.url.startswith("http://")
    known = await connect(router.admin_url, verify=clients.client(ca.issue("operator")))
    assert (await known.get("/healthz")).status_code == 200
    with pytest.raises(httpx.TransportError):
        await (await connect(router.admin_url, verify=clients.client())).get("/healthz")
    own.replace_by(newer := clients.issue("newer"))
    signal.raise_signal(signal.SIGHUP)
    await eventually(
        lambda: _is(serial(router.admin_url, clients.client(ca.issue("operator"))), newer.serial)
    )


def test_skipping_verification_is_warned_of_loudly():
    settings = Settings(upstream=to_endpoints(insecure_skip_verify=True))
    guards = build_guards(settings, WatchedFiles())
    assert guards.warnings[0].startswith("upstream.tls.insecureSkipVerify is on: whoever can stand between")
    assert guards.endpoint_tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"tls": TlsSettings("/gone", "/gone")}, "tls"),
        ({"admin_port": 1, "admin_tls": AdminTlsSettings(cert="/gone", key="/gone")}, "adminTls"),
        ({"upstream": to_endpoints(ca="/gone")}, "upstream.tls"),
    ],
)
def test_certificates_that_cannot_be_used_are_errors_of_the_configuration(given, name):
    with pytest.raises(ConfigError) as raised:
        build_guards(Settings(**given), WatchedFiles())
    assert [str(problem) for problem in raised.value.problems] == [
        f"{name}: /gone: No such file or directory"
    ]


async def test_the_start_ends_with_2_when_a_certificate_cannot_be_used(spawn):
    process = await spawn(
        "serve",
        "--endpoint",
        "http://127.0.0.1:1",
        "--port",
        "0",
        "--tls-cert",
        "/gone",
        "--tls-key",
        "/gone",
    )
    assert await process.ended() == 2
    assert "tls: /gone: No such file or directory" in process.stderr


async def test_a_process_serves_over_tls_until_it_is_told_to_end(spawn, connect, serve, ca):
    pair, endpoint = ca.issue(), await serve()
    process = await spawn(
        "serve", "--endpoint", endpoint.url, "--host", "127.0.0.1", "--port", "0",
        "--tls-cert", pair.cert, "--tls-key", pair.key, "--tls-min-version", "1.3",
    )  # fmt: skip
    url = await process.url()
    client = await connect(url, verify=ca.client())
    assert (await client.get("/healthz")).status_code == 200
    with pytest.raises(httpx.TransportError):
        await (await connect(url, verify=ca.client(version=ssl.TLSVersion.TLSv1_2))).get("/healthz")
    process.signal(signal.SIGTERM)
    assert await process.ended() == 0
