"""weft inspect beam|ranks|neighbours"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.imports import Imports
from weft.cli.inspecting import Dark, InputText, Json, Out, RunFolder, Target, app, show_run


@app.command()
def beam(
    run: RunFolder,
    text: InputText = "",
    beam: Annotated[int, typer.Option(help="Hypotheses kept at each step.")] = 4,
    candidates: Annotated[int | None, typer.Option(help="Dropped proposals of each hypothesis to keep.")] = None,
    n_best: Annotated[int | None, typer.Option(help="Texts to search for.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="α in score = sum / length^α.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Largest number of tokens to write.")] = None,
    min_length: Annotated[int | None, typer.Option(help="Smallest number of tokens to write.")] = None,
    stop: Annotated[str | None, typer.Option(help="The rule that ends a search: bound or finished.")] = None,
    finished: Annotated[int | None, typer.Option(help="With --stop finished: texts that end a search.")] = None,
    stop_at: Annotated[list[str] | None, typer.Option(help="End a text before this string. Repeatable.")] = None,
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
    copy_unknown: Annotated[
        bool | None,
        typer.Option("--copy-unknown/--no-copy-unknown", help="Copy the source word in place of the unknown token."),
    ] = None,
    sample: Annotated[
        bool | None, typer.Option("--sample/--no-sample", help="Draw tokens: there is no tree then.")
    ] = None,
    forbid: Annotated[list[str] | None, typer.Option(help="A word or phrase never to write. Repeatable.")] = None,
    require: Annotated[list[str] | None, typer.Option(help="A word or phrase to write. Repeatable.")] = None,
    prefix: Annotated[str | None, typer.Option(help="The beginning of the translation.")] = None,
    forbid_unknown: Annotated[
        bool | None, typer.Option("--forbid-unknown", help="Never write the token for unknown words.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="The language to translate to, where the run has several.")
    ] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Show the tree of a beam search: what else was considered, and when it was dropped.

    The best leaf is what `weft predict` prints with the same settings.

    Examples:
    weft inspect beam runs/demo "The cat sleeps."
    weft inspect beam runs/demo "The cat sleeps." --beam 8 -o tree.html
    """
    show_run(
        "beam",
        run,
        text,
        out=out,
        json=json,
        dark=dark,
        imports=imports,
        beam=beam,
        candidates=candidates,
        n_best=n_best,
        length_penalty=length_penalty,
        max_length=max_length,
        min_length=min_length,
        stop=stop,
        finished=finished,
        stop_at=stop_at,
        repetition_penalty=repetition_penalty,
        frequency_penalty=frequency_penalty,
        presence_penalty=presence_penalty,
        groups=groups,
        diversity=diversity,
        copy_unknown=copy_unknown,
        sample=sample,
        forbid=forbid,
        require=require,
        prefix=prefix,
        forbid_unknown=forbid_unknown,
        language=language,
    )


@app.command()
def ranks(
    run: RunFolder,
    text: InputText,
    target: Target = None,
    colour: Annotated[str | None, typer.Option(help="Colour tokens by rank or by probability.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Likeliest candidates of each token.")] = None,
    width: Annotated[int | None, typer.Option(help="Pixels of a line of tokens in the chart.")] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """Colour each token of a text by its rank: which words surprised the model?

    A text that is mostly top 1 is one that the model could have written. The numbers are those of `weft score`.

    Examples:
    weft inspect ranks runs/lm-1 "The cat sat on the mat."
    weft inspect ranks runs/demo "The cat sleeps." --target "Le chat dort." -o ranks.html
    """
    options = {"colour": colour, "candidates": candidates, "width": width}
    show_run("ranks", run, text, target=target, out=out, json=json, dark=dark, imports=imports, **options)


@app.command()
def neighbours(
    run: RunFolder,
    word: Annotated[
        str, typer.Argument(help='A word, or a sum such as "king - man + woman"; without one, the map alone.')
    ] = "",
    n: Annotated[int | None, typer.Option("-n", help="The number of neighbours.")] = None,
    words: Annotated[int | None, typer.Option(help="Frequent words on the map.")] = None,
    part: Annotated[str | None, typer.Option(help="The part of the model, such as encoder or decoder.")] = None,
    out: Out = None,
    json: Json = False,
    dark: Dark = False,
    imports: Imports = None,
) -> None:
    """List the words nearest to a word, and draw a map of the embeddings.

    Examples:
    weft inspect neighbours runs/embed-1 cat
    weft inspect neighbours runs/demo "king - man + woman" --part decoder -o map.html
    """
    show_run("neighbours", run, word, out=out, json=json, dark=dark, imports=imports, n=n, words=words, part=part)
