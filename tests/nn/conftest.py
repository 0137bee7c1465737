"""C code compiled for the vectors of this machine, and for narrower ones."""

from __future__ import annotations

import platform
from collections.abc import Iterator

import pytest

from weft.nn.native import compiler, library, packed_linear

NARROW = "-mno-avx"


@pytest.fixture(params=["widest", "narrow"])
def vectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "narrow":
        if platform.machine() not in ("x86_64", "AMD64"):
            pytest.skip("only x86 has vectors of several widths")
        monkeypatch.setattr(compiler, "OPTIONS", (*compiler.OPTIONS, NARROW))
        forget()
    yield request.param
    if request.param == "narrow":
        monkeypatch.undo()
        forget()


def forget() -> None:
    """What was compiled, and what was packed for it."""
    for found in (compiler._surroundings, compiler.compile_library, library._load, packed_linear.panel):
        found.cache_clear()
    packed_linear._packed.clear()
