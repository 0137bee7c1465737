"""Measures a case in a fresh process, so that earlier allocations do not change the figures.

They would: packed nn.LSTM takes half as long again in a fresh process as in one that has run larger layers before.
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

from weft.bench.recurrence.case import Case, Size
from weft.errors import Fault
from weft.nn import CELLS, CellClass

PROGRAM: Final = "from weft.bench.recurrence.process import answer; answer()"


def ask(
    function: Callable[..., Any],
    case: Case,
    *,
    imports: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    **more: object,
) -> Any:
    """Return function(case, cells, **more), called in a fresh process with as many threads; the result travels as JSON.

    `imports` are the [NAME=]FILE.py:CLASS of cells that are not weft's own.
    """
    request: dict[str, Any] = {"module": function.__module__, "function": function.__name__, "case": asdict(case)}
    request |= {"imports": list(imports), "threads": torch.get_num_threads(), "more": more}
    command = [sys.executable, "-c", PROGRAM, json.dumps(request)]
    variables = os.environ | (environment or {})
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Fault(f"could not be measured: {last}", where=f"{case.cell} {case.size}")
    return json.loads(done.stdout.splitlines()[-1])


def answer() -> None:
    """Runs in the fresh process: call the function that argv names and print its result."""
    request = json.loads(sys.argv[1])
    torch.set_num_threads(request["threads"])
    case = Case(**{**request["case"], "size": Size(*request["case"]["size"])})
    cells: Mapping[str, CellClass] = CELLS
    if request["imports"]:
        from weft.run import import_classes

        cells = {**CELLS, **import_classes(request["imports"])}
    function = getattr(import_module(request["module"]), request["function"])
    print(json.dumps(function(case, cells, **request["more"])))
