"""weft predict RUN [FILE]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    file: Annotated[
        str, typer.Argument(help="Inputs: a line each, or a table by its suffix; - is standard input.")
    ] = "-",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="text, tsv, csv, jsonl, json; for taggers text, conllu, columns. By default that of the suffix.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="The column to answer, by its name or its number from 0; repeated, they are joined."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="A JSON object per line: probabilities, scores, other candidates.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of every label, or the score of a text, beside it.")
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at each step.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Candidates per input; without --json separated by tabs.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Score = sum / length^this.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Most tokens to write.")] = None,
    min_length: Annotated[int | None, typer.Option(help="Fewest tokens to write.")] = None,
    stop: Annotated[str | None, typer.Option(help="When a search is done: bound or finished.")] = None,
    groups: Annotated[int | None, typer.Option(help="Diverse beams: parts that avoid each other's words.")] = None,
    diversity: Annotated[float | None, typer.Option(help="Diverse beams: how much they avoid them.")] = None,
    sample: Annotated[
        bool | None, typer.Option("--sample/--no-sample", help="Draw tokens instead of searching for the best.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Below 1 safer, above 1 wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens; 0 is off.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that hold this share.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw no token below this share of the likeliest one.")] = None,
    seed: Annotated[int | None, typer.Option(help="Where chance starts.")] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="A word or phrase not to write; may be repeated.")] = None,
    require: Annotated[list[str] | None, typer.Option(help="A word or phrase to write; may be repeated.")] = None,
    prefix: Annotated[str, typer.Option(help="What every translation begins with.")] = "",
    forbid_unknown: Annotated[
        bool, typer.Option("--forbid-unknown", help="Never write the token for unknown words.")
    ] = False,
    attention: Annotated[bool, typer.Option("--attention", help="With --json: where the model looked.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Write each answer as it comes.")] = False,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Answer each input of a file: its translation, label, tags or continuation.

    Of plain text one line in, one line out. A table (CSV, TSV, JSON, CoNLL-U) comes back as it is, with columns added.

    Examples: echo "The cat sleeps." | weft predict runs/demo

    weft predict runs/reviews new.csv > answered.csv

    weft predict runs/reviews mails.jsonl --column body.text

    weft predict runs/demo input.txt --json --n-best 3 > output.jsonl

    weft predict runs/demo --forbid cat --require "the dog" --stream
    """
    settings = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "min_length": min_length,
        "stop": stop,
        "groups": groups,
        "diversity": diversity,
        "sample": sample,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
    }
    options: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    wanted: dict[str, Any] = {"forbid": forbid or (), "require": require or (), "prefix": prefix}
    wanted |= {"forbid_unknown": True} if forbid_unknown else {}
    from weft.cli.answering import Answering, answer_file, talk
    from weft.errors import ConfigError
    from weft.run import load
    from weft.run.inputs import open_input_file

    if stream and json:
        raise ConfigError("writes plain text", where="--stream", cure="leave out --json")
    if stream and n_best is not None and n_best > 1:
        raise ConfigError(f"n_best = {n_best} texts cannot be told at once", where="--stream", cure="n_best = 1")
    if attention and not json:
        raise ConfigError("is a table for programs", where="--attention", cure="add --json")
    if probabilities and (json or stream):
        cure = "--json has them all" if json else "leave out --stream"
        raise ConfigError("is for plain text and tables", where="--probabilities", cure=cure)
    model = load(run, device=device, cells=read_imports(imports))
    decode = model.decode(options)  # a wrong option is reported before anything is read
    asked = wanted | options | ({"attention": True} if attention else {})
    answering = Answering(model, asked, json=json, stream=stream, probabilities=probabilities)
    if file == "-" and format in (None, "text") and not column and sys.stdin.isatty() and sys.stdout.isatty():
        talk(answering)
        return
    inputs = open_input_file(
        model, file, decode=decode, format=format, columns=column or (), probabilities=probabilities
    )
    if stream and not inputs.plain:
        raise ConfigError("writes plain text", where="--stream", cure="leave it out, or add --format text")
    answer_file(answering, inputs)
