"""What several tests use: the command line called in this process, and small made-up data for every task."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

from weft.cache import cache_folder

# A busy machine is no mistake.
settings.register_profile("weft", deadline=None)
settings.load_profile("weft")

# Two workers on two cores: threads that wait for each other at every barrier would take a hundred times as long.
os.environ["OMP_NUM_THREADS"] = "1"

EXTRAS = ("altair", "tensorboard")
NUMBERS = {"one": "un", "two": "deux", "three": "trois", "four": "quatre", "five": "cinq", "six": "six"}


@pytest.fixture(scope="session", autouse=True)
def _kernel_cache(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Recurrent kernels are compiled once for all workers and runs, away from the user's cache unless one is named."""
    kept = getattr(pytestconfig, "cache", None)
    folder = kept.mkdir("kernels") if kept else tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WEFT_CACHE", os.environ.get("WEFT_CACHE", str(folder)))
        if cache_folder("compiled") is None:  # the checkout lies below a folder that others can write
            patch.setenv("WEFT_CACHE", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _small_runs_are_quick() -> Iterator[None]:
    """What takes longer than a small training is left out: pictures, TensorBoard logs, and waiting for the disk.

    Tests of the first two use `extras`; those of a loss of power are in tests/faults, in processes of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in EXTRAS:
            patch.setitem(sys.modules, name, None)
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture
def extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test of what is drawn or logged with packages that weft does not need."""
    for name in EXTRAS:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many of torch's threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.fixture
def a_compiler() -> None:
    """For a test of what is compiled."""
    from weft.nn.native import compiler

    try:
        compiler.find_compiler()
    except compiler.NoCompiler as reason:
        pytest.skip(str(reason))


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def weft(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Outcome]:
    """Run the command line in an empty folder: weft("train", "lm", "text.txt") -> exit code and both outputs."""
    from weft.cli import main, output

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> Outcome:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["weft", *words])
        monkeypatch.setattr(output.errors, "_file", None)
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return Outcome(int(left.value.code or 0), out, err)

    return run


def write_lines(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    """Numbers in English, and in French in reverse order."""
    draw = random.Random(0)
    chosen = [[draw.choice(list(NUMBERS)) for _ in range(draw.randint(2, 4))] for _ in range(300)]
    lines = [f"{' '.join(row)}\t{' '.join(NUMBERS[word] for word in reversed(row))}" for row in chosen]
    return write_lines(tmp_path / "pairs.tsv", lines)


@pytest.fixture
def labelled(tmp_path: Path) -> str:
    """Colours and animals, told apart by any of their words."""
    draw = random.Random(0)
    kinds = {"colour": ["red", "green", "blue", "black"], "animal": ["cat", "dog", "cow", "fox"]}
    lines = ["text\tlabel"]
    for _ in range(200):
        label = draw.choice(list(kinds))
        lines.append(f"the {draw.choice(kinds[label])} and the {draw.choice(kinds[label])}\t{label}")
    return write_lines(tmp_path / "labelled.tsv", lines)


@pytest.fixture
def tagged(tmp_path: Path) -> str:
    """Two columns; the tag follows from the word."""
    draw = random.Random(0)
    tags = {"the": "DET", "a": "DET", "cat": "NOUN", "dog": "NOUN", "sleeps": "VERB", "runs": "VERB"}
    lines: list[str] = []
    for _ in range(150):
        row = [draw.choice(["the", "a"]), draw.choice(["cat", "dog"]), draw.choice(["sleeps", "runs"])]
        lines += [f"{word} {tags[word]}" for word in row] + [""]
    return write_lines(tmp_path / "tagged.txt", lines)


COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255)}


def write_captions(folder: Path, count: int) -> str:
    """Pictures of 16 × 16 pixels with a square on the left or on the right, and two captions each."""
    import numpy as np
    from PIL import Image

    rows = ["image\tcaption"]
    for number in range(count):
        colour, side = list(COLOURS)[number % 2], ("left", "right")[number // 2 % 2]
        picture = np.full((16, 16, 3), 200, dtype=np.uint8)
        top, left = number * 7 % 11, (1 if side == "left" else 9) + number % 2
        picture[top : top + 5, left : left + 5] = COLOURS[colour]
        picture[0, 0] = number  # no two pictures are equal
        Image.fromarray(picture).save(folder / f"{number}.png")
        rows += [f"{number}.png\ta {colour} square on the {side}", f"{number}.png\tthere is {colour} on the {side}"]
    return write_lines(folder / "captions.tsv", rows)


@pytest.fixture
def captioned(tmp_path: Path) -> str:
    """Pictures with captions."""
    return write_captions(tmp_path, 40)


@pytest.fixture
def series(tmp_path: Path) -> str:
    """A number for each of 120 days, with a trend and a week."""
    draw = random.Random(0)
    rows = [
        f"{date(2024, 1, 1) + timedelta(day)},{20 + day / 10 + day % 7 + draw.gauss(0, 0.3):.3f}" for day in range(120)
    ]
    return write_lines(tmp_path / "series.csv", ["date,value", *rows])


@pytest.fixture
def texts(tmp_path: Path) -> str:
    """Sentences of a tiny grammar."""
    draw = random.Random(0)
    lines = [f"the {draw.choice(['cat', 'dog'])} {draw.choice(['sleeps', 'runs'])} {n} times" for n in range(150)]
    return write_lines(tmp_path / "texts.txt", lines)
