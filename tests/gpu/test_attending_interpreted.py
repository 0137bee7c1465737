"""The Triton kernels of a step that attends in Triton's interpreter, which needs no GPU: the same numbers as the C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.nn.kernels import HAS_TRITON

pytestmark = pytest.mark.skipif(not HAS_TRITON, reason="needs Triton")

SCRIPT = """
import importlib.util, sys
from torch.testing import assert_close
from weft.nn.recurrent.engine.plan import Kernels

spec = importlib.util.spec_from_file_location("attending", sys.argv[1])
cells = importlib.util.module_from_spec(spec)
sys.modules["attending"] = cells
spec.loader.exec_module(cells)
cell, cells.TIME, cells.LENGTHS = getattr(cells, sys.argv[2]), 3, cells.LENGTHS.clamp(max=3)
settings = {"bidirectional": True, "merge": "sum"}
expected = cells.measure(cells.build(cell, "reference", **settings), cells.LENGTHS)
Kernels.backend = lambda self, like: self.cuda
found = cells.measure(cells.build(cell, "engine", **settings), cells.LENGTHS)
assert_close(found, expected, rtol=1e-4, atol=1e-5)
"""

CELLS = Path(__file__).parents[1] / "nn" / "recurrent" / "test_attending.py"


@pytest.mark.parametrize("cell", ["ByDot", "OfState", "Additive", "Adds"])
def test_interpreted_kernels_equal_the_loop(cell: str) -> None:
    command = [sys.executable, "-c", SCRIPT, str(CELLS), cell]
    done = subprocess.run(
        command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True, check=False
    )
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("this Triton's interpreter does not run with this NumPy")
    assert done.returncode == 0, done.stderr
