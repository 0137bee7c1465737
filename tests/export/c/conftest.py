"""The C of texts, compiled once."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

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


@pytest.fixture(scope="session")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of attack_text.c under AddressSanitizer and UBSan."""
    folder = tmp_path_factory.mktemp("attack")
    try:
        compiler = find_compiler()
    except NoCompiler as reason:
        pytest.skip(str(reason))
    (folder / "text.h").write_text(text_header(), encoding="utf-8")
    (folder / "text.c").write_text(text_source(), encoding="utf-8")
    (folder / "none.c").write_text("int main(void) { return 0; }")
    sanitized = [*compiler, "-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    done = subprocess.run([*sanitized, "-o", "none", "none.c"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode or subprocess.run([folder / "none"], check=False).returncode:
        pytest.skip(f"{compiler[0]} has no sanitizers: {done.stderr[:200]}")
    source = Path(__file__).with_name("attack_text.c")
    made = subprocess.run(
        [*sanitized, "-I.", "-o", "attack", "text.c", str(source)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return folder / "attack"
