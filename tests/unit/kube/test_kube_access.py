"""Kubeconfigs and service accounts: every way to say who we are, and clear words where none works."""

import asyncio
import base64
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from archiver.errors import UserError
from archiver.kube import access as access_module
from archiver.kube.access import KubeconfigAccess, ServiceAccountAccess, find_access

CA = Path(__file__).parents[2] / "fakes" / "kube" / "ca.pem"


def kubeconfig(path: Path, user: dict[str, Any], *, server: str = "http://127.0.0.1:1", **cluster: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "other-token"}}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "team-a"}},
            {"name": "second", "context": {"cluster": "c", "user": "other"}},
        ],
        "current-context": "main",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


async def test_reads_the_current_context(tmp_path: Path) -> None:
    access = KubeconfigAccess(kubeconfig(tmp_path / "config", {"token": "abc"}, server="http://127.0.0.1:1/k8s/"), None)
    credentials = await access.credentials()
    assert credentials.base_url == "http://127.0.0.1:1/k8s"
    assert credentials.authorization == "Bearer abc"
    assert access.namespace == "team-a"
    assert access.where.endswith("config, context main")


async def test_reads_another_context_when_asked(tmp_path: Path) -> None:
    access = KubeconfigAccess(kubeconfig(tmp_path / "config", {"token": "abc"}), "second")
    assert (await access.credentials()).authorization == "Bearer other-token"


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        await KubeconfigAccess(kubeconfig(tmp_path / "config", {"token": "abc"}), "nowhere").credentials()


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no-such-file"):
        await KubeconfigAccess(str(tmp_path / "no-such-file"), None).credentials()


async def test_a_kubeconfig_that_is_no_kubeconfig_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("just: text")
    with pytest.raises(UserError, match="cannot be used"):
        await KubeconfigAccess(str(path), None).credentials()


async def test_uses_the_clusters_authority_and_server_name(tmp_path: Path) -> None:
    ca = base64.b64encode(CA.read_bytes()).decode()
    cluster = {"certificate-authority-data": ca, "tls-server-name": "kubernetes.local", "proxy-url": "http://p:1"}
    path = kubeconfig(tmp_path / "config", {"token": "abc"}, server="https://127.0.0.1:1", **cluster)
    credentials = await KubeconfigAccess(path, None).credentials()
    assert credentials.tls is not None
    assert len(credentials.tls.get_ca_certs()) == 1
    assert (credentials.server_name, credentials.proxy) == ("kubernetes.local", "http://p:1")


async def test_a_new_token_is_read_after_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    access = KubeconfigAccess(kubeconfig(path, {"token": "old"}), None)
    await access.credentials()
    kubeconfig(path, {"token": "new"})
    assert (await access.credentials(renew=True)).authorization == "Bearer old", "not twice within a few seconds"
    monkeypatch.setattr(access_module, "_RENEW_PAUSE_SECONDS", 0.0)
    assert (await access.credentials()).authorization == "Bearer old"
    assert (await access.credentials(renew=True)).authorization == "Bearer new"


def plugin(tmp_path: Path, expires_at: datetime) -> dict[str, Any]:
    """An exec plugin that counts how often it is asked."""
    status = {"token": "from-plugin-$N", "expirationTimestamp": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    count = tmp_path / "count"
    script = tmp_path / "plugin.sh"
    text = json.dumps(answer).replace('"', '\\"')
    script.write_text(f'#!/bin/sh\nprintf x >> {count}\nN=$(wc -c < {count} | tr -d " ")\necho "{text}"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}}


async def test_asks_an_exec_plugin_once_while_its_token_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_module, "_RENEW_PAUSE_SECONDS", 0.0)
    user = plugin(tmp_path, datetime.now(UTC) + timedelta(hours=1))
    access = KubeconfigAccess(kubeconfig(tmp_path / "config", user), None)
    found = await asyncio.gather(*(access.credentials() for _ in range(3)))
    assert {credentials.authorization for credentials in found} == {"Bearer from-plugin-1"}


async def test_asks_an_exec_plugin_again_before_its_token_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "_RENEW_PAUSE_SECONDS", 0.0)
    user = plugin(tmp_path, datetime.now(UTC) + timedelta(seconds=30))
    access = KubeconfigAccess(kubeconfig(tmp_path / "config", user), None)
    assert (await access.credentials()).authorization == "Bearer from-plugin-1"
    assert (await access.credentials()).authorization == "Bearer from-plugin-2"


def service_account(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceAccountAccess:
    (folder / "token").write_text("token-1\n")
    (folder / "namespace").write_text("archiver\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return ServiceAccountAccess(str(folder / "token"), str(CA))


async def test_reads_the_service_account_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = service_account(tmp_path, monkeypatch)
    credentials = await access.credentials()
    assert (credentials.base_url, credentials.authorization) == ("https://10.96.0.1:443", "Bearer token-1")
    assert access.namespace == "archiver"


async def test_reads_a_rotated_token_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = service_account(tmp_path, monkeypatch)
    await access.credentials()
    (tmp_path / "token").write_text("token-2")
    assert (await access.credentials()).authorization == "Bearer token-1", "cached for a minute"
    assert (await access.credentials(renew=True)).authorization == "Bearer token-2"


def test_says_so_when_no_cluster_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(access_module, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(UserError, match="set KUBECONFIG or pass --context"):
        find_access()


def test_credentials_do_not_print_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "token-1" not in repr(asyncio.run(service_account(tmp_path, monkeypatch).credentials()))
