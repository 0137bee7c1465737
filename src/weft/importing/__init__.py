"""Runs made of models that other software has trained."""

from weft.importing.arpa import import_arpa

__all__ = ["import_arpa"]
