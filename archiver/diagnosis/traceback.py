"""Python tracebacks as structure: chains, groups, Ray's wrappers, the user's frames. Not what an error means."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from archiver.diagnosis.lines import Line

MESSAGE_LIMIT_CHARS = 2000
LINES_PER_TRACE = 1500
SILENCE_LINES = 200

MARKER = "Traceback (most recent call last)"
IGNORED = "Exception ignored in"
_RAY_HEADER = re.compile(r"(?:^|: )(?:ray::[\w.<>:\[\]=, /()-]{1,200}) \(pid=\d+")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]{1,500})", line (?P<line>\d{1,9})(?:, in (?P<function>.{1,200}))?')
_EXCEPTION = re.compile(r"^(?P<type>[A-Za-z_][\w.]{0,200}(?:\([\w.]{1,100}\))?)(?::(?P<message>(?: .*)?))?$")
_GROUP = re.compile(r"^\s*(?:\+ (?=Exception Group)|\| ?|\+-*\+?-+ ?(?P<number>\d+|\.\.\.)? ?-*$)")
_DIGIT = re.compile(r"\d")
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python\d|^<|^python/ray/|/ray/(?:_private|dashboard|runtime_env)/|\.pyx$|\.pxi$"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `is_app` is true where the file is not part of Python, Ray or an installed package."""

    file: str
    line: int
    function: str

    @property
    def is_app(self) -> bool:
        """Whether the user wrote it, as far as the path tells."""
        return not _LIBRARY.search(self.file)


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception of a chain. `relation` tells how the one printed before it belongs to it."""

    type: str
    message: str
    line: int
    frames: tuple[Frame, ...] = ()
    relation: str = ""

    @property
    def name(self) -> str:
        """The type without its module."""
        return self.type.partition("(")[0].rpartition(".")[2]

    @property
    def headline(self) -> str:
        """The line that Python printed: the type, and the first line of the message."""
        return f"{self.type}: {self.message.partition(chr(10))[0]}" if self.message else self.type


@dataclass(frozen=True, slots=True)
class Trace:
    """What one traceback printed, in the order of print."""

    who: str
    first_line: int
    chain: tuple[Raised, ...]
    time: float | None = None
    is_ignored: bool = False

    @property
    def root(self) -> Raised:
        """The innermost cause. Of an implicit context the last exception is the fatal one."""
        index = len(self.chain) - 1
        while index > 0 and (
            self.chain[index].relation == "cause"
            or (self.chain[index].relation == "group" and self.chain[index - 1].relation == "group")
        ):
            index -= 1
        return self.chain[index]

    @property
    def app_frames(self) -> tuple[Frame, ...]:
        """The user's frames of the root, else of the last exception that has any."""
        for raised in (self.root, *reversed(self.chain)):
            if frames := tuple(frame for frame in raised.frames if frame.is_app):
                return frames
        return ()


@dataclass(slots=True)
class _Open:
    """One traceback that is being read."""

    who: str
    first_line: int
    time: float | None
    chain: list[Raised] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    relation: str = ""
    state: str = "frames"
    blanks: int = 0
    strays: int = 0
    fed_line: int = 0
    is_ignored: bool = False
    head: str = ""

    def without_head(self, text: str) -> str:
        """The line without what stood before the header too: a launcher's or a logger's prefix, or an indentation."""
        begin = text[: len(self.head)]
        return text[len(self.head) :] if begin and _shape(begin) == _shape(self.head) else text


