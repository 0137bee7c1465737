"""The machine's C compiler, and a cache of compiled libraries on disk.

A library is named after everything it depends on (the text, the compiler, its options and the processor) and after the
hash of its own bytes. It is read whole through a descriptor, checked, and loaded from a copy in memory, so that what
was checked is what runs, whatever happens to the file. One that does not fit its name is made again.
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
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Final, TypeVar

from weft import cache
from weft.nn.native.workshop import keep, read_kept, workshop

COMPILED: Final = "compiled"
"""The folder of the cache."""

Loaded = TypeVar("Loaded")

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
    """Raised where nothing can be compiled; the message is the reason."""


@functools.cache
def compile_library(text: str) -> ctypes.CDLL:
    """The library of a C source, from the cache or from the compiler; raises NoCompiler."""
    compiler = find_compiler()
    name = name_of(text, *_surroundings(compiler))
    try:
        return load_compiled(name, lambda: _compile(compiler, text), lambda library: _load(library, name))
    except OSError as error:
        raise NoCompiler(f"what {compiler[0]} made cannot be loaded: {error}") from None


def name_of(*parts: str) -> str:
    """The name of compiled code, from everything that it depends on."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def load_compiled(name: str, make: Callable[[], bytes], load: Callable[[bytes], Loaded]) -> Loaded:
    """What `load` returns for the code that the cache has under a name; without it for what `make` returns, which is
    then kept."""
    with _opened_cache() as folder:
        if folder is not None and (kept := read_kept(folder, name)):
            with suppress(OSError):  # it is compiled again, whatever was wrong with it
                return load(kept)
        made = make()
        if folder is not None:
            try:
                keep(folder, name, made)
            except OSError as error:  # a full disk
                _say_unkept(error.strerror or str(error))
    return load(made)


def compile_if_possible(text: str) -> ctypes.CDLL | None:
    """The library of a C source, or None where nothing can be compiled."""
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


@contextmanager
def _opened_cache() -> Iterator[int | None]:
    """A descriptor of the folder for compiled code; None where it cannot be used, which is said once."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(cache.open_cache(COMPILED))
        except OSError as error:
            folder = None
            _say_unkept(error.strerror or str(error))
        yield folder


@functools.cache
def _say_unkept(why: str) -> None:
    """Warn once that every process has to compile again."""
    warnings.warn(f"compiled code is not kept from one start to the next: {why}", stacklevel=4)


@functools.cache
def _surroundings(compiler: tuple[str, ...]) -> tuple[str, ...]:
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return (version, *OPTIONS, sys.platform, platform.machine(), _processor())


def _processor() -> str:
    """The properties of the processor on which -march=native may depend."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "".join(sorted({line for line in lines if line.startswith(wanted)}))


def _compile(compiler: tuple[str, ...], text: str) -> bytes:
    """The bytes of a library, made in a folder that is gone afterwards; its names do not depend on where that is."""
    try:
        with workshop(Path(tempfile.gettempdir())) as (folder, lock):
            (folder / "source.c").write_text(text, encoding="utf-8")
            done = subprocess.run(
                [*compiler, *OPTIONS, "-o", "made.so", "source.c", "-lm"],
                cwd=folder,
                env=os.environ | {"TMPDIR": str(folder)},
                pass_fds=(lock,),  # the compiler outlives this process if that is killed, and still uses the folder
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
                raise NoCompiler(f"{compiler[0]} failed: {first}")
            return (folder / "made.so").read_bytes()
    except OSError as error:
        raise NoCompiler(f"{error.filename or tempfile.gettempdir()}: {error.strerror or error}") from None


def _load(library: bytes, name: str) -> ctypes.CDLL:
    """A library loaded from memory; where the system executes nothing there, from a private folder.

    The descriptor of the memory stays open: the linker knows libraries by their path, and would take another one under
    the same number for this one.
    """
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create(f"weft-{name}", os.MFD_CLOEXEC)
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(library)
            return ctypes.CDLL(f"/proc/self/fd/{memory}")
        except OSError:
            os.close(memory)
    with workshop(Path(tempfile.gettempdir())) as (folder, _):
        path = folder / f"{name}.so"
        path.write_bytes(library)
        return ctypes.CDLL(str(path))  # once loaded, it needs its name no more
