"""C libraries: what is compiled, the structures that both sides share, and memory that the system refuses."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from tests.nn.conftest import forget

from weft.decoding import beam_cpu
from weft.nn import RNN, Cell, EncoderStack
from weft.nn.attention import single_query_cpu
from weft.nn.native import compiler, packed_linear
from weft.nn.native.library import ARITHMETIC, CFile, Library
from weft.nn.native.struct import ConstFloats, Floats, NativeStruct, address_table, struct_array
from weft.nn.recurrent.engine import cpu
from weft.nn.recurrent.engine.plan import make_plan
from weft.nn.transformer import stack_cpu

LIBRARIES = (packed_linear.LIBRARY, single_query_cpu.LIBRARY, stack_cpu.LIBRARY, beam_cpu.LIBRARY)


class Inner(NativeStruct):
    c_name: ClassVar[str] = "inner_t"
    _fields_ = (("flag", ctypes.c_int), ("x", ConstFloats))


class Outer(NativeStruct):
    c_name: ClassVar[str] = "outer_t"
    _fields_ = (
        ("scale", ctypes.c_float), ("one", Inner), ("many", ctypes.POINTER(Inner)), ("count", ctypes.c_long),
        ("out", Floats),
    )  # fmt: skip


SUM = """
int sum(const outer_t *o, long threads, parallel_t parallel) {
    o->out[0] = o->scale * *o->one.x + (threads > 0 && parallel ? 0 : 0);
    for (long i = 0; i < o->count; i++) o->out[0] += o->many[i].flag * *o->many[i].x;
    return o->count < 0;
}
"""


class Given(Library):
    """A library whose text ends with C of a test."""

    def text(self) -> str:
        return super().text() + "".join(struct.declaration() for struct in (Inner, Outer)) + SUM


def outer(**changes: object) -> Outer:
    x = [torch.tensor([float(number)]) for number in (2, 3, 5)]
    fields = {
        "scale": 0.5,
        "one": Inner(flag=0, x=x[0]),
        "many": struct_array([Inner(flag=1, x=x[1]), Inner(flag=10, x=x[2])]),
        "count": 2,
        "out": torch.zeros(1),
    }
    return Outer(**(fields | changes))


@pytest.mark.usefixtures("a_compiler")
def test_c_reads_what_python_names() -> None:
    given = outer()
    Given(ARITHMETIC).call("sum", given)
    assert given.held["out"].item() == 0.5 * 2 + 3 + 10 * 5


@pytest.mark.usefixtures("a_compiler")
def test_a_function_without_memory_raises() -> None:
    with pytest.raises(MemoryError, match="sum found no memory"):
        Given(ARITHMETIC).call("sum", outer(count=-1))


def test_every_field_is_given_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"Inner: fields missing or unknown: x$"):
        Inner(flag=1)
    with pytest.raises(TypeError, match=r"Inner: fields missing or unknown: y$"):
        Inner(flag=1, x=None, y=1)


def test_tables_hold_addresses_and_tensors() -> None:
    tensors = [torch.zeros(2), None, torch.ones(3)]
    table = address_table(tensors)
    assert list(table) == [None if x is None else x.data_ptr() for x in tensors]
    assert table.held is tensors


@pytest.mark.usefixtures("a_compiler")
def test_a_library_with_another_layout_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """-fpack-struct leaves no gap before a pointer that follows an int."""
    monkeypatch.setattr(compiler, "OPTIONS", (*compiler.OPTIONS, "-fpack-struct", "-O0"))
    forget()
    with pytest.raises(RuntimeError, match=r"lays out inner_t as \[12, 0, 4\] .*, Python as \[16, 0, 8\]"):
        Library(CFile("weft.nn.native", "arithmetic.c", (Inner,))).load()
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.sources[-1].file)
@pytest.mark.parametrize("machine", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_it_compiles_for_vectors_that_this_machine_may_lack(library: Library, machine: str) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("only x86 has vectors of several widths")
    command = [*compiler.find_compiler(), *compiler.OPTIONS, f"-march={machine}", "-fsyntax-only", "-Wall", "-Werror"]
    command += ["-Wno-unused-function", "-Wno-unused-command-line-argument", "-x", "c", "-"]
    done = subprocess.run(command, input=library.text(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_native_is_a_leaf() -> None:
    """C stands beside what it serves, so the package that compiles and calls it knows none of its users."""
    imports = re.compile(r"^\s*(?:from|import) (weft[\w.]*)", re.MULTILINE)
    folder = Path(compiler.__file__).parent
    found = {name for file in folder.glob("*.py") for name in imports.findall(file.read_text(encoding="utf-8"))}
    assert "weft.nn.native.struct" in found
    assert {name for name in found if name.startswith("weft.nn")} == {
        name for name in found if name.startswith("weft.nn.native")
    }


def refuse(text: str, way: str) -> str:
    """C in which one of the ways to get memory returns NULL."""
    return "static void *refuse() { return 0; }\n" + text.replace(f"{way}(", "refuse(")


class Refused(Library):
    way: str

    def text(self) -> str:
        return refuse(super().text(), self.way)


def refused(library: Library, way: str) -> Library:
    made = Refused(*library.sources)
    made.way = way
    return made


def cached_attention() -> None:
    q, k, v = torch.randn(3, 5, 2, 8)
    keys, values = torch.randn(2, 5, 2, 6, 8)
    single_query_cpu.attend_cached(q, k, v, keys, values, None, torch.zeros(5, dtype=torch.long), 1.0)


def encoder() -> None:
    EncoderStack(64, layers=1, heads=4, feedforward=64).eval()(torch.randn(2, 3, 64))


def decoder_step() -> None:
    stack = EncoderStack(64, layers=1, heads=4, feedforward=64).eval()
    x = torch.randn(4, 64)
    with packed_linear.PackedWeights():
        stack.step(x, stack.reserve(4, x, slot_width=1, capacity=6))


@pytest.mark.usefixtures("a_compiler")
@pytest.mark.parametrize("way", ["aligned_alloc", "malloc"])
@pytest.mark.parametrize("call", [cached_attention, encoder, decoder_step], ids=lambda call: call.__name__)
@torch.no_grad()
def test_memory_that_the_system_refuses(call: Callable[[], None], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (single_query_cpu, stack_cpu):
        monkeypatch.setattr(module, "LIBRARY", refused(module.LIBRARY, way))
    with pytest.raises(MemoryError, match="found no memory for its buffers"):
        call()


@pytest.mark.usefixtures("a_compiler")
@pytest.mark.parametrize("way", ["aligned_alloc", "malloc", "calloc"])
def test_a_recurrence_without_memory(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rnn = RNN("gru", input_size=3, hidden_size=4)
    kernels = make_plan(next(part for part in rnn.modules() if isinstance(part, Cell)), torch.float32).kernels
    assert kernels is not None
    compile_library = compiler.compile_library
    monkeypatch.setattr(cpu, "compile_library", lambda text: compile_library(refuse(text, way)))
    monkeypatch.setitem(kernels.__dict__, "cpu", cpu.CPUBackend(kernels))
    with pytest.raises(MemoryError, match="a recurrence found no memory"):
        rnn(torch.randn(2, 3, 3))
