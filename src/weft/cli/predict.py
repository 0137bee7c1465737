"""weft predict RUN [FILE]"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device

CHUNKS = {"cpu": 512, "cuda": 8192}
"""Lines that are answered together, unless a person is typing: a GPU answers many in the time of a few."""


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    file: Annotated[str, typer.Argument(help="Inputs, one per line; - is standard input.")] = "-",
    json: Annotated[
        bool, typer.Option("--json", help="A JSON object per line: probabilities, scores, other candidates.")
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
    """Answer each line of a file: its translation, label, tags or continuation. One line in, one line out.

    Examples: echo "The cat sleeps." | weft predict runs/demo

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
    from weft.cli.output import note
    from weft.data import chunks, read_inputs
    from weft.errors import ConfigError
    from weft.run import load
    from weft.tasks import Generation

    if stream and json:
        raise ConfigError("writes plain text", where="--stream", cure="leave out --json")
    if stream and n_best is not None and n_best > 1:
        raise ConfigError(f"n_best = {n_best} texts cannot be told at once", where="--stream", cure="n_best = 1")
    if attention and not json:
        raise ConfigError("is a table for programs", where="--attention", cure="add --json")
    model = load(run, device=device, cells=read_imports(imports))
    model.decode(options)  # a wrong option is told before anything is read
    typed = file == "-" and sys.stdin.isatty()
    lines = (
        replace(model.task.record(line), place=f"{file}:{number}") if line.strip() else None
        for number, line in enumerate(read_inputs(file), start=1)
    )
    together = CHUNKS.get(next(model.model.parameters()).device.type, CHUNKS["cpu"])
    lacking = 0
    for records in chunks(lines, 1 if typed or stream else together):
        if stream:
            _print_pieces(model.stream(records[0], **wanted, **options) if records[0] else iter(()))
        else:
            asked = [record for record in records if record]
            answers = model.predict(asked, attention=attention, **wanted, **options)
            lacking += sum(isinstance(answer, Generation) and answer.lacks for answer in answers)
            found = iter(answers)
            _print_answers((next(found) if record else None for record in records), json=json)
        sys.stdout.flush()
    if lacking:
        note(f"{lacking:,} without all required words, for lack of room: --max-length; --json tells which")


def _print_pieces(pieces: Iterator[str]) -> None:
    """One line, as it comes."""
    for piece in pieces:
        print(piece.replace("\n", " "), end="", flush=True)
    print()


def _print_answers(answers: Iterable[Any], *, json: bool) -> None:
    """A line for each answer."""
    from weft.cli.output import print_json
    from weft.tasks import Generation

    for answer in answers:
        if json:
            print_json(None if answer is None else answer.record())
        elif isinstance(answer, Generation):
            print("\t".join(candidate.text.replace("\n", " ") for candidate in answer.candidates))
        else:
            print("" if answer is None else answer)
