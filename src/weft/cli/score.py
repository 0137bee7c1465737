"""weft score RUN [DATA]"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device, SkipBadLines

if TYPE_CHECKING:
    from weft.metrics import LossTally
    from weft.run import Run
    from weft.tasks.generation import Scored

CHUNK_TEXTS = 1000
"""Texts that are read, scored and printed together."""


def score(
    run: Annotated[Path, typer.Argument(help="A run folder of a language model or a translator.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Lines of text, or pairs as in training; two files for parallel text.",
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

    Rank 1 is the likeliest token. A translator scores the target of each pair.

    Examples:
    weft score runs/lm-1 lines.txt
    weft score runs/translate-1 pairs.tsv --json > scores.jsonl
    """
    from weft.cli.output import print_json, say
    from weft.metrics import LossTally
    from weft.run import load
    from weft.text import SPECIALS, UNK

    model, tally, texts = load(run, device=device, cells=read_imports(imports)), LossTally(), 0
    model.score([])  # raises for a task that scores no texts, before anything is read
    tokenizer = model.task.codec.side("target")
    for found in read_scores(model, data or ["-"], skip_bad_lines=skip_bad_lines):
        texts += 1
        tally.add(-found.total, len(found.tokens), found.tokens.count(SPECIALS[UNK]))
        if json:
            print_json(found.record())
        else:
            show(found)
    summary = summarise(tally, texts, vocabulary=len(tokenizer))
    if json:
        print_json(summary)
    else:
        say("{}", ", ".join(f"{name.replace('_', ' ')} {value:,.4g}" for name, value in summary.items()))


def read_scores(model: Run, data: list[str], *, skip_bad_lines: bool) -> Iterator[Scored]:
    """Score the texts of some files, a chunk at a time; for a language model every line is a text."""
    from weft.cli.output import note
    from weft.data import BadLines, chunks

    bad, path = BadLines(skip=skip_bad_lines), data[0] if len(data) == 1 else data
    for chunk in chunks(model.task.read_to_score(path, model.config.data, bad), CHUNK_TEXTS):
        yield from model.score(chunk)
    if bad.count:
        note("skipped {}", bad)


def show(found: Scored) -> None:
    """Print a text, and a table with a line for each token."""
    import math

    from weft.cli.output import print_table, say

    columns = zip(found.pieces, found.log_probabilities, found.ranks, strict=True)
    rows = [(token, f"{100 * math.exp(log):.2f}%", f"{log:.4f}", f"{rank:,}") for token, log, rank in columns]
    say("{}", found.text if found.source is None else f"{found.source} → {found.text}")
    print_table(["token", "probability", "log-probability", "rank"], rows)


def summarise(tally: LossTally, texts: int, *, vocabulary: int) -> dict[str, float]:
    """The numbers over all texts."""
    return {
        "texts": texts,
        "tokens": tally.count,
        "log_probability": -tally.total,
        "log_probability_per_token": -tally.loss,
        "perplexity": tally.perplexity,
        "vocabulary": vocabulary,
        "unknown_share": tally.unknown_share,
    }
