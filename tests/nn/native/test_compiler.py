"""The machine's compiler and the cache of what it made: found, shared between processes, and done without."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from weft import cache
from weft.nn import RNN
from weft.nn.native import compiler
from weft.nn.native.workshop import keep, read_kept, workshop

REAL = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(REAL is None, reason="there is no C compiler on this machine")


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing found or loaded yet, an empty cache; and again nothing found for the tests that follow."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget() -> None:
    for found in (
        compiler.find_compiler,
        compiler.compile_library,
        compiler._surroundings,
        compiler._say_unkept,
    ):
        found.cache_clear()


SIZES = itertools.count(20)


def network(cell: str, **settings: str) -> RNN:
    """Of a size that no other test has: plans are shared by all networks that are alike, their source by all sizes."""
    return RNN(cell, 5, next(SIZES), **settings)


def fake_compiler(folder: Path, name: str, *lines: str) -> Path:
    """A program that does what these lines of a shell say."""
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o700)
    return path


def counting_compiler(folder: Path) -> Path:
    """The real one, with a line in a file for every library it is asked for."""
    log = folder / "calls"
    log.touch()
    return fake_compiler(
        folder, "counting", f'case "$*" in *-shared*) echo call >> "{log}";; esac', f'exec "{REAL}" "$@"'
    )


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.glob("**/*.so"))


def assert_right(rnn: RNN) -> None:
    """The numbers and gradients of the reference."""
    cell = rnn.layers[0].cells[0]
    plain = RNN(cell, 5, cell.hidden_size, backend="reference")
    x, lengths = torch.randn(3, 4, 5), torch.tensor([4, 0, 2])
    found = []
    for network in (rnn, plain):
        network.zero_grad()
        output, _ = network(x, lengths)
        output.square().sum().backward()
        found.append([output.detach(), *(parameter.grad.clone() for parameter in network.parameters())])
    assert_close(*found, rtol=1e-5, atol=1e-5)


def assert_compiled(rnn: RNN) -> None:
    assert "runs on the CPU, in C compiled for this machine" in rnn.explain()
    assert_right(rnn)


def test_the_cache_is_where_it_is_asked_for(tmp_path: Path) -> None:
    assert_compiled(network("elman"))
    (library,) = libraries(tmp_path)
    assert library.parent == tmp_path / "cache" / "compiled"
    assert [path.name for path in library.parent.iterdir()] == [library.name], "nothing is left of the making"
    assert stat.S_IMODE(library.parent.stat().st_mode) == 0o700


def test_the_cache_is_the_users_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WEFT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.cache_folder("compiled") == tmp_path / "home" / ".cache" / "weft" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert cache.cache_folder("compiled") == tmp_path / "other" / "weft" / "compiled"


def test_layers_and_sizes_share_one_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(counting_compiler(tmp_path)))
    RNN("elman", 5, [next(SIZES) for _ in range(3)], bidirectional=True)(torch.randn(2, 3, 5))
    network("elman")(torch.randn(2, 3, 5))
    assert (tmp_path / "calls").read_text().count("call") == len(libraries(tmp_path)) == 1


def test_another_version_of_the_compiler_makes_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert_compiled(network("elman"))
    version = '[ "$1" = --version ] && echo "cc 99.0" && exit'
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, "newer", version, f'exec "{REAL}" "$@"')))
    forget()
    assert_compiled(network("elman"))
    assert len(libraries(tmp_path)) == 2


SCRIPT = """
import torch
from weft.nn import RNN
torch.manual_seed(0)
rnn = RNN("lstm", 5, 6)
output, _ = rnn(torch.ones(2, 3, 5))
output.sum().backward()
print(rnn.explain().splitlines()[0])
print(output.sum().item(), rnn.layers[0].cells[0].from_state.weight.grad.sum().item())
"""


def start(script: str, **environment: str) -> subprocess.Popen[str]:
    """A new Python, whose sets and dictionaries of text have an order of their own."""
    keep = {name: value for name, value in os.environ.items() if name != "CC"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", script], env=keep | environment, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out, err


def test_processes_share_what_the_first_has_compiled(tmp_path: Path) -> None:
    """Two that start together both work and leave one library; a third does not compile at all."""
    cc = str(counting_compiler(tmp_path))
    together = [finish(process) for process in [start(SCRIPT, CC=cc, PYTHONHASHSEED=seed) for seed in "12"]]
    calls = (tmp_path / "calls").read_text().count("call")
    assert 1 <= calls <= 2
    (library,) = libraries(tmp_path)
    assert [path.name for path in library.parent.iterdir()] == [library.name]
    later = finish(start(SCRIPT, CC=cc, PYTHONHASHSEED="3"))
    assert (tmp_path / "calls").read_text().count("call") == calls
    assert [out for out, _ in together] == [later[0]] * 2
    assert "in C compiled for this machine" in later[0]
    assert [err for _, err in (*together, later)] == ["", "", ""]


NO_COMPILER = """
import torch
from weft.nn import RNN
rnn = RNN("gru", 5, 6, layers=2, bidirectional=True)
for network in (rnn, RNN("lstm", 5, 6), RNN("mut1", 5, 6)):
    network(torch.ones(2, 3, 5))
    network(torch.ones(2, 3, 5))
