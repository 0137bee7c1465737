"""tokenizer.json and labels.json: ids with holes, rules that never end, labels that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.faults.hostile.change import Change, content, drop, edit, inserted, nested, put, removed, rewrite
from tests.faults.hostile.row import EITHER, Expected, Row, refused

TOKENIZER, LABELS = "tokenizer.json", "labels.json"
EVIL = "(a+)+" * 20 + "$"
"""A pattern that takes for ever on a text that it nearly matches."""


def _row(name: str, change: Change, expected: Expected | None = None, command: str = "predict") -> Row:
    return Row("tokenizer", name, change, expected or refused("tokenizer.json"), command)


def _label(name: str, change: Change, expected: Expected | None = None, command: str = "predict") -> Row:
    return Row("labels", name, change, expected or refused("labels.json"), command)


def _vocabulary(alter: Callable[[dict[str, Any]], Any]) -> Change:
    """Another vocabulary."""

    def change(tree: dict[str, Any]) -> None:
        vocab = tree["model"]["vocab"]
        other = alter(vocab)
        tree["model"]["vocab"] = vocab if other is None else other

    return edit(TOKENIZER, change)


def _last_id(value: Any) -> Change:
    """Another id for the last entry."""
    return _vocabulary(lambda vocab: vocab.update({max(vocab, key=vocab.__getitem__): value}))


def _renamed(before: str, after: str) -> Change:
    return _vocabulary(lambda vocab: {after if name == before else name: number for name, number in vocab.items()})


def _swapped(vocab: dict[str, Any]) -> None:
    vocab["<pad>"], vocab["<eos>"] = vocab["<eos>"], vocab["<pad>"]


def _grown(number: int) -> Callable[[dict[str, Any]], None]:
    def alter(vocab: dict[str, Any]) -> None:
        size = len(vocab)
        vocab.update({f"w{size + more}": size + more for more in range(number)})

    return alter


def _replace(pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": ""}


CONTENTS = {
    "empty": b"",
    "no JSON": b"hello",
    "a list": b"[]",
    "null": b"null",
    "an empty table": b"{}",
    "nested a hundred thousand times": nested(100_000),
    "bytes that are no UTF-8": b'{"version": "\xff"}',
}
IDS = (2**31, 2**32 - 1, 2**32, 2**64, -1, 0, 1.5, "7", None, True, 10**400, [])
RULES: dict[str, Any] = {
    "version": "9.9",
    "truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0},
    "padding": {
        "strategy": {"Fixed": 1_000_000_000},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<pad>",
    },
    "added_tokens": [{"id": 2**31, "content": "x", "special": True}],
    "post_processor": {"type": "BertProcessing", "sep": ["a", 1], "cls": ["b", 2]},
    "decoder": None,
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": EVIL}, "behavior": "Isolated", "invert": False},
    "normalizer": _replace(EVIL),
    "model.type": "Nothing",
    "model.unk_token": "\x1b[31m",
    "model.vocab": {},
}

ROWS = [
    _row("missing", removed(TOKENIZER)),
    *(_row(name, content(TOKENIZER, data)) for name, data in CONTENTS.items()),
    *(_row(f"the id {str(value)[:24]}", _last_id(value)) for value in IDS),
    *(_row(f"another {path}", put(TOKENIZER, path, value)) for path, value in RULES.items()),
    _row(
        "a pattern of a hundred thousand brackets",
        put(TOKENIZER, "normalizer", _replace("(" * 100_000 + ")" * 100_000)),
    ),
    _row("a pattern that repeats without end", put(TOKENIZER, "normalizer", _replace("(x{1000}){1000}{1000}"))),
    _row("a vocabulary that is a list", put(TOKENIZER, "model.vocab", [])),
    _row("a vocabulary that is a text", put(TOKENIZER, "model.vocab", "abc")),
    _row("no vocabulary", drop(TOKENIZER, "model.vocab")),
    _row("no model", drop(TOKENIZER, "model")),
    _row("no padding token", _renamed("<pad>", "<dap>")),
    _row("special tokens in another order", _vocabulary(_swapped)),
    _row("a hole in the ids", _vocabulary(lambda vocab: vocab.update({"zzz": len(vocab) + 1}))),
    _row("an id twice", _vocabulary(lambda vocab: vocab.update({"zzz": len(vocab) - 1}))),
    _row("an entry twice", inserted(TOKENIZER, '"<pad>"', '"<pad>": 0, ')),
    _row("one entry more than the model has", _vocabulary(_grown(1)), refused("model.safetensors|tokenizer.json")),
    _row("a million entries more", _vocabulary(_grown(1_000_000)), refused("model.safetensors|tokenizer.json")),
    _row(
        "an entry of a million letters", _vocabulary(lambda vocab: vocab.update({"x" * 1_000_000: len(vocab)})), EITHER
    ),
    _row("an entry with escape codes", _vocabulary(lambda vocab: vocab.update({"\x1b[31m": len(vocab) + 5}))),
    _row("the model twice", rewrite(TOKENIZER, lambda data: data.rstrip()[:-1] + b', "model": {}}')),
    _row("a byte order mark", rewrite(TOKENIZER, lambda data: b"\xef\xbb\xbf" + data), EITHER),
    _row("UTF-16", rewrite(TOKENIZER, lambda data: data.decode().encode("utf-16"))),
    _row("cut in half", rewrite(TOKENIZER, lambda data: data[: len(data) // 2])),
    _row("seventy megabytes of blanks", rewrite(TOKENIZER, lambda data: data + b" " * 70_000_000)),
    _row("ids with holes, evaluated", _last_id(2**31), command="evaluate"),
    _row("ids with holes, inspected", _last_id(2**31), command="inspect"),
]

NO_LABELS = {
    "empty": b"",
    "no JSON": b"hello",
    "a table": b"{}",
    "null": b"null",
    "a text": b'"animal"',
    "numbers": b"[1, 2]",
    "a null": b'["animal", null]',
    "a list in a list": b'[["animal"], ["colour"]]',
    "nested a hundred thousand times": nested(100_000),
    "none": b"[]",
    "too few": b'["animal"]',
    "too many": b'["animal", "colour", "plant"]',
    "one twice": b'["animal", "animal"]',
    "half of a surrogate pair": b'["animal", "\\ud800"]',
    "bytes that are no UTF-8": b'["animal", "\xff"]',
    "a million": json.dumps([f"l{number}" for number in range(1_000_000)]),
    "ten million": "[" + ",".join(['"l"'] * 10_000_000) + "]",
}
ODD_LABELS = {
    "escape codes": '["\\u001b[31manimal", "\\u001b]0;title\\u0007colour"]',
    "a new line": '["ani\\nmal", "col\\nour"]',
    "a NUL": '["ani\\u0000mal", "col\\u0000our"]',
    "a million letters": json.dumps(["x" * 1_000_000, "y"]),
    "a byte order mark": '\ufeff["animal", "colour"]',
    "an empty text": '["", "colour"]',
    "letters that turn the line around": '["\\u202eanimal", "\\u2066colour"]',
}

ROWS += [
    _label("missing", removed(LABELS)),
    *(
        _label(name, content(LABELS, data), refused("labels.json|model.safetensors"))
        for name, data in NO_LABELS.items()
    ),
    *(_label(name, content(LABELS, data), EITHER) for name, data in ODD_LABELS.items()),
    *(
        _label(f"{name}, on a terminal", content(LABELS, data), EITHER, "predict on a terminal")
        for name, data in ODD_LABELS.items()
    ),
    *(
        _label(f"{name}, evaluated", content(LABELS, data), EITHER, "evaluate on a terminal")
        for name, data in ODD_LABELS.items()
    ),
]
