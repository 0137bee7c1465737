"""weft bench recurrence"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.bench_long import bench_long, refuse_beside_long
from weft.cli.imports import Imports, read_imports
from weft.cli.options import BenchDevice, Json, Markdown

if TYPE_CHECKING:
    from weft.bench import Figures


def recurrence(
    cell: Annotated[
        list[str] | None,
        typer.Option(help="The name of a cell. Repeatable.", metavar="NAME", show_default="five of them"),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="Batch, time and hidden size. Repeatable.", metavar="B,T,H", show_default="two or three"),
    ] = None,
    lengths: Annotated[
        bool, typer.Option("--lengths", help="Use rows of T/2 to T steps; torch.nn gets them packed.")
    ] = False,
    bidirectional: Annotated[bool, typer.Option("--bidirectional", help="Both directions.")] = False,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="float32, bf16 or fp16; auto is float32 on a CPU and bf16 on a GPU. Repeatable.",
            metavar="NAME",
            show_default="auto",
        ),
    ] = None,
    autocast: Annotated[
        bool, typer.Option("--autocast", help="Keep the weights in float32, as training does.")
    ] = False,
    device: BenchDevice = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    repeats: Annotated[int, typer.Option(help="Rounds; the median is printed.", min=1)] = 15,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure only these beside weft: graph (weft's pass replayed from one CUDA graph), graphed (from two "
            "that Python calls), torch, torch_fp16, eager, limit; with --long a name of its columns. Repeatable.",
            metavar="NAME",
            show_default="all",
        ),
    ] = None,
    long: Annotated[
        bool,
        typer.Option("--long", help="Time h' = a h + b alone over up to 131,072 steps, beside other software for it."),
    ] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Measure peak memory on a CPU too, each contender in its own process.")
    ] = False,
    cold: Annotated[
        bool, typer.Option("--cold", help="Start with an empty cache, so that first calls compile.")
    ] = False,
    markdown: Markdown = False,
    json: Json = False,
    imports: Imports = None,
) -> None:
    """Time one recurrent layer, forward and backward, and compare it with torch.nn, a Python loop and the limit.

    The limit is the layer's matrix products alone. A ratio is the time of another one divided by weft's.

    Examples:
    weft bench recurrence
    weft bench recurrence --cell lstm --size 32,64,128 --size 16,128,256 --lengths --threads 2
    weft bench recurrence --cell Mine --import mine.py:Mine --json
    weft bench recurrence --long
    """
    if long:
        refuse_beside_long(
            cell=cell, imports=imports, lengths=lengths, bidirectional=bidirectional, autocast=autocast,
            memory=memory, cold=cold,
        )  # fmt: skip
        bench_long(
            size or [], dtype or [], device, contenders=contender or [], threads=threads, repeats=repeats,
            markdown=markdown, json=json,
        )  # fmt: skip
        return
    from weft.bench import (
        OTHERS,
        check_contenders,
        cold_cache,
        describe,
        load_warning,
        measure,
        plan_cases,
        remarks,
        tabulate,
    )  # fmt: skip
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.nn import CELLS
    from weft.training import set_threads

    known, others = {**CELLS, **read_imports(imports)}, check_contenders(contender or [], OTHERS)
    switches = {"lengths": lengths, "bidirectional": bidirectional, "autocast": autocast}
    cases = plan_cases(cell or [], size or [], known=known, device=device, dtypes=dtype or [], **switches)
    set_threads(threads)
    if warning := load_warning(cases[0].device):
        note("{}", warning)
    machine = describe(cases[0].device)
    rows: list[Figures] = []
    with cold_cache(wanted=cold):
        for number, case in enumerate(cases, 1):
            show_progress(f"{case.cell} {case.size} {case.dtype} ({number} of {len(cases)})")
            rows.append(
                measure(case, repeats=repeats, others=others, memory=memory, cells=known, imports=imports or [])
            )
    show_progress("")
    if json:
        settings = {**switches, "repeats": repeats}
        print_json({"machine": machine, "settings": settings, "rows": [row.tree() for row in rows]})
    else:
        about = f"{rows[0].case.describe()}, forward and backward, median of {repeats}"
        show(tabulate(rows), machine, about, remarks(rows), markdown=markdown)
