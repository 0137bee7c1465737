"""weft score RUN [DATA]"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device, SkipBadLines

if TYPE_CHECKING:
    from weft.run import Run
    from weft.tasks.results import ScoredText

CHUNK_TEXTS = 1000
"""Texts that are read, scored and printed together."""


def score(
    run: Annotated[
        str,
        typer.Argument(help="A run folder of a language model, a masked language model, a translator or a tagger."),
    ],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Lines of text, or pairs or tagged words as in training; two files for parallel text.",
            metavar="DATA",
            show_default="standard input",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each text, and one for all.")] = False,
    skip_bad_lines: SkipBadLines = False,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Print the probability, log-probability and rank of each token of given texts.

    Rank 1 is the likeliest token. A masked language model scores each token given all others. A translator scores the
    target of each pair. A tagger scores the tags of each sentence: all of them together, and each by itself.

    Examples:
    weft score runs/lm-1 lines.txt
    weft score runs/translate-1 pairs.tsv --json > scores.jsonl
    """
    from weft.cli.output import print_json, print_table, say
    from weft.metrics import LossTally
    from weft.run import load

    model, tally, texts = load(run, device=device, cells=read_imports(imports)), LossTally(), 0
    model.score([])  # raises for a task that scores no texts, before anything is read
    for found in read_scores(model, data or ["-"], skip_bad_lines=skip_bad_lines):
        texts += 1
        found.add_to(tally)
        if json:
            print_json(found.record())
        else:
            say("{}", found.title)
            print_table(list(found.headings), found.rows())
    summary = model.task.summarise_scored(tally, texts)
    if json:
        print_json(summary)
    else:
        say("{}", ", ".join(f"{name.replace('_', ' ')} {show_number(value)}" for name, value in summary.items()))


def show_number(value: float) -> str:
    """A count or a large number as a whole number with separators, anything else with four digits."""
    return f"{value:,.0f}" if isinstance(value, int) or 1000 <= abs(value) < math.inf else f"{value:.4g}"


def read_scores(model: Run, data: list[str], *, skip_bad_lines: bool) -> Iterator[ScoredText]:
    """Score the texts of some files, a chunk at a time; for a language model every line is a text."""
    from weft.cli.output import note
    from weft.data import BadLines, chunks

    bad, path = BadLines(skip=skip_bad_lines), data[0] if len(data) == 1 else data
    for chunk in chunks(model.task.read_to_score(path, model.config.data, bad), CHUNK_TEXTS):
        yield from model.score(chunk)
    if bad.count:
        note("skipped {}", bad)
