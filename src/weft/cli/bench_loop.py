"""weft bench loop"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.options import BenchDevice, Json, Markdown


def loop(
    device: BenchDevice = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    repeats: Annotated[int, typer.Option(help="Blocks of three rounds; the median is printed.", min=1)] = 15,
    teacher_forcing: Annotated[
        float | None,
        typer.Option(
            help="Time scheduled sampling instead: each token read is the true one with this probability.",
            metavar="P",
            min=0.0,
            max=1.0,
        ),
    ] = None,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Time the training loop, and the same updates written by hand: forward, backward, step.

    A small recurrent and a small transformer language model are each trained both ways in turn.

    With --teacher-forcing recurrent models are trained with the truth alone, with steps in CUDA graphs, and with steps
    in a Python loop.

    Examples:
    weft bench loop
    weft bench loop --device cpu --threads 2 --json
    weft bench loop --teacher-forcing 0.5
    """
    if teacher_forcing is not None:
        _sampling(device, teacher_forcing, threads=threads, repeats=repeats, markdown=markdown, json=json)
        return
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


def _sampling(device: str, truth: float, *, threads: int, repeats: int, markdown: bool, json: bool) -> None:
    """Time updates with scheduled sampling."""
    from weft.bench import describe, load_warning
    from weft.bench.sampling import MODELS, measure_sampling, plan_sampling, remarks_sampling, tabulate_sampling
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.training import keep_memory, set_threads

    case = plan_sampling(device, truth)
    set_threads(threads)
    keep_memory()
    if warning := load_warning(case.device):
        note("{}", warning)
    machine, rows = describe(case.device), []
    for kind in MODELS:
        show_progress(kind)
        rows.append(measure_sampling(kind, case, repeats=repeats))
    show_progress("")
    if json:
        print_json({"machine": machine, "settings": case.tree(), "rows": [row.tree() for row in rows]})
    else:
        about = f"{case.describe()}; median of {repeats}"
        show(tabulate_sampling(rows), machine, about, remarks_sampling(rows), markdown=markdown)
