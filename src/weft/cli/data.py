"""weft data make|show"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.options import SkipBadLines
from weft.cli.settings import TakesSettings

app = typer.Typer(help="Make a corpus to try things on; look into a file of examples.", no_args_is_help=True)


@app.command()
def make(
    corpus: Annotated[str, typer.Argument(help="phrasebook: English and French, for all four tasks.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder to write to; by default data/CORPUS.")] = None,
    seed: Annotated[int, typer.Option(help="Where chance starts; the same seed gives the same bytes.")] = 0,
) -> None:
    """Write a corpus made by weft itself, without any network.

    Example: weft data make phrasebook --out data/phrasebook
    """
    from weft.cli.output import note
    from weft.data import phrasebook
    from weft.errors import ConfigError, Fault, did_you_mean

    if corpus != "phrasebook":
        raise ConfigError(
            "is not a corpus that weft can make", where=f'"{corpus}"', cure=did_you_mean(corpus, ["phrasebook"])
        )
    folder = out or Path("data") / corpus
    try:
        phrasebook.write(folder, seed=seed)
    except OSError as error:
        raise Fault(f"cannot be written: {error.strerror}", where=str(folder), cure="choose another --out") from None
    note(f"Wrote {folder}: translate, tag, classify and lm, each with train, valid and test.")
    files = " ".join(str(folder / "translate" / f"{part}.tsv") for part in ("train", "valid", "test"))
    note(f"Next: [bold]weft train translate {files}[/]")


@app.command(cls=TakesSettings)
def show(
    task: Annotated[str, typer.Argument(help="What the file is for: lm, classify, tag or translate.")],
    words: Annotated[
        list[str], typer.Argument(help="A file, and settings such as data.text=sentence.", metavar="FILE [key=value…]")
    ],
    most: Annotated[int, typer.Option(help="Examples to show.")] = 5,
    skip_bad_lines: SkipBadLines = False,
) -> None:
    """Show how weft reads a file: how many examples, how long, and the first few.

    Example: weft data show classify reviews.tsv data.text=sentence
    """
    from dataclasses import fields

    from rich.markup import escape

    from weft.cli.output import note, say
    from weft.cli.train import read
    from weft.run import survey_config

    _, reader, corpus, survey, _ = survey_config(read(task, words), skip_bad_lines=skip_bad_lines)
    say(f"{survey.examples:,} examples, {survey.characters / max(1, survey.examples):.1f} characters each on average")
    for message in reader.notes:
        note(message)
    for _, record in zip(range(most), corpus, strict=False):
        shown = [getattr(record, field.name) for field in fields(record) if field.name != "place"]
        say(f"[dim]{record.place}[/]  " + "  [dim]→[/]  ".join(escape(str(value)) for value in shown))
