"""The harness and the machine: what it refuses with which words, what it ends, and what it takes away again."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.cluster.api import until
from tests.e2e.cluster.errors import ClusterError
from tests.e2e.cluster.leftovers import mounts_below
from tests.e2e.cluster.network import FENCE, cleaning, kubernetes_chains
from tests.e2e.cluster.prerequisites import Machine, foreign_routes, go_version, lack
from tests.e2e.cluster.process import Identity, Records, Spec, end, identify, is_alive, marked, spawn

FIT = Machine()

SAVED = """\
*nat
:PREROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A KUBE-SERVICES -d 10.90.0.1/32 -p tcp -j KUBE-MARK-MASQ
COMMIT
*filter
:INPUT ACCEPT [0:0]
-A INPUT -p tcp --dport 22 -j ACCEPT
COMMIT
"""

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="processes are identified by Linux's /proc")


class TestWhatIsMissing:
    @pytest.mark.parametrize(
        ("machine", "words"),
        [
            (replace(FIT, system="darwin"), "needs Linux"),
            (replace(FIT, uid=1000), "needs root"),
            (replace(FIT, has_overlay=False), "overlayfs cannot be mounted"),
            (replace(FIT, state=Path("/var/lib/ci/.cluster")), "move the checkout"),
            (replace(FIT, state=Path("/" + "x" * 90)), "too long a path"),
            (replace(FIT, go=None), "Go is not installed"),
            (replace(FIT, go=(1, 19)), "Go 1.19 is too old"),
            (replace(FIT, has_pip=False), "has no pip"),
            (replace(FIT, missing_packages=("runc",), has_apt=False), "install what these Debian packages bring: runc"),
            (replace(FIT, free_bytes=1_500_000_000), "has 1.5 GB free"),
            (replace(FIT, socket_holder=77), "process 77, which is not this harness's"),
            (replace(FIT, foreign_chains=("KUBE-SERVICES",)), "another Kubernetes' rules (KUBE-SERVICES)"),
            (replace(FIT, foreign_routes=("10.89.0.0/24 dev docker0",)), "10.89.0.0/24 dev docker0"),
            (
                replace(FIT, used_ports=(("apiserver", "10.89.0.1:6443"),)),
                "port 10.89.0.1:6443 is in use, and apiserver needs it",
            ),
        ],
    )
    def test_is_one_sentence_that_names_it(self, machine: Machine, words: str) -> None:
        sentence = lack(machine)
        assert sentence is not None
        assert words in sentence
        assert "\n" not in sentence

    def test_is_nothing_on_a_fit_machine(self) -> None:
        assert lack(FIT) is None

    def test_packages_that_apt_can_install_are_not_missing(self) -> None:
        assert lack(replace(FIT, missing_packages=("runc",))) is None

    @pytest.mark.parametrize(
        ("text", "version"),
        [("go version go1.26.8 linux/amd64", (1, 26)), ("go1.25rc1", (1, 25)), ("command not found", None)],
    )
    def test_reads_gos_version(self, text: str, version: tuple[int, int] | None) -> None:
        assert go_version(text) == version

    def test_routes_of_our_own_bridge_are_not_foreign(self) -> None:
        routes = (
            "default via 10.0.0.1 dev eth0\n10.89.0.0/16 dev rja0 proto kernel\n10.90.4.0/24 dev docker0 scope link\n"
        )
        assert foreign_routes(routes) == ("10.90.4.0/24 dev docker0 scope link",)


class TestPacketRules:
    def test_removes_a_kubernetes_and_nothing_else(self) -> None:
        assert cleaning(SAVED).splitlines() == [
            "*nat",
            '-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
            "-F KUBE-SERVICES",
            "-F KUBE-MARK-MASQ",
            "-X KUBE-SERVICES",
            "-X KUBE-MARK-MASQ",
            "COMMIT",
        ]

    def test_removes_the_fence_around_the_bridge(self) -> None:
        inserted = FENCE.replace("-I FORWARD", "-A FORWARD")
        assert cleaning(inserted).splitlines() == [
            "*filter",
            "-D FORWARD -i rja0 ! -o rja0 -j RJA-FENCE",
            "-F RJA-FENCE",
            "-X RJA-FENCE",
            "COMMIT",
        ]

    def test_is_empty_where_there_is_none(self) -> None:
        assert cleaning(SAVED[SAVED.index("*filter") :]) == ""

    def test_finds_the_chains(self) -> None:
        assert list(kubernetes_chains(SAVED)) == ["KUBE-SERVICES", "KUBE-MARK-MASQ"]


def test_mounts_are_found_deepest_first_and_by_whole_names() -> None:
    mountinfo = (
        "20 1 8:1 / / rw - ext4 /dev/a rw\n"
        "21 20 0:5 / /x/.cluster/run rw - tmpfs t rw\n"
        "22 21 0:6 / /x/.cluster/run/with\\040space rw - overlay o rw\n"
        "23 20 0:7 / /x/.cluster-other rw - tmpfs t rw\n"
    )
    assert mounts_below(mountinfo, Path("/x/.cluster")) == ["/x/.cluster/run/with space", "/x/.cluster/run"]


@needs_proc
class TestProcesses:
    def spec(self, tmp_path: Path, script: str) -> Spec:
        return Spec("sleeper", ("sh", "-c", script), tmp_path / "logs/sleeper.log", {"GREETING": "hello"})

    def test_are_recorded_found_and_ended(self, tmp_path: Path) -> None:
        records = Records(tmp_path / "processes", marker=str(tmp_path))
        identity = records.start(self.spec(tmp_path, "echo $GREETING; exec sleep 60"))
        assert records.identity("sleeper") == identity
        until("the greeting", lambda: "hello" in (tmp_path / "logs/sleeper.log").read_text(), seconds=10)
        assert end(identity, grace_seconds=5)
        assert records.identity("sleeper") is None

    def test_start_again_from_their_record(self, tmp_path: Path) -> None:
        records = Records(tmp_path / "processes", marker=str(tmp_path))
        spec = self.spec(tmp_path, "exec sleep 60")
        records.start(spec)
        end(identity := records.start(records.spec("sleeper")), grace_seconds=0)
        for left in marked(str(tmp_path)):
            end(left, grace_seconds=0)
        assert records.spec("sleeper") == spec
        assert not is_alive(identity)

    def test_are_killed_when_they_do_not_heed(self, tmp_path: Path) -> None:
        spec = self.spec(tmp_path, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
        identity = spawn(spec, marker=str(tmp_path))
        until("the trap", lambda: "ready" in spec.log.read_text(), seconds=10)
        assert end(identity, grace_seconds=0.2)

    def test_are_found_by_their_mark_without_a_record(self, tmp_path: Path) -> None:
        identity = spawn(self.spec(tmp_path, "exec sleep 60"), marker=str(tmp_path))
        until("the mark", lambda: identity in set(marked(str(tmp_path))), seconds=10)
        assert identity not in set(marked(str(tmp_path / "other")))
        end(identity, grace_seconds=0)

    def test_a_reused_pid_is_another_process(self) -> None:
        myself = identify(os.getpid())
        assert myself is not None
        assert is_alive(myself)
        assert not is_alive(Identity(myself.pid, myself.start_ticks + 1, myself.boot_id))
        assert not is_alive(replace(myself, boot_id="another boot"))

    def test_a_signal_is_never_sent_to_a_reused_pid(self) -> None:
        received: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
        try:
            myself = identify(os.getpid())
            assert myself is not None
            assert end(replace(myself, start_ticks=0), grace_seconds=0.1)
        finally:
            signal.signal(signal.SIGTERM, before)
        assert received == []


def test_waiting_ends_with_the_last_reason() -> None:
    def refuse() -> bool:
        raise ConnectionRefusedError("refused")

    with pytest.raises(ClusterError, match=r"the API server: not within 0 s \(refused\)"):
        until("the API server", refuse, seconds=0)
