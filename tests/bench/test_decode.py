"""weft bench decode, on sizes that take no time: who takes part, what is counted, what is equal."""

from __future__ import annotations

import importlib.util
import json

import pytest

from weft.bench.decode import case as decode_case
from weft.bench.decode.case import plan_decode
from weft.bench.decode.contenders import Models
from weft.bench.decode.measure import DecodeFigures, equal_share, measure_decode, tabulate_decode
from weft.errors import ConfigError
from weft.text import SPECIALS

SIZES = {"layers": 1, "width": 16, "heads": 2, "feedforward": 16, "words": 60, "length": 5}

needs_all = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("transformers", "ctranslate2")),
    reason="the packages transformers and ctranslate2 are not both installed",
)


def case(**changes):
    settings = {"sizes": SIZES, "batches": (3,), "beams": (1, 4), "repeats": 1} | changes
    return plan_decode(device="cpu", **settings)


@needs_all
def test_all_write_the_same_with_the_same_weights():
    outcome = measure_decode(case(sizes=SIZES | {"words": 300}, batches=(2, 5)))
    assert outcome.remarks == []
    found = {(row.who, row.batch, row.beam): row.equal for row in outcome.rows}
    assert len(found) == 4 * 2 * 2
    exact = [share for (who, _, _), share in found.items() if who != "ctranslate2-int8"]
    assert exact == [1.0] * len(exact)


@pytest.mark.parametrize("kind", ["transformer", "rnn"])
def test_every_translation_has_the_words_asked_for_and_depends_on_its_source(kind):
    with Models(case(kind=kind, contenders=("weft",), batches=(8,))) as models:
        translate = models.contender("weft")
        for beam in (1, 3):
            texts = translate(beam, 8)
            assert [len(text) for text in texts] == [5] * 8
            assert min(min(text) for text in texts) >= len(SPECIALS)
            assert len(set(map(tuple, texts))) > 1


def test_what_is_not_installed_is_left_out_with_a_line(monkeypatch):
    monkeypatch.setattr(decode_case, "find_spec", lambda name: None)
    outcome = measure_decode(case(beams=(2,)))
    assert [row.who for row in outcome.rows] == ["weft"]
    assert outcome.remarks == [
        "without huggingface: the package transformers is not installed",
        "without ctranslate2: the package ctranslate2 is not installed",
        "without ctranslate2-int8: the package ctranslate2 is not installed",
    ]


def test_the_defaults_are_those_of_the_device():
    asked = plan_decode(device="cpu")
    assert (asked.layers, asked.width, asked.words, asked.batches, asked.beams) == (3, 256, 8000, (32,), (4,))
    recurrent = plan_decode(device="cpu", kind="rnn")
    assert (recurrent.layers, recurrent.width, recurrent.contenders) == (2, 512, ("weft",))


def test_a_table_counts_the_tokens_of_the_best_translations():
    rows = [
        DecodeFigures("weft", batch=10, beam=4, length=20, seconds=0.5, equal=1.0),
        DecodeFigures("huggingface", batch=10, beam=4, length=20, seconds=2.0, equal=0.9),
        DecodeFigures("huggingface", batch=1, beam=4, length=20, seconds=2.0, equal=None),
    ]
    headings, lines = tabulate_decode(rows)
    found = [dict(zip(headings, line, strict=True)) for line in lines]
    assert [row["tokens/s"] for row in found] == ["400", "100", "10"]
    assert [row["ratio"] for row in found] == ["-", "4.00×", "-"]
    assert [row["ms/step"] for row in found] == ["25.00", "100.00", "100.00"]
    assert [row["equal"] for row in found] == ["-", "90%", "-"]


def test_the_share_of_equal_texts():
    assert equal_share([[1, 2], [3]], [[1, 2], [4]]) == 0.5


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kind": "cnn"}, '--kind: "cnn" is not a kind'),
        ({"contenders": ["ctranslate"]}, '--contender: "ctranslate" is not a contender'),
        ({"kind": "rnn", "contenders": ["ctranslate2"]}, '--contender: "ctranslate2" has no recurrent'),
        ({"sizes": SIZES | {"width": 15}}, "--width: 15 cannot be shared out to 2 heads"),
        ({"sizes": SIZES | {"length": 0}}, "--length: 0 is too small"),
        ({"beams": (60,)}, "--beam: 60 is too wide"),
    ],
)
def test_a_mistake_is_told(changes, told):
    with pytest.raises(ConfigError) as error:
        case(**changes)
    assert str(error.value).startswith(told)


def test_the_command_line_says_where_figures_come_from(weft):
    sizes = [word for name, size in SIZES.items() for word in (f"--{name}", str(size))]
    words = ["--device", "cpu", "--contender", "weft", "--repeats", "1", "--batch", "2", "--beam", "1", "--beam", "2"]
    outcome = weft("bench", "decode", *sizes, *words, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert [(row["batch"], row["beam"]) for row in found["rows"]] == [(2, 1), (2, 2)]
    row = found["rows"][0]
    assert row["tokens_per_second"] == pytest.approx(2 * 5 / row["seconds"])
    assert found["machine"]["threads"] == 2
    table = weft("bench", "decode", *sizes, *words, "--markdown")
    rows = [line for line in table.out.splitlines() if line.startswith("|")]
    assert [row.split()[1] for row in rows[2:]] == ["weft", "weft"]
