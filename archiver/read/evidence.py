"""The artifacts of one attempt in the bucket: their text, also of those that still grow and no manifest lists yet."""

from collections.abc import AsyncIterator
from dataclasses import replace

from archiver.core import keys
from archiver.core.lines import to_time
from archiver.core.manifest import Manifest, ManifestState
from archiver.core.model import Artifact, ArtifactKind, Completeness
from archiver.errors import StoreUnavailable
from archiver.index.queries import StoredAttempt
from archiver.ports import ObjectStore
from archiver.read import logs
from archiver.read.assemble import artifact_view
from archiver.read.text import LogText, TextOpener, TextPlace
from archiver.read.views import ArtifactView, LogWindow
from archiver.read.windows import ByteRange, RawLog, Window
from archiver.store.parts import unsealed_names

DOCUMENT_BYTES = 32 * 1024 * 1024
_GROWING = "still growing"
_KINDS = (("events/", ArtifactKind.KUBE_EVENTS), ("kube/", ArtifactKind.KUBE_OBJECTS), ("ray/", ArtifactKind.RAY_STATE))


class Evidence:
    """Reads artifacts of attempts that the index knows. One for all requests."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._texts = TextOpener(store)

    async def with_live(self, stored: StoredAttempt) -> StoredAttempt:
        """The attempt with the streams that are in the store already; only an open one can have some."""
        manifest = stored.manifest
        if manifest.state is not ManifestState.OPEN:
            return stored
        listed = {artifact.name for artifact in manifest.artifacts if artifact.key}
        names = [name for name in await unsealed_names(self._store, _prefix(stored)) if name not in listed]
        kept = tuple(artifact for artifact in manifest.artifacts if artifact.name not in names)
        growing = tuple(_growing(name, manifest) for name in names)
        return replace(stored, manifest=replace(manifest, artifacts=(*kept, *growing)))

    async def window(self, stored: StoredAttempt, name: str, window: Window) -> LogWindow | None:
        """Some lines. None where the attempt has no such artifact."""
        try:
            return await self._window(stored, name, window)
        except StoreUnavailable:
            # a log that grows may be sealed between the look at its parts and their reading
            return await self._window(stored, name, window)

    async def _window(self, stored: StoredAttempt, name: str, window: Window) -> LogWindow | None:
        found = await self.open(stored, name)
        if found is None:
            return None
        view, text = found
        wanted = await logs.plan(self._store, text, window)
        lines, is_cut_short = await logs.read_lines(self._store, text, wanted)
        first, last = wanted.first, lines[-1].number if lines else wanted.first - 1
        size = max(1, wanted.last - wanted.first + 1)
        return LogWindow(
            artifact=view,
            lines=lines,
            gaps=tuple(gap for gap in view.gaps if first - 1 <= gap.at_line <= max(last, first - 1)),
            total_lines=text.total_lines,
            total_bytes=text.total_bytes,
            previous_line=max(1, first - size) if first > 1 and text.total_lines else None,
            next_line=last + 1 if lines and last < text.total_lines else None,
            focus_line=wanted.focus,
            is_bounded=wanted.is_bounded or is_cut_short,
        )

    async def raw(self, stored: StoredAttempt, name: str, byte_range: ByteRange | None) -> RawLog | None:
        """The bytes, or a range of them."""
        found = await self.open(stored, name)
        if found is None:
            return None
        view, text = found
        span = logs.resolve(byte_range, text.total_bytes)
        length = span.end - span.start if span.is_satisfiable else 0
        chunks = logs.read_span(self._store, text, span)
        return RawLog(view, span.start, length, text.total_bytes, chunks, span.is_satisfiable)

    async def document(self, stored: StoredAttempt, name: str) -> tuple[bytes, bool] | None:
        """The first DOCUMENT_BYTES of an artifact, and whether that is not all of it."""
        found = await self.open(stored, name)
        if found is None:
            return None
        _, text = found
        chunks = logs.read_span(self._store, text, logs.Span(0, min(text.total_bytes, DOCUMENT_BYTES)))
        return await _joined(chunks), text.total_bytes > DOCUMENT_BYTES

    async def open(self, stored: StoredAttempt, name: str) -> tuple[ArtifactView, LogText] | None:
        """An artifact that was lost is an empty text, so that a page can say why."""
        artifact = next((each for each in stored.manifest.artifacts if each.name == name), None)
        is_open = stored.manifest.state is ManifestState.OPEN
        if artifact is None and not is_open:
            return None
        known = artifact if artifact is not None and artifact.key else None
        text = await self._texts.open(TextPlace(_prefix(stored), name, known)) if known or is_open else None
        if text is None:
            return (artifact_view(artifact), LogText(())) if artifact is not None else None
        return _view(artifact or _growing(name, stored.manifest), text), text


def _view(artifact: Artifact, text: LogText) -> ArtifactView:
    """Of a growing artifact, what its parts say."""
    if not text.is_live:
        return artifact_view(artifact)
    first, last = text.times
    growing = replace(
        artifact,
        raw_bytes=text.total_bytes,
        stored_bytes=text.stored_bytes,
        lines=text.total_lines,
        sha256="",
        gaps=text.gaps,
        first_time=to_time(first),
        last_time=to_time(last),
    )
    return artifact_view(growing, live=True)


def _growing(name: str, manifest: Manifest) -> Artifact:
    known = next((each for each in manifest.artifacts if each.name == name), None)
    if known is not None:
        return known
    kind = next((kind for start, kind in _KINDS if name.startswith(start)), ArtifactKind.LOG)
    return Artifact(name, kind, "", 0, 0, 0, "", Completeness.PARTIAL, _GROWING)


def _prefix(stored: StoredAttempt) -> str:
    """The attempt's place in the bucket, by where its manifest lies."""
    return stored.key.removesuffix(keys.manifest_key(""))


async def _joined(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])
