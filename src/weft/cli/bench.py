"""weft bench recurrence"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports

if TYPE_CHECKING:
    from weft.bench import Figures

app = typer.Typer(help="Measure weft against what else there is, on this machine.", invoke_without_command=True)


@app.callback()
def listing(context: typer.Context) -> None:
    """Measure weft against what else there is, on this machine."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def recurrence(
    cell: Annotated[
        list[str] | None,
        typer.Option(help="A cell by its name. Repeatable.", metavar="NAME", show_default="five of them"),
    ] = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="Batch, time and hidden size. Repeatable.", metavar="B,T,H", show_default="two or three"),
    ] = None,
    lengths: Annotated[
        bool, typer.Option("--lengths", help="Rows from T/2 to T steps long; torch.nn gets them packed.")
    ] = False,
    bidirectional: Annotated[bool, typer.Option("--bidirectional", help="Both directions.")] = False,
    dtype: Annotated[
        str, typer.Option(help="float32, bf16 or fp16; auto is float32 on a CPU and bf16 on a GPU.")
    ] = "auto",
    autocast: Annotated[
        bool, typer.Option("--autocast", help="Keep the weights in float32, as training does.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda; auto takes CUDA where there is one.")] = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    repeats: Annotated[int, typer.Option(help="Rounds, of which the median is taken.", min=1)] = 15,
    memory: Annotated[
        bool, typer.Option("--memory", help="Peak memory on a CPU too, each contender in a process of its own.")
    ] = False,
    cold: Annotated[
        bool, typer.Option("--cold", help="Start with an empty cache, so that first calls compile.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As a Markdown table.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    imports: Imports = None,
) -> None:
    """Time one recurrent layer, forward and backward, against torch.nn, the plain loop and the limit.

    The limit is the layer's matrix products alone. A ratio is another one's time divided by weft's.

    Examples: weft bench recurrence

    weft bench recurrence --cell lstm --size 32,64,128 --size 16,128,256 --lengths --threads 2

    weft bench recurrence --cell Mine --import mine.py:Mine --json
    """
    from weft.bench import cold_cache, describe, load_warning, measure, plan_cases
    from weft.cli.output import note, print_json
    from weft.nn import CELLS
    from weft.training import set_threads

    known = {**CELLS, **read_imports(imports)}
    switches = {"lengths": lengths, "bidirectional": bidirectional, "autocast": autocast}
    cases = plan_cases(cell or [], size or [], known=known, device=device, dtype=dtype, **switches)
    set_threads(threads)
    if warning := load_warning(cases[0].device):
        note(warning)
    machine = describe(cases[0].device)
    rows: list[Figures] = []
    with cold_cache(wanted=cold):
        for number, case in enumerate(cases, 1):
            say_on_terminal(f"{case.cell} {case.size} ({number} of {len(cases)})")
            rows.append(measure(case, repeats=repeats, memory=memory, cells=known, imports=imports or []))
    say_on_terminal("")
    if json:
        settings = {"dtype": cases[0].dtype, **switches, "repeats": repeats}
        print_json({"machine": machine, "settings": settings, "rows": [row.tree() for row in rows]})
    else:
        show(rows, machine, repeats, markdown=markdown)


def say_on_terminal(text: str) -> None:
    """One line that the next one replaces; nothing that moves by itself and takes time from a contender."""
    from weft.cli.output import errors

    if errors.is_terminal:
        errors.print(f"{text:60}", end="\r")


def show(rows: list[Figures], machine: dict[str, Any], repeats: int, *, markdown: bool) -> None:
    """The table, as wide as it needs to be, between where it comes from and what is not in it."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from weft.bench import remarks, tabulate
    from weft.cli.output import say, screen

    headings, lines = tabulate(rows)
    table = Table(box=box.MARKDOWN if markdown else box.SIMPLE, pad_edge=markdown)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("cell", "backend") else "right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    rest = [f"{name} {value}" for name, value in machine.items() if name != "device" and value is not None]
    say(escape(", ".join([machine["device"], *rest])))
    say(f"{rows[0].case.describe()}, forward and backward, median of {repeats}")
    # A line too long for the window is better than a figure without its last digits.
    width = Console(width=1000).measure(table).maximum
    Console(highlight=False, width=max(width, screen.width)).print(table)
    for remark in remarks(rows):
        say(escape(remark))
