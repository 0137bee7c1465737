"""A question about a case, asked of a process of its own: nothing that came before it has a part in the answer.

What a process has allocated and freed decides how its memory behaves from then on. Packed nn.LSTM takes half as long
again in a fresh process as after larger layers have made room.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, Final

import torch

from weft.bench.case import Case, Size
from weft.errors import Fault
from weft.nn import CELLS, CellClass

PROGRAM: Final = "from weft.bench.process import answer; answer()"


def ask(
    function: Callable[..., Any],
    case: Case,
    *,
    imports: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    **more: object,
) -> Any:
    """function(case, cells, **more) in a fresh process with as many threads; JSON must be able to carry the result.

    `imports` are the [NAME=]FILE.py:CLASS of cells that are not weft's own.
    """
    request: dict[str, Any] = {"module": function.__module__, "function": function.__name__, "case": asdict(case)}
    request |= {"imports": list(imports), "threads": torch.get_num_threads(), "more": more}
    command = [sys.executable, "-c", PROGRAM, json.dumps(request)]
    surroundings = os.environ | (environment or {})
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Fault(f"could not be measured: {last}", where=f"{case.cell} {case.size}")
    return json.loads(done.stdout.splitlines()[-1])


def answer() -> None:
    """The other process: print the answer to the request in argv."""
    request = json.loads(sys.argv[1])
    torch.set_num_threads(request["threads"])
    case = Case(**{**request["case"], "size": Size(*request["case"]["size"])})
    cells: Mapping[str, CellClass] = CELLS
    if request["imports"]:
        from weft.run import import_cells

        cells = {**CELLS, **import_cells(request["imports"])}
    function = getattr(import_module(request["module"]), request["function"])
    print(json.dumps(function(case, cells, **request["more"])))
