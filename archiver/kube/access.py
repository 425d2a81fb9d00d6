"""Who we are and where the API server is: kubeconfig or service account, with renewal. Not the requests themselves.

The ``kubernetes`` package reads the files and runs exec plugins; nothing else of it is used.
"""

import asyncio
import ssl
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import KUBE_CONFIG_DEFAULT_LOCATION, ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from archiver.errors import UserError

_LOAD_TIMEOUT_SECONDS = 60.0  # an exec plugin may have to open a browser or to call a cloud
_RENEW_AHEAD = timedelta(minutes=5)
_RENEW_PAUSE_SECONDS = 10.0  # a refused token is not renewed more often: a plugin can be slow and rate-limited
_TOKEN_FILE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """Everything that one request needs beside its path."""

    base_url: str
    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None


class Access(Protocol):
    """A source of credentials. ``where`` is for people, ``namespace`` the default one, where there is one."""

    where: str
    namespace: str | None

    async def credentials(self, *, renew: bool = False) -> Credentials:
        """The current credentials; ``renew`` after a 401."""


@dataclass(slots=True)
class PlainAccess:
    """A known URL with an optional bearer token: the sandbox, ``kubectl proxy``, tests."""

    base_url: str
    token: str | None = field(default=None, repr=False)
    where: str = "plain URL"
    namespace: str | None = None

    async def credentials(self, *, renew: bool = False) -> Credentials:
        return Credentials(self.base_url.rstrip("/"), f"Bearer {self.token}" if self.token else None)


class KubeconfigAccess:
    """One context of a kubeconfig. The file is read again after a 401 and before an exec plugin's token expires."""

    def __init__(self, path: str, context: str | None) -> None:
        self._path = path
        self._context = context
        self._lock = asyncio.Lock()
        self._current: Credentials | None = None
        self._expires_at: datetime | None = None
        self._loaded_at = 0.0
        self.where = f"kubeconfig {path}"
        self.namespace: str | None = None

    async def credentials(self, *, renew: bool = False) -> Credentials:
        async with self._lock:
            if self._current is None or self._is_stale(renew):
                await self._load()
            assert self._current is not None
            return self._current

    def _is_stale(self, renew: bool) -> bool:
        if time.monotonic() - self._loaded_at < _RENEW_PAUSE_SECONDS:
            return False
        return renew or (self._expires_at is not None and datetime.now(UTC) > self._expires_at - _RENEW_AHEAD)

    async def _load(self) -> None:
        configuration = Configuration()
        try:
            async with asyncio.timeout(_LOAD_TIMEOUT_SECONDS):
                loader = await load_kube_config(self._path, self._context, configuration)
        except ConfigException as error:
            raise UserError(f"the kubeconfig {self._path} cannot be used{self._of_context()}: {error}") from error
        except TimeoutError as error:
            raise UserError(
                f"the kubeconfig {self._path} gave no credentials within {_LOAD_TIMEOUT_SECONDS:.0f} s"
                f"{self._of_context()}: run its exec plugin by hand"
            ) from error
        context = loader.current_context
        self.where = f"kubeconfig {self._path}, context {context['name']}"
        self.namespace = context["context"].get("namespace")
        self._expires_at = getattr(loader, "exec_plugin_expiry", None)
        self._current = credentials_of(configuration)
        self._loaded_at = time.monotonic()

    def _of_context(self) -> str:
        return f" (context {self._context})" if self._context else ""


class ServiceAccountAccess:
    """The pod's own service account. Its token file is rotated by the kubelet and read again every minute."""

    def __init__(self, token_file: str = SERVICE_TOKEN_FILENAME, ca_file: str = SERVICE_CERT_FILENAME) -> None:
        configuration = Configuration()
        InClusterConfigLoader(token_file, ca_file).load_and_set(configuration)
        self._current = credentials_of(configuration)
        self._token_file = Path(token_file)
        self._read_at = float("-inf")
        self.where = "in-cluster service account"
        namespace_file = self._token_file.with_name("namespace")
        self.namespace = namespace_file.read_text().strip() if namespace_file.is_file() else None

    async def credentials(self, *, renew: bool = False) -> Credentials:
        if renew or time.monotonic() - self._read_at > _TOKEN_FILE_SECONDS:
            token = self._token_file.read_text().strip()  # a small file in memory: no thread needed
            self._current = replace(self._current, authorization=f"Bearer {token}")
            self._read_at = time.monotonic()
        return self._current


def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """As client-go chooses: a named kubeconfig or context, else the default kubeconfig, else the service account."""
    path = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    if kubeconfig or context or any(Path(part).expanduser().is_file() for part in path.split(":") if part):
        return KubeconfigAccess(path, context)
    try:
        return ServiceAccountAccess()
    except ConfigException as error:
        raise UserError(
            f"no Kubernetes cluster is known: there is no kubeconfig at {path} and no service account here; "
            "set KUBECONFIG or pass --context"
        ) from error


def credentials_of(configuration: Any) -> Credentials:
    """Our view of the package's configuration object."""
    return Credentials(
        base_url=str(configuration.host).rstrip("/"),
        authorization=configuration.api_key.get("BearerToken"),
        tls=tls_context(configuration) if str(configuration.host).startswith("https") else None,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


def tls_context(configuration: Any) -> ssl.SSLContext:
    """The cluster's CA and the client's certificate."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Python 3.13 refuses CAs without an authority key id; Kubernetes' own tools make and accept them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    return context
