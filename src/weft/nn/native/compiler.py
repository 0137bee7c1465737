"""The machine's C compiler, and the libraries it has made, kept on disk.

A library is named after everything it depends on: the text, the compiler, its options and the processor. It is
written under another name and renamed, so that processes that start together cannot see half of one.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from weft import cache

OPTIONS: tuple[str, ...] = (
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fPIC",
    "-shared",
)
"""No -ffast-math: it would lose infinities and NaN, and linked in, it changes the arithmetic of the whole process."""

if platform.machine() in ("x86_64", "AMD64"):
    # The matrix products use the widest vectors already. For some processors gcc rounds twice where a sum is the only
    # one of its loop, and once where there are several; tuned for this one it never does, and a row's numbers do not
    # depend on how many stand beside it.
    OPTIONS += ("-mprefer-vector-width=512", "-mtune=haswell")


class NoCompiler(Exception):
    """Why nothing can be compiled here."""


@functools.cache
def compile_library(text: str) -> ctypes.CDLL:
    """The library of a C source, from the cache or from the compiler; raises NoCompiler."""
    compiler = find_compiler()
    name = hashlib.sha256("\0".join([text, *_surroundings(compiler)]).encode()).hexdigest()[:32]
    folder = cache_folder()
    library = folder / f"{name}.so"
    for _ in range(2):
        if not library.exists():
            _compile(compiler, text, library)
        try:
            return ctypes.CDLL(str(library))
        except OSError as error:
            problem = error
            library.unlink(missing_ok=True)  # damaged: made once more
    raise NoCompiler(f"{library} cannot be loaded: {problem}")


def compile_if_possible(text: str) -> ctypes.CDLL | None:
    """The same, or None where nothing can be compiled."""
    try:
        return compile_library(text)
    except NoCompiler:
        return None


@functools.cache
def read_source(package: str, name: str) -> str:
    """A C source that a package of ours brings."""
    return (resources.files(package) / name).read_text(encoding="utf-8")


@functools.cache
def find_compiler() -> tuple[str, ...]:
    """$CC with its arguments, or the first of cc, gcc and clang."""
    if os.name != "posix":
        raise NoCompiler("compiling needs a Unix-like system")
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        words = shlex.split(name)
        if words and (found := shutil.which(words[0])):
            return found, *words[1:]
    raise NoCompiler("no C compiler was found (install gcc, or set CC)")


def cache_folder() -> Path:
    """Where compiled libraries are kept; nobody else may write there."""
    return cache.cache_folder("compiled") or _private_folder()


@functools.cache
def _private_folder() -> Path:
    """For a cache that is off, cannot be written or is not ours alone: compiled again in each process, but safe."""
    import atexit

    folder = tempfile.mkdtemp(prefix="weft-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def _surroundings(compiler: tuple[str, ...]) -> tuple[str, ...]:
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return (version, *OPTIONS, sys.platform, platform.machine(), _processor())


def _processor() -> str:
    """What -march=native may depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "".join(sorted({line for line in lines if line.startswith(wanted)}))


def _compile(compiler: tuple[str, ...], text: str, library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".build-") as folder:
        source, made = Path(folder, "source.c"), Path(folder, "made.so")
        source.write_text(text, encoding="utf-8")
        command = [*compiler, *OPTIONS, "-o", str(made), str(source), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise NoCompiler(f"{compiler[0]} failed: {first}")
        made.replace(library)
