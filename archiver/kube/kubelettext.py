"""Tells the kubelet's own complaints from log text in a log stream with timestamps. Pure, whatever the chunking.

The kubelet writes some errors into an answer that began with 200. Every line of a log that was asked for with
timestamps begins with a digit, so a line that begins with one of these texts is no log.
"""

from archiver.errors import KubeError, KubeNotReady, KubeUnavailable

# kuberuntime_container.go, kuberuntime_logs.go (kubelet)
COMPLAINTS: tuple[tuple[bytes, type[KubeError]], ...] = (
    (b"unable to retrieve container logs for ", KubeNotReady),
    (b"failed to try resolving symlinks in path ", KubeNotReady),
    (b"failed to open log file ", KubeNotReady),
    (b"failed to create fsnotify watcher: ", KubeUnavailable),
    (b"rpc error: code = ", KubeUnavailable),
)
_LONGEST = max(len(text) for text, _ in COMPLAINTS)


class KubeletText:
    """``feed`` returns the log text of a chunk; once the kubelet complains, ``complaint`` is set and text ends there."""

    def __init__(self) -> None:
        self.complaint: KubeError | None = None
        self._held = b""
        self._is_at_line_start = True

    def feed(self, chunk: bytes) -> bytes:
        if self.complaint is not None or not chunk:
            return b""
        # A line break in front makes the stream's first line like all others.
        before = b"\n" if self._is_at_line_start else b""
        data, self._held = before + self._held + chunk, b""
        end = self._find_complaint(data)
        if end is None:
            end = len(data) - self._hold(data)
        return data[len(before) : end]

    def flush(self) -> bytes:
        """What was held back in case that it became a complaint."""
        held, self._held = self._held, b""
        return held

    def _find_complaint(self, data: bytes) -> int | None:
        """Where the text before the first complaint ends."""
        found = [(at, error) for text, error in COMPLAINTS if (at := data.find(b"\n" + text)) >= 0]
        if not found:
            return None
        at, error = min(found, key=lambda item: item[0])
        sentence = data[at + 1 : at + 301].split(b"\n")[0].decode("utf-8", "replace")
        self.complaint = error(f"the kubelet says: {sentence}")
        return at + 1

    def _hold(self, data: bytes) -> int:
        """How many bytes at the end may become a complaint: they are kept for the next chunk."""
        line_start = data.rfind(b"\n") + 1
        tail = data[line_start:] if line_start and len(data) - line_start < _LONGEST else b""
        is_held = bool(tail) and any(text.startswith(tail) for text, _ in COMPLAINTS)
        self._held = tail if is_held else b""
        self._is_at_line_start = is_held or data.endswith(b"\n")
        return len(self._held)
