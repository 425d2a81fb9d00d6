"""Hides secrets in what a verdict cites, by the same rules as the archive. A last fence: the archive masks before."""

from archiver.core.redact_text import mask_text


def mask(text: str) -> str:
    """The text with everything that looks like a credential replaced."""
    masked, _counts = mask_text(text.encode("utf-8", "replace"))
    return masked.decode("utf-8", "replace")