print(rnn.explain().splitlines()[0])
"""


def test_without_a_compiler_one_line_says_so(tmp_path: Path) -> None:
    out, err = finish(start(NO_COMPILER, PATH=str(tmp_path)))
    said = [line for line in err.splitlines() if "recurrent layers run without kernels" in line]
    assert len(said) == 1
    assert "no C compiler was found (install gcc, or set CC)" in said[0]
    assert err.count("Warning") == 1
    assert "runs in plain torch" in out


@pytest.mark.filterwarnings("ignore:recurrent layers run without kernels")
def test_without_a_compiler_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    rnn = network("gru")
    assert "runs in plain torch, step by step with the input's products hoisted (no C compiler" in rnn.explain()
    assert_right(rnn)
    rnn = network("lstm")
    assert "runs on torch's own kernel, all steps in one call (no C compiler was found" in rnn.explain()
    assert_right(rnn)
    rnn = network("lstm", backend="engine")
    assert "runs in plain torch" in rnn.explain()
    assert_right(rnn)
    assert libraries(tmp_path) == []


def test_with_a_broken_compiler_the_numbers_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = fake_compiler(tmp_path, "broken", "echo 'line 1: error: no such thing' >&2", "exit 1")
    monkeypatch.setenv("CC", str(broken))
    rnn = network("gru")
    with pytest.warns(UserWarning, match="without kernels of their own, more slowly: .*broken failed: .*no such thing"):
        explained = rnn.explain()
    assert "runs in plain torch" in explained
    assert "no such thing" in explained
    assert_right(rnn)
    assert list((tmp_path / "cache" / "compiled").iterdir()) == []


def test_a_compiler_that_makes_rubbish_is_not_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rubbish = 'while [ "$1" != -o ]; do shift || exit 0; done; echo rubbish > "$2"'
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, "rubbish", '[ "$1" = --version ] && exit', rubbish)))
    rnn = network("gru")
    with pytest.warns(UserWarning, match="cannot be loaded"):
        rnn.explain()
    assert_right(rnn)


def test_a_name_in_cc_that_is_nowhere_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(tmp_path / "nowhere"))
    assert compiler.find_compiler() == (REAL,)


DAMAGE = {
    "cut": lambda content: content[: len(content) // 2],
    "cut to a header": lambda content: content[:100],
    "empty": lambda content: b"",
    "a bit": lambda content: content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
    "zeros": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_library_is_made_again(damage: str, tmp_path: Path) -> None:
    """A power cut or a full disk can leave one, and to load it would end the process without a word."""
    assert_compiled(network("elman"))
    (library,) = libraries(tmp_path)
    whole = library.read_bytes()
    library.write_bytes(DAMAGE[damage](whole))
    forget()
    assert_compiled(network("elman"))
    assert libraries(tmp_path) == [library]
    assert library.read_bytes() == whole


def test_a_library_cut_while_it_is_in_use(tmp_path: Path) -> None:
    """The process has a copy of its own: pages that it has not touched yet cannot vanish under it."""
    rnn = network("elman")
    assert_compiled(rnn)
    (library,) = libraries(tmp_path)
    os.truncate(library, 0)
    assert_compiled(rnn)
    assert_compiled(network("elman"))


KILLED = """
from weft.nn.native import compiler
compiler.compile_library("int answer(void) { return 42; }")
"""


def test_a_killed_compilation_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Killed while the compiler runs; the next one that compiles removes what was left, and nothing of one at work."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    killer = fake_compiler(tmp_path, "killer", '[ "$1" = --version ] && exit', "kill -9 $PPID", "touch left.o")
    killed = start(KILLED, CC=str(killer), TMPDIR=str(tmp_path / "temporary"))
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    assert list((tmp_path / "temporary").iterdir()), "the kill came too late, so nothing is tested"
    with workshop(tmp_path / "temporary") as (at_work, _):
        compiler.compile_library("int answer(void) { return 43; }")
        assert list((tmp_path / "temporary").iterdir()) == [at_work]
    assert list((tmp_path / "temporary").iterdir()) == []
    assert len(libraries(tmp_path / "cache")) == len(list((tmp_path / "cache" / "compiled").iterdir())) == 1


def test_a_write_that_was_killed_is_cleared_away(tmp_path: Path) -> None:
    with cache.open_cache("compiled") as folder:
        assert folder is not None
        (tmp_path / "cache" / "compiled" / ".unfinished-1-x").write_bytes(b"half")
        keep(folder, "0" * 32, b"whole")
        assert read_kept(folder, "0" * 32) == b"whole"
    assert len(libraries(tmp_path)) == len(list((tmp_path / "cache" / "compiled").iterdir())) == 1


def test_a_full_disk_is_said_once_and_costs_only_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(UserWarning, match="not kept from one start to the next: No space left on device"):
        assert_compiled(network("elman"))
    assert_compiled(network("gru"))  # a second line would be an error
    assert list((tmp_path / "cache" / "compiled").iterdir()) == []


@pytest.mark.parametrize("where", ["below a file", "read only"])
def test_a_cache_that_cannot_be_written(where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    if where == "below a file":
        blocked.touch()
    else:
        blocked.mkdir(mode=0o500)
        if os.access(blocked, os.W_OK):
            pytest.skip("nothing is read only to root")
    monkeypatch.setenv("WEFT_CACHE", str(blocked / "cache"))
    with pytest.warns(UserWarning, match="compiled code is not kept from one start to the next"):
        assert_compiled(network("elman"))
    assert libraries(tmp_path) == []


def test_a_cache_that_is_off_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE", "off")
    assert_compiled(network("elman"))
    assert libraries(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no files in memory alone")
def test_a_system_that_executes_nothing_from_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert_compiled(network("elman"))
    forget()
    assert_compiled(network("elman"))
    assert len(libraries(tmp_path)) == 1
