"""The C of texts is C99 for every compiler and for WebAssembly, and what it defines begins with weft_text."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.export.c.conftest import WARNINGS

from weft.export.c.text_source import text_header, text_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text.h").write_text(text_header(), encoding="utf-8")
    (tmp_path / "text.c").write_text(text_source(), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "command", [("gcc",), ("clang",), ("gcc", "-m32"), ("clang", "--target=wasm32-wasi")], ids=" ".join
)
def test_no_compiler_warns(command: tuple[str, ...], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    (folder / "headers.c").write_text("#include <string.h>\n#include <stdint.h>\n")
    for source in ("headers.c", "text.c"):
        done = subprocess.run(
            [*command, *WARNINGS, "-c", source, "-o", "text.o"], cwd=folder, capture_output=True, text=True, check=False
        )
        if source == "headers.c" and done.returncode:
            pytest.skip(f"no C library for {' '.join(command)}")
        assert done.returncode == 0, done.stderr


def test_it_needs_nothing_but_memory_functions_and_defines_only_its_own_names(folder: Path) -> None:
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip("gcc or nm is not installed")
    subprocess.run(["gcc", *WARNINGS, "-c", "text.c"], cwd=folder, check=True)
    table = subprocess.run(["nm", "text.o"], cwd=folder, capture_output=True, text=True, check=True).stdout
    symbols = [line.split()[-2:] for line in table.splitlines()]
    assert {name for kind, name in symbols if kind == "U"} <= {"memcpy", "memcmp", "memset", "__stack_chk_fail"}
    assert all(name.startswith("weft_text_") for kind, name in symbols if kind in "TDBC")
    assert not [name for kind, name in symbols if kind in "dDbBC"]  # no variables: threads share nothing
