"""The command line: one file per command, which parses, calls and prints. Heavy imports happen when a command runs."""

from weft.cli.app import main

__all__ = ["main"]
