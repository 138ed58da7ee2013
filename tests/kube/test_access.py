"""Where the API server is: service accounts and kubeconfigs."""

import base64
import ssl

import pytest
import trustme
import yaml

from epp.discovery.kubernetes.access import AccessError, find_access

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture(scope="module")
def ca():
    return trustme.CA()


@pytest.fixture
def account(tmp_path, ca):
    ca.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "namespace").write_text("inference\n")
    (tmp_path / "token").write_text("one\n")
    return tmp_path


def kubeconfig(folder, *, user=None, cluster=None, **document):
    path = folder / "config"
    given = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "inference"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(given | document))
    return str(path)


def test_a_pod_uses_its_service_account(account):
    found = find_access(None, IN_CLUSTER, account)

    assert (found.server, found.namespace, found.token()) == ("https://10.96.0.1:443", "inference", "one")
    assert found.tls.verify_mode is ssl.CERT_REQUIRED


def test_a_token_that_was_replaced_is_used(account):
    found = find_access(None, IN_CLUSTER, account)
    (account / "token").write_text("two")

    assert found.token() == "two"


def test_an_ipv6_api_server_is_in_brackets(account):
    found = find_access(None, {"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)

    assert found.server == "https://[fd00::1]:443"


@pytest.mark.parametrize("missing", ["ca.crt", "namespace", "token"])
def test_a_service_account_that_is_not_mounted_is_named_with_the_remedy(account, missing):
    (account / missing).unlink()

    with pytest.raises(
        AccessError, match=r"No such file or directory; set automountServiceAccountToken: true"
    ):
        find_access(None, IN_CLUSTER, account)


def test_a_kubeconfig_that_is_named_goes_first(tmp_path, account):
    found = find_access(kubeconfig(tmp_path, user={"token": "t"}), IN_CLUSTER, account)

    assert (found.server, found.namespace, found.token(), found.tls) == (
        "http://127.0.0.1:1",
        "inference",
        "t",
        None,
    )


def test_the_variable_and_the_home_folder_come_after(tmp_path):
    path = kubeconfig(tmp_path)
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text((tmp_path / "config").read_text().replace(":1/", ":2/"))

    assert find_access(None, {"KUBECONFIG": path, "HOME": str(tmp_path)}).server == "http://127.0.0.1:1"
    assert find_access(None, {"HOME": str(tmp_path)}).server == "http://127.0.0.1:2"


def test_a_token_file_is_read_each_time(tmp_path):
    (tmp_path / "t").write_text("a")
    found = find_access(kubeconfig(tmp_path, user={"tokenFile": "t"}), {})
    (tmp_path / "t").write_text("b")

    assert found.token() == "b"


def test_certificates_are_read_from_data_and_from_files(tmp_path, ca):
    issued = ca.issue_cert("client")
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    data = base64.b64encode(ca.cert_pem.bytes()).decode()
    certificate = base64.b64encode(issued.cert_chain_pems[0].bytes()).decode()
    path = kubeconfig(
        tmp_path,
        cluster={"server": "https://127.0.0.1:1", "certificate-authority-data": data},
        user={"client-certificate-data": certificate, "client-key": "key.pem"},
    )

    found = find_access(path, {})

    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1


def test_verification_is_off_only_where_the_kubeconfig_says_so(tmp_path):
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}

    assert find_access(kubeconfig(tmp_path, cluster=cluster), {}).tls.verify_mode is ssl.CERT_NONE


SECRET = "sentinel-7c1d"


@pytest.mark.parametrize(
    "text",
    [
        f'users:\n- user: {{token: "{SECRET}',
        f"users: [{{user: {{token: {SECRET}}}}}]\n\tx: 1",
        (
            f"{{clusters: [{{name: k, cluster: {{server: 'ftp://u:{SECRET}@x'}}}}], current-context: c, "
            "contexts: [{name: c, context: {cluster: k, user: u}}], users: [{name: u, user: {}}]}"
        ),
        (
            f"{{clusters: [{{name: k, cluster: {{server: 'https://u:{SECRET}@x'}}}}], current-context: c, "
            "contexts: [{name: c, context: {cluster: k, user: u}}], users: [{name: u, user: {}}]}"
        ),
    ],
    ids=["cut", "tab", "another scheme", "credentials in the URL"],
)
def test_what_is_said_of_a_kubeconfig_shows_nothing_of_it(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(AccessError) as refused:
        find_access(str(path), {})

    assert str(path) in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_service_account_that_is_no_text_is_no_fault_of_ours(account):
    (account / "token").write_bytes(b"\xff")

    with pytest.raises(AccessError, match="cannot read the service account"):
        find_access(None, IN_CLUSTER, account)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"current-context": "d"}, "contexts has no 'd'; choose one with kubectl config use-context"),
        ({"clusters": []}, "clusters has no 'k'"),
        ({"users": [{"name": "u", "user": {"exec": {}}}]}, "exec names no command"),
        (
            {"users": [{"name": "u", "user": {"auth-provider": {}}}]},
            "auth-provider credentials are not supported; use exec or a token: kubectl create token",
        ),
        ({"clusters": [{"name": "k", "cluster": {"server": "x"}}]}, "server of the cluster must be a URL"),
        (
            {"clusters": [{"name": "k", "cluster": {"server": "https://u:pass@x"}}]},
            "server of the cluster holds credentials; give the user a token",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(tmp_path, document, why):
    with pytest.raises(AccessError, match=why):
        find_access(kubeconfig(tmp_path, **document), {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file or directory; run in a pod, or name"),
        ("- a", "is not a mapping"),
        ("{", "cannot use"),
    ],
)
def test_a_file_that_is_no_kubeconfig_says_so_in_one_line(tmp_path, text, why):
    if text is not None:
        (tmp_path / "config").write_text(text)

    with pytest.raises(AccessError, match=why) as raised:
        find_access(str(tmp_path / "config"), {})
    assert "\n" not in str(raised.value)


def test_data_that_is_no_base64_is_named(tmp_path):
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority-data": "!"}

    with pytest.raises(AccessError, match="cannot use kubeconfig"):
        find_access(kubeconfig(tmp_path, cluster=cluster), {})
