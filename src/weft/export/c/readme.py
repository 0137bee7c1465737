"""README.md of a folder with a model in C."""

from __future__ import annotations

from pathlib import Path

from weft.export.c.compare import OPTIONS, CAgreement
from weft.run import Run

TEXT = """# A model of weft in C

A run of `{task}` as C99 that needs libm alone. It reads lines from standard input and prints what `weft predict`
prints.

```sh
cc {options} -o model model.c main.c -lm
echo "a line" | ./model weights.bin
```

`-O3 -march=native` makes it faster on this machine. The head of main.c lists its options, model.h is the interface for
programs: the memory of a model is computed from limits, taken once by the caller, and nothing is allocated later.
weights.bin is checked completely when it is opened; it belongs to this model.c. The machine must be little-endian.

When it was exported, this program answered {lines} lines like the run: {agreement}.{quantized}
"""


def write_readme(run: Run, folder: Path, agreement: CAgreement, quantized: CAgreement | None) -> None:
    more = "" if quantized is None else f" Its weights are then rounded to int8: {quantized.describe()}."
    text = TEXT.format(
        task=run.config.task,
        options=" ".join(OPTIONS),
        lines=agreement.lines,
        agreement=agreement.describe(),
        quantized=more,
    )
    (folder / "README.md").write_text(text, encoding="utf-8")
