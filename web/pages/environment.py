"""The one Jinja2 environment: autoescape on, undefined names are errors, filters speak the words of ``pages.words``."""

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from archiver import __version__
from web.pages import links, marks, status, words


@lru_cache(maxsize=1)
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("ago", "clock", "duration", "gpu_hours", "margin", "nanoseconds", "number", "plural", "size", "utc"):
        made.filters[name] = getattr(words, name)
    made.filters |= {"certainty": words.certainty, "completeness": words.completeness, "source": words.source}
    made.filters |= {"category": words.category, "chance": words.chance, "hours": words.hours, "image": words.image}
    made.filters |= {"sentence": words.sentence, "short_name": words.short_name}
    made.filters |= {"mark": status.mark, "completeness_mark": status.completeness_mark, "line_text": marks.line_text}
    made.globals |= {"links": links, "version": __version__, "attribution": words.attribution}
    return made
