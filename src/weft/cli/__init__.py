"""The command line: one file per verb; each parses, calls and prints. Heavy imports wait until a verb runs."""

from weft.cli.app import main

__all__ = ["main"]
