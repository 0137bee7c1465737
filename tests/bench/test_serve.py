"""weft bench serve: what is counted, and a whole measurement that takes a few seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.bench.serve.client import percentile
from weft.bench.serve.load import Load
from weft.bench.serve.measure import ServeFigures, plan_serve, tabulate_serve
from weft.bench.serve.rival import RIVALS
from weft.errors import ConfigError


def test_percentiles_are_values_that_were_seen():
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert percentile([3.0], 0.01) == 3.0


def test_rate_latency_and_growth():
    load = Load(seconds=10.0, latencies=[0.1] * 19 + [1.0], memory=[(moment, 100 + moment) for moment in range(10)])
    assert load.rate == 2.0
    assert load.latency(0.5) == 0.1
    assert load.growth() == pytest.approx((108 / 105) - 1, rel=0.01)
    headings, lines = tabulate_serve([ServeFigures("weft", load), ServeFigures("other", Load(10.0, [2.0] * 10))])
    found = [dict(zip(headings, line, strict=True)) for line in lines]
    assert [row["ratio"] for row in found] == ["-", "2.00×"]
    assert [row["p99 ms"] for row in found] == ["1000", "2000"]


def test_unknown_contenders_and_missing_inputs_are_mistakes(tmp_path):
    with pytest.raises(ConfigError, match="is no contender"):
        plan_serve(tmp_path, contenders=["wefft"], file=None)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(ConfigError, match="--inputs FILE"):
        plan_serve(tmp_path, contenders=["weft"], file=empty)


def test_a_measurement_of_a_second(weft, pairs):
    import weft as package

    quick = {"steps": 5, "rate": 0.01}
    small = {"kind": "rnn", "embedding": 8, "hidden": 8}
    config = {
        "task": "translate",
        "data": {"train": pairs},
        "model": {"encoder": small, "decoder": small},
        "train": quick,
    }
    package.train(config, out=Path("run"))
    Path("in.txt").write_text("one two\nthree\n")
    words = [
        "run",
        "--inputs",
        "in.txt",
        "--clients",
        "4",
        "--seconds",
        "1",
        "--leaving",
        "2",
        "--threads",
        "1",
        "--json",
    ]
    found = weft("bench", "serve", *words, "--contender", "weft")
    assert found.code == 0, found.err
    (row,) = json.loads(found.out)["rows"]
    assert row["who"] == "weft"
    assert row["errors"] == 0
    assert row["requests"] > 0
    assert row["megabytes"] > 10


@pytest.mark.parametrize(("rival", "package"), [("huggingface", "transformers"), ("ctranslate2", "ctranslate2")])
def test_other_software_writes_with_the_tokenizer_of_the_target(tmp_path, pairs, rival, package):
    pytest.importorskip(package)
    import weft
    from weft.export import export_run

    small = {"kind": "transformer", "width": 16, "heads": 2, "layers": 1, "norm": "post"}
    config = {
        "task": "translate",
        "data": {"train": pairs},
        "text": {"kind": "bpe", "size": 300, "shared": False},
        "model": {"encoder": small, "decoder": small},
        "train": {"steps": 40, "rate": 0.01, "threads": 1},
    }
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    export_run(tmp_path / "run", to=rival, out=tmp_path / rival)
    texts = ["one two", "three", "two one three two"]
    found = RIVALS[rival](tmp_path / rival, 1)(texts)
    assert found == [answer.text for answer in run.predict(texts, beam=4)]
    assert any(found)
