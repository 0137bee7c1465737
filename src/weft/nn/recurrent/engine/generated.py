"""Modules from text that was generated here, such as the Triton kernels of a plan."""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import sys
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Generated(ExecutionLoader):
    """Loads a module from the text that was generated here."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_filename(self, fullname: str) -> str:
        return f"<{fullname}>"


def load_generated(text: str) -> ModuleType:
    """The module of a text. It is never written to disk, where it could be changed before it is read again."""
    name = f"weft_kernels_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    loader = _Generated(text)
    module = importlib.util.module_from_spec(ModuleSpec(name, loader))
    # Triton reads the source of a kernel by `inspect`, which finds module and lines in these two tables.
    sys.modules[name] = module
    place = loader.get_filename(name)
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    loader.exec_module(module)
    return module
