"""The score of an exported program on examples with answers, to see what int8 costs.

A language model is asked for the next token of each text, because its program gives no probability to a text.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.data import Pair
from weft.data.images import read_pixels
from weft.errors import Fault
from weft.export.c.compare import COMPILE_SECONDS
from weft.export.c.samples import series_line
from weft.export.loss import MEASURES, Answer, Measure, Question
from weft.run import Run
from weft.tasks.forecast_encoding import SeriesTask

REFUSED: Final = re.compile(r"^line (\d+): ", re.MULTILINE)

LM_OPTIONS: Final = ("--no-sample", "--beam", "1", "--n-best", "1", "--min-length", "0", "--max-length", "1")


def measure_c(run: Run, program: Path, examples: Sequence[Any], folder: Path) -> tuple[str, float, int] | None:
    """The name and the value of a metric of the program, and the number of questions without those that it refuses;
    None where that leaves none. Pictures are written into the folder."""
    task = run.config.task
    by_task: dict[str, Measure] = {
        "lm": Measure(partial(_next_tokens, run), _next_score),
        "forecast": Measure(_windows, partial(_series_score, run)),
    }
    measure = by_task[task] if task in by_task else MEASURES[task]
    answers, gold = list[Answer](), list[Any]()
    for language, group in groupby(sorted(measure.questions(examples), key=_language), key=_language):
        asked = list(group)
        lines = [_line(run, given, folder, number) for number, (given, _) in enumerate(asked)]
        options: tuple[str, ...] = LM_OPTIONS if task == "lm" else ("--n-best", "1") if run.task.writes else ()
        options += ("--words",) if isinstance(asked[0][0], list) else ()
        printed = _ask(program, lines, *options, *(("--language", language) if language else ()))
        for (given, right), line in zip(asked, printed, strict=True):
            if line is not None:
                answers.append(_read(run, given, line))
                gold.append(right)
    return (*measure.score(answers, gold), len(gold)) if gold else None


def _language(question: Question) -> str:
    return (question[0].language if isinstance(question[0], Pair) else None) or ""


def _ask(program: Path, lines: Sequence[str], *options: str) -> list[str | None]:
    """The answers of the program, None for a line that it refuses."""
    done = subprocess.run(
        [str(program), str(program.parent / "weights.bin"), *options],
        input="".join(f"{line}\n" for line in lines).encode("utf-8", "replace"),
        capture_output=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    refused = {int(number) - 1 for number in REFUSED.findall(said)}
    found = done.stdout.decode("utf-8", "replace").split("\n")[:-1]
    if (done.returncode and not refused) or len(found) != len(lines):
        raise Fault(f"the exported program ends with {done.returncode}: {said[:200]}")
    return [None if number in refused else line for number, line in enumerate(found)]


def _line(run: Run, given: Any, folder: Path, number: int) -> str:
    """An input as a line of the program."""
    if hasattr(given, "digest"):
        data: Any = run.config.data
        channels = run.task.channels  # type: ignore[attr-defined]
        path = folder / f"picture{number}.{'pgm' if channels == 1 else 'ppm'}"
        head = f"P{5 if channels == 1 else 6}\n{data.size} {data.size}\n255\n".encode()
        path.write_bytes(head + read_pixels(given, size=data.size, channels=channels).tobytes())
        return str(path)
    if isinstance(run.task, SeriesTask):
        return json.dumps(series_line(given, run.task.history, run.task.data))
    steps = given if hasattr(given, "array") else getattr(given, "steps", None)
    if steps is not None:
        return json.dumps(steps.array.tolist())
    parts = [given.source] if isinstance(given, Pair) else given if isinstance(given, tuple | list) else [given]
    return "\t".join(re.sub(r"[\t\r\n\0]", " ", text) for text in parts)


def _read(run: Run, given: Any, line: str) -> Answer:
    """A line of the program as an answer."""
    match run.config.task:
        case "classify":
            return {"label": line, "labels": line.split(", ") if line else []}
        case "regress":
            return {"number": float(line)}
        case "tag":
            if isinstance(given, list):
                return {"tags": _tags(given, line)}
            return {"tags": [field.partition("/")[2] for field in line.split(" ")]}
        case "mask":
            return {"gaps": [[{"token": line.split("\t")[1].split("  ")[0]}]]}
        case "forecast":
            return {"forecast": [float(number) for number in line.split("\t")]}
    return {"text": line}


def _tags(words: Sequence[str], line: str) -> list[str]:
    """The tags in a line of words, each with its tag behind a slash, and a tab between them."""
    return [field[len(word) + 1 :] for word, field in zip(words, line.split("\t"), strict=True)]


def _next_tokens(run: Run, examples: Sequence[Any]) -> list[Question]:
    """The beginning of each text, each of another length, and the text that is one token longer."""
    tokenizer, found = run.task.codec.side("target"), list[Question]()
    for number, one in enumerate(examples):
        text = next((line for line in one.text.splitlines() if line.strip()), "")
        ids = tokenizer.encode(text)
        count = 1 + number % max(1, len(ids) - 1)
        begin, longer = tokenizer.decode(ids[:count]), tokenizer.decode(ids[: count + 1])
        if len(ids) > count and tokenizer.encode(begin) == list(ids[:count]):
            found.append((begin, longer))
    return found


def _next_score(answers: Sequence[Answer], gold: Sequence[Any]) -> tuple[str, float]:
    return "accuracy of the next token", float(
        np.mean([answer["text"] == text for answer, text in zip(answers, gold, strict=True)])
    )


def _windows(examples: Sequence[Any]) -> list[Question]:
    return [(one, one) for one in examples]


def _series_score(run: Run, answers: Sequence[Answer], windows: Sequence[Any]) -> tuple[str, float]:
    """The mean absolute error in units of the scale of each series."""
    task = run.task
    assert isinstance(task, SeriesTask)
    point = np.array([answer["forecast"] for answer in answers])
    gold = np.stack([one.target[task.history :] for one in windows])
    scale = np.array([task.scaling(one).scale for one in windows])[:, None]
    return "mae / scale", float(np.nanmean(np.abs(point - gold) / scale))
