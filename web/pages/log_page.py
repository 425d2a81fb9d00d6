"""Hands the template of a log plain values."""

from markupsafe import Markup

from archiver.read.views import JobView, LogWindow
from web.pages import log as words


def log_values(view: JobView, address: words.LogAddress, query: words.LogQuery, window: LogWindow) -> dict[str, object]:
    lines = list(words.lines(address, query, window))
    return {
        "row": view.row,
        "number": address.number,
        "artifact": window.artifact,
        "query": query,
        "place": words.place(window),
        "tools": words.tools(address, query, window),
        "lines": lines,
        "has_states": any(line.hidden_states for line in lines),
        "window_is_empty": not window.lines,
        "empty_words": _empty_words(window),
        "digits": len(str(window.total_lines)),
        "kept": _kept(query),
        "file_name": f"{view.row.name}-attempt-{address.number}-{address.artifact.rpartition('/')[2]}",
        "commands": words.commands(view.row.name, view.row.namespace, address),
    }


def _empty_words(window: LogWindow) -> str:
    if window.total_lines:
        return f"The log has {window.total_lines} lines, and none of them lies where this address points."
    reason = window.artifact.reason.rstrip(".")
    return f"{reason[:1].upper()}{reason[1:]}." if reason else "The source wrote nothing before it ended."


def _kept(query: words.LogQuery) -> Markup:
    """What a form must carry along so that moving does not change how the text is shown."""
    flags = {"wrap": query.wrap, "times": query.times, "states": query.states}
    fields = (
        Markup('<input type="hidden" name="{}" value="1">').format(name) for name, is_set in flags.items() if is_set
    )
    return Markup("").join(fields)
