"""weft bench recurrence|attending|training|decode|forecast|loop|export|serve"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.bench_attending import attending
from weft.cli.bench_export import export
from weft.cli.bench_forecast import forecast
from weft.cli.bench_loop import loop
from weft.cli.bench_recurrence import recurrence
from weft.cli.bench_serve import serve
from weft.cli.options import BenchDevice, Json, Markdown

if TYPE_CHECKING:
    pass

app = typer.Typer(help="Compare the speed of weft with other software on this machine.", invoke_without_command=True)

TEXT_COLUMNS = ("cell", "score", "dtype", "backend", "contender", "model", "file")
"""Columns that hold no numbers."""


def size_option(text: str, defaults: str) -> Any:
    """An option whose default depends on the device."""
    return typer.Option(help=text, show_default=defaults)


@app.callback()
def listing(context: typer.Context) -> None:
    """Compare the speed of weft with other software on this machine."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def training(
    contender: Annotated[
        list[str] | None,
        typer.Option(
            help="weft, huggingface or huggingface-compiled. Repeatable.",
            metavar="NAME",
            show_default="weft, huggingface",
        ),
    ] = None,
    layers: Annotated[int | None, size_option("Layers of the encoder, and of the decoder.", "3 or 6")] = None,
    width: Annotated[int | None, size_option("Features of a token.", "256 or 512")] = None,
    heads: Annotated[int | None, size_option("Heads of each attention.", "4 or 8")] = None,
    feedforward: Annotated[int | None, size_option("Features inside a feed-forward layer.", "1024 or 2048")] = None,
    words: Annotated[
        int | None, size_option("Entries of the vocabulary that both sides share.", "8000 or 32000")
    ] = None,
    rows: Annotated[int | None, size_option("Sentences in a batch.", "32 or 256")] = None,
    length: Annotated[int | None, size_option("Tokens of a sentence.", "32 or 64")] = None,
    dropout: Annotated[float, typer.Option(help="Share of values dropped.", min=0.0, max=0.99)] = 0.1,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Real sentence pairs, in batches of rows × length tokens. Give it twice for parallel files.",
            metavar="FILE",
            show_default="random words without padding",
        ),
    ] = None,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Compile weft's blocks.", show_default="on a GPU")
    ] = None,
    device: BenchDevice = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 0,
    repeats: Annotated[int, typer.Option(help="Samples; the median is printed.", min=1)] = 15,
    updates: Annotated[int | None, typer.Option(help="Updates in a sample.", min=1, show_default="2 or 10")] = None,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Time whole updates of a translator, and of the same transformer in Hugging Face transformers.

    An update is forward, backward, clipping and optimizer; padding does not count as tokens.

    Of two defaults the first is for a CPU. A ratio is weft's tokens per second divided by another one's.

    Examples:
    weft bench training
    weft bench training --device cpu --threads 2 --data train.en.xz --data train.de.xz
    weft bench training --contender weft --contender huggingface-compiled --layers 12 --json
    """
    from weft.bench import describe, load_warning
    from weft.bench.training import (
        build_sentences,
        measure_training,
        plan_training,
        tabulate_training,
        transformers_version,
    )
    from weft.cli.output import note, print_json
    from weft.training import keep_memory, set_threads

    names = ("layers", "width", "heads", "feedforward", "words", "rows", "length")
    sizes = (layers, width, heads, feedforward, words, rows, length)
    case = plan_training(
        device=device,
        sizes=dict(zip(names, sizes, strict=True)),
        dropout=dropout,
        compile=compile,
        data=data or (),
        contenders=contender or (),
        updates=updates,
        repeats=repeats,
    )
    set_threads(threads)
    keep_memory()
    # Learning the words of a file is load too, so the load is measured first; the warning is printed after all errors.
    warning, machine = load_warning(case.device), describe(case.device) | {"transformers": transformers_version(case)}
    sentences = build_sentences(case)
    if warning:
        note("{}", warning)
    outcome = measure_training(case, sentences)
    if json:
        figures = [row.tree() for row in outcome.rows]
        print_json({"machine": machine, "settings": case.tree(), "rows": figures, "remarks": outcome.remarks})
    else:
        show(tabulate_training(outcome.rows), machine, case.describe(), outcome.remarks, markdown=markdown)


@app.command()
def decode(
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            "--contenders",
            help="weft, huggingface, ctranslate2 or ctranslate2-int8. Repeatable.",
            metavar="NAME",
            show_default="all that are installed",
        ),
    ] = None,
    kind: Annotated[
        str, typer.Option(help="transformer, or rnn: an LSTM with attention, only in weft.")
    ] = "transformer",
    beam: Annotated[
        list[int] | None,
        typer.Option(help="Hypotheses of a sentence. Repeatable.", min=1, show_default="4, or 1 and 5"),
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(help="Sentences in a batch. Repeatable.", min=1, show_default="32 or 64")
    ] = None,
    layers: Annotated[int | None, size_option("Layers of the encoder, and of the decoder.", "3 or 6; rnn: 2")] = None,
    width: Annotated[int | None, size_option("Features of a token.", "256 or 512; rnn: 512")] = None,
    heads: Annotated[int | None, size_option("Heads of each attention.", "4 or 8")] = None,
    feedforward: Annotated[int | None, size_option("Features inside a feed-forward layer.", "1024 or 2048")] = None,
    words: Annotated[int | None, size_option("Entries of the vocabulary.", "8000 or 32000")] = None,
    length: Annotated[int | None, size_option("Tokens of a source, and of its translation.", "32 or 64")] = None,
    device: BenchDevice = "auto",
    threads: Annotated[int, typer.Option(help="Processor threads; 0 means one for each core.", min=0)] = 2,
    repeats: Annotated[int, typer.Option(help="Rounds; the median is printed.", min=1)] = 5,
    markdown: Markdown = False,
    json: Json = False,
) -> None:
    """Time translation by weft, Hugging Face `generate` and CTranslate2, all with the same weights.

    Times are from tokens to tokens, in float32 on a CPU, bf16 on a GPU. Of two defaults the first is for a CPU.

    A ratio is weft's rate divided by another one's; equal is the share of translations that equal weft's.

    Examples:
    weft bench decode
    weft bench decode --beam 1 --beam 4 --batch 32 --contender weft --contender ctranslate2
    weft bench decode --kind rnn --device cuda --json
    """
    from weft.bench import describe, load_warning
    from weft.bench.decode import installed, measure_decode, plan_decode, tabulate_decode, versions
    from weft.cli.output import note, print_json
    from weft.training import set_threads

    names = ("layers", "width", "heads", "feedforward", "words", "length")
    sizes = dict(zip(names, (layers, width, heads, feedforward, words, length), strict=True))
    case = plan_decode(
        device=device,
        kind=kind,
        sizes=sizes,
        beams=beam or (),
        batches=batch or (),
        contenders=contender or (),
        repeats=repeats,
    )
    set_threads(threads)
    if warning := load_warning(case.device):
        note("{}", warning)
    machine = describe(case.device) | versions(installed(case)[0])
    outcome = measure_decode(case)
    if json:
        figures = [row.tree() for row in outcome.rows]
        print_json({"machine": machine, "settings": case.tree(), "rows": figures, "remarks": outcome.remarks})
    else:
        show(tabulate_decode(outcome.rows), machine, case.describe(), outcome.remarks, markdown=markdown)


app.command()(recurrence)
app.command()(attending)
app.command()(forecast)
app.command()(loop)
app.command()(export)
app.command()(serve)


def show_progress(text: str) -> None:
    """Print a line on a terminal that the next one replaces. A moving bar would take time from the contenders."""
    from rich.control import Control
    from rich.segment import ControlType
    from rich.text import Text

    from weft.cli.output import errors

    if errors.is_terminal:
        errors.print(Text(f"{text:60}"), end="")
        errors.control(Control(ControlType.CARRIAGE_RETURN))


def show(
    contents: tuple[list[str], list[list[str]]],
    machine: dict[str, Any],
    about: str,
    remarks: list[str],
    *,
    markdown: bool,
) -> None:
    """Print the machine, the case, a table as wide as its content, and the remarks."""
    from rich import box
    from rich.table import Table

    from weft.cli.output import literal, say, screen
    from weft.console import SafeConsole

    headings, lines = contents
    table = Table(box=box.MARKDOWN if markdown else box.SIMPLE, pad_edge=markdown)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in TEXT_COLUMNS else "right", no_wrap=True)
    for line in lines:
        table.add_row(*map(literal, line))
    rest = [f"{name} {value}" for name, value in machine.items() if name != "device" and value is not None]
    say("{}", ", ".join([machine["device"], *rest]))
    say("{}", about)
    # A line that is too long for the window is better than a number without its last digits.
    width = SafeConsole(width=1000).measure(table).maximum
    SafeConsole(width=max(width, screen.width)).print(table)
    for remark in remarks:
        say("{}", remark)
