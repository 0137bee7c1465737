"""Only a fault of weft is reported as one; every other error is one line with a cure."""

from __future__ import annotations

import errno
import os
import re

import pytest
import torch

from weft.cli import failures
from weft.cli.failures import report


def system(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)


def raised(call, *values) -> BaseException:
    with pytest.raises(Exception) as found:  # noqa: PT011 - the test examines it
        call(*values)
    return found.value


CASES = {
    "permission": (system(errno.EACCES, "a.tsv"), 2, r"a\.tsv: Permission denied \(change its permissions"),
    "folder": (system(errno.EISDIR, "a"), 2, r"a: Is a directory \(name a file\)"),
    "not a folder": (system(errno.ENOTDIR, "a/b"), 2, r"a/b: Not a directory \(a part of this path is a file"),
    "long name": (system(errno.ENAMETOOLONG, "n" * 5000), 2, r"n{280}…n{20}: File name too long \(choose a shorter"),
    "loop": (system(errno.ELOOP, "l"), 2, r"l: Too many levels of symbolic links \(the links form a circle"),
    "bytes": (system(errno.ENOENT, b"a\xff"), 2, r"a\\udcff: No such file or directory"),  # type: ignore[arg-type]
    "device": (system(errno.EIO), 1, r"Input/output error \(the device has failed"),
    "full": (system(errno.ENOSPC, "model"), 1, r"model: No space left on device \(free some space"),
    "null": (raised(open, "a\0b"), 2, r"the name of a file has a NUL character"),
    "surrogate": (raised(open, "a\ud800b"), 2, r'"a\\ud800b" is not UTF-8 \(rename the file'),
    "memory": (MemoryError(), 1, r"out of memory \(close other programs"),
    "torch": (raised(torch.empty, 10**15), 1, r"out of memory: 4,000,000,000,000,000 bytes could not be allocated \("),
    "cuda": (
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has 4 GiB free.\nmore"),
        1,
        r"out of memory: 20\.00 GiB could not be allocated \(",
    ),
    "nesting": (RecursionError("maximum recursion depth exceeded"), 2, r"a file or a setting is nested too deeply"),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_of_user_or_system_is_one_line_with_a_cure(case, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    error, code, message = CASES[case]
    assert report(error) == code
    said = capsys.readouterr().err
    assert re.fullmatch(rf"error {message}.*\n", said), said


def test_the_cure_for_too_little_memory_depends_on_the_command(capsys):
    for command, cure in failures.MEMORY_CURES.items():
        report(MemoryError(), command=command)
        assert f"({cure})" in capsys.readouterr().err


def test_a_fault_of_weft_is_reported_with_its_log(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(failures, "imported_files", list)  # other tests of this process import some
    monkeypatch.setattr(failures.tempfile, "tempdir", str(tmp_path))
    assert report(KeyError("x")) == 1
    assert "This is a mistake in weft, not yours. The details are in" in capsys.readouterr().err
    assert "KeyError" in next(tmp_path.glob("weft-*.log")).read_text(encoding="utf-8")
    monkeypatch.setattr(failures.tempfile, "tempdir", str(tmp_path / "gone"))
    assert report(KeyError("x")) == 1  # no folder for the log
    assert "run it again with --debug" in capsys.readouterr().err


def test_a_traceback_shows_no_raw_escape_codes(capsys):
    report(ValueError("\x1b[2J"), debug=True)
    said = capsys.readouterr().err
    assert r"ValueError: \x1b[2J" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("words", [["config", "check", "{}"], ["train", "lm", "{}"], ["inspect", "parameters", "{}"]])
@pytest.mark.parametrize(
    "name", ["n" * 5000, "file/x.toml", "loop.toml", "folder.toml", "a\0b.toml"], ids=lambda n: n[:9]
)
def test_paths_that_cannot_be_read(words, name, weft, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    (tmp_path / "folder.toml").mkdir()
    outcome = weft(*(word.format(name) for word in words))
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].startswith("error ")
    assert len(outcome.err) < 600


@pytest.mark.skipif(not hasattr(os, "seteuid") or os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    "words",
    [
        ["config", "check", "locked/x.toml"],
        ["config", "diff", "locked/x.toml", "locked/x.toml"],
        ["data", "show", "lm", "locked/texts.txt"],
        ["train", "locked/x.toml"],
    ],
    ids=" ".join,
)
def test_files_without_permission(words, weft, texts, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o700)
    (folder / "x.toml").write_text('task = "lm"\n[data]\ntrain = "x"\n', encoding="utf-8")
    (tmp_path / "texts.txt").rename(folder / "texts.txt")
    weft(*words)  # imports happen here, before permissions are dropped
    os.seteuid(65534)
    try:
        outcome = weft(*words)
    finally:
        os.seteuid(0)
    assert outcome.code == 2
    assert "ermission" in outcome.err.splitlines()[-1]
    assert "mistake in weft" not in outcome.err
