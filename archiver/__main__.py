"""``python -m archiver``."""

from archiver.cli import main

main()
