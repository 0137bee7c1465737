"""Several references: each is a pair in training, and all of them are right in an evaluation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sacrebleu

import weft
from weft.data import BadLines, Columns, Objects, Pair, group_references
from weft.errors import DataError
from weft.metrics import TranslationTally
from weft.metrics.edits import count_nearest
from weft.tasks import Translate
from weft.tasks.pair_settings import PairData

MANY = PairData(train="x", references="many")


def read(path: Path, lines: list[str], data: PairData = MANY) -> list[tuple[str, str | None]]:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [(pair.source, pair.target) for pair in Translate.read(str(path), data, BadLines())]


def test_references_are_lines_columns_or_lists(tmp_path: Path) -> None:
    wanted = [("a", "x"), ("a", "y"), ("b", "z")]
    assert read(tmp_path / "lines.tsv", ["source\ttarget", "a\tx", "a\ty", "b\tz"]) == wanted
    columns = PairData(train="x", target=["one", "two"], references="many")
    assert read(tmp_path / "columns.tsv", ["source\tone\ttwo", "a\tx\ty", "b\tz\t"], columns) == wanted
    objects = [{"source": "a", "target": ["x", "y"]}, {"source": "b", "target": "z"}]
    assert read(tmp_path / "lists.jsonl", list(map(json.dumps, objects))) == wanted
    both = [{"source": "a", "one": "x", "two": ["y"]}, {"source": "b", "one": None, "two": "z"}]
    assert read(tmp_path / "both.jsonl", list(map(json.dumps, both)), columns) == wanted
    python = Objects([("a", ["x", "y"]), {"source": "b", "target": "z"}], "data.train")
    found = python.read(Columns(Pair, "source", "target", many=True), BadLines())
    assert [(pair.source, pair.target) for pair in found if isinstance(pair, Pair)] == wanted


def test_a_list_without_the_setting_is_an_error_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'data\.references = "many"'):
        read(tmp_path / "lists.jsonl", ['{"source": "a", "target": ["x", "y"]}'], PairData(train="x"))


def test_an_empty_list_of_references_is_an_error_with_its_line(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"source": "a", "target": ["x"]}, {"source": "b", "target": []}]
    with pytest.raises(DataError, match=r'lists\.jsonl:2: "target" is an empty list \(give at least one right target'):
        read(tmp_path / "lists.jsonl", list(map(json.dumps, rows)))
    skipping = BadLines(skip=True)
    assert len(list(Translate.read(str(tmp_path / "lists.jsonl"), MANY, skipping))) == 1
    assert skipping.count == 1
    python = Objects([("a", ["x"]), ("b", [])], "data.train")
    with pytest.raises(DataError, match=r'data\.train\[1\]: "target" is an empty list'):
        list(python.read(Columns(Pair, "source", "target", many=True), BadLines()))


def test_pairs_of_one_source_and_language_are_one_example() -> None:
    pairs = [Pair("a", "x"), Pair("b", "z"), Pair("a", "y"), Pair("a", "x"), Pair("a", "w", language="fr")]
    found = [(pair.source, pair.target, pair.language, pair.references) for pair in group_references(pairs)]
    assert found == [("a", "x", None, ("x", "y")), ("b", "z", None, ("z",)), ("a", "w", "fr", ("w",))]


HYPOTHESES = ["the cat sat on the mat", "a dog runs in the park", "hello world"]
REFERENCES = [
    ["the cat sat on a mat", "the cat was on the mat"],
    ["the dog is running in the park"],
    ["hello there", "hello , world", "hi world"],
]


def tally() -> TranslationTally:
    found = TranslationTally()
    for hypothesis, references in zip(HYPOTHESES, REFERENCES, strict=True):
        found.add(hypothesis, references)
    return found


@pytest.mark.covers("M4b", "E5")
def test_bleu_and_chrf_are_those_of_sacrebleu_with_uneven_references() -> None:
    streams = [[own[n] if n < len(own) else None for own in REFERENCES] for n in range(3)]
    bleu, chrf = sacrebleu.BLEU(force=True), sacrebleu.CHRF()
    assert tally().bleu == bleu.corpus_score(HYPOTHESES, streams).score
    assert tally().chrf == chrf.corpus_score(HYPOTHESES, streams).score
    assert tally().bleu_signature == str(bleu.get_signature())
    assert "nrefs:var" in tally().chrf_signature
    assert tally().references == 6


@pytest.mark.covers("E5")
def test_errors_count_against_the_nearest_reference() -> None:
    # 1 of 6 words, 3 of 7 words ("a"/"the", "is" missing, "runs"/"running"), 1 of 2 words.
    assert count_nearest("wer", HYPOTHESES[0], REFERENCES[0]) == (1, 6)
    assert count_nearest("wer", HYPOTHESES[2], REFERENCES[2]) == (1, 2)
    assert tally().wer == (1 + 3 + 1) / (6 + 7 + 2)
    assert tally().exact == 0
    exact = TranslationTally()
    exact.add("hi world", REFERENCES[2])
    exact.add("hi", REFERENCES[2])
    assert exact.exact == 1 / 2


def test_sums_of_parts_give_the_score_of_the_whole() -> None:
    """`weft compare` adds up the sums of examples that it has drawn."""
    parts = []
    for hypothesis, references in zip(HYPOTHESES, REFERENCES, strict=True):
        one = TranslationTally()
        one.add(hypothesis, references)
        parts.append(one.sums())
    assert tally().score(sum(parts)) == tally().score(tally().sums())


@pytest.mark.covers("M4b")
def test_a_run_is_trained_on_every_reference_and_right_with_any(tmp_path: Path, weft) -> None:  # type: ignore[no-untyped-def]
    words = {"one": ["un", "uno"], "two": ["deux"], "three": ["trois", "tres", "drei"]}
    lines = [f"{word}\t{target}" for _ in range(20) for word, targets in words.items() for target in targets]
    for name, rows in (("train.tsv", lines), ("test.tsv", lines[:6])):
        Path(name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    small = [
        "text.kind=word",
        "text.min_count=1",
        "model.encoder.hidden=16",
        "model.decoder.hidden=16",
        "train.rate=0.02",
        "train.steps=100",
    ]
    settings = ["data.references=many", "train.batch_tokens=256", "train.evaluate_every=100", *small]
    for name in ("first", "second"):
        found = weft("train", "translate", "train.tsv", "test.tsv", "test.tsv", *settings, "--out", name)
        assert found.code == 0, found.err
    report = json.loads(Path("first/report.json").read_text(encoding="utf-8"))
    assert "120 training examples  3 validation" in found.err
    assert report["details"]["test"]["count"] == 3
    assert report["details"]["test"]["references"] == 6
    assert report["details"]["test"]["count_of"] == "sources"
    assert report["test"]["exact"] == 1.0
    told = weft("evaluate", "first", "test.tsv", "--json")
    assert json.loads(told.out)["exact"] == 1.0
    alone = weft("evaluate", "first", "test.tsv", "data.references=one", "--json")
    assert json.loads(alone.out)["details"]["count"] == 6
    compared = weft("compare", "first", "second", "--data", "test.tsv", "--json")
    assert compared.code == 0, compared.err
    assert json.loads(compared.out)["runs"][0]["metrics"]["exact"] == 1.0


def test_the_settings_reach_the_file_and_python_data(tmp_path: Path) -> None:
    data = {"train": [("a", ["x", "y"])] * 12, "valid": [("a", ["x", "y"])], "references": "many"}
    overrides = {"train.steps": 1, "model.encoder.hidden": 8, "model.decoder.hidden": 8}
    run = weft.train({"task": "translate", "data": data}, overrides, out=tmp_path / "run")
    assert run.report["details"]["valid"]["references"] == 2
    assert run.config.data.references == "many"
