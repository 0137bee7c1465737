"""Reports and journals of odd numbers and types: refused in one line, or passed over, at little cost."""

from __future__ import annotations

import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from weft import limits
from weft.charts import draw, rendering
from weft.errors import Fault, RunError
from weft.run import curves
from weft.run.curves import chart, draw_curves, read_curve
from weft.run.report import read_report

pytestmark = pytest.mark.usefixtures("extras")

VALID = '{"step": 10, "valid": {"accuracy": 0.5, "loss": 2.0}}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"task": "classify"}', encoding="utf-8")
    (tmp_path / "metrics.jsonl").write_text(VALID, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ('{"step": 1, "x": [' + "[]," * 2_000_000 + "0]}\n", ":1: is not a line of a journal: more than 65,536 bytes"),
        ("{}\n" * 1001, ": has more than 8,000 values"),
        (VALID + '{"step": 1, "x": ' + "[" * 1000 + "]" * 1000 + "}\n", ":2: is not a line of a journal"),
        (VALID + '{"step": 1, "loss": 1, "loss": 2}\n', ":2: is not a line of a journal"),
    ],
    ids=["a long line", "many lines", "nested", "a key twice"],
)
def test_a_large_journal_is_refused_before_it_is_built(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lines: str, where: str
) -> None:
    monkeypatch.setattr(curves, "JOURNAL_VALUES", 8000)
    (folder / "metrics.jsonl").write_text(lines, encoding="utf-8")
    tracemalloc.start()
    try:
        with pytest.raises(RunError, match=f"metrics.jsonl{where}"):
            read_curve(folder)
        assert tracemalloc.get_traced_memory()[1] < limits.MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("step", ["Infinity", "NaN", "1e400", "1e3", "-1", "true", "null", '"1"', "9007199254740993"])
def test_an_update_has_a_number_that_can_be_drawn(folder: Path, step: str) -> None:
    for rest in ('"loss": 1', '"valid": {"loss": 1}'):
        (folder / "metrics.jsonl").write_text(f'{VALID}{{"step": {step}, {rest}}}\n', encoding="utf-8")
        with pytest.raises(RunError, match=r"metrics\.jsonl:2: is not a line of a journal"):
            read_curve(folder)


@pytest.mark.parametrize("score", ["true", "[]", '"1"', "9" * 401])
def test_a_score_is_a_number(folder: Path, score: str) -> None:
    (folder / "metrics.jsonl").write_text(f'{{"step": 1, "loss": {score}}}\n', encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics\.jsonl:1: is not a line of a journal"):
        read_curve(folder)


def test_the_largest_numbers_are_drawn_or_left_out(folder: Path) -> None:
    scores = ["1e400", "-Infinity", "NaN", "null", "9" * 40, *["1e308"] * 800, "-1e308"]
    lines = [f'{{"step": {limits.STEP}, "loss": {score}}}\n' for score in scores]
    (folder / "metrics.jsonl").write_text(VALID + "".join(lines), encoding="utf-8")
    assert draw_curves(folder, pytest.fail) == folder / "curves.svg"


def test_many_validations_are_thinned_like_updates(folder: Path) -> None:
    lines = [VALID.replace("10", str(step)) for step in range(1000)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    found = chart({"": read_curve(folder)}, metric="loss").to_dict()
    (points,) = found["datasets"].values()
    assert len(points) == curves.MAX_POINTS


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("details", [7, [], None, "x"]),
        ("details.valid", [7, [], None, "x"]),
        ("details.valid.shown", [7, [[]], [{}], None]),
        ("details.valid.perplexity_unit", [[], {}, 7]),
        ("details.valid.unknown_share", ["y", None, []]),
        ("details.valid.vocabulary", [{}, "x", None]),
        ("parameters", ["x", [], {}, None]),
        ("seconds", ["x", [], {}, None]),
        ("tokens_per_second", ["x", [], {}, None]),
    ],
)
def test_a_report_of_other_types_is_refused(folder: Path, path: str, values: list[Any]) -> None:
    *tables, last = path.split(".")
    for value in values:
        report: dict[str, Any] = {"valid": {"loss": 1.0}, "details": {"valid": {"shown": ["loss"]}}, "unheard_of": {}}
        place = report
        for name in tables:
            place = place[name]
        place[last] = value
        (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
        with pytest.raises(RunError, match=rf'report\.json: has no "{".".join(path.split(".")[:2])}" .*copy it again'):
            read_report(folder)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.abort()", "ended by signal 6"),
        ("raise SystemExit(3)", "failed with code 3"),
        ("import threading; threading.Event().wait()", "took more than 0.5 s"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="it ends processes without signals")
def test_a_converter_that_fails_costs_a_picture_and_no_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    monkeypatch.setattr(rendering, "CONVERT", program)
    monkeypatch.setattr(rendering, "MAX_RENDER_SECONDS", 0.5 if "took" in said else 60)
    told: list[str] = []
    assert draw_curves(folder, told.append) is None
    (note,) = told
    assert said in note
    with pytest.raises(Fault, match=said):
        draw(chart({"": read_curve(folder)}, metric="loss"), folder / "both.svg")
    assert not list(folder.glob("*.svg"))


def test_the_converter_has_a_process_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "vl_convert.py").write_text("raise SystemExit(9)", encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "vl_convert", raising=False)
    assert draw_curves(folder, pytest.fail)
    assert "vl_convert" not in sys.modules
