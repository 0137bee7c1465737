"""weft bench loop"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import BenchDevice, Json, Markdown


def loop(
    device: BenchDevice = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    repeats: Annotated[int, typer.Option(help="Blocks of three rounds; the median is printed.", min=1)] = 15,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Time the training loop, and the same updates written by hand: forward, backward, step.

    A small recurrent and a small transformer language model are each trained both ways in turn.

    Examples:
    weft bench loop
    weft bench loop --device cpu --threads 2 --json
    """
    from weft.bench import describe, load_warning
    from weft.bench.loop import MODELS, measure_loop, plan_loop, tabulate_loop
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.training import keep_memory, set_threads

    case = plan_loop(device)
    set_threads(threads)
    keep_memory()
    if warning := load_warning(case.device):
        note("{}", warning)
    machine, rows = describe(case.device), []
    for kind in MODELS[case.device.type]:
        show_progress(kind)
        rows.append(measure_loop(kind, case, repeats=repeats))
    show_progress("")
    if json:
        print_json({"machine": machine, "settings": case.tree(), "rows": [row.tree() for row in rows]})
    else:
        show(tabulate_loop(rows), machine, f"{case.describe()}; median of {repeats} blocks", [], markdown=markdown)
