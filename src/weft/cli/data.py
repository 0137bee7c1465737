"""weft data make|show|convert"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import SkipBadLines
from weft.cli.settings import TakesSettings

if TYPE_CHECKING:
    from weft.inspect.examples import ShownExample

SHOWN_CHARACTERS = 300
"""Characters shown of a long text; --row shows all of it."""

app = typer.Typer(help="Make a small corpus, or show how weft reads a file of examples.", no_args_is_help=True)


@app.command()
def make(
    corpus: Annotated[str, typer.Argument(help="phrasebook (English and French, for all four tasks).")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to; by default data/CORPUS.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the random numbers; the same seed gives the same bytes.")] = 0,
) -> None:
    """Write a corpus that weft generates, without a network.

    Example:
    weft data make phrasebook --out data/phrasebook
    """
    from weft import phrasebook
    from weft.cli.output import note
    from weft.errors import ConfigError, did_you_mean

    if corpus != "phrasebook":
        raise ConfigError(
            "is not a corpus that weft can make", where=f'"{corpus}"', cure=did_you_mean(corpus, ["phrasebook"])
        )
    folder = out or Path("data") / corpus
    try:
        folder.mkdir(parents=True, exist_ok=True)  # fails before the corpus is generated, which takes seconds
    except OSError as error:
        raise ConfigError(f"cannot be made: {error.strerror}", where=str(folder), cure="choose another --out") from None
    phrasebook.write(folder, seed=seed)
    note("Wrote {}: translate, tag, classify and lm, each with train, valid and test.", folder)
    files = " ".join(str(folder / "translate" / f"{part}.tsv") for part in ("train", "valid", "test"))
    note("Next: [bold]weft train translate {}[/]", files)


@app.command()
def convert(
    format: Annotated[str, typer.Argument(help="cmudict, conll, huggingface, names, parquet, scan or wmt.")],
    files: Annotated[
        list[str], typer.Argument(help="Files in that format, plain, .gz or .xz; or the name of a data set.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for train, valid and test.")],
    download: Annotated[
        bool, typer.Option("--download", help="huggingface: fetch a data set that is not in the local cache.")
    ] = False,
) -> None:
    """Turn public files into tables that weft reads: pairs as TSV, tagged words as columns, others as JSON lines.

    Examples:
    weft data convert cmudict cmudict.dict.xz --out data/cmudict
    weft data convert scan tasks_train_simple.txt tasks_test_simple.txt --out data/scan
    weft data convert conll eng.train eng.testa eng.testb --out data/ner
    weft data convert wmt newstest-src.en.sgm newstest-ref.de.sgm --out data/newstest
    """
    from functools import partial

    from weft.cli.output import note
    from weft.data.convert import CONVERTERS
    from weft.data.convert import convert as convert_files
    from weft.errors import ConfigError, counted, did_you_mean

    if format not in CONVERTERS:
        raise ConfigError("is not a format to convert", where=f'"{format}"', cure=did_you_mean(format, CONVERTERS))
    chosen = CONVERTERS[format]
    if download and not chosen.network:
        raise ConfigError(f"{format} reads files only", where="--download", cure="leave it out")
    if chosen.network:
        chosen = chosen._replace(read=partial(chosen.read, download=download))
    for path, count in convert_files(chosen, files, out).items():
        note("Wrote {}: {}", path, counted(count, "example"))


@app.command(cls=TakesSettings)
def show(
    task: Annotated[str, typer.Argument(help="A task, such as lm, tag or caption; or a config file.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(help="A file, and settings such as data.text=sentence.", metavar="FILE key=value"),
    ] = None,
    row: Annotated[
        list[int] | None, typer.Option("--row", "-r", help="Show this example, counted from 1. Repeatable.")
    ] = None,
    most: Annotated[int, typer.Option(min=0, help="Examples to show without --row.")] = 5,
    tokens: Annotated[bool, typer.Option("--tokens", help="Show tokens also without --row.")] = False,
    skip_bad_lines: SkipBadLines = False,
    imports: Imports = None,
) -> None:
    """Show how weft reads a file: the number of examples, their length, and the first few; or some with their tokens.

    Examples:
    weft data show classify reviews.tsv data.text=sentence
    weft data show translate pairs.tsv --row 17
    """
    from weft.cli.output import note, say
    from weft.cli.train import read
    from weft.inspect.examples import view_examples

    cells = read_imports(imports)
    found = view_examples(
        read(task, words or [], cells),
        cells=cells,
        rows=row or (),
        most=most,
        tokens=tokens or bool(row),
        skip_bad_lines=skip_bad_lines,
    )
    for message in found.notes:
        note("{}", message)
    examples = f"{found.examples:,} example{'s' * (found.examples != 1)}"
    say("{}, {} {} each on average", examples, f"{found.characters / max(1, found.examples):.1f}", found.unit)
    for shown in found.shown:
        _print_example(shown, whole=bool(row))


def _print_example(shown: ShownExample, *, whole: bool) -> None:
    """Print a line with the row, place and role of an example, and one for each of its parts."""
    from weft.cli.output import say

    say("\n[bold]{}[/]  [dim]{} · {}[/]", shown.row, shown.place, shown.role)
    for part in shown.fields:
        text = (
            part.text if whole or len(part.text) <= SHOWN_CHARACTERS else f"{part.text[:SHOWN_CHARACTERS].rstrip()} …"
        )
        _print_part(part.name, text)
        if part.pieces:
            count = f"{len(part.pieces)} token{'s' * (len(part.pieces) != 1)}"
            _print_part(count, " ".join(map(_visible, part.pieces)), style="cyan")
    if shown.effect:
        _print_part("length", shown.effect, style="yellow")


def _visible(text: str) -> str:
    from weft.console import visible

    return visible(text.replace("\n", "↵").replace("\t", "⇥"))


def _print_part(name: str, text: str, style: str = "") -> None:
    from rich.table import Table
    from rich.text import Text

    from weft.cli.output import literal, screen
    from weft.console import visible

    # A pipe gets one line for each part, without wrapping.
    if not screen.is_terminal:
        screen.print(Text(f"   {name:<11}{_visible(text)}"), soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=2)
    grid.add_column(width=10, style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("", literal(name), Text(visible(text), style=style))
    screen.print(grid)
