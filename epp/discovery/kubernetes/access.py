"""Where the API server is and how it is spoken to: a pod's service account, or a kubeconfig."""

import base64
import binascii
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from epp.discovery.kubernetes.access_error import AccessError
from epp.discovery.kubernetes.exec_credentials import ExecCommand, ExecToken, exec_command

__all__ = ["SERVICE_ACCOUNT", "Access", "AccessError", "find_access"]

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one API server.

    Attributes:
        server: its URL.
        namespace: the one to use where none is named.
        token: the bearer token of this moment, "" for none; asked for before each request, since the
            kubelet replaces tokens while they are in use. Raises OSError.
        tls: trust and client certificate; None for plain HTTP.
        plugin: the command that gives tokens, where there is one; to be renewed before `token` is asked.
    """

    server: str
    namespace: str
    token: Callable[[], str]
    tls: ssl.SSLContext | None
    plugin: ExecToken | None = None


def find_access(
    kubeconfig: str | None,
    environ: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
    plugins: dict[ExecCommand, ExecToken] | None = None,
) -> Access:
    """The named kubeconfig, else the pod's service account, else $KUBECONFIG, else ~/.kube/config.

    `plugins` keeps the tokens of commands from one call to the next.

    Raises:
        AccessError: none of them is there, or the one that is cannot be used.
    """
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in environ:
        return _in_cluster(environ, service_account)
    path = kubeconfig or environ.get("KUBECONFIG") or str(Path(environ.get("HOME", "/")) / ".kube/config")
    try:
        return _from_kubeconfig(Path(path), environ, {} if plugins is None else plugins)
    except (OSError, ssl.SSLError, binascii.Error, yaml.YAMLError, UnicodeDecodeError) as error:
        told = _told(error)
        remedy = "run in a pod, or name a kubeconfig with --kubernetes-kubeconfig"
        raise AccessError(f"cannot use kubeconfig {path}: {' '.join(told.split())}; {remedy}") from None


def _told(error: Exception) -> str:
    """What is wrong, without a word of the file: tokens stand in it."""
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        return "it is not valid YAML" + (f" (line {mark.line + 1})" if mark is not None else "")
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _in_cluster(environ: Mapping[str, str], folder: Path) -> Access:
    host = environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        namespace = (folder / "namespace").read_text(encoding="utf-8").strip()
        (folder / "token").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:  # errors of TLS are OSErrors
        remedy = "set automountServiceAccountToken: true and a serviceAccountName"
        raise AccessError(f"cannot read the service account in {folder}: {_told(error)}; {remedy}") from None
    return Access(f"https://{host}:{port}", namespace, _file_token(folder / "token"), tls)


def _file_token(path: Path) -> Callable[[], str]:
    return lambda: path.read_text(encoding="utf-8").strip()


def _from_kubeconfig(path: Path, environ: Mapping[str, str], plugins: dict[ExecCommand, ExecToken]) -> Access:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict):
        raise AccessError(f"{path} is no kubeconfig: it is not a mapping")
    chosen = document.get("current-context")
    context = _named(document, "contexts", chosen, "context", path)
    cluster = _named(document, "clusters", context.get("cluster"), "cluster", path)
    user = _named(document, "users", context.get("user"), "user", path)
    if "auth-provider" in user:
        remedy = "use exec or a token: kubectl create token"
        raise AccessError(f"{path}: auth-provider credentials are not supported; {remedy}")
    server = str(cluster.get("server", ""))
    if not server.startswith(("http://", "https://")):
        raise AccessError(f"{path}: server of the cluster must be a URL of http or https")
    if "@" in server:
        raise AccessError(f"{path}: server of the cluster holds credentials; give the user a token")
    tls = _tls(cluster, user, path.parent) if server.startswith("https:") else None
    plugin = _plugin(user, path, environ, plugins)
    token = plugin.token if plugin is not None else _token(user, path)
    return Access(server.rstrip("/"), str(context.get("namespace") or "default"), token, tls, plugin)


def _plugin(
    user: Mapping[str, Any],
    path: Path,
    environ: Mapping[str, str],
    plugins: dict[ExecCommand, ExecToken],
) -> ExecToken | None:
    if "exec" not in user:
        return None
    try:
        command = exec_command(user["exec"], path.parent, environ)
    except AccessError as error:
        raise AccessError(f"{path}: {error}") from None
    if command not in plugins:
        plugins[command] = ExecToken(command)
    return plugins[command]


def _named(document: Mapping[str, Any], plural: str, name: object, kind: str, path: Path) -> dict[str, Any]:
    for item in document.get(plural) or ():
        if isinstance(item, dict) and item.get("name") == name and isinstance(item.get(kind), dict):
            found: dict[str, Any] = item[kind]
            return found
    raise AccessError(f"{path}: {plural} has no {name!r}; choose one with kubectl config use-context")


def _token(user: Mapping[str, Any], path: Path) -> Callable[[], str]:
    if "tokenFile" in user:
        return _file_token(path.parent / str(user["tokenFile"]))
    token = str(user.get("token", ""))
    return lambda: token


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    authority = _pem(cluster, "certificate-authority", folder)
    context = ssl.create_default_context(cadata=authority.decode() if authority is not None else None)
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _pem(user, "client-certificate", folder), _pem(user, "client-key", folder)
    if certificate is not None and key is not None:
        with tempfile.NamedTemporaryFile() as both:  # OpenSSL reads key pairs from files only
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _pem(holder: Mapping[str, Any], key: str, folder: Path) -> bytes | None:
    """What stands in `KEY-data`, else in the file that `KEY` names."""
    if f"{key}-data" in holder:
        return base64.b64decode(str(holder[f"{key}-data"]), validate=True)
    return (folder / str(holder[key])).read_bytes() if key in holder else None
