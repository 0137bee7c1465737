"""Prints the answers of `weft predict`: those of a file in its own format, or line by line at a prompt."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from weft.data import InputFile, Record
    from weft.decoding import DecodeConfig
    from weft.run import Run
    from weft.tasks import Prediction

PROMPT: Final = "> "

LONG_CHARACTERS: Final = 20_000
"""Texts with more are named before they are answered: a transformer needs a time that grows with their square."""


@dataclass(frozen=True)
class Answering:
    """A run, the options of its `predict`, and the format in which answers are printed."""

    run: Run
    options: dict[str, Any]
    json: bool = False
    stream: bool = False
    probabilities: bool = False
    answers: list[Prediction] | None = None
    """Collects all answers, for a picture of them."""

    def answer(self, records: list[Record]) -> list[Prediction]:
        found = self.run.predict(records, **self.options)
        if self.answers is not None:
            self.answers.extend(found)
        return found

    def show(self, answer: Prediction | None) -> str:
        """The line for one answer; an input without a text has none."""
        from weft.cli.output import show_json

        if self.json:
            return show_json(None if answer is None else answer.record())
        return "" if answer is None else answer.line(probabilities=self.probabilities)

    def print_stream(self, record: Record | None) -> None:
        """Print one line in pieces, each as soon as it is certain."""
        from weft.cli.output import write

        pieces: Iterator[str] = iter(()) if record is None else self.run.stream(record, **self.options)
        for piece in pieces:
            write(piece.replace("\n", " "), flush=True)
        write("\n", flush=True)


def answer_file(answering: Answering, inputs: InputFile) -> None:
    """Print every row with its answer, a chunk of rows at a time; with --json print only the answers.

    An input that cannot be read is answered like an empty one, and its error ends the command after the last answer.
    """
    from weft.cli.output import print_error, write
    from weft.data import chunks
    from weft.errors import DataError
    from weft.run.inputs import chunk_inputs, input_record

    run, name = answering.run, answering.run.task.columns(answering.run.config.data).predicted
    size = chunk_inputs(run)
    short: Counter[str] = Counter()
    unread = 0
    if not answering.json:
        write(inputs.begin())
    for items in chunks(inputs, 1 if answering.stream else size):
        for error in (item.error for item in items if item.error is not None):
            print_error(error)
            unread += 1
        records = [input_record(run, item) for item in items]
        note_long(run, records)
        if answering.stream:
            answering.print_stream(records[0])
            continue
        answers = answering.answer([record for record in records if record])
        short.update(answer.shortcoming for answer in answers if answer.shortcoming)
        found = iter(answers)
        for item, record in zip(items, records, strict=True):
            answer = next(found) if record else None
            line = answering.show(answer)
            cells = {} if answer is None else answer.cells(name, probabilities=answering.probabilities)
            write(f"{line}\n" if answering.json else inputs.write(item, line, cells))
        sys.stdout.flush()
    if not answering.json:
        write(inputs.end(), flush=True)
    note_shortcomings(short)
    if unread:
        raise typer.Exit(DataError.exit_code)


def note_long(run: Run, records: Sequence[Record | None]) -> None:
    """Name very long texts on standard error before they are answered, which may take minutes."""
    from weft.cli.output import note

    if not run.task.reads_text:
        return
    most = dict(run.config.data).get("max_length")
    for record in records:
        if record is not None and record.size > LONG_CHARACTERS:
            learned = f"; the model has learned from texts of up to {most:,} tokens" if most else ""
            note("note {}: {} take long{}", record.place or "input", f"{record.size:,} characters", learned)


def note_shortcomings(short: Counter[str]) -> None:
    """Print on standard error how many answers lack something, and what helps."""
    from weft.cli.output import note

    for shortcoming, count in short.items():
        note("{} {}", f"{count:,}", shortcoming)


def answer_prompt_file(answering: Answering, path: Path, decode: DecodeConfig) -> None:
    """Print the text that continues the whole text of a file, with its line breaks; the last one of the file is no part
    of the prompt."""
    from weft.cli.output import write
    from weft.data import read_whole_text
    from weft.errors import ConfigError

    task, json = answering.run.task, answering.json
    if not task.continues:
        cure = "give the inputs as FILE"
        raise ConfigError(f"is for language models, not for {task.name}", where="--prompt-file", cure=cure)
    if not json and (answering.probabilities or decode.n_best > 1):
        raise ConfigError("prints one text as it is", where="--prompt-file", cure="add --json for several, or scores")
    record = task.record(read_whole_text(path))
    note_long(answering.run, [record])
    if answering.stream:
        for piece in answering.run.stream(record, **answering.options):
            write(piece, flush=True)
        write("\n", flush=True)
        return
    (answer,) = answering.answer([record])
    write(f"{answering.show(answer) if json else answer.record()['text']}\n", flush=True)
    note_shortcomings(Counter([answer.shortcoming] if answer.shortcoming else []))


def answer_prompt(answering: Answering) -> None:
    """Answer each line that is typed, until Ctrl-D. An error is printed, and the next line can be typed."""
    from weft.cli.output import note, print_error, write
    from weft.errors import WeftError

    with suppress(ImportError):  # without it lines cannot be edited
        import readline  # noqa: F401

    note("[green]ready[/]  type a text and press Enter; Ctrl-D ends")
    task = answering.run.task
    while True:
        try:
            line = input(PROMPT)
        except EOFError:
            write("\n")
            return
        if not line.strip():
            continue
        try:
            if answering.stream:
                answering.print_stream(task.record(line))
            else:
                (answer,) = answering.answer([task.record(line)])
                write(f"{answering.show(answer)}\n", flush=True)
                note_shortcomings(Counter([answer.shortcoming] if answer.shortcoming else []))
        except WeftError as error:
            print_error(error)
