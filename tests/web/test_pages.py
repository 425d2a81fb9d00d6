"""Pages rendered from hand-built views: what they say, in which order, and that hostile text stays text."""

import html
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser

import httpx
import pytest

from archiver.core.model import Gap, GapReason
from tests.web import samples
from tests.web.sample_reader import SampleReader
from tests.web.serving import application
from web.pages import job, log, log_lines, marks
from web.pages.respond import POLICY

JOB = "/jobs/uid-llama-ft-7b"
LOG = f"{JOB}/attempts/3/logs/logs/driver.log"


@pytest.fixture
def reader() -> SampleReader:
    return SampleReader()


@pytest.fixture
async def client(reader: SampleReader) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=application(reader))
    async with httpx.AsyncClient(transport=transport, base_url="http://archiver.test") as client:
        yield client


async def text(client: httpx.AsyncClient, address: str, *, status: int = 200) -> str:
    answer = await client.get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def words(page: str) -> str:
    """What a person reads, on one line."""
    visible = re.sub(r"<(script|style|head)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", visible)).split())


class Inline(HTMLParser):
    """Collects what a policy without inline script and style forbids."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [f"{tag} {name}" for name in names if name == "style" or name.startswith("on")]


def inline(page: str) -> list[str]:
    parser = Inline()
    parser.feed(page)
    return parser.found


async def test_the_list_begins_with_a_sentence_that_counts(client: httpx.AsyncClient) -> None:
    said = words(await text(client, "/"))
    assert re.search(r"\d+ attempts failed of \d+ in the last 24 hours", said)
    assert "GPU-hours lost" in said
    assert "1 kind never seen before" in said
    assert "evidence of 2 not complete" in said


async def test_a_row_says_who_why_and_the_decisive_line(client: httpx.AsyncClient) -> None:
    said = words(await text(client, "/"))
    row = said[said.index("llama-ft-7b prod") : said.index("nightly-etl prod")]
    assert (
        "prod/ml-a · team language · queue gpu-a" in row.replace(" ·", " ·")
        or "prod/ml-a team language queue gpu-a" in row
    )
    assert "ran 4 m 10 s" in row
    assert "3 attempts · Python module missing · environment · sure (0.97)" in row
    assert "ModuleNotFoundError: No module named 'flash_attn'" in row
    assert "driver:1812" in row


async def test_a_row_leads_to_the_decisive_line_in_its_log(client: httpx.AsyncClient) -> None:
    page = await text(client, "/")
    assert f'href="{LOG}?line=1812#L1812"' in page


async def test_the_list_shows_failures_unless_told_otherwise(client: httpx.AsyncClient) -> None:
    assert "vit-sweep-14" not in await text(client, "/")
    assert "vit-sweep-14" in await text(client, "/?status=succeeded")
    assert "ranker-train" in await text(client, "/?status=all")


async def test_a_chip_takes_away_what_narrows(client: httpx.AsyncClient) -> None:
    page = await text(client, "/?team=vision&namespace=ml-a")
    assert "llama-ft-7b" not in page
    assert re.search(r'<a class="chip" href="/\?namespace=ml-a&amp;since=24h" title="vision">team: vision', page)


async def test_pages_lead_to_older_and_back(client: httpx.AsyncClient) -> None:
    first = await text(client, "/?since=all")
    assert "Newer" not in words(first)
    older = html.unescape(re.search(r'href="([^"]+)" rel="next"', first)[1])  # type: ignore[index]
    second = await text(client, older)
    assert "That is all of them." in second
    assert 'rel="prev"' in second


async def test_an_empty_archive_says_what_to_do_next() -> None:
    transport = httpx.ASGITransport(app=application(SampleReader(())))
    async with httpx.AsyncClient(transport=transport, base_url="http://archiver.test") as client:
        said = words(await text(client, "/"))
    assert "No RayJob has been seen yet" in said
    assert "See whether the watcher is well" in said


async def test_a_list_that_nothing_fits_offers_to_widen_it(client: httpx.AsyncClient) -> None:
    page = await text(client, "/?team=nobody")
    assert "No RayJob fits" in page
    assert '<a href="/?since=all">Show it without narrowing</a>' in page


@pytest.mark.parametrize(
    "address", ["/?since=soon", "/?page_token=foreign", f"{LOG}?line=0", f"{LOG}?at=noon", "/?team=%00"]
)
async def test_an_address_that_makes_no_sense_gets_a_sentence(client: httpx.AsyncClient, address: str) -> None:
    assert "This address cannot be understood" in await text(client, address, status=400)


@pytest.mark.parametrize(
    "address",
    [
        "/jobs/none",
        f"{JOB}/attempts/9",
        f"{JOB}/attempts/x",
        f"{JOB}/attempts/3/logs/none",
        "/a/b/c",
        "/nothing",
        "/a/b/c/d",
    ],
)
async def test_what_is_not_archived_gets_a_page_that_says_so(client: httpx.AsyncClient, address: str) -> None:
    assert "It may never have been archived" in await text(client, address, status=404)


async def test_what_the_api_does_not_have_is_a_problem_document(client: httpx.AsyncClient) -> None:
    for address in ("/api/v1/nothing", "/api/v1/nothing/further"):
        answer = await client.get(address)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_without_a_database_every_page_says_so_and_that_it_passes(
    client: httpx.AsyncClient, reader: SampleReader
) -> None:
    reader.is_down = True
    for address in ("/", JOB, LOG, "/jobs.csv"):
        assert "The archive cannot be read right now" in await text(client, address, status=503)


async def test_a_job_page_opens_with_the_answer(client: httpx.AsyncClient) -> None:
    # how long ago it was depends on how long the tests before took
    said = re.sub(r"failed \d+ m ago", "failed a while ago", words(await text(client, JOB)))
    order = [
        "llama-ft-7b failed a while ago after 4 m 10 s",
        "attempt 3",
        samples.VERDICT.summary,
        "sure (0.97)",
        "Next",
        "What is missing, and why",
        "Timeline",
        "Evidence",
        "On record",
        "The same in a terminal",
    ]
    places = [said.index(part) for part in order]
    assert places == sorted(places)


async def test_a_cited_line_stands_in_place_with_its_neighbours(client: httpx.AsyncClient) -> None:
    page = await text(client, JOB)
    decisive = re.search(r'<li class="is-decisive">.*?</li>', page, re.DOTALL)
    assert decisive
    assert "1812 ModuleNotFoundError: No module named 'flash_attn'" in words(decisive[0])


async def test_what_is_missing_is_said_with_its_reason(client: httpx.AsyncClient) -> None:
    said = words(await text(client, JOB))
    assert "logs/worker-gpu-0.log: lost. The cluster was deleted 9 ms after the first sign of failure." in said
    assert "7 of 9 complete" in said
    assert "safe 1.8 s before the cluster was deleted" in said
    assert "nothing saved" in said


async def test_without_a_verdict_the_page_gives_status_reason_and_the_end_of_the_log(client: httpx.AsyncClient) -> None:
    said = words(await text(client, "/jobs/uid-dedupe-1"))
    assert "The job's own command failed; the driver ended with exit code 1." in said
    assert "KubeRay says: Job entrypoint command failed with exit code 1 The end of" in said
    assert "job failed with exit code 1" in said


async def test_an_attempt_without_any_evidence_says_why(client: httpx.AsyncClient) -> None:
    said = words(await text(client, "/jobs/uid-gone-too-fast"))
    assert "No log of this attempt could be read" in said
    assert "deleted while no archiver was running" in said


async def test_a_running_job_is_not_called_failed(client: httpx.AsyncClient) -> None:
    said = words(await text(client, "/jobs/uid-ranker-train"))
    assert "ranker-train is running" in said
    assert "… growing" in said
    assert "failed 12 m ago" not in said


async def test_what_succeeded_is_given_no_cause(client: httpx.AsyncClient, reader: SampleReader) -> None:
    reader.rows = (samples.row("fine", "succeeded", cause=samples.NCCL, decisive=samples.MAIN.decisive),)
    assert samples.NCCL.title not in await text(client, "/?status=all")
    said = words(await text(client, "/jobs/uid-fine"))
    assert "fine succeeded" in said
    assert "The driver ended well, and Ray called the job a success." in said


async def test_each_attempt_has_its_own_page(client: httpx.AsyncClient) -> None:
    said = words(await text(client, f"{JOB}/attempts/1"))
    assert "failed and was retried" in said
    assert "The head was killed for want of memory." in said


async def test_a_job_is_found_by_its_name(client: httpx.AsyncClient) -> None:
    answer = await client.get("/prod/ml-a/llama-ft-7b")
    assert (answer.status_code, answer.headers["location"]) == (302, JOB)


async def test_a_log_opens_at_its_end_and_says_where_it_is(client: httpx.AsyncClient) -> None:
    page = await text(client, LOG)
    assert "lines 814–1,813 of 1,813 (the end)" in page
    assert 'id="L1813"' in page
    assert 'id="L813"' not in page


async def test_a_line_of_a_log_has_an_address_that_opens_at_it(client: httpx.AsyncClient) -> None:
    page = await text(client, f"{LOG}?line=1812")
    assert '<li id="L1812" class="is-focus is-error is-cited">' in page
    assert f'href="{LOG}?line=1812#L1812"' in page


async def test_a_gap_stands_where_the_text_is_missing(client: httpx.AsyncClient) -> None:
    page = await text(client, f"{LOG}?from=1")
    gap = page.index("14.0 KiB are missing here")
    assert page.index('id="L600"') < gap < page.index('id="L601"')
    assert "the kubelet had rotated the older file away before it was read (at least one file)." in page


async def test_a_progress_bar_shows_its_last_state_and_all_on_request(client: httpx.AsyncClient) -> None:
    page = await text(client, f"{LOG}?from=1")
    assert "Downloading shards: 100%|##########| 20 earlier states" in words(page)
    before, _, states = page.partition('<details class="states">')
    assert "shards:  50%" not in before
    assert "shards:  50%" in states
    assert "100%|##########|</li>" in await text(client, f"{LOG}?from=1&states=1")


async def test_times_are_shown_on_request_and_kept_by_every_link(client: httpx.AsyncClient) -> None:
    page = await text(client, f"{LOG}?from=1&times=1&wrap=1")
    assert re.search(r'<time data-at="[^"]+" title="\d{4}-\d\d-\d\dT[\d:]+\.\d{9}Z">\d\d:\d\d:\d\d\.\d{3}</time>', page)
    following = html.unescape(re.search(r'href="([^"]+)" rel="next"', page)[1])  # type: ignore[index]
    assert following == f"{LOG}?from=1001&wrap=1&times=1"
    assert '<input type="hidden" name="wrap" value="1"><input type="hidden" name="times" value="1">' in page


async def test_a_log_of_which_nothing_was_saved_says_why(client: httpx.AsyncClient) -> None:
    said = words(await text(client, f"{JOB}/attempts/3/logs/logs/worker-gpu-0.log"))
    assert "There is no text here The cluster was deleted 9 ms after the first sign of failure." in said


async def test_hostile_text_stays_text_on_every_page(client: httpx.AsyncClient) -> None:
    for address in (
        "/",
        f"{LOG}?from=1",
        f"{LOG}?from=1&states=1",
        "/jobs/uid-hostile-team",
        "/?q=<script>alert(1)</script>",
        "/?team=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    ):
        page = await text(client, address)
        assert "<script>alert" not in page
        assert "<img" not in page
    assert samples.HOSTILE in words(await text(client, f"{LOG}?from=1"))


async def test_no_page_needs_inline_script_or_style(client: httpx.AsyncClient) -> None:
    for address in ("/", JOB, f"{LOG}?times=1", "/health", "/jobs/none"):
        answer = await client.get(address)
        assert answer.headers["content-security-policy"] == POLICY
        assert inline(answer.text) == []
    assert "unsafe" not in POLICY


async def test_the_list_as_csv_has_every_row_and_no_formula() -> None:
    rows = (samples.row("one", team=samples.Attribution("=cmd()", "label:team")), samples.row("two"))
    transport = httpx.ASGITransport(app=application(SampleReader(rows)))
    async with httpx.AsyncClient(transport=transport, base_url="http://archiver.test") as client:
        lines = (await client.get("/jobs.csv")).text.splitlines()
    assert lines[0].startswith("at,uid,cluster")
    assert [line.split(",")[1] for line in lines[1:]] == ["uid-one", "uid-two"]
    assert "'=cmd()" in lines[1]


async def test_health_is_a_sentence(client: httpx.AsyncClient, reader: SampleReader) -> None:
    assert "Working, but the evidence of 1 attempt was lost." in await text(client, "/health")
    reader.is_well = False
    said = words(await text(client, "/health"))
    assert "Not well: Object store does not work." in said
    assert "✕ broken 403: the key may not read s3://evidence" in said


async def test_every_page_gives_the_same_in_a_terminal(client: httpx.AsyncClient) -> None:
    said = words(await text(client, JOB))
    assert "archiver show uid-llama-ft-7b --attempt 3" in said
    assert "kubectl -n ml-a get rayjob llama-ft-7b -o yaml" in said


def test_a_colour_becomes_a_class_and_text_is_escaped() -> None:
    shown = marks.line_markup(b"\x1b[1;31m<b>\x1b[0m & \xff")
    markup, hidden = shown.markup, shown.hidden_states
    assert markup == '<span class="a-bold f1">&lt;b&gt;</span> &amp; <span class="raw">\\xff</span>'
    assert hidden == 0


def test_inverse_text_has_a_ground_of_its_own() -> None:
    markup = marks.line_markup(b"\x1b[7mtext").markup
    assert markup == '<span class="b15">text</span>'


def test_a_gap_before_the_first_line_is_shown_first() -> None:
    window = samples_window(Gap(GapReason.ARCHIVER_DOWN, "", 0))
    eyes = log_lines.Eyes.of(log.LogQuery(), ())
    shown = list(log_lines.lines(log.LogAddress("u", 1, "logs/x.log"), log.LogQuery(), window, eyes))
    assert [bool(line.gap) for line in shown] == [True, False, False]
    assert shown[0].gap == "Something is missing here: no archiver was running."


def samples_window(*gaps: Gap) -> log.LogWindow:
    lines = tuple(samples.log_lines([b"one", b"two"]))
    return log.LogWindow(samples.artifact("logs/x.log"), lines, gaps, 2, 8, None, None)


def test_the_timeline_hides_nothing_that_went_wrong() -> None:
    entries = samples.timeline()
    course = job.course(entries, whole=False)
    assert not course.is_whole
    assert all(entry in course.entries for entry in entries if entry.severity.value != "info")
    assert job.course(entries, whole=True).is_whole


def test_a_line_of_ten_megabytes_is_shown_cut() -> None:
    shown = marks.line_markup(b"<" * 10_000_000)
    assert shown.is_cut
    assert len(shown.markup) == marks.LINE_BYTES * len("&lt;")


def test_what_was_found_is_marked_across_colours_and_stays_text() -> None:
    shown = marks.line_markup("ä\x1b[31m<b>\x1b[0m".encode(), marking=lambda line: [(0, 3)])
    assert shown.markup == '<mark>ä</mark><mark><span class="f1">&lt;</span></mark><span class="f1">b&gt;</span>'
