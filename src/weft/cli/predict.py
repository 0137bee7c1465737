"""weft predict RUN [FILE…]"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import batch
from weft.cli.imports import Imports, read_imports
from weft.cli.options import Device

if TYPE_CHECKING:
    from weft.tasks import Prediction


def predict(
    run: Annotated[str, typer.Argument(help="A run folder, or hf://OWNER/NAME.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="A file with one input per line, or a table (by its suffix); - is standard input, the default. "
            "For captions also a picture, or a folder of pictures. A forecast continues its own data by default. "
            "With --out several files or folders.",
            metavar="[FILE]...",
            show_default=False,
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help="text, tsv, csv, jsonl, json; for taggers text, conllu, columns. By default chosen by the suffix.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="The input column, by name or by number from 0. Repeatable: the texts are joined."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per input: probabilities, scores, all candidates.")
    ] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Print the probability of every label, or the score of a text, too.")
    ] = False,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at each step.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Candidates per input; without --json separated by tabs.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="α in score = sum / length^α.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Largest number of tokens to write.")] = None,
    min_length: Annotated[int | None, typer.Option(help="Smallest number of tokens to write.")] = None,
    stop: Annotated[str | None, typer.Option(help="The rule that ends a search: bound or finished.")] = None,
    finished: Annotated[
        int | None, typer.Option(help="With --stop finished: finished hypotheses that end a search.")
    ] = None,
    stop_at: Annotated[
        list[str] | None, typer.Option(help="End a text before this string, which is not printed. Repeatable.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Divide logits of tokens of prompt and text by this; 1 is off.")
    ] = None,
    frequency_penalty: Annotated[
        float | None, typer.Option(help="Subtract this from a logit for each time that the text has the token.")
    ] = None,
    presence_penalty: Annotated[
        float | None, typer.Option(help="Subtract this from a logit if the text has the token.")
    ] = None,
    groups: Annotated[int | None, typer.Option(help="Diverse beams: groups of the beam that differ.")] = None,
    diversity: Annotated[float | None, typer.Option(help="Diverse beams: penalty for words of other groups.")] = None,
    language: Annotated[
        str | None, typer.Option(help="The language to translate to, where the run has several.")
    ] = None,
    copy_unknown: Annotated[
        bool | None,
        typer.Option("--copy-unknown/--no-copy-unknown", help="Copy the source word in place of the unknown token."),
    ] = None,
    sample: Annotated[
        bool | None, typer.Option("--sample/--no-sample", help="Draw tokens instead of searching for the best.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Draw from p^(1/T): below 1 safer, above 1 wilder.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the k likeliest tokens; 0 is off.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the likeliest tokens that together have this probability.")
    ] = None,
    min_p: Annotated[float | None, typer.Option(help="Draw no token below this share of the likeliest one.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the random numbers.")] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="A word or phrase never to write. Repeatable.")] = None,
    require: Annotated[list[str] | None, typer.Option(help="A word or phrase to write. Repeatable.")] = None,
    prefix: Annotated[str, typer.Option(help="The beginning of every translation.")] = "",
    forbid_unknown: Annotated[
        bool, typer.Option("--forbid-unknown", help="Never write the token for unknown words.")
    ] = False,
    attention: Annotated[bool, typer.Option("--attention", help="With --json: print the attention weights.")] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each piece of a text as soon as it is certain.")
    ] = False,
    prompt_file: Annotated[
        Path | None, typer.Option(help="A file whose whole text is one prompt, for a language model.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw forecasts into this file.", metavar="FILE.svg|png|html")
    ] = None,
    out: batch.Out = None,
    engine: batch.Engine = None,
    actors: batch.Actors = None,
    threads: batch.Threads = None,
    address: batch.Address = None,
    part_rows: batch.PartRows = None,
    skip_bad_lines: Annotated[
        bool,
        typer.Option(
            "--skip-bad-lines",
            help="Answer a plain line that is not UTF-8 with an empty one, and name it; with --out leave out rows that "
            "cannot be read.",
        ),
    ] = False,
    device: Device = "auto",
    imports: Imports = None,
) -> None:
    """Answer each input of a file with its translation, label, tags or continuation.

    Plain text gives one line for each line. A table (CSV, TSV, JSON, CoNLL-U) is printed with columns added.

    Examples:
    echo "The cat sleeps." | weft predict runs/demo
    weft predict runs/reviews new.csv > answered.csv
    weft predict runs/reviews mails.jsonl --column body.text
    weft predict runs/demo input.txt --json --n-best 3 > output.jsonl
    weft predict runs/demo --forbid cat --require "the dog" --stream
    weft predict runs/sales sales.csv --plot next.svg > next.csv
    weft predict runs/stories --prompt-file begin.txt --stop-at "THE END"
    weft predict runs/demo big/*.parquet --engine ray --actors 8 --out answers.parquet
    """
    settings = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": length_penalty,
        "max_length": max_length,
        "min_length": min_length,
        "stop": stop,
        "finished": finished,
        "stop_at": stop_at or None,
        "repetition_penalty": repetition_penalty,
        "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty,
        "groups": groups,
        "diversity": diversity,
        "copy_unknown": copy_unknown,
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
    wanted |= {} if language is None else {"language": language}
    from weft.charts import check_format
    from weft.cli.answering import Answering, answer_file, answer_prompt, answer_prompt_file
    from weft.cli.output import note
    from weft.errors import ConfigError
    from weft.run import load
    from weft.run.inputs import open_input_file, skip_lines

    if out is not None:
        unused: dict[str, Any] = {"--json": json, "--probabilities": probabilities, "--stream": stream, "--plot": plot}
        unused |= {"--prompt-file": prompt_file, "--format": format}
        batch.refuse_options(unused, out=out)
        wanted = {name: [*value] if isinstance(value, tuple) else value for name, value in wanted.items() if value}
        names = [int(word) if word.isdecimal() else word for word in column or ()]
        batch.answer_batch(
            run,
            files or (),
            out,
            engine=engine or "local",
            actors=actors,
            threads=threads,
            address=address,
            device=device,
            columns=names,
            part_rows=part_rows,
            skip_bad_lines=skip_bad_lines,
            imports=imports or (),
            **options,
            **wanted,
            **({"attention": True} if attention else {}),
        )
        return
    unused = {"--engine": engine, "--actors": actors, "--threads": threads, "--address": address}
    batch.refuse_options(unused | {"--part-rows": part_rows}, out=out)
    if len(files or ()) > 1:
        raise ConfigError("are several files", where=" ".join(files or ()), cure="add --out FILE.jsonl, or name one")
    file = files[0] if files else None
    if stream and json:
        raise ConfigError("writes plain text", where="--stream", cure="leave out --json")
    if stream and n_best is not None and n_best > 1:
        raise ConfigError(f"prints one text, not n_best = {n_best}", where="--stream", cure="n_best = 1")
    if attention and not json:
        raise ConfigError("needs --json", where="--attention", cure="add --json")
    if probabilities and (json or stream):
        cure = "--json has them all" if json else "leave out --stream"
        raise ConfigError("is for plain text and tables", where="--probabilities", cure=cure)
    if prompt_file is not None and (file or format or column):
        raise ConfigError("is the only input", where="--prompt-file", cure="leave out FILE, --format and --column")
    model = load(run, device=device, cells=read_imports(imports))
    decode = model.decode(options)  # raises for a wrong option, before anything is read
    asked = wanted | options | ({"attention": True} if attention else {})
    answers: list[Prediction] | None = None
    if plot is not None:
        check_format(plot)
        model.task.draw(answers := [])  # raises for a task without a picture, before anything is read
    answering = Answering(model, asked, json=json, stream=stream, probabilities=probabilities, answers=answers)
    if prompt_file is not None:
        answer_prompt_file(answering, prompt_file, decode)
        return
    typed = file in (None, "-") and model.task.reads_text and format in (None, "text") and not column
    if typed and sys.stdin.isatty() and sys.stdout.isatty():
        answer_prompt(answering)
        return
    inputs = open_input_file(
        model, file, decode=decode, format=format, columns=column or (), probabilities=probabilities
    )
    if skip_bad_lines:
        inputs = skip_lines(inputs)
    if stream and not inputs.plain:
        raise ConfigError("writes plain text", where="--stream", cure="leave it out, or add --format text")
    answer_file(answering, inputs)
    if plot is not None and answers:
        note("forecasts drawn: [bold]{}[/]", model.draw(answers, plot))
