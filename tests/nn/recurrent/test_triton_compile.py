"""The Triton loops and scans compile for a GPU that is not here, and keep all that they carry in registers."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tests.nn.recurrent.test_scan import Chain

from weft.nn import RNN, CellChoice
from weft.nn.kernels import HAS_TRITON
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.generated import load_generated
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.engine.lane_triton import COUNTS
from weft.nn.recurrent.engine.loop_triton_source import TritonLoopSource
from weft.nn.recurrent.engine.plan import Plan

pytestmark = [
    pytest.mark.skipif(not HAS_TRITON, reason="needs Triton (pip install triton)"),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="Triton's interpreter compiles nothing"),
    pytest.mark.slow,
]

FLOAT32 = (Kind.BEGIN, Kind.SLOPE, Kind.SUM_HOISTED, Kind.GRAD_VECTOR)


@pytest.mark.parametrize("rows", [0, 2], ids=["equal", "segments"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(("choice", "directions"), [("min_gru", 1), ("sru", 1), (Chain, 2)], ids=str)
def test_every_kernel_compiles_without_spills(
    choice: CellChoice, directions: int, dtype: str, rows: int, tmp_path: Path
) -> None:
    from triton import compile as compile_kernel
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import get_ptxas
    from triton.compiler import ASTSource

    plan = plan_of(RNN(choice, 64, 64).layers[0].cells[0])
    assert isinstance(plan, Plan)
    assert plan.kernels is not None
    source = TritonLoopSource(plan.kernels, directions)
    module = load_generated(source.text)
    for backward in (False, True):
        tensors = {
            f"{argument}_{d}": "*fp32" if argument.kind in FLOAT32 else f"*{dtype}"
            for d in range(directions)
            for argument in source.given[backward]
        }
        signature = tensors | {"lengths": "*i64", "firsts": "*i64"} | dict.fromkeys(COUNTS, "i32")
        options = {"ROWS": rows, "REVERSE": 2 if directions == 2 else 0, "SCAN": bool(source.scans[backward])}
        options |= {"BLOCK": 32}
        for kernel in source.scans[backward] + source.loops[backward]:
            function = getattr(module, kernel.name)
            constants = {(function.arg_names.index(name),): value for name, value in options.items()}
            types = signature | dict.fromkeys(options, "constexpr")
            made = compile_kernel(
                ASTSource(function, types, constexprs=constants),
                target=GPUTarget("cuda", 90, 32),
                options={"num_warps": 1, "num_stages": 1},
            )
            text = tmp_path / f"{kernel.name}.ptx"
            text.write_text(made.asm["ptx"])
            command = [get_ptxas(90).path, "-v", "--gpu-name=sm_90a", str(text), "-o", str(tmp_path / "cubin")]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
            assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", said), said
