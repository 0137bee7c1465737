"""The C of texts, compiled once."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable

import pytest
from tests.export.c.c_text import CText

from weft.export.c.text_source import text_header, text_source
from weft.nn.native.compiler import NoCompiler, find_compiler

WARNINGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic")


@pytest.fixture(scope="session")
def text_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("text")
    try:
        compiler = find_compiler()
    except NoCompiler as reason:
        pytest.skip(str(reason))
    (folder / "text.h").write_text(text_header(), encoding="utf-8")
    (folder / "text.c").write_text(text_source(), encoding="utf-8")
    made = folder / "text.so"
    done = subprocess.run(
        [*compiler, *WARNINGS, "-fPIC", "-shared", "-o", str(made), "text.c"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(made))


@pytest.fixture(scope="session")
def open_text(text_library: ctypes.CDLL) -> Callable[[bytes], CText]:
    return lambda tables: CText(text_library, tables)
