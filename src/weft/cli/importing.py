"""weft import PATH [key=value…] --out RUN"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_(
    path: Annotated[
        Path, typer.Argument(help="A folder of a Hugging Face checkpoint, or an ARPA file, plain, .gz or .xz.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="How texts become the words of an ARPA file: text.punctuation=split text.lowercase=true.",
            metavar="key=value",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make.", metavar="DIR", show_default="runs/TASK-N")
    ] = None,
    pair: Annotated[bool, typer.Option("--pair", help="The inputs of a classifier are pairs of texts.")] = False,
) -> None:
    """Make a run of a model that other software has trained.

    A folder with config.json, model.safetensors and a tokenizer becomes a run with equal outputs: GPT-2 one of lm,
    Marian of translate, BERT, RoBERTa and DistilBERT of mask, and their classifiers of classify or regress. An ARPA
    file, as KenLM and SRILM write them, becomes a language model of its words, cut at blanks.

    Examples:
    weft import downloads/opus-mt-en-fr --out runs/en-fr
    echo "The cat sleeps." | weft predict runs/en-fr
    weft import news.arpa --out runs/news
    weft evaluate runs/news test.txt
    weft import model.arpa text.punctuation=split --out runs/words
    """
    from weft.cli.output import note
    from weft.config import parse_overrides
    from weft.errors import ConfigError
    from weft.importing import import_run

    given = parse_overrides(settings or ())
    for name in given.keys() - {"text"}:
        raise ConfigError("is no setting of an import", where=name, cure="only those of [text] are")
    run = import_run(path, out, pair=pair, text=given.get("text", {}), note=lambda said: note("{}", said))
    note("written: [bold]{}[/], a run of {}", run.folder, run.config.task)
