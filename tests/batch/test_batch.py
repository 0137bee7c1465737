"""Batches: each row once and in order, as weft predict answers it, whatever stopped the calls before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.batch.conftest import read_rows, write_rows

from weft import predict_files
from weft.batch import Answered
from weft.batch.engine import LocalEngine
from weft.batch.plan import MAX_PARTS, JobFolder, default_part_rows
from weft.batch.source import cut, open_source, read_part, rows_of
from weft.data import BadLines
from weft.errors import DataError, RunError, WeftError

FIELDS = {"label", "probability", "probabilities"}


def expected(weft: Any, run: str, file: str, *words: str) -> list[Any]:
    outcome = weft("predict", run, file, "--format", "jsonl", "--json", *words)
    assert outcome.code == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_rows_keep_their_columns_and_get_the_answers_of_weft_predict(weft, classifier, texts):
    plain = expected(weft, classifier, "in.jsonl")
    outcome = weft("predict", classifier, "in.jsonl", "--out", "out.jsonl")
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "out.jsonl: 53 rows\n")
    found = read_rows("out.jsonl")
    assert [{name: row[name] for name in ("id", "text", "score")} for row in found] == texts
    for row, answer in zip(found, plain, strict=True):
        assert row.keys() == {"id", "text", "score"} | FIELDS
        assert {name: row[name] for name in FIELDS} == {name: answer and answer[name] for name in FIELDS}
    assert [path.name for path in Path("out.jsonl.job").iterdir()] == ["plan.json"]


class Killed(BaseException):
    """Stands for a signal that ends the process."""


@pytest.mark.parametrize("kept", [0, 1, 5, 10])
def test_a_job_that_was_stopped_goes_on_where_it_was(classifier, texts, monkeypatch, kept):
    whole = predict_files(classifier, "in.jsonl", "whole.jsonl", part_rows=5)
    assert whole == Answered(Path("whole.jsonl"), 53, parts=11, computed=11, notes=whole.notes)
    answered: list[int] = []
    answer = LocalEngine.answer

    def stop(self, worker, sources, parts):
        for number, content in answer(self, worker, sources, parts):
            if len(answered) == kept:
                raise Killed
            answered.append(number)
            yield number, content

    monkeypatch.setattr(LocalEngine, "answer", stop)
    with pytest.raises(Killed):
        predict_files(classifier, "in.jsonl", "out.jsonl", part_rows=5)
    assert not Path("out.jsonl").exists()
    # What a kill leaves behind: a file that was being written.
    Path("out.jsonl.job/.part-000010.jsonl.1-aa.tmp").write_text("half", encoding="utf-8")
    Path("out.jsonl.job/output.tmp").write_text("half", encoding="utf-8")
    monkeypatch.setattr(LocalEngine, "answer", answer)
    found = predict_files(classifier, ["in.jsonl"], "out.jsonl")
    assert (found.rows, found.parts, found.computed) == (53, 11, 11 - kept)
    assert Path("out.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    assert predict_files(classifier, "in.jsonl", "out.jsonl").computed == 0


def test_a_kill_after_the_output_was_written_writes_it_again(classifier, texts, monkeypatch):
    write = JobFolder.write_plan

    def stop(self, plan):
        if plan.complete is not None:
            raise Killed
        write(self, plan)

    monkeypatch.setattr(JobFolder, "write_plan", stop)
    with pytest.raises(Killed):
        predict_files(classifier, "in.jsonl", "out.jsonl", part_rows=9)
    before = Path("out.jsonl").read_bytes()
    monkeypatch.setattr(JobFolder, "write_plan", write)
    assert predict_files(classifier, "in.jsonl", "out.jsonl").computed == 0
    assert Path("out.jsonl").read_bytes() == before
    assert not Path("out.jsonl.job/part-000000.jsonl").exists()


def test_a_file_of_somebody_else_is_not_overwritten(classifier, texts):
    Path("out.jsonl").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match=r"out\.jsonl: exists already \(remove it"):
        predict_files(classifier, "in.jsonl", "out.jsonl")
    assert Path("out.jsonl").read_text(encoding="utf-8") == "mine"
    assert not Path("out.jsonl.job").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"part_rows": 4}, "another --part-rows: 5, now 4"),
        ({"columns": ["id"]}, r"another --column: \[\], now \['id'\]"),
        ({"run": "translator"}, "another model"),
        ({"files": "other"}, "other input files"),
    ],
)
def test_another_command_is_refused(classifier, translator, texts, change, words, monkeypatch):
    def stop(self, worker, sources, parts):
        raise Killed
        yield

    monkeypatch.setattr(LocalEngine, "answer", stop)
    with pytest.raises(Killed):
        predict_files(classifier, "in.jsonl", "out.jsonl", part_rows=5)
    if "files" in change:
        write_rows(Path("in.jsonl"), texts[1:])
    run = translator if "run" in change else classifier
    given = {"part_rows": 5, **{name: value for name, value in change.items() if name not in ("run", "files")}}
    if "run" in change:
        given["columns"] = ["text"]
    with pytest.raises(RunError, match=rf"^out\.jsonl\.job: was begun with {words} \(repeat the command"):
        predict_files(run, "in.jsonl", "out.jsonl", **given)


def test_bad_rows_stop_or_are_left_out_and_named(weft, classifier, texts):
    lines: list[Any] = [*texts[:7], "{", *texts[7:9], {"id": 1}, "", {"id": 2, "text": ["x"]}, *texts[9:]]
    write_rows(Path("in.jsonl"), lines)
    outcome = weft("predict", classifier, "in.jsonl", "--out", "out.jsonl", "--part-rows", "4")
    assert outcome.code == 2
    assert outcome.err.startswith("error in.jsonl:8: not JSON: Expecting property name")
    assert not Path("out.jsonl").exists()
    outcome = weft("predict", classifier, "in.jsonl", "--out", "out.jsonl", "--part-rows", "4", "--skip-bad-lines")
    assert outcome.code == 0
    *errors, last = outcome.err.splitlines()
    assert [line.split(": ")[0] for line in errors] == ["error in.jsonl:8", "error in.jsonl:11", "error in.jsonl:13"]
    assert last.startswith("out.jsonl: 53 rows, 3 bad rows left out; 1 of 15 parts had been computed before")
    assert [row["id"] for row in read_rows("out.jsonl")] == list(range(53))


def test_options_reach_the_search(weft, translator, tmp_path):
    rows = [{"source": f"one {number}", "text": "taken"} for number in range(7)]
    write_rows(tmp_path / "in.jsonl", rows)
    words = ("--beam", "3", "--n-best", "2", "--forbid", "deux", "--max-length", "5")
    plain = expected(weft, translator, "in.jsonl", *words)
    assert weft("predict", translator, "in.jsonl", "--out", "out.jsonl", *words).code == 0
    for row, answer in zip(read_rows("out.jsonl"), plain, strict=True):
        assert row["text"] == "taken"
        assert row["predicted_text"] == answer["text"]
        assert row["others"] == answer["others"]
        assert len(row["others"]) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["in.jsonl", "--out", "out.csv"], "error --out out.csv: has no format that a batch can write"),
        (["in.csv", "--out", "out.jsonl"], "error in.csv: cannot be read in parts"),
        (["gone.jsonl", "--out", "out.jsonl"], "error gone.jsonl: no such file"),
        (["--out", "out.jsonl"], "error --out: needs files"),
        (["in.jsonl", "--out", "out.jsonl", "--json"], "error --json: is not for --out"),
        (["in.jsonl", "--out", "out.jsonl", "--actors", "2"], "error --actors: is for --engine ray"),
        (
            ["in.jsonl", "--out", "out.jsonl", "--engine", "rey"],
            'error --engine: "rey" is no engine (did you mean "ray"',
        ),
        (["in.jsonl", "--out", "out.jsonl", "--beam", "3"], "error beam: classify writes no text"),
        (["in.jsonl", "--out", "out.jsonl", "--part-rows", "0"], "error --part-rows 0: is no such number"),
        (["in.jsonl", "--out", "gone/out.jsonl"], "error gone: no such folder"),
        (["in.jsonl", "--out", "in.jsonl"], "error in.jsonl: exists already"),
        (["in.jsonl", "--out", "out.jsonl", "--column", "body"], 'error in.jsonl:1: no "body" in the object'),
        (["in.jsonl", "--engine", "ray"], "error --engine: needs --out"),
        (["in.jsonl", "in.jsonl"], "error in.jsonl in.jsonl: are several files"),
        (["in.jsonl", "--out", "out.jsonl", "--import", "mine.py:Mine"], "error --import mine.py: no such file"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(weft, classifier, texts, words, line):
    Path("in.csv").write_text("text\na\n", encoding="utf-8")
    outcome = weft("predict", classifier, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(line)
    assert outcome.err.count("\n") == 1
    assert not [path for path in Path.cwd().glob("out*") if path.suffix != ".job"]


def test_parts_hold_each_line_once(tmp_path):
    lines = [f'{{"n": {number}}}' + " " * (number % 3) for number in range(100)]
    name = write_rows(tmp_path / "in.jsonl", ["", *lines, ""])
    for step, rows in ((1, 1), (3, 12), (7, 7), (512, 512), (102, 102)):
        source = open_source(name, step=step, bad=BadLines())
        assert source.rows == 102
        parts = cut([source], step=step, rows=rows)
        contents = [read_part(source.path, "jsonl", part, name=name) for part in parts]
        assert b"".join(contents) == Path(name).read_bytes()
        numbered = [
            row for part, content in zip(parts, contents, strict=True) for row in rows_of(content, "jsonl", part)
        ]
        assert [number for number, _ in numbered] == list(range(1, 103))


@pytest.mark.parametrize("rows", [0, 1, 511, 512, 513, 10**6, 10**9])
def test_parts_are_whole_chunks_and_not_too_many(rows):
    found = default_part_rows(rows, 512)
    assert found % 512 == 0
    assert rows / found <= MAX_PARTS
    assert found == 512 or rows / (found - 512) > MAX_PARTS


def test_a_damaged_part_is_named(classifier, texts, monkeypatch):
    monkeypatch.setattr("weft.batch.job.write_output", lambda *parts: (_ for _ in ()).throw(Killed))
    with pytest.raises(Killed):
        predict_files(classifier, "in.jsonl", "out.jsonl", part_rows=20)
    Path("out.jsonl.job/part-000001.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"part-000001\.jsonl: is damaged \(remove it, and run the command again\)"):
        predict_files(classifier, "in.jsonl", "out.jsonl")


def test_a_task_whose_inputs_are_no_rows_is_refused(tmp_path, monkeypatch):
    import weft as package

    monkeypatch.chdir(tmp_path)
    series = [{"time": f"2024-01-{day:02}", "value": float(day % 7)} for day in range(1, 31)]
    config = {"task": "forecast", "data": {"train": series, "horizon": 2}, "train": {"steps": 1}}
    package.train(config, out="run", quiet=True)
    write_rows(Path("in.jsonl"), series)
    with pytest.raises(WeftError, match=r'task = "forecast": answers whole tables, not rows'):
        predict_files("run", "in.jsonl", "out.jsonl")


def test_words_of_a_tagger(tmp_path, monkeypatch):
    import weft as package

    monkeypatch.chdir(tmp_path)
    sentences = [([("the", "DET"), ("cat", "NOUN")]), ([("a", "DET"), ("dog", "NOUN")])] * 8
    config = {"task": "tag", "data": {"train": sentences}, "model": {"embedding": 8, "hidden": 8}}
    run = package.train(config, {"train.steps": 2}, out="run", quiet=True)
    write_rows(Path("in.jsonl"), [{"words": ["the", "dog"]}, {"words": "a cat sleeps"}, {"words": ""}])
    predict_files("run", "in.jsonl", "out.jsonl")
    answers = run.predict([["the", "dog"], ["a", "cat", "sleeps"]])
    assert [row["tags"] for row in read_rows("out.jsonl")] == [*(list(answer.tags) for answer in answers), None]


def test_an_empty_file_has_no_rows(classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text("\n\n", encoding="utf-8")
    assert predict_files(classifier, "in.jsonl", "out.jsonl").rows == 0
    assert Path("out.jsonl").read_text(encoding="utf-8") == ""


def test_one_process_at_a_time(classifier, texts):
    from weft.run.folder.lock import lock_folder

    folder = Path("out.jsonl.job")
    folder.mkdir()
    with (
        lock_folder(folder),
        pytest.raises(RunError, match=r"out\.jsonl\.job: another process computes this output"),
    ):
        predict_files(classifier, "in.jsonl", "out.jsonl")


def test_a_bad_first_row_is_named_at_once(classifier, tmp_path):
    name = write_rows(tmp_path / "in.jsonl", ["[1]", {"text": "a"}])
    with pytest.raises(DataError, match=r"in\.jsonl:1: not a JSON object"):
        predict_files(classifier, name, tmp_path / "out.jsonl")
    assert predict_files(classifier, name, tmp_path / "out.jsonl", skip_bad_lines=True).rows == 1