class TraceReader:
    """Feed it lines; it gives traces when they end. Lines of several writers may be mixed."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    @property
    def is_open(self) -> bool:
        """Whether a traceback is unfinished, so that every next line matters."""
        return bool(self._open)

    def feed(self, number: int, line: Line) -> Iterator[Trace]:
        """Take the line of that number; gives the traces that it ends."""
        text, is_separator = _without_group(line.text)
        current = self._open.get(line.who)
        if current is None:
            if is_start(text):
                ignored = text.lstrip().startswith(IGNORED)
                self._open[line.who] = _Open(line.who, number, line.time, fed_line=number, is_ignored=ignored)
                self._open[line.who].head = line.head + text[: max(text.find(MARKER), 0)]
                if found := _FRAME.match(text):
                    _add_frame(self._open[line.who], found)
        else:
            current.fed_line = number
            yield from self._step(current, number, line, current.without_head(text), is_separator)
        yield from self._expire(number)

    def flush(self) -> Iterator[Trace]:
        """The traces that the end of the source cut."""
        for current in list(self._open.values()):
            yield from self._close(current)

    def _expire(self, number: int) -> Iterator[Trace]:
        for current in list(self._open.values()):
            if number - current.fed_line > SILENCE_LINES or number - current.first_line > LINES_PER_TRACE:
                yield from self._close(current)

    def _close(self, current: _Open) -> Iterator[Trace]:
        self._open.pop(current.who, None)
        if current.chain:
            yield Trace(current.who, current.first_line, tuple(current.chain), current.time, current.is_ignored)

    def _step(self, current: _Open, number: int, line: Line, text: str, is_separator: bool) -> Iterator[Trace]:
        if is_separator:
            current.relation, current.state, current.frames = "group", "frames", []
        elif MARKER in text or (_RAY_HEADER.search(text) and not _EXCEPTION.match(text)):
            yield from self._header(current, number, line)
        elif connector := _connector(text):
            current.relation, current.state, current.blanks = connector, "between", 0
        elif found := _FRAME.match(text):
            _add_frame(current, found)
        elif current.state == "frames":
            yield from self._in_frames(current, number, text)
        else:
            yield from self._after_exception(current, text)

    def _header(self, current: _Open, number: int, line: Line) -> Iterator[Trace]:
        if current.chain and not current.relation:
            yield from self._close(current)
            self._open[line.who] = _Open(line.who, number, line.time, fed_line=number)
            return
        current.frames, current.state, current.strays = [], "frames", 0

    def _in_frames(self, current: _Open, number: int, text: str) -> Iterator[Trace]:
        found = _EXCEPTION.match(text)
        if found and (current.frames or "." in found["type"] or _is_error_name(found["type"])):
            _add_exception(current, number, found)
        elif text[:1] not in ("", " ", "\t", "|", "+"):
            current.strays += 1
            if current.strays > 20:
                yield from self._close(current)

    def _after_exception(self, current: _Open, text: str) -> Iterator[Trace]:
        if not text.strip():
            current.blanks += 1
            current.state = "between"
            if current.blanks > 3:
                yield from self._close(current)
        elif current.state == "between":
            yield from self._close(current)
        elif current.chain and len(current.chain[-1].message) < MESSAGE_LIMIT_CHARS:
            last = current.chain[-1]
            message = f"{last.message}\n{text}"[:MESSAGE_LIMIT_CHARS]
            current.chain[-1] = Raised(last.type, message, last.line, last.frames, last.relation)


def is_start(text: str) -> bool:
    """Whether a line begins a traceback: Python's header, Ray's, the word that what follows is ignored, or a frame.

    A frame begins one whose header was cut off, as by the 20,000 characters that Ray keeps of a driver's log.
    """
    if MARKER in text or text.lstrip().startswith(IGNORED) or _RAY_HEADER.search(text):
        return True
    return bool((frame := _FRAME.match(text)) and frame["function"])


def _shape(text: str) -> str:
    """The text with every digit made the same: times and numbers of processes differ from line to line."""
    return _DIGIT.sub("0", text)


def _without_group(text: str) -> tuple[str, bool]:
    """The line without the drawing of an exception group, and whether it begins a sub-exception."""
    is_separator = False
    for _depth in range(8):
        stripped = text.lstrip()
        if stripped[:1] not in ("|", "+") or not (found := _GROUP.match(text)):
            break
        is_separator = is_separator or bool(found["number"])
        text = text[found.end() :]
    return text, is_separator


def _connector(text: str) -> str:
    if _CAUSE in text:
        return "cause"
    return "context" if _CONTEXT in text else ""


def _is_error_name(name: str) -> bool:
    return name.endswith(("Error", "Exception", "Exit", "Interrupt", "Warning", "Timeout", "Group"))


def _add_frame(current: _Open, found: re.Match[str]) -> None:
    if current.state != "frames":
        current.frames, current.state = [], "frames"
    if len(current.frames) < 200:
        current.frames.append(Frame(found["file"], int(found["line"]), (found["function"] or "").strip()))


def _add_exception(current: _Open, number: int, found: re.Match[str]) -> None:
    message = (found["message"] or "").strip()[:MESSAGE_LIMIT_CHARS]
    current.chain.append(Raised(found["type"], message, number, tuple(current.frames), current.relation))
    current.frames, current.strays, current.blanks = [], 0, 0
    is_wrapper = bool(_RAY_HEADER.match(message))
    current.relation, current.state = ("wraps", "frames") if is_wrapper else ("", "message")
