"""weft bench attending"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import BenchDevice, Json, Markdown


def attending(
    cell: Annotated[
        list[str] | None, typer.Option(help="The name of a cell. Repeatable.", metavar="NAME", show_default="lstm")
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option(help="The score of the attention. Repeatable.", metavar="NAME", show_default="bilinear"),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(
            help="Batch, length of source and target, hidden size. Repeatable.",
            metavar="B,T,H",
            show_default="32,20,256 and 64,40,512",
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="float32, or bf16 or fp16 by autocast; auto is float32 on a CPU and bf16 on a GPU.")
    ] = "auto",
    device: BenchDevice = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    repeats: Annotated[int, typer.Option(help="Rounds; the median is printed.", min=1)] = 9,
    markdown: Markdown = False,
    json: Json = False,
    imports: Imports = None,
) -> None:
    """Time a translator that attends inside its recurrence: compiled, in a Python loop, and with attention after it.

    A pass is forward and backward over one batch, of the whole translator. A ratio is the time of another one divided
    by that of the compiled loop.

    Examples:
    weft bench attending
    weft bench attending --cell gru --score additive --size 32,20,256 --threads 1
    """
    from weft.bench import describe, load_warning, plan_cases
    from weft.bench.attending import SIZES, check_scores, measure_attending, remarks_attending, tabulate_attending
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.nn import CELLS
    from weft.training import set_threads

    known, scores, sizes = {**CELLS, **read_imports(imports)}, score or ["bilinear"], size or [*map(str, SIZES)]
    check_scores(scores)
    dtypes = [] if dtype == "auto" else [dtype]
    cases = plan_cases(cell or ["lstm"], sizes, known=known, device=device, dtypes=dtypes, autocast=True)
    set_threads(threads)
    if warning := load_warning(cases[0].device):
        note("{}", warning)
    machine, rows = describe(cases[0].device), []
    for case in cases:
        for name in scores:
            show_progress(f"{case.cell} {name} {case.size}")
            rows.append(measure_attending(case, name, repeats=repeats, cells=known))
    show_progress("")
    if json:
        settings = {"dtype": cases[0].dtype, "repeats": repeats}
        print_json({"machine": machine, "settings": settings, "rows": [row.tree() for row in rows]})
    else:
        about = f"a translator in {cases[0].dtype}, forward and backward, tokens of the target; median of {repeats}"
        show(tabulate_attending(rows), machine, about, remarks_attending(rows), markdown=markdown)
