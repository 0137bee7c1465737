"""Whatever stands in model.json, the runner answers or refuses in one line; it never ends in an error of Python."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.export.onnx.built import build_run, exported
from tests.export.onnx.test_matrix import sections_of

from weft.errors import WeftError
from weft.export.onnx.files import write_manifest
from weft.export.onnx.runner import Runner
from weft.export.onnx.samples import sample_inputs, sample_pairs

VALUES: Final = (None, -1, 0, 10**18, 1e308, "x", "../x", "\x1b[2J", [], [[]], {}, True, [10**9], {"a": 1}, ["x"])
FORMS: Final = (
    "classify",
    "regress",
    "tag",
    "mask",
    "lm",
    "translate",
    "translate prefix",
    "caption",
    "embed",
    "forecast direct",
    "forecast recursive",
)
SOME: Final = 8
"""Changes of each form in the fast suite."""

Place = tuple[str | int, ...]


def paths(tree: Any, path: Place = ()) -> Iterator[Place]:
    """The places of all values, tables and lists included."""
    yield path
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from paths(value, (*path, key))


def changed(tree: Any, path: Place, value: Any) -> Any:
    if not path:
        return value
    tree = json.loads(json.dumps(tree))
    inner = tree
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return tree


def answer(folder: Path, inputs: list[Any], pairs: list[Any]) -> str:
    """Use a folder in all ways; the line of a refusal, if there was one."""
    try:
        runner = Runner(folder, threads=1)
        runner.predict(inputs, **({"max_length": 6} if pairs else {}))
        if pairs:
            runner.score(pairs)
            list(runner.stream(inputs[0], max_length=6))
    except WeftError as error:
        return str(error)
    return ""


def check(form: str, tmp_path: Path, count: int | None) -> None:
    task = form.split()[0]
    sections = {"model": {"kind": "skipgram", "embedding": 8}} if task == "embed" else sections_of(form, "mut1")
    run = build_run(task, tmp_path, **sections)
    folder = tmp_path / "out"
    exported(run, folder)
    inputs = sample_inputs(run, 3)
    pairs, whole = sample_pairs(run, inputs), json.loads((folder / "model.json").read_text())
    changes = [(path, value) for path in paths(whole) for value in VALUES]
    for path, value in changes if count is None else random.Random(0).sample(changes, count):
        (folder / "model.json").write_text(json.dumps(changed(whole, path, value)))
        write_manifest(folder)
        assert answer(folder, inputs, pairs).isprintable(), (path, value)


@pytest.mark.parametrize("form", FORMS)
def test_some_changes(form: str, tmp_path: Path) -> None:
    check(form, tmp_path, SOME)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_change(form: str, tmp_path: Path) -> None:
    check(form, tmp_path, None)
