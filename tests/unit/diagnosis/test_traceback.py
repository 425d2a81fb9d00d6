"""Tracebacks of every shape that Python and Ray print, as structure."""

from hypothesis import given
from hypothesis import strategies as st

from archiver.diagnosis.lines import blocks, clean, parse_time
from archiver.diagnosis.traceback import Trace, TraceReader

CHAIN = """\
Traceback (most recent call last):
  File "/home/ray/job/a.py", line 5, in load
    return json.loads("{bad")
           ^^^^^^^^^^^^^^^^^^
  File "/usr/lib/python3.11/json/__init__.py", line 346, in loads
    return x
json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/ray/job/a.py", line 12, in <module>
    main()
RuntimeError: could not load config
"""
RAY = """\
Traceback (most recent call last):
  File "/home/ray/job/t.py", line 13, in <module>
    print(ray.get(refs))
  File "/home/ray/anaconda3/lib/python3.11/site-packages/ray/_private/worker.py", line 1053, in get_objects
    raise value.as_instanceof_cause()
ray.exceptions.RayTaskError(ValueError): \x1b[36mray::stage()\x1b[39m (pid=892, ip=10.0.0.2)
ray.exceptions.RayTaskError(KeyError): \x1b[36mray::parse()\x1b[39m (pid=920, ip=10.0.0.2)
  File "/home/ray/job/t.py", line 5, in parse
    return int(row["value"])
KeyError: 'value'

The above exception was the direct cause of the following exception:

\x1b[36mray::stage()\x1b[39m (pid=892, ip=10.0.0.2)
  File "/home/ray/job/t.py", line 11, in stage
    raise ValueError("bad shard") from e
ValueError: bad shard 1
"""
CONTEXT = CHAIN.replace(
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/ray/job/g.py", line 3, in <module>
  |     raise ExceptionGroup("two", errors)
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/ray/job/g.py", line 7, in one
    |     f()
    | ValueError: first
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/home/ray/job/g.py", line 9, in two
    |     g()
    | TypeError: second
    +------------------------------------
"""


def read(text: str) -> list[Trace]:
    reader = TraceReader()
    found = [
        trace for number, raw in enumerate(text.split("\n"), 1) for trace in reader.feed(number, clean(raw.encode()))
    ]
    return [*found, *reader.flush()]


def test_the_root_of_a_direct_chain_is_its_first_cause() -> None:
    (trace,) = read(CHAIN)
    assert [raised.name for raised in trace.chain] == ["JSONDecodeError", "RuntimeError"]
    assert trace.root.name == "JSONDecodeError"
    assert trace.root.line == 7
    assert [frame.function for frame in trace.app_frames] == ["load"]


def test_the_root_of_an_implicit_context_is_its_last_exception() -> None:
    (trace,) = read(CONTEXT)
    assert trace.root.name == "RuntimeError"


def test_ray_wrappers_give_way_to_the_error_inside() -> None:
    (trace,) = read(RAY)
    assert trace.root.name == "KeyError"
    assert trace.root.message == "'value'"
    assert trace.app_frames[-1].function == "parse"


def test_the_root_of_a_group_is_its_first_member() -> None:
    (trace,) = read(GROUP)
    assert [raised.name for raised in trace.chain] == ["ExceptionGroup", "ValueError", "TypeError"]
    assert trace.root.message == "first"


def test_lines_of_two_workers_may_be_mixed() -> None:
    one = [f"(Model pid=1, ip=10.0.0.1) {line}" for line in CHAIN.split("\n")]
    two = [f"[rank3]: {line}" for line in RAY.split("\n")]
    mixed = [line for pair in zip(one, two, strict=False) for line in pair]
    traces = {trace.who: trace.root.name for trace in read("\n".join(mixed))}
    assert traces["Model pid=1, ip=10.0.0.1"] == "JSONDecodeError"
    assert traces["3"] == "KeyError"


def test_an_ignored_exception_is_marked() -> None:
    ignored = "Exception ignored in: <function A.__del__>\n"
    text = f'{ignored}Traceback (most recent call last):\n  File "/a.py", line 1, in f\nTypeError: x\n'
    (trace,) = read(text)
    assert trace.is_ignored


def test_the_repeat_counter_is_read_and_taken_off() -> None:
    line = clean(b"\x1b[36m(f pid=7, ip=10.0.0.3)\x1b[0m disk is slow \x1b[32m [repeated 12x across cluster]\x1b[0m")
    assert (line.text, line.who, line.repeated) == ("disk is slow", "f pid=7, ip=10.0.0.3", 12)


def test_colours_without_their_escape_are_taken_off() -> None:
    assert clean(b"ray.exceptions.RayTaskError(NameError): [36mray::f() [39m (pid=1)").text.endswith(
        "ray::f()  (pid=1)"
    )


def test_times_are_read_with_and_without_a_zone() -> None:
    assert parse_time("2026-11-30T19:20:38.5Z") == parse_time("2026-11-30 19:20:38,500")
    assert parse_time("2026-11-30T21:20:38.5+02:00") == parse_time("2026-11-30T19:20:38.5Z")
    assert parse_time("9999-99-99 99:99:99") is None


@given(st.lists(st.binary(max_size=60)), st.integers(min_value=1, max_value=40))
def test_any_chunking_gives_the_same_blocks(chunks: list[bytes], size: int) -> None:
    whole = list(blocks([b"".join(chunks)], size))
    assert list(blocks(chunks, size)) == whole
    assert b"".join(whole) == b"".join(chunks)
    assert all(len(block) <= size for block in whole)


@given(st.lists(st.sampled_from([*CHAIN.split("\n"), *RAY.split("\n"), *GROUP.split("\n"), "noise", "", "\x00\xff"])))
def test_any_order_of_lines_is_read_without_an_error(lines: list[str]) -> None:
    assert all(trace.root in trace.chain for trace in read("\n".join(lines)))


def test_a_traceback_whose_header_was_cut_off_is_read() -> None:
    (trace,) = read("\n".join(CHAIN.split("\n")[1:7]))
    assert trace.root.headline == "json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)"
    assert [frame.function for frame in trace.root.frames] == ["load", "loads"]
