"""Something to click, as a value: a tab, a chip, a facet's value, an export, a next step."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """``title`` is the whole of what ``label`` may have shortened."""

    label: str
    href: str
    count: str | None = None
    is_current: bool = False
    title: str = ""
