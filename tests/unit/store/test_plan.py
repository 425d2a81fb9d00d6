"""Which bytes the server copies itself when objects are put together."""

from itertools import groupby, pairwise

from hypothesis import given
from hypothesis import strategies as st

from archiver.store.plan import COPY_LEAST_BYTES, UPLOAD_BYTES, Copy, Upload, plan_compose

MIB = 1024 * 1024
sizes = st.lists(
    st.integers(0, 40 * MIB) | st.integers(0, 3 * MIB) | st.sampled_from([0, 1, COPY_LEAST_BYTES]), max_size=30
)


@given(sizes)
def test_every_byte_comes_once_and_in_order(lengths: list[int]) -> None:
    steps = plan_compose([(str(number), length) for number, length in enumerate(lengths)])
    ranges = [each for step in steps for each in (step.ranges if isinstance(step, Upload) else (step,))]
    for number, length in enumerate(lengths):
        mine = [each for each in ranges if each.source == str(number)]
        edges = [edge for each in mine for edge in (each.start, each.end)]
        assert edges == sorted(edges)
        assert sum(each.end - each.start for each in mine) == length
        assert all(one.end == two.start for one, two in pairwise(mine))
    assert [int(name) for name, _ in groupby(each.source for each in ranges)] == [
        n for n, size in enumerate(lengths) if size
    ]


@given(sizes)
def test_every_part_but_the_last_is_large_enough_and_none_too_large(lengths: list[int]) -> None:
    steps = plan_compose([(str(number), length) for number, length in enumerate(lengths)])
    for step in steps[:-1]:
        assert (step.size_bytes if isinstance(step, Upload) else step.end - step.start) >= COPY_LEAST_BYTES
    assert all(step.size_bytes <= UPLOAD_BYTES for step in steps if isinstance(step, Upload))


def test_large_objects_do_not_come_through_us() -> None:
    gib = 1024 * MIB
    assert plan_compose([("a", 2 * gib + 5)])[:2] == [Copy("a", 0, gib), Copy("a", gib, 2 * gib)]
    steps = plan_compose([("small", 100), ("large", gib)])
    assert steps[0] == Upload((Copy("small", 0, 100), Copy("large", 0, COPY_LEAST_BYTES - 100)))
    assert steps[1] == Copy("large", COPY_LEAST_BYTES - 100, gib)
