"""Single examples as people read them: any row, its tokens, its part, and what its length does to it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from weft.errors import ConfigError
from weft.inspect.examples import ShownExample, view_examples


def view(task: str, path: str | Path, *rows: int, **data: Any) -> list[ShownExample]:
    return list(view_examples({"task": task, "data": {"train": str(path)} | data}, rows=rows, tokens=True).shown)


def test_every_row_is_there_held_out_or_not(labelled: str) -> None:
    shown = view("classify", labelled, *range(1, 201))
    assert [one.row for one in shown] == list(range(1, 201))
    assert [one.place for one in shown] == [f"{labelled}:{line}" for line in range(2, 202)]
    lines = Path(labelled).read_text().splitlines()[1:]
    assert ["\t".join(part.text for part in one.fields) for one in shown] == lines
    held = {one.fields[0].text for one in shown if one.role == "set aside for validation"}
    trained = {one.fields[0].text for one in shown if one.role == "training"}
    assert held
    assert not held & trained
    assert {one.role for one in view("classify", labelled, *range(1, 201), valid=labelled)} == {"training"}


def test_rows_come_in_the_order_asked_for(pairs: str) -> None:
    assert [one.row for one in view("translate", pairs, 9, 2, 300)] == [9, 2, 300]


def test_tokens_are_pieces_to_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("naïve Straße 😀\tZoë\n" * 3 + "naïve café\toui\n", encoding="utf-8")
    (one,) = view("translate", path, 1)
    assert [part.name for part in one.fields] == ["source", "target"]
    for part in one.fields:
        assert part.pieces
        assert "".join(part.pieces).replace("▁", " ") == part.text


def test_words_and_tags_stand_together(tagged: str) -> None:
    (one,) = view("tag", tagged, 1)
    (part,) = one.fields
    assert part.name == "words"
    assert [token.rpartition("/")[0] for token in part.text.split()] == list(part.pieces)


@pytest.mark.parametrize(
    ("task", "overlong", "effect"),
    [
        ("classify", "truncate", "its beginning only: more than data.max_length = 3 tokens"),
        ("classify", "drop", "left out: more than"),
        ("classify", "error", "training stops: 9 tokens, more than data.max_length = 3"),
        ("lm", "split", "split into 4 examples"),
    ],
)
def test_what_length_does_to_an_example(tmp_path: Path, task: str, overlong: str, effect: str) -> None:
    draw = random.Random(0)
    lines = [" ".join(draw.choice("abcdefg") for _ in range(9)) for _ in range(20)]
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"{line}\t{draw.choice('xy')}\n" if task == "classify" else f"{line}\n" for line in lines))
    tree = {"task": task, "data": {"train": str(path), "valid": str(path), "max_length": 3, "overlong": overlong}}
    (one,) = view_examples(tree | {"text": {"kind": "word"}}, rows=[5], tokens=True).shown
    assert one.effect.startswith(effect)
    assert len(one.fields[0].pieces) == 9, "all of its tokens are shown, less the end token"


@pytest.mark.parametrize("task", ["lm", "classify", "translate", "tag"])
def test_one_example_is_enough(tmp_path: Path, task: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text({"lm": "good film\n", "tag": "good ADJ\nfilm NOUN\n"}.get(task, "good film\tyes\n"))
    found = view_examples({"task": task, "data": {"train": str(path)}}, rows=[1], tokens=True)
    assert found.examples == 1
    assert found.shown[0].fields[0].pieces
    assert any("training needs more" in note for note in found.notes)


@pytest.mark.parametrize("row", [0, -1, 301])
def test_a_row_that_is_not_there(pairs: str, row: int) -> None:
    with pytest.raises(ConfigError, match=f"--row {row}: .*pairs.tsv has 300 examples .choose from 1 to 300"):
        view("translate", pairs, row)
