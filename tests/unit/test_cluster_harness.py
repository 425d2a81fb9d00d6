"""The pure parts of the real cluster's harness: what is kept, who holds the lock, what is written, what is said."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import NotRunning, bucket, cache, config, connect
from tests.e2e.cluster import layout as at
from tests.e2e.cluster.commands import run
from tests.e2e.cluster.connection import S3, Connection, Postgres
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.images import Image, pack, write_archive
from tests.e2e.cluster.layers import debian_mirror, debian_suite
from tests.e2e.cluster.layout import Layout
from tests.e2e.cluster.lock import held

HOLDER = """
import sys, pathlib
from tests.e2e.cluster.lock import held
with held(pathlib.Path(sys.argv[1]), wait_seconds=0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path, tmp_path / "cache")


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class TestHashOfInputs:
    def test_is_the_same_in_another_place_and_at_another_time(self, tmp_path: Path) -> None:
        one, other = (tree(tmp_path / name, {"go.mod": "module x", "kube/main.go": "package main"}) for name in "ab")
        os.utime(other / "go.mod", (1, 1))
        assert cache.input_hash(folders=(one,)) == cache.input_hash(folders=(other,))

    @pytest.mark.parametrize(
        "files",
        [
            {"go.mod": "module y", "main.go": "m"},
            {"go.mod": "module x", "other.go": "m"},
            {"go.mod": "module x", "main.go": "m", "new.go": ""},
        ],
    )
    def test_changes_with_content_name_and_number_of_files(self, tmp_path: Path, files: dict[str, str]) -> None:
        before = tree(tmp_path / "before", {"go.mod": "module x", "main.go": "m"})
        assert cache.input_hash(folders=(before,)) != cache.input_hash(folders=(tree(tmp_path / "after", files),))

    def test_keeps_neighbouring_texts_apart(self) -> None:
        assert cache.input_hash(texts=("ab", "c")) != cache.input_hash(texts=("a", "bc"))

    def test_needs_a_folder_with_files(self, tmp_path: Path) -> None:
        with pytest.raises(ClusterError, match="nothing to build from"):
            cache.input_hash(folders=(tmp_path / "absent",))

    def test_ignores_byte_code(self, tmp_path: Path) -> None:
        folder = tree(tmp_path / "x", {"a.py": "1"})
        before = cache.input_hash(folders=(folder,))
        tree(folder, {"__pycache__/a.pyc": "junk"})
        assert cache.input_hash(folders=(folder,)) == before


class TestCache:
    def test_builds_once(self, tmp_path: Path) -> None:
        built: list[Path] = []
        for _ in range(2):
            kept = cache.cached(tmp_path, "kube", "1", lambda target: built.append(target))
        assert kept == tmp_path / "kube-1"
        assert len(built) == 1

    def test_keeps_nothing_of_a_failed_build(self, tmp_path: Path) -> None:
        def fail(target: Path) -> None:
            (target / "half").write_text("x")
            raise ClusterError("no compiler")

        with pytest.raises(ClusterError):
            cache.cached(tmp_path, "kube", "1", fail)
        assert list(tmp_path.iterdir()) == []

    def test_prunes_what_a_killed_build_left_and_what_is_old(self, tmp_path: Path) -> None:
        for name in (".kube-x1", "kube-old", "kube-new"):
            (tmp_path / name).mkdir()
        now = (tmp_path / "kube-new").stat().st_mtime
        os.utime(tmp_path / "kube-old", (now - 15 * 86400,) * 2)
        cache.prune(tmp_path, now=now)
        assert [path.name for path in tmp_path.iterdir()] == ["kube-new"]


class TestCommands:
    def test_give_what_was_printed(self) -> None:
        assert run("sh", "-c", "cat; echo $X", stdin="in ", env={"X": "out"}) == "in out\n"

    def test_fail_with_the_end_of_what_was_said(self) -> None:
        with pytest.raises(ClusterError, match=r"ended with 3:\nwhy"):
            run("sh", "-c", "echo why >&2; exit 3")

    def test_say_what_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ClusterError, match="the program no-such-program is not installed"):
            run("no-such-program")
        with pytest.raises(ClusterError, match=r"there is no folder .*absent"):
            run("true", cwd=tmp_path / "absent")

    def test_do_not_outlive_their_time(self) -> None:
        with pytest.raises(ClusterError, match="did not end within"):
            run("sleep", "60", timeout=0.1)


