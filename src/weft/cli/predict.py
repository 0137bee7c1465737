"""weft predict RUN [FILE]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.imports import Imports, read_imports

CHUNK = 512
"""Lines that are answered together, unless a person is typing."""


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
    sample: Annotated[
        bool | None, typer.Option("--sample/--no-sample", help="Draw tokens instead of searching for the best.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Below 1 safer, above 1 wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens; 0 is off.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens that hold this share.")] = None,
    seed: Annotated[int | None, typer.Option(help="Where chance starts.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, …; auto takes CUDA where there is one.")] = "auto",
    imports: Imports = None,
) -> None:
    """Answer each line of a file: its translation, label, tags or continuation. One line in, one line out.

    Examples: echo "The cat sleeps." | weft predict runs/demo

    weft predict runs/demo input.txt --json --n-best 3 > output.jsonl
    """
    settings = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "min_length": min_length,
        "sample": sample,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }
    options = {name: value for name, value in settings.items() if value is not None}
    from weft.cli.output import print_json
    from weft.data import chunks, read_inputs
    from weft.run import load
    from weft.tasks import Generation

    model = load(run, device=device, cells=read_imports(imports))
    model.decode(options)  # a wrong option is told before anything is read
    typed = file == "-" and sys.stdin.isatty()
    for lines in chunks(read_inputs(file), 1 if typed else CHUNK):
        asked = [line for line in lines if line.strip()]
        answers = iter(model.predict(asked, **options))
        for line in lines:
            answer = next(answers) if line.strip() else None
            if json:
                print_json(None if answer is None else answer.record())
            elif isinstance(answer, Generation):
                print("\t".join(candidate.text.replace("\n", " ") for candidate in answer.candidates))
            else:
                print("" if answer is None else answer)
        sys.stdout.flush()
