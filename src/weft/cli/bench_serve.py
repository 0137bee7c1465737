"""weft bench serve RUN"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import Json, Markdown


def serve(
    run: Annotated[Path, typer.Argument(help="A run folder; a transformer translator for all contenders.")],
    contender: Annotated[
        list[str] | None,
        typer.Option(
            help="weft, weft-one (batches of one), huggingface, ctranslate2. Repeatable.",
            metavar="NAME",
            show_default="weft, weft-one",
        ),
    ] = None,
    inputs: Annotated[
        Path | None,
        typer.Option(help="A file with a text on each line; by default the run's validation data.", metavar="FILE"),
    ] = None,
    clients: Annotated[int, typer.Option(help="Clients, each with one request at a time.", min=1, max=4096)] = 64,
    seconds: Annotated[float, typer.Option(help="Seconds for each contender.", min=0.5, max=3600)] = 60.0,
    leaving: Annotated[
        int, typer.Option(help="Further clients that close their connections in the middle of a stream.", min=0)
    ] = 0,
    deadline: Annotated[float, typer.Option(help="The deadline of weft's server.", min=0.1)] = 30.0,
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Measure servers with many clients: rate, latency, errors, memory and its growth after a third of the time.

    Each contender is a process of its own on this machine, and so are the clients. The ratio is weft's rate divided
    by that of another.

    Examples:
    weft bench serve runs/demo
    weft bench serve runs/translate-1 --contender weft --contender huggingface --contender ctranslate2 --seconds 20
    """
    from weft.bench import describe, load_warning
    from weft.bench.serve.measure import MEANING, measure_serve, plan_serve, tabulate_serve
    from weft.cli.bench import show, show_progress
    from weft.cli.output import note, print_json
    from weft.serve.processes import cores

    settings = {"clients": clients, "seconds": seconds, "leaving": leaving, "deadline": deadline}
    case = plan_serve(
        run, contenders=contender or ["weft", "weft-one"], file=inputs, threads=threads or cores(), **settings
    )
    import torch

    torch.set_num_threads(case.threads)
    if warning := load_warning(torch.device("cpu")):
        note("{}", warning)
    machine = describe(torch.device("cpu"))
    rows, remarks = measure_serve(case, progress=show_progress)
    show_progress("")
    if json:
        print_json(
            {"machine": machine, "settings": case.describe(), "rows": [row.tree() for row in rows], "remarks": remarks}
        )
    else:
        errors = [f"{row.who}: {row.load.errors[0]}" for row in rows if row.load.errors]
        show(tabulate_serve(rows), machine, case.describe(), [MEANING, *remarks, *errors], markdown=markdown)