class TestLock:
    def test_names_the_process_that_holds_it(self, tmp_path: Path) -> None:
        lock = tmp_path / "state/lock"
        root = Path(__file__).parents[2]
        argv = [sys.executable, "-c", HOLDER, str(lock)]
        with subprocess.Popen(argv, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(ClusterError, match=f"process {holder.pid} "), held(lock, wait_seconds=0):
                pytest.fail("two held one lock")
            holder.communicate(b"")
        with held(lock, wait_seconds=0):
            assert lock.read_text() == f"{os.getpid()}\n"

    def test_dies_with_its_holder(self, tmp_path: Path) -> None:
        lock = tmp_path / "lock"
        argv = [sys.executable, "-c", HOLDER, str(lock)]
        with subprocess.Popen(
            argv, cwd=Path(__file__).parents[2], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            holder.kill()
        with held(lock, wait_seconds=0):
            assert lock.exists()


class TestConfiguration:
    def test_kubelet_rotates_as_by_default_and_accepts_this_kernel(self, layout: Layout) -> None:
        kubelet = yaml.safe_load(config.kubelet(layout))
        assert (kubelet["containerLogMaxSize"], kubelet["containerLogMaxFiles"]) == ("10Mi", 5)
        assert kubelet["failCgroupV1"] is False
        assert kubelet["containerRuntimeEndpoint"] == f"unix://{layout.state}/run/containerd.sock"
        assert kubelet["makeIPTablesUtilChains"] is False

    def test_containerd_keeps_everything_in_the_state_folder(self, layout: Layout) -> None:
        text = config.containerd(layout, Path("/usr/lib/cni"))
        assert "restrict_oom_score_adj = true" in text
        for key in ("root", "state", "address"):
            values = [line.split('"')[1] for line in text.splitlines() if line.startswith(f"{key} = ")]
            assert values
            assert all(value.startswith(f"{layout.state}/") for value in values)

    def test_pods_have_no_way_out_of_the_machine(self, layout: Layout) -> None:
        (bridge,) = json.loads(config.cni(layout))["plugins"]
        assert (bridge["bridge"], bridge["ipMasq"]) == (at.BRIDGE, False)

    def test_dns_asks_nobody_else(self, layout: Layout) -> None:
        assert "forward" not in config.corefile(layout)

    def test_only_the_administrator_is_a_master(self) -> None:
        lines = config.token_file({role: f"t-{role}" for role in config.ROLES}).splitlines()
        assert [line.split(",")[1] for line in lines if "system:masters" in line] == ["admin"]
        assert 't-norights,norights,norights,""' in lines

    def test_kubeconfig_verifies_once_there_is_a_certificate(self) -> None:
        (before,) = yaml.safe_load(config.kubeconfig("t", None))["clusters"]
        (after,) = yaml.safe_load(config.kubeconfig("t", b"pem"))["clusters"]
        assert before["cluster"]["insecure-skip-tls-verify"] is True
        assert after["cluster"] == {"server": "https://10.89.0.1:6443", "certificate-authority-data": "cGVt"}


class TestImages:
    def test_archive_holds_a_shared_layer_once(self, tmp_path: Path) -> None:
        layer = pack(tree(tmp_path / "root", {"bin/a": "a"}), tmp_path / "layer.tar")
        images = [Image("cluster.local/a:1", (layer,)), Image("cluster.local/b:1", (layer,), ("/bin/a",))]
        out = io.BytesIO()
        write_archive(images, out)
        out.seek(0)
        with tarfile.open(fileobj=out) as archive:
            names = archive.getnames()
            index = json.load(archive.extractfile("manifest.json") or io.BytesIO())
        assert names.count(f"{layer.digest}/layer.tar") == 1
        assert [entry["RepoTags"] for entry in index] == [["cluster.local/a:1"], ["cluster.local/b:1"]]
        assert {entry["Config"] for entry in index} < set(names)

    def test_id_changes_with_the_entrypoint(self, tmp_path: Path) -> None:
        layer = pack(tree(tmp_path / "root", {"a": "a"}), tmp_path / "layer.tar")
        image = Image("cluster.local/a:1", (layer,))
        assert image.id != replace(image, entrypoint=("/a",)).id

    def test_layer_of_the_same_files_has_the_same_digest(self, tmp_path: Path) -> None:
        folder = tree(tmp_path / "root", {"b": "b", "a/c": "c"})
        assert pack(folder, tmp_path / "1.tar").digest == pack(folder, tmp_path / "2.tar").digest


class TestDebian:
    TARGETS = "mirror+file:/a|bookworm-updates|main\nmirror+file:/b|bookworm|contrib\nmirror+file:/c|bookworm|main\n"

    def test_mirror_is_the_machines_own(self) -> None:
        assert debian_mirror(self.TARGETS, "bookworm") == "mirror+file:/c"

    def test_no_source_is_said(self) -> None:
        with pytest.raises(ClusterError, match="no source for trixie/main"):
            debian_mirror(self.TARGETS, "trixie")

    def test_suite_is_the_machines_own(self) -> None:
        assert debian_suite("ID=debian\nVERSION_CODENAME=bookworm\n") == "bookworm"
        with pytest.raises(ClusterError, match="VERSION_CODENAME"):
            debian_suite("ID=other\n")


class TestConnect:
    CONNECTION = Connection(
        kubeconfig=Path("/k"),
        kubeconfig_norights=Path("/n"),
        s3=S3("http://a", "http://b", "k", "s", "bucket"),
        postgres=Postgres("postgresql://a", "postgresql://b"),
        images={"archiver": "cluster.local/archiver:dev"},
        gpu_resource="nvidia.com/gpu",
        is_harness=True,
        kuberay="1.6.2",
    )

    def test_document_and_connection_are_inverse(self) -> None:
        assert Connection.from_json(json.loads(json.dumps(self.CONNECTION.to_json()))) == self.CONNECTION

    def test_finds_the_running_harness(self, layout: Layout) -> None:
        layout.state.mkdir()
        layout.env.write_text(json.dumps({"connection": self.CONNECTION.to_json()}))
        assert connect(layout, {}) == self.CONNECTION
        assert connect(layout, {"KUBECONFIG": str(layout.kubeconfig)}) == self.CONNECTION

    def test_says_how_to_start_one(self, layout: Layout) -> None:
        with pytest.raises(NotRunning, match="make cluster"):
            connect(layout, {})

    def test_takes_another_cluster_from_the_environment(self, layout: Layout) -> None:
        environ = {
            "KUBECONFIG": "/other",
            "ARCHIVER_E2E_S3_ENDPOINT": "http://s3",
            "ARCHIVER_E2E_S3_ACCESS_KEY": "k",
            "ARCHIVER_E2E_S3_SECRET_KEY": "s",
            "ARCHIVER_E2E_POSTGRES_DSN": "postgresql://p",
            "ARCHIVER_E2E_IMAGES": "archiver=r/a:1, ray-2.52.1=r/ray:2.52.1",
        }
        found = connect(layout, environ)
        assert found.kubeconfig == Path("/other")
        assert found.s3.pod_endpoint == "http://s3"
        assert found.images == {"archiver": "r/a:1", "ray-2.52.1": "r/ray:2.52.1"}
        assert not found.is_harness

    def test_names_every_variable_that_is_missing(self, layout: Layout) -> None:
        with pytest.raises(NotRunning, match=r"ARCHIVER_E2E_S3_ENDPOINT.*ARCHIVER_E2E_IMAGES"):
            connect(layout, {"KUBECONFIG": "/other", "ARCHIVER_E2E_POSTGRES_DSN": "postgresql://p"})


def test_signature_agrees_with_the_reference_implementation() -> None:
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    headers = bucket.sign(
        "PUT", "127.0.0.1:39000", "/b", access="a", secret="s", now=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    request = AWSRequest("PUT", "http://127.0.0.1:39000/b", headers={"X-Amz-Content-SHA256": bucket.EMPTY})
    request.context["timestamp"] = headers["x-amz-date"]
    request.headers["X-Amz-Date"] = headers["x-amz-date"]
    auth = S3SigV4Auth(Credentials("a", "s"), "s3", bucket.REGION)
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    assert headers["authorization"].endswith(f"Signature={signature}")
