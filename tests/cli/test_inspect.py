"""weft inspect parameters: of a run, of a config file, of a task."""

from __future__ import annotations

import json
from pathlib import Path

from weft.cli.output import screen

CONFIG = """
task = "translate"
data.train = "none.tsv"
text.shared = true
model.encoder = { kind = "transformer", width = 512, heads = 8, layers = 6, norm = "post" }
model.decoder = { kind = "transformer", width = 512, heads = 8, layers = 6, norm = "post" }
"""


def test_the_counts_of_the_texts_from_a_config_file(weft):
    Path("base.toml").write_text(CONFIG, encoding="utf-8")
    found = json.loads(weft("inspect", "parameters", "base.toml", "--words", "37000", "--json").out)
    assert found["total"] == 63_082_632
    encoder, decoder, output = found["parts"]
    (block,) = [part for part in encoder["parts"] if part["kind"] == "EncoderBlock"]
    assert (block["name"], block["count"], block["times"]) == ("stack.blocks.0–5", 3_150_336, 6)
    assert decoder["parts"][1]["count"] == 4_199_936
    assert output["shared"] == ["encoder.embedding.weight"]


def test_the_table(weft, monkeypatch):
    monkeypatch.setattr(screen, "width", 200)
    Path("base.toml").write_text(CONFIG, encoding="utf-8")
    outcome = weft("inspect", "parameters", "base.toml", "--words", "37000", "model.encoder.layers=2")
    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["all", "Translator", f"{63_082_632 - 4 * 3_150_336:,}"] in lines
    row = next(line for line in lines if line[:1] == ["attention"])
    assert row[1:] == [
        "MultiHeadAttention",
        "1536×512,",
        "512×512",
        "4·p·H·m",
        "p=512",
        "H=8",
        "m=64",
        "1,048,576",
        "2,097,152",
    ]


def test_a_task_has_default_sizes_and_settings_change_them(weft):
    def total(*words):
        outcome = weft("inspect", "parameters", *words, "--json")
        assert outcome.code == 0, outcome.err
        return json.loads(outcome.out)["total"]

    for task in ("lm", "classify", "tag", "translate"):
        assert total(task) > 1_000_000
    assert total("lm", "--words", "9000") - total("lm") == 1000 * 257
    assert total("classify", "--labels", "3") - total("classify") == 513
    outcome = weft("inspect", "parameters", "lm", "--labels", "3")
    assert (outcome.code, outcome.err) == (2, "error --labels: lm has no labels (leave it out)\n")
    assert total("lm", "model.kind=transformer", "model.layers=4") - total("lm", "model.kind=transformer") == 788_736


def test_a_run_is_counted_as_it_is(weft, labelled):
    small = ("model.embedding=8", "model.hidden=8", "train.epochs=1")
    assert weft("train", "classify", labelled, *small, "--out", "run", "-q").code == 0
    found = json.loads(weft("inspect", "parameters", "run", "--json").out)
    assert found["total"] == json.loads(Path("run/report.json").read_text())["parameters"]
    outcome = weft("inspect", "parameters", "run", "model.hidden=9")
    assert outcome.code == 2
    assert "model.hidden=9: a trained model has its settings" in outcome.err
    assert "--words: a trained model has its sizes" in weft("inspect", "parameters", "run", "--words", "9").err


def test_mistakes_are_one_line(weft):
    assert 'did you mean "classify"?' in weft("inspect", "parameters", "clasify").err
    outcome = weft("inspect", "parameters", "lm", "texts.txt")
    assert outcome.code == 2
    assert "texts.txt: is not a setting (write key=value; no data is read)" in outcome.err
    assert "parameters" in weft("inspect", "--help").out
    outcome = weft("inspect", "parameters", "runs/nothere")
    assert outcome.code == 2
    assert "runs/nothere: there is no such run" in outcome.err
    outcome = weft("inspect", "neighbors", "run")
    assert outcome.code == 2
    assert 'did you mean "neighbours"' in outcome.err
    assert "gates" in outcome.err
    for view, option in (
        ("attention", "--layer"),
        ("attention", "--head"),
        ("gates", "--layer"),
        ("states", "--layer"),
    ):
        outcome = weft("inspect", view, "run", "a text", option, "0")
        assert outcome.code == 2
        assert "greater than or equal to 1" in outcome.err
