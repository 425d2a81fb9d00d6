"""The decoder of watch lines: any chunking gives the same events, and broken lines are never taken for events."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.kube.watchlines import LINE_LIMIT_BYTES, MalformedWatch, WatchEvent, WatchLines


def line(kind: str, uid: str, version: str, **more: object) -> bytes:
    metadata = {"name": uid, "uid": uid, "resourceVersion": version}
    return json.dumps({"type": kind, "object": {"metadata": metadata, **more}}).encode() + b"\n"


def decode(chunks: list[bytes]) -> list[WatchEvent]:
    lines = WatchLines()
    events = [event for chunk in chunks for event in lines.feed(chunk)]
    lines.flush()
    return events


texts = st.text(max_size=20)
streams = st.lists(
    st.builds(line, st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), st.uuids().map(str), st.just("7"), note=texts)
)


@settings(deadline=None)
@given(streams, st.lists(st.integers(1, 50)))
def test_any_chunking_gives_the_same_events(stream: list[bytes], sizes: list[int]) -> None:
    data = b"".join(stream)
    chunks, start = [], 0
    for size in sizes:
        chunks.append(data[start : start + size])
        start += size
    assert decode([*chunks, data[start:]]) == decode([data])
    assert len(decode([data])) == len(stream)


@settings(deadline=None)
@given(streams.filter(bool), st.data())
def test_a_stream_cut_anywhere_gives_whole_events_only(stream: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(stream)
    cut = data.draw(st.integers(0, len(whole) - 1))
    lines = WatchLines()
    events = list(lines.feed(whole[:cut]))
    assert events == decode([whole])[: len(events)]
    if whole[:cut] and not whole[:cut].endswith(b"\n"):
        with pytest.raises(MalformedWatch, match="in the middle"):
            lines.flush()
    else:
        lines.flush()


def test_gives_the_events_before_a_broken_line() -> None:
    events = WatchLines().feed(line("ADDED", "a", "1") + b"{broken\n" + line("ADDED", "b", "2"))
    assert next(events).object["metadata"]["uid"] == "a"
    with pytest.raises(MalformedWatch):
        next(events)


@pytest.mark.parametrize(
    "text",
    [
        b"[]\n",
        b'"text"\n',
        b'{"type":"ADDED"}\n',
        b'{"type":"ADDED","object":null}\n',
        b'{"type":"INVENTED","object":{}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":1}}}\n',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}\n',
        b"\xff\xfe\n",
    ],
)
def test_refuses_what_is_no_watch_event(text: bytes) -> None:
    with pytest.raises(MalformedWatch):
        list(WatchLines().feed(text))


def test_takes_bookmarks_and_errors_without_identity() -> None:
    text = (
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n{"type":"ERROR","object":{"code":410}}\n'
    )
    assert [event.type for event in decode([text])] == ["BOOKMARK", "ERROR"]


def test_does_not_hold_an_endless_line() -> None:
    lines = WatchLines()
    half = b"x" * (LINE_LIMIT_BYTES // 2 + 1)
    assert list(lines.feed(half)) == []
    with pytest.raises(MalformedWatch, match="longer than"):
        list(lines.feed(half))
