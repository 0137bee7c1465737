"""Checkpoints, the journal and the report: what resuming and comparing read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.faults.hostile.change import (
    Change,
    all_of,
    content,
    directory,
    edit,
    flipped,
    nested,
    put,
    removed,
    rewrite,
    sign,
)
from tests.faults.hostile.row import AS_BEFORE, EITHER, Expected, Row, noticed, refused

OLDER, NEWEST = "checkpoints/3", "checkpoints/6"
STATE, JOURNAL, REPORT = f"{NEWEST}/state.json", "metrics.jsonl", "report.json"
INFINITE, NOT_A_NUMBER = float("inf"), float("nan")


def _row(name: str, change: Change, expected: Expected) -> Row:
    return Row("checkpoints", name, change, expected, "resume", "halfway")


def _journal(name: str, change: Change, expected: Expected) -> Row:
    return Row("journal", name, change, expected, "resume", "halfway")


def _report(name: str, change: Change, expected: Expected = EITHER) -> Row:
    return Row("report", name, change, expected, "compare")


def _finished(name: str, change: Change) -> Row:
    """A run that was finished is resumed."""
    return Row("report", f"{name}, resumed", change, EITHER, "resume", "classify")


def _emptied(folder: Path) -> None:
    for path in (folder / NEWEST).iterdir():
        path.unlink()


def _stray(name: str) -> Change:
    """A copy of the newest checkpoint under a name that weft never gives."""
    return lambda folder: shutil.copytree(folder / NEWEST, folder / "checkpoints" / name) and None


def _tensor_gone(folder: Path) -> None:
    """A tensor that is not in the other file."""
    text = (folder / STATE).read_text(encoding="utf-8")
    (folder / STATE).write_text(text.replace('"$tensor": "learning/parts', '"$tensor": "nothing', 1), encoding="utf-8")
    sign(folder / NEWEST)


def _no_folder(folder: Path) -> None:
    """A file where the checkpoints should be."""
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoints").write_text("hello", encoding="utf-8")


def _moment(key: str, value: Any) -> Change:
    """Something else in what the optimizer keeps of a parameter."""
    return edit(STATE, lambda tree: next(iter(tree["learning"]["parts"]["optimizer"].values())).update({key: value}))


WRONG: dict[str, tuple[Any, ...]] = {
    "total": (-1, "x", 10**400, None, NOT_A_NUMBER),
    "journal": (-1, 10**18, "x", None),
    "seconds": (NOT_A_NUMBER, "x", None),
    "tokens": ("x", None),
    "data": ("", None, []),
    "config": ([], 7, {"task": "nothing"}),
    "versions": ([], 7, {}, {"weft": 7}),
    "learning": (None, [], {}, 7),
    "learning.number": (-1, "x", 10**30, None),
    "learning.epoch": (-1, "x", 10**30),
    "learning.batch": (-1, "x", 10**30),
    "learning.parts": (None, {}),
    "learning.parts.chance": (None, {}, {"python": 1, "numpy": 2, "torch": 3, "cuda": []}),
    "learning.parts.optimizer": ({"nothing": {}}, 7),
    "best": (None, {}, []),
    "best.step": (-1, "x", 10**30),
    "best.score": (NOT_A_NUMBER, "x"),
    "average": (7, [7], [{"step": 4}], {}),
}
DAMAGED = {
    "one bit of its weights": flipped(f"{NEWEST}/model.safetensors"),
    "one bit of its state": flipped(STATE),
    "one bit of its tensors": flipped(f"{NEWEST}/state.safetensors"),
    "one bit of its manifest": flipped(f"{NEWEST}/manifest.json"),
    "no manifest": removed(f"{NEWEST}/manifest.json"),
    "no state": removed(STATE),
    "a folder without files": _emptied,
    "a state of zeros": rewrite(STATE, lambda data: bytes(len(data)), signed=False),
    "weights cut in half": rewrite(f"{NEWEST}/model.safetensors", lambda data: data[: len(data) // 2], signed=False),
}
STRAY = ("007", "0", "-1", "6 ", "6.5", "٦", "²", "9" * 200, "x", "1e3", "６")

ROWS = [
    *(_row(f"damaged: {what}", change, AS_BEFORE._replace(words=("checkpoint",))) for what, change in DAMAGED.items()),
    _row("both damaged", all_of(flipped(STATE), flipped(f"{OLDER}/state.json")), refused("checkpoint")),
    _row("all gone", lambda folder: shutil.rmtree(folder / "checkpoints"), AS_BEFORE),
    _row("a newer format", put(f"{NEWEST}/manifest.json", "format_version", 99), refused("newer")),
    *(
        _row(f"{path} = {str(value)[:20]}", put(STATE, path, value), EITHER)
        for path, values in WRONG.items()
        for value in values
    ),
    _row("a tensor that is not there", _tensor_gone, noticed("state|checkpoint")),
    _row(
        "a tuple that is none", put(STATE, "learning.parts.chance.python", {"$tuple": 7}), noticed("state|checkpoint")
    ),
    _row("a moment that is null", _moment("exp_avg", None), noticed("state|checkpoint")),
    _row("a moment too many", _moment("more", 1.0), noticed("state|checkpoint")),
    _row("a state that is a list", content(STATE, b"[]"), noticed("state|checkpoint")),
    _row("a state that is null", content(STATE, b"null"), noticed("state|checkpoint")),
    _row("a state without anything", content(STATE, b"{}"), noticed("state|checkpoint")),
    _row("a state nested a hundred thousand times", content(STATE, nested(100_000)), noticed("state|checkpoint")),
    _row(
        "a state with a number of a million digits",
        content(STATE, '{"total": ' + "9" * 1_000_000 + "}"),
        noticed("state|check"),
    ),
    _row("escape codes in the configuration", put(STATE, "config.task", "\x1b[31mred"), EITHER),
    *(_row(f"a stray folder {name[:12]!r}", _stray(name), EITHER) for name in STRAY),
    _row("a stray folder 99", directory("checkpoints/99"), AS_BEFORE._replace(words=("99",))),
    _row("a stray file 99", lambda folder: (folder / "checkpoints" / "99").touch(), EITHER),
    _row("a file for the folder", _no_folder, refused("checkpoints")),
    _journal("deleted", removed(JOURNAL), noticed("metrics.jsonl|journal")),
    _journal("empty", content(JOURNAL, b"", signed=False), noticed("metrics.jsonl|journal")),
    _journal("cut", rewrite(JOURNAL, lambda data: data[:100], signed=False), noticed("metrics|journal")),
    _journal("a line more", rewrite(JOURNAL, lambda data: data + b'{"step": 9}\n', signed=False), AS_BEFORE),
    _journal("half a line more", rewrite(JOURNAL, lambda data: data + b'{"st', signed=False), AS_BEFORE),
    _journal("zeros more", rewrite(JOURNAL, lambda data: data + bytes(4096), signed=False), AS_BEFORE),
    _report("missing", removed(REPORT)),
    *(
        _report(f"{path} = {str(value)[:20]!r}", put(REPORT, path, value))
        for path, value in (
            ("valid", None),
            ("valid", []),
            ("valid.accuracy", "x"),
            ("valid.accuracy", INFINITE),
            ("valid.accuracy", NOT_A_NUMBER),
            ("valid.accuracy", 10**400),
            ("valid", {"\x1b[31mred": 0.5}),
            ("details", 7),
            ("details", {"valid": 7}),
            ("details.valid.shown", 7),
            ("details.valid.shown", [[]]),
            ("details.valid.vocabulary", "x"),
            ("details.valid.unknown_share", "x"),
            ("details.valid.perplexity_unit", []),
            ("parameters", "many"),
            ("seconds", None),
            ("steps", -1),
            ("versions", []),
            ("ended", "\x1b]0;title\x07"),
        )
    ),
    _finished("without anything", content(REPORT, b"{}", signed=False)),
    _finished("a number for the baselines", put(REPORT, "baselines", 7)),
    _finished("other steps", put(REPORT, "steps", "x")),
    _finished("an end with escape codes", put(REPORT, "ended", "\x1b]0;title\x07")),
    _report("empty", content(REPORT, b"", signed=False)),
    _report("no JSON", content(REPORT, b"hello", signed=False)),
    _report("a list", content(REPORT, b"[]", signed=False)),
    _report("null", content(REPORT, b"null", signed=False)),
    _report("nested a hundred thousand times", content(REPORT, nested(100_000), signed=False)),
    _report("bytes that are no UTF-8", content(REPORT, b'{"valid": "\xff"}', signed=False)),
    _report("twenty megabytes of blanks", rewrite(REPORT, lambda data: data + b" " * 20_000_000, signed=False)),
    _report("other numbers than the weights have", put(REPORT, "valid.accuracy", 2.0)),
]
