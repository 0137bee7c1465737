"""The recipes: public files become tables, and every configuration is one that weft trains."""

from __future__ import annotations

import lzma
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from weft.config import fill
from weft.config.schema import TYPICAL_DATA

RECIPES = Path(__file__).parents[2] / "recipes"
CONVERT: dict[str, Any] = runpy.run_path(str(RECIPES / "convert.py"))


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_recipe_is_a_configuration(path: Path) -> None:
    tree = tomllib.loads(path.read_text(encoding="utf-8"))
    config = fill(tree, TYPICAL_DATA)
    assert config.data.train == f"data/{path.stem}/train.tsv"
    assert path.stem in CONVERT["SETS"]


def rows(folder: Path) -> set[str]:
    texts = [(folder / f"{part}.tsv").read_text(encoding="utf-8").splitlines() for part in CONVERT["PARTS"]]
    assert all(lines[0] == "source\ttarget" for lines in texts)
    return {line for lines in texts for line in lines[1:]}


def test_pronunciations_lose_stress_comments_and_numbers_of_variants(tmp_path: Path) -> None:
    path = tmp_path / "cmudict.dict.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write("either IY1 DH ER0\neither(2) AY1 DH ER0\naalborg(2) AO1 L B AO0 R G # place, danish\n")
    CONVERT["write"](CONVERT["cmudict"]([path]), tmp_path)
    assert rows(tmp_path) == {"either\tIY DH ER", "either\tAY DH ER", "aalborg\tAO L B AO R G"}
    with_either = [part for part in CONVERT["PARTS"] if "either" in (tmp_path / f"{part}.tsv").read_text("utf-8")]
    assert len(with_either) == 1, "all variants of a word are in one part"


def test_commands_and_actions(tmp_path: Path) -> None:
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    train.write_text("IN: jump twice OUT: I_JUMP I_JUMP\n", encoding="utf-8")
    test.write_text("IN: walk OUT: I_WALK\n", encoding="utf-8")
    counts = CONVERT["write"](CONVERT["scan"]([train, test]), tmp_path)
    assert rows(tmp_path) == {"jump twice\tI_JUMP I_JUMP", "walk\tI_WALK"}
    assert counts["test"] == 1


def test_names_by_language(tmp_path: Path) -> None:
    folder = tmp_path / "names"
    folder.mkdir()
    (folder / "Irish.txt").write_text("Adam\nAhearn\nAdam\n", encoding="utf-8")
    CONVERT["write"](CONVERT["names"]([folder]), tmp_path)
    assert rows(tmp_path) == {"Irish\tAdam", "Irish\tAhearn"}
