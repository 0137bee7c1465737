"""config.json: settings that are no settings, and settings that would cost the world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.faults.hostile.change import Change, content, drop, edit, inserted, nested, put, rewrite
from tests.faults.hostile.row import AS_BEFORE, EITHER, Expected, Row, refused

CONFIG = "config.json"
INFINITE, NOT_A_NUMBER = float("inf"), float("nan")  # JSON as Python writes it


def _row(name: str, change: Change, expected: Expected, command: str = "predict", base: str = "classify") -> Row:
    return Row("config", name, change, expected, command, base)


def _settings(changes: Mapping[str, tuple[Any, ...]], base: str) -> list[Row]:
    """A row for each value; the message must name the setting or the file."""
    return [
        _row(
            f"{base} {path} = {_short(value)}",
            put(CONFIG, path, value),
            refused(f"config.json|model.safetensors|cell|{path}"),
            base=base,
        )
        for path, values in changes.items()
        for value in values
    ]


def _short(value: Any) -> str:
    if isinstance(value, int) and value > 10**20:
        return f"a number of {len(str(value))} digits"
    return repr(value) if len(repr(value)) < 30 else f"{repr(value)[:20]}… ({len(repr(value))} letters)"


CONTENTS = {
    "empty": b"",
    "no JSON": b"task = 'classify'",
    "a list": b"[]",
    "null": b"null",
    "nested a hundred thousand times": nested(100_000),
    "tables nested a hundred thousand times": '{"model":' * 100_000 + "1" + "}" * 100_000,
    "bytes that are no UTF-8": b'{"task": "\xff\xfe"}',
    "an integer of a million digits": '{"task": "classify", "seed": ' + "9" * 1_000_000 + "}",
}
CLASSIFY = {
    "task": ("nothing", None, ["classify"], 7, "\x1b[31mlm", "classify\0", "x" * 1_000_000),
    "model": (3, [], None, "rnn"),
    "model.hidden": ("8", 8.5, True, None, ["8"], {}, 0, -1, 2**31, 10**12, 10**400, INFINITE, NOT_A_NUMBER),
    "model.embedding": (10**9, 0),
    "model.layers": (10**6, 10**9, 0),
    "model.dropout": (NOT_A_NUMBER, -1, 2),
    "model.cell.kind": ("nothing", "\x1b[2J", 7, "os.system", "x" * 1_000_000),
    "model.nothing": (1,),
    "nothing": (1,),
    "text.kind": ("nothing", 7),
    "data.max_length": (-1, 10**7, "long"),
    "seed": (2**64, -1, "x"),
    "format_version": (99, 10**30, "1"),
}
LM = {
    "model.width": (10**6, 7, 0),
    "model.heads": (0, 3, 10**6),
    "model.layers": (10**6,),
    "model.max_positions": (10**9, 10**7, 0),
    "decode.beam": (10**9, 0, -1, 10**30, "wide"),
    "decode.max_length": (10**7, -1),
    "decode.n_best": (10**9,),
    "decode.temperature": (NOT_A_NUMBER, -1),
}

MANY = {f"setting{number}": number for number in range(100_000)}

ROWS = [
    *(_row(name, content(CONFIG, data), refused("config.json")) for name, data in CONTENTS.items()),
    *_settings(CLASSIFY, "classify"),
    *_settings(LM, "lm"),
    _row("no task", drop(CONFIG, "task"), refused("config.json|task")),
    _row("no model", drop(CONFIG, "model"), refused("config.json|model")),
    _row(
        "another cell than the weights have", put(CONFIG, "model.cell.kind", "gru"), refused("model.safetensors|config")
    ),
    _row("more layers than the weights have", put(CONFIG, "model.layers", 3), refused("model.safetensors|config")),
    _row(
        "a size that the weights do not have",
        put(CONFIG, "model.hidden", 100_000),
        refused("safetensors|config|memory"),
    ),
    _row("another kind of model", put(CONFIG, "model.kind", "transformer"), refused("config.json|model")),
    _row("another kind of tokens", put(CONFIG, "text.kind", "word"), refused("tokenizer.json|config.json")),
    _row("another task", put(CONFIG, "task", "lm"), refused("config.json|labels.json|model.safetensors")),
    _row("the task twice", inserted(CONFIG, '"task"', '"task": "lm",'), refused("config.json")),
    _row("a table twice", inserted(CONFIG, '"model":', '"model": {},'), refused("config.json")),
    _row("a byte order mark", rewrite(CONFIG, lambda data: b"\xef\xbb\xbf" + data), EITHER),
    _row("UTF-16", rewrite(CONFIG, lambda data: data.decode().encode("utf-16")), refused("config.json")),
    _row("cut in half", rewrite(CONFIG, lambda data: data[: len(data) // 2]), refused("config.json")),
    _row("a hundred thousand settings", edit(CONFIG, lambda tree: tree | MANY), refused("config.json")),
    _row("a setting of a million letters", put(CONFIG, "x" * 1_000_000, 1), refused("config.json")),
    _row("twenty megabytes of blanks", rewrite(CONFIG, lambda data: data + b" " * 20_000_000), refused("config.json")),
    _row("a name with escape codes", put(CONFIG, "name", "\x1b[31mred\x1b]0;title\x07"), EITHER, "compare"),
    _row("a name that is half of a surrogate pair", put(CONFIG, "name", "\ud800"), EITHER, "compare"),
    _row("a name of a million letters", put(CONFIG, "name", "x" * 1_000_000), EITHER, "compare"),
    _row("minus zero for a seed", rewrite(CONFIG, lambda data: data.replace(b'"seed": 0', b'"seed": -0')), AS_BEFORE),
    _row("another version of weft", put(CONFIG, "weft_version", "99.0"), AS_BEFORE),
    _row("layers by the million, inspected", put(CONFIG, "model.layers", 10**6), refused("config|layers"), "inspect"),
    _row("layers by the million, compared", put(CONFIG, "model.layers", 10**6), EITHER, "compare"),
    _row(
        "layers by the million, exported", put(CONFIG, "model.layers", 10**6), refused("config|layers"), "export", "lm"
    ),
    _row(
        "a beam of a milliard, evaluated", put(CONFIG, "decode.beam", 10**9), refused("config|beam"), "evaluate", "lm"
    ),
]
