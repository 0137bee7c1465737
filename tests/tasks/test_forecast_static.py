"""Static features: numbers and texts of a whole series, learned, stored, and what an unknown text does."""

from __future__ import annotations

import numpy as np
import pytest

import weft as package
from weft.errors import ConfigError, DataError

DAYS, HORIZON = 80, 7
EFFECTS = {"food": 6.0, "books": -6.0}
"""What an offer does to the sales of a shop, by its kind: its past shows it only where it had an offer."""

HEADER = "shop,date,sales,offer,kind,size"


def shop_rows(name: str, kind: str, *, seed: int, offers: np.ndarray, size: float = 5.0) -> list[str]:
    """Rows of a shop; those after DAYS have no sales yet."""
    draw = np.random.default_rng(seed)
    rows = []
    for day, offer in enumerate(offers):
        sales = 20 + EFFECTS.get(kind, 0.0) * offer + 2 * draw.normal() if day < DAYS else ""
        rows.append(f"{name},{np.datetime64('2024-01-01') + day},{sales},{int(offer)},{kind},{size}")
    return rows


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("static")
    draw = np.random.default_rng(0)
    rows = [HEADER]
    for number in range(8):
        kind = ("food", "books")[number % 2]
        rows += shop_rows(f"s{number}", kind, seed=number, offers=draw.random(DAYS) < 0.3, size=float(number))
    path = folder / "shops.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    columns = {"target": "sales", "known": "offer", "static": ["kind", "size"], "season": 1, "horizon": HORIZON}
    tree = {"task": "forecast", "data": {"train": str(path), **columns}}
    return package.train(
        tree,
        {"train.epochs": 12, "train.rate": 1e-2, "model.hidden": 8, "model.embedding": 8},
        out=folder / "run",
        quiet=True,
    )


def forecast_of(run, folder, kind: str) -> float:
    """The mean forecast of a new shop of this kind that never had an offer and has one on each of the next days."""
    path = folder / "new.csv"
    offers = np.concatenate([np.zeros(DAYS), np.ones(HORIZON)])
    path.write_text("\n".join([HEADER, *shop_rows("new", kind, seed=99, offers=offers)]), encoding="utf-8")
    (answer,) = run.predict(str(path))
    return float(np.mean(answer.values))


def test_texts_and_numbers_are_told_apart_and_stored(run):
    data = run.config.data
    assert data.categories == {"kind": ["books", "food"]}
    assert data.static_numbers == ["size"]
    assert package.load(run.folder).config.data.categories == data.categories
    assert [table.weight.shape[0] for table in run.model.categories] == [3]


def test_a_category_is_learned_and_an_unknown_one_lies_between(run, tmp_path):
    food, books, toys, missing = (forecast_of(run, tmp_path, kind) for kind in ("food", "books", "toys", ""))
    assert food > 21 > 19 > books  # the vectors of known shops learn a part of it
    assert books < toys < food
    assert toys == missing  # neither has a vector


def test_a_number_stays_a_number_for_a_file_of_newer_data(run, tmp_path):
    path = tmp_path / "new.csv"
    rows = shop_rows("s0", "food", seed=0, offers=np.zeros(DAYS + HORIZON))
    path.write_text("\n".join([HEADER, *(row.rpartition(",")[0] + ",large" for row in rows)]), encoding="utf-8")
    with pytest.raises(DataError, match=r"new.csv:2: \"size\" is 'large', not a number"):
        run.predict(str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row.replace("food", "books"), "\"kind\" changes within a series, from 'food' to 'books'"),
        (lambda row: row.rpartition(",")[0] + ",9", '"size" changes within a series, from 5 to 9'),
    ],
)
def test_a_static_feature_that_changes_is_an_error(run, tmp_path, change, message):
    rows = shop_rows("s0", "food", seed=0, offers=np.zeros(DAYS + HORIZON))
    path = tmp_path / "new.csv"
    path.write_text("\n".join([HEADER, *rows[:10], *map(change, rows[10:])]), encoding="utf-8")
    with pytest.raises(DataError, match=message):
        run.predict(str(path))


def test_a_missing_static_number_is_an_error(run, tmp_path):
    rows = shop_rows("s0", "food", seed=0, offers=np.zeros(DAYS + HORIZON))
    path = tmp_path / "new.csv"
    path.write_text("\n".join([HEADER, *(row.rpartition(",")[0] + "," for row in rows)]), encoding="utf-8")
    with pytest.raises(DataError, match=r'new.csv:2: "size" is missing'):
        run.predict(str(path))


def test_codes_may_be_named_as_categories_and_only_of_static_columns(run, tmp_path):
    data = {"train": run.config.data.train, "target": "sales", "static": ["size"], "horizon": HORIZON}
    tree = {"task": "forecast", "data": {**data, "categories": {"size": ["0.0", "1.0", "2.0"]}}}
    made = package.train(tree, {"train.steps": 1}, out=tmp_path / "run", quiet=True)
    assert (made.config.data.static_numbers, made.model.sizes.categories) == ([], (3,))
    tree["data"]["categories"] = {"kind": ["food"]}
    with pytest.raises(ConfigError, match=r"data.categories.kind: is no column of data.static"):
        package.train(tree, out=tmp_path / "other", quiet=True)
