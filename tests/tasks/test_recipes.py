"""The recipes: every configuration is one that weft trains."""

from __future__ import annotations

import gzip
import runpy
import tomllib
from pathlib import Path

import pytest

from weft.config import fill
from weft.config.schema import TYPICAL_DATA
from weft.data.convert import CONVERTERS

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_recipe_is_a_configuration(path: Path) -> None:
    tree = tomllib.loads(path.read_text(encoding="utf-8"))
    config = fill(tree, TYPICAL_DATA)
    assert config.data.train == f"data/{path.stem}/train.tsv"
    command = path.read_text(encoding="utf-8").splitlines()[1]
    assert (RECIPES / "fashion.py").name in command or command.split()[4] in CONVERTERS


def test_clothes_become_pictures_with_the_captions_of_their_class(tmp_path: Path) -> None:
    recipe = runpy.run_path(str(RECIPES / "fashion.py"))
    for name, labels in (("train", bytes([9, 0])), ("t10k", bytes([5]))):
        pictures = bytes(16) + bytes(range(28)) * 28 * len(labels)
        (tmp_path / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pictures))
        (tmp_path / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes(8) + labels))
    assert recipe["write"](tmp_path, tmp_path / "out", most=9) == {"train": 0, "valid": 2, "test": 1}
    table = (tmp_path / "out" / "valid.tsv").read_text(encoding="utf-8").splitlines()
    assert table[1:3] == [
        "images/train/00000.png\tan ankle boot with a high shaft",
        "images/train/00000.png\ta closed ankle boot",
    ]
    assert {caption for kind in recipe["CLASSES"] for caption in kind.captions()} >= {
        "an open sandal",
        "a t-shirt with short sleeves",
    }
