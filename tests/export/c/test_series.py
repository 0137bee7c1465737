"""Series and categories in the JSON that the C reads are found by names in any language, written in any way."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.export.c.models import CModel, compare_samples

import weft
from weft.export.c.samples import samples_of

CITY, OTHER = 'Zürich 🚋 "A"', "São\\Paulo"


@pytest.mark.filterwarnings("ignore")
def test_names_in_any_language(tmp_path: Path):
    rows = [
        (day, city, 20 * place + day % 5, kind)
        for place, (city, kind) in enumerate({CITY: "süß", OTHER: "\u6771\u4eac"}.items())
        for day in range(60)
    ]
    with (tmp_path / "train.csv").open("w", encoding="utf-8") as file:
        csv.writer(file).writerows([("day", "city", "value", "kind"), *rows])
    data = {"train": str(tmp_path / "train.csv"), "time": "day", "series": "city", "target": "value"}
    data |= {"static": ["kind"], "history": 6, "horizon": 2, "season": 5}
    model = {"kind": "rnn", "hidden": 6, "embedding": 4}
    config = {"task": "forecast", "data": data, "model": model, "train": {"steps": 20, "threads": 1}}
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    own = CModel(run, tmp_path)
    compare_samples(run, own, samples_of(run, tmp_path, count=12))

    line = {"series": CITY, "target": [21, 22, 23, 24, 20, 21], "categories": ["süß"]}
    plain, escaped = (own.answer(json.dumps(line, ensure_ascii=ascii)) for ascii in (False, True))
    assert plain == escaped
    assert plain == own.answer(json.dumps(line).replace('"target"', '"\\u0074arget"'))
    assert plain != own.answer(json.dumps(line | {"series": OTHER}))
    unknown = own.answer(json.dumps(line | {"series": "Genf"}))
    for name in ("", CITY[:-1], f"{CITY}B", "Z\ud83d", "\x00"):
        assert own.answer(json.dumps(line | {"series": name})) == unknown
