"""Compiles graphs to C without the frame of a model, and runs them beside numpy's interpreter."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.export.c.constants import Constants
from weft.export.c.formulas import c_type
from weft.export.c.graph_writer import GraphWriter
from weft.export.c.sizes import identifier
from weft.export.c.source import chosen, only_used, read
from weft.export.graph import Graph
from weft.nn.native.compiler import find_compiler

FRAME = """
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
enum { WEFT_TOO_LONG = -1, WEFT_MACHINE, WEFT_DAMAGED, WEFT_OTHER };
#define WEFT_VERSION 1
#define WEFT_NUMBER 1u
#define WEFT_SECTIONS 1
typedef struct {
    const unsigned char *weights;
    unsigned char *scratch;
    uint64_t scratch_bytes;
} weft_model;
"""

WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")


class CGraphs:
    """Several graphs in one library."""

    def __init__(
        self, graphs: Sequence[Graph], folder: Path, *, int8: bool = False, options: Sequence[str] = ()
    ) -> None:
        constants, functions, kernels = Constants(int8=int8), list[str](), set[str]()
        self.lengths = []
        for number, graph in enumerate(graphs):
            written = GraphWriter(graph, constants, name=f"graph_{number}").write()
            functions += [*written.text, *_entry(number, graph, written.lengths)]
            kernels |= written.kernels
            self.lengths.append(written.lengths)
        parts = [FRAME, read("runtime.c"), chosen(kernels), *constants.macros(), *functions]
        (folder / "graphs.c").write_text(only_used("\n".join(parts)), encoding="utf-8")
        command = [
            *find_compiler(),
            *WARNINGS,
            *(options or ["-O1"]),
            "-shared",
            "-fPIC",
            "-o",
            "graphs.so",
            "graphs.c",
            "-lm",
        ]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.library, self.graphs = ctypes.CDLL(str(folder / "graphs.so")), graphs
        self.weights = np.frombuffer(constants.bytes() + bytes(64), np.uint8).copy()

    def __call__(self, number: int, inputs: Mapping[str, Any], shapes: Sequence[Sequence[int]]) -> list[Any]:
        """The outputs, of these shapes, of one graph for one row. Scratch memory begins full of NaN."""
        graph = self.graphs[number]
        sizes: dict[str, int] = {}
        given = []
        for value in graph.inputs:
            array = np.ascontiguousarray(inputs[value.name], np.float32 if value.kind == "float" else np.int32)
            sizes |= {name: real for name, real in zip(value.shape, array.shape, strict=True) if isinstance(name, str)}
            given.append(array)
        lengths = [ctypes.c_long(sizes[name]) for name in self.lengths[number]]
        need = getattr(self.library, f"need_{number}")
        need.restype = ctypes.c_uint64
        room = int(need(*lengths))
        scratch = np.full(room + 64, 255, np.uint8)
        kinds = [np.float32 if value.kind == "float" else np.int32 for value in graph.outputs]
        outputs = [np.full(shape, -12345, kind) for shape, kind in zip(shapes, kinds, strict=True)]
        arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (self.weights, scratch)]
        code = getattr(self.library, f"run_{number}")(
            arrays[0],
            arrays[1],
            ctypes.c_uint64(room),
            *lengths,
            *(array.ctypes.data_as(ctypes.c_void_p) for array in (*given, *outputs)),
        )
        assert code == 0
        assert (scratch[room:] == 255).all(), "something was written behind the scratch memory"
        return outputs


def _entry(number: int, graph: Graph, lengths: Sequence[str]) -> list[str]:
    names = [f"n_{identifier(name)}" for name in lengths]
    given = [f"const {c_type(value)} *i{n}" for n, value in enumerate(graph.inputs)]
    wanted = [f"{c_type(value)} *o{n}" for n, value in enumerate(graph.outputs)]
    sizes = [f"long {name}" for name in names]
    head = ", ".join(
        ["const unsigned char *weights", "unsigned char *scratch", "uint64_t bytes", *sizes, *given, *wanted]
    )
    call = ", ".join(["&m", *names, *(f"i{n}" for n in range(len(given))), *(f"o{n}" for n in range(len(wanted)))])
    return [
        f"int run_{number}({head})",
        "{",
        "    weft_model m = {weights, scratch, bytes};",
        f"    return graph_{number}({call});",
        "}",
        f"uint64_t need_{number}({', '.join(sizes) or 'void'})",
        "{",
        f"    return graph_{number}_bytes({', '.join(names)});",
        "}",
    ]
