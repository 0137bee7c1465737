"""README.md of a folder with a model in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.export.c.compare import OPTIONS, CAgreement
from weft.export.c.plan_reading import features_of
from weft.run import Run

TEXT = """# A model of weft in C

A run of `{task}` as C99 that needs libm alone. It reads lines from standard input and prints what `weft predict`
prints for each. A line that has no answer stays blank, a message has its number, and the exit code is then 2.
{lines_are}
```sh
cc {options} -o model model.c main.c -lm
echo '{example}' | ./model weights.bin
```

`-O3 -march=native` makes it faster on this machine. The head of main.c lists its options, model.h is the interface for
programs: the memory of a model is computed from limits, taken once by the caller, and nothing is allocated later.
weights.bin is checked completely when it is opened; it belongs to this model.c. The machine must be little-endian.

When it was exported, this program answered {lines} lines like the run: {agreement}.{quantized}
"""


class Input(NamedTuple):
    """An example of a line without quotes, and a description of lines that are no plain texts."""

    example: str = "a line"
    help: tuple[str, ...] = ()


FEATURES: Final = """A line is a sequence of feature vectors in JSON: a list of steps, each a list of numbers. It may
also be an object that has them under the name of their column, as the lines of the training data."""
SERIES: Final = """A line is a series in JSON: its numbers in the order of time, `null` where one is missing, or an
object with these keys, as far as the run was trained with them:

- `target`: the numbers; `series`: the name, if the series was in the training data
- `past`, `known`: a list for each step with the numbers of `data.past` and `data.known`, in their order; `known` goes
  on for the steps to forecast
- `static`, `categories`: the numbers and the texts of `data.static`, in their order
- `start`: the time of the first number, such as "2024-01-31" or "2024-01-31 12:30", or seconds since 1970

Printed are the next steps, separated by tabs; with `--probabilities` then `q` and the level of each quantile and its
numbers."""
WORDS: Final = """A line is split into words as by `weft predict`: punctuation is cut off. With `--words` they are read
as they are, with a tab between them, and each is printed with its tag, also with a tab between them."""
PICTURE: Final = """A line is the name of a file with a picture: binary PGM or PPM with values up to 255, of {size} by
{size} pixels, as `convert photo.jpg -resize {size}x{size}! photo.ppm` writes it."""


def input_of(run: Run) -> Input:
    """Return an example of an input line of a run, and a description of lines that are no plain texts."""
    if (features := features_of(run)) is not None:
        return Input(f"[{[0] * len(features.mean)}]", (FEATURES,))
    if run.config.task == "forecast":
        return Input("[112, 118, null, 129]", (SERIES,))
    if run.config.task == "caption":
        data: Any = run.config.data
        return Input("photo.ppm", (PICTURE.format(size=data.size),))
    if getattr(run.task, "languages", None):
        return Input(help=(f"Choose the language to translate to: `--language {run.task.languages.names[0]}`.",))  # type: ignore[attr-defined]
    if run.config.task == "tag":
        return Input(help=(WORDS,))
    return Input("the <mask> line") if run.config.task == "mask" else Input()


def write_readme(run: Run, folder: Path, agreement: CAgreement, quantized: CAgreement | None, loss: str | None) -> None:
    more = "" if quantized is None else f" Its weights are then rounded to int8: {quantized.describe()}."
    more += "" if loss is None else f" What that costs in score: {loss}."
    about = input_of(run)
    text = TEXT.format(
        task=run.config.task,
        options=" ".join(OPTIONS),
        lines=agreement.lines,
        agreement=agreement.describe(),
        quantized=more,
        lines_are="".join(f"\n{line}\n" for line in about.help),
        example=about.example,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
