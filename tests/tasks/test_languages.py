"""Several target languages: the first token of a source, which no text can name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.config import validate
from weft.data import BadLines, Pair
from weft.errors import ConfigError, DataError, WeftError
from weft.tasks import Translate, encode
from weft.tasks.pair_settings import PairData, PairText
from weft.text import EOS

FRENCH = {"one": "un", "two": "deux", "three": "trois"}
SPANISH = {"one": "uno", "two": "dos", "three": "tres"}
ROWS = [
    (word, table[word], language)
    for _ in range(30)
    for language, table in (("fr", FRENCH), ("es", SPANISH))
    for word in table
]
SMALL = {
    "text.kind": "word",
    "text.min_count": 1,
    "model.encoder.hidden": 16,
    "model.encoder.embedding": 8,
    "model.decoder.hidden": 16,
    "model.decoder.embedding": 8,
    "train.steps": 100,
    "train.rate": 0.02,
    "train.batch_tokens": 256,
    "train.evaluate_every": 100,
}


@cache
def learn(*, shared: bool = False) -> Translate:
    pairs = [Pair(source, target, language=language) for source, target, language in ROWS]
    text = PairText(kind="word", shared=shared)
    return Translate(Translate.learn(pairs, text), PairData(train="x", language="language"))


def test_a_language_is_a_token_behind_the_vocabulary() -> None:
    task = learn()
    assert task.codec.labels == ("es", "fr")
    columns = task.encode([Pair("two", "deux", language="fr"), Pair("two", "dos", language="es")], None)
    two = task.source.encode("two")
    assert columns["source"] == [[len(task.source) + 1, *two, EOS], [len(task.source), *two, EOS]]
    assert [row[0] for row in columns["source"]] == [len(task.source) + 1, len(task.source)]


@given(st.one_of(st.text(), st.sampled_from(["<fr>", "fr", "<es> one", "\\<fr>", "<mask>"])))
def test_no_text_can_name_a_language(text: str) -> None:
    task = learn()
    [row] = task.encode([Pair(text, language="es")], None)["source"]
    assert row[0] == len(task.source)
    assert all(token < len(task.source) for token in row[1:])


def test_a_table_for_both_sides_has_the_tokens_but_never_writes_them() -> None:
    task = learn(shared=True)
    model = validate(
        {"task": "translate", "data": {"train": "x"}, "text": {"shared": True}, "model": {"kind": "prefix"}}
    ).model
    built = Translate.build(model, task.codec)
    assert built.output.scores.out_features == len(task.source) + 2
    batch = task.collate(encode(task, [Pair("two", "deux", language="fr")]), [0])
    assert set(task.languages.ids) <= set(task.question(built, batch, records=[]).forbid)


@pytest.mark.parametrize(
    ("language", "message"),
    [(None, "no language to translate to"), ("it", '"it" is not a language of this run')],
)
def test_an_unknown_language_is_an_error_that_names_those_there_are(language: str | None, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        learn().encode([Pair("two", "due", "a.tsv:7", language)], None)
    assert error.value.where == "a.tsv:7"
    assert "es, fr" in str(error.value)


def test_an_empty_language_is_an_error_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("source\ttarget\tlanguage\none\tun\tfr\ntwo\tdeux\t\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"rows\.tsv:3: the language is empty"):
        list(Translate.read(str(path), PairData(train="x", language="language"), BadLines()))


def test_parallel_files_have_no_languages(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("a", "b")]
    with pytest.raises(ConfigError, match="names no column: the files are parallel text"):
        validate({"task": "translate", "data": {"train": files, "language": "language"}})
    with pytest.raises(DataError, match="parallel files have no column of languages"):
        list(Translate.read(files, PairData(train="x", language="language"), BadLines()))


@pytest.mark.covers("M4b")
def test_one_model_writes_two_languages(tmp_path: Path) -> None:
    data = {"train": ROWS, "valid": ROWS[:6], "language": "language"}
    run = weft.train({"task": "translate", "data": data}, SMALL, out=tmp_path / "run")
    run = weft.load(run.folder)
    assert [str(answer) for answer in run.predict(["one", "two"], language="fr")] == ["un", "deux"]
    assert [str(answer) for answer in run.predict(["one", "two"], language=["es", "fr"])] == ["uno", "deux"]
    assert str(run.predict({"source": "three", "language": "es"})) == "tres"
    assert [str(answer) for answer in run.predict([("three", "", "fr"), ("one", "", "es")])] == ["trois", "uno"]
    assert "".join(run.stream("two", language="es")) == "dos"
    assert run.predict("one", language="fr", attention=True).source_tokens[0] == "<fr>"
    assert run.score([("one", "un", "fr")])[0].total > run.score([("one", "un", "es")])[0].total
    with pytest.raises(WeftError, match="not a language of this run"):
        run.predict("one", language="it")
    with pytest.raises(ConfigError, match="language: 1 are given for 2 texts"):
        run.predict(["one", "two"], language=["fr"])
    found = run.evaluate(ROWS[:6])
    rows = {row["language"]: row for row in found.details["by_language"]}
    assert {name: (row["count"], row["exact"]) for name, row in rows.items()} == {"es": (3, 1.0), "fr": (3, 1.0)}
    report = json.loads((run.folder / "report.json").read_text(encoding="utf-8"))
    assert [row["language"] for row in report["details"]["valid"]["by_language"]] == ["es", "fr"]
    assert "- valid, fr: " in (run.folder / "README.md").read_text(encoding="utf-8")


def test_the_command_line_takes_a_language_or_a_column(tmp_path: Path, weft) -> None:  # type: ignore[no-untyped-def]
    lines = ["source\ttarget\tto", *("\t".join(row) for row in ROWS)]
    Path("train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("in.tsv").write_text("source\tto\none\tfr\ntwo\tes\n", encoding="utf-8")
    Path("in.txt").write_text("one\ntwo\n", encoding="utf-8")
    settings = [f"{name}={value}" for name, value in SMALL.items()]
    trained = weft("train", "translate", "train.tsv", "data.language=to", *settings, "--out", "run")
    assert trained.code == 0, trained.err
    assert weft("predict", "run", "in.txt", "--language", "es").out == "uno\ndos\n"
    assert weft("predict", "run", "in.tsv").out == "source\tto\ttranslation\none\tfr\tun\ntwo\tes\tdos\n"
    missing = weft("predict", "run", "in.txt")
    assert (missing.code, missing.out) == (2, "")
    assert "in.txt:1: no language to translate to (give one of es, fr" in missing.err
    assert " fr " in weft("evaluate", "run", "train.tsv").out
