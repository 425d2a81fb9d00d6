"""The kubelet's complaints inside a log: found in any chunking, never found in a container's own words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.errors import KubeNotReady, KubeUnavailable
from archiver.kube.kubelettext import COMPLAINTS, KubeletText

STAMP = b"2026-11-30T21:15:13.000000001Z "
words = [text for text, _ in COMPLAINTS]
log_lines = st.lists(st.sampled_from([b"ok", b"", *words, b"x" * 90]).map(lambda text: STAMP + text + b"\n"))


def read(data: bytes, sizes: list[int]) -> tuple[bytes, str]:
    kubelet, text, start = KubeletText(), b"", 0
    for size in [*sizes, len(data)]:
        text += kubelet.feed(data[start : start + size])
        start += size
    return text + kubelet.flush(), str(kubelet.complaint or "")


@settings(deadline=None)
@given(log_lines, st.lists(st.integers(0, 60)), st.sampled_from([b"", STAMP + b"no end", STAMP]))
def test_log_text_passes_unchanged(lines: list[bytes], sizes: list[int], end: bytes) -> None:
    data = b"".join(lines) + end
    assert read(data, sizes) == (data, "")


@settings(deadline=None)
@given(log_lines, st.lists(st.integers(0, 60)), st.sampled_from(words))
def test_text_ends_where_the_kubelet_complains(lines: list[bytes], sizes: list[int], complaint: bytes) -> None:
    before = b"".join(lines)
    text, said = read(before + complaint + b"containerd://abc\n" + STAMP + b"more\n", sizes)
    assert text == before
    assert complaint.decode() in said


@pytest.mark.parametrize("cut", [b"u", b"unable to retrieve", b"rpc error: code ="])
def test_gives_back_what_only_began_like_a_complaint(cut: bytes) -> None:
    assert read(STAMP + b"a\n" + cut, [1]) == (STAMP + b"a\n" + cut, "")


def test_a_missing_log_is_not_ready_and_a_lost_follower_is_unavailable() -> None:
    missing, lost = KubeletText(), KubeletText()
    assert missing.feed(b"unable to retrieve container logs for containerd://abc") == b""
    assert lost.feed(STAMP + b"x\nfailed to create fsnotify watcher: too many open files") == STAMP + b"x\n"
    assert isinstance(missing.complaint, KubeNotReady)
    assert isinstance(lost.complaint, KubeUnavailable)
