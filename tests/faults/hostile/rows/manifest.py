"""manifest.json: what it lists, what it leaves out, and what is no manifest."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from tests.faults.hostile.change import Change, content, edit, flipped, nested, removed, rewrite
from tests.faults.hostile.row import AS_BEFORE, EITHER, Expected, Row, refused

MANIFEST = "manifest.json"
OTHER = "0" * 64


def _row(name: str, change: Change, expected: Expected) -> Row:
    return Row("manifest", name, change, expected)


def _entry(name: str, value: Any = OTHER) -> Change:
    """One more file in the list."""
    return edit(MANIFEST, lambda tree: tree["sha256"].update({name: value}))


def _without(name: str) -> Change:
    return edit(MANIFEST, lambda tree: tree["sha256"].pop(name) and None)


def _weights(value: Any) -> Change:
    """Another value where the hash of the weights stands."""
    return edit(MANIFEST, lambda tree: tree["sha256"].update({"model.safetensors": value}))


def _version(text: str) -> Change:
    """Another number, as it is written."""
    return rewrite(MANIFEST, lambda data: re.sub(rb'"format_version": \d+', f'"format_version": {text}'.encode(), data))


def _either_hash(folder: Path) -> None:
    """Two hashes, as while new weights take the place of old ones."""
    hashes = [OTHER, hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()]
    _weights(hashes)(folder)


def _doubled_table(folder: Path) -> None:
    text = (folder / MANIFEST).read_text(encoding="utf-8").rstrip().removesuffix("}")
    (folder / MANIFEST).write_text(text + ', "sha256": {}}', encoding="utf-8")


def _doubled_name(folder: Path) -> None:
    text = (folder / MANIFEST).read_text(encoding="utf-8")
    (folder / MANIFEST).write_text(text.replace('"sha256": {', f'"sha256": {{"config.json": "{OTHER}",', 1), "utf-8")


def _unhashed_weights(folder: Path) -> None:
    """A manifest that lists nothing, and other weights."""
    flipped("model.safetensors")(folder)
    edit(MANIFEST, lambda tree: tree | {"sha256": {}})(folder)


READ = ("config.json", "model.safetensors", "tokenizer.json", "labels.json")
NAMES = {
    "above the folder": "../outside/secret",
    "an absolute path": "/etc/passwd",
    "in another folder": "a/b",
    "an empty name": "",
    "the folder itself": ".",
    "the folder above": "..",
    "a NUL": "a\0b",
    "escape codes": "\x1b[31mred\x1b]0;title\x07",
    "half of a surrogate pair": "\ud800",
    "a hundred thousand letters": "x" * 100_000,
    "a new line": "a\nerror b",
    "a file that is not there": "absent.json",
}
CONTENTS = {
    "empty": b"",
    "no JSON": b"hello",
    "a list": b"[]",
    "null": b"null",
    "a number": b"7",
    "no hashes": b"{}",
    "bytes that are no UTF-8": b'{"format_version": 1, "sha256": {"\xff": ""}}',
    "nested a hundred thousand times": nested(100_000),
    "tables nested a hundred thousand times": '{"a":' * 100_000 + "1" + "}" * 100_000,
}

MANY = {f"{number}.json": OTHER for number in range(100_000)}

ROWS = [
    _row("missing", removed(MANIFEST), refused("manifest.json")),
    *(_row(name, content(MANIFEST, data), refused("manifest.json")) for name, data in CONTENTS.items()),
    *(_row(f"lists {what}", _entry(name), refused()) for what, name in NAMES.items()),
    *(_row(f"does not list {name}", _without(name), refused(name.split(".")[0])) for name in READ),
    *(_row(f"does not fit {name}", flipped(name), refused(name, "damaged")) for name in READ),
    _row("lists nothing", edit(MANIFEST, lambda tree: tree | {"sha256": {}}), refused("manifest|config.json")),
    _row("lists nothing, and other weights", _unhashed_weights, refused("manifest|model.safetensors|config.json")),
    _row("the table twice", _doubled_table, refused("manifest.json")),
    _row("a name twice", _doubled_name, refused("manifest.json")),
    _row("a list for the table", edit(MANIFEST, lambda tree: tree | {"sha256": []}), refused("manifest.json")),
    _row("a number for a hash", _weights(7), refused("manifest.json|model.safetensors")),
    _row("null for a hash", _weights(None), refused("manifest.json|model.safetensors")),
    _row("the beginning of a hash", _weights("0f"), refused("manifest.json|model.safetensors")),
    _row("no hash in a list", _weights([]), refused("manifest.json|model.safetensors")),
    _row("a list in a list of hashes", _weights([[OTHER]]), refused("manifest.json|model.safetensors")),
    _row("either of two hashes", _either_hash, AS_BEFORE),
    _row("neither of two hashes", _weights([OTHER, OTHER[:-1] + "1"]), refused("model.safetensors")),
    _row("a newer format", _version("2"), refused("newer")),
    _row("a newer format by far", _version("9" * 5000), refused("manifest.json|newer")),
    _row("a format in quotes", _version('"1"'), refused("manifest.json|format_version")),
    _row("no format", _version("null"), refused("manifest.json|format_version")),
    _row("an infinite format", _version("1e999"), refused("manifest.json|newer|format_version")),
    _row("a format that is no number", _version("NaN"), refused("manifest.json|format_version")),
    _row("a negative format", _version("-1"), refused("manifest.json|format_version")),
    _row("a byte order mark", rewrite(MANIFEST, lambda data: b"\xef\xbb\xbf" + data), EITHER),
    _row("UTF-16", rewrite(MANIFEST, lambda data: data.decode().encode("utf-16")), refused("manifest.json")),
    _row("cut in half", rewrite(MANIFEST, lambda data: data[: len(data) // 2]), refused("manifest.json")),
    _row("text after its end", rewrite(MANIFEST, lambda data: data + b"{}"), refused("manifest.json")),
    _row("NULs after its end", rewrite(MANIFEST, lambda data: data + bytes(512)), refused("manifest.json")),
    _row("all zero, as after a loss of power", rewrite(MANIFEST, lambda data: bytes(len(data))), refused("manifest")),
    _row(
        "a hundred thousand names", edit(MANIFEST, lambda tree: tree["sha256"].update(MANY)), refused("manifest|lacks")
    ),
    _row("ten megabytes of blanks", rewrite(MANIFEST, lambda data: data + b" " * 10_000_000), EITHER),
    _row(
        "twenty megabytes of blanks", rewrite(MANIFEST, lambda data: data + b" " * 20_000_000), refused("manifest.json")
    ),
]
