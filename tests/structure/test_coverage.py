"""docs/coverage.md and the tests agree: each line that is built has a test with its id, and each id has a line."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
STATES = ("built", "in part: ", "not yet")


def rows() -> list[tuple[str, str, str]]:
    """The id, the description and the state of each line of the page."""
    found = re.findall(r"^\| ([A-Z]\d+b?) \| (.+) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(name, what, state) for name, what, state in found]


def marks_in(code: str) -> Iterator[tuple[str, str, bool]]:
    """For each id that a test of some code names: the id, the test, and whether the test is slow."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef):
            decorators = {ast.unparse(mark): mark for mark in node.decorator_list}
            for mark in decorators.values():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.covers":
                    for name in mark.args:
                        yield ast.literal_eval(name), node.name, "pytest.mark.slow" in decorators


def marks() -> dict[str, list[str]]:
    """The tests of the fast suite that name an id, by the id."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        code = path.read_text(encoding="utf-8")
        if "mark.covers" in code and path != Path(__file__):
            for name, test, slow in marks_in(code):
                tests = found[name]  # an id that only a slow test names is known as well
                if not slow:
                    tests.append(f"{path.relative_to(ROOT)}::{test}")
    return dict(found)


def missing(lines: list[tuple[str, str, str]], found: dict[str, list[str]]) -> list[str]:
    """Lines of the page that are built, at least in part, and have no test in the fast suite."""
    return [f"{name}: {what}" for name, what, state in lines if state != "not yet" and not found.get(name)]


def unknown(lines: list[tuple[str, str, str]], found: dict[str, list[str]]) -> list[str]:
    """Ids that tests name and that are not on the page, or not built there."""
    return sorted(set(found) - {name for name, _, state in lines if state != "not yet"})


def test_the_page_has_one_line_for_each_id_and_a_state_for_each_line() -> None:
    names = Counter(name for name, _, _ in rows())
    assert len(names) > 70
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name, _, state in rows() if not state.startswith(STATES)] == []


def test_every_line_that_is_built_has_a_test() -> None:
    without = missing(rows(), marks())
    assert not without, "no test has @pytest.mark.covers for:\n" + "\n".join(without)


def test_every_id_that_a_test_names_is_on_the_page_and_built() -> None:
    assert unknown(rows(), marks()) == []


def test_the_checks_find_what_is_wrong() -> None:
    code = '@pytest.mark.covers("R1", "R9")\n@pytest.mark.slow\ndef test_slow(): ...\n'
    code += '@pytest.mark.covers("R2")\ndef test_fast(): ...\ndef test_other(): ...\n'
    assert list(marks_in(code)) == [("R1", "test_slow", True), ("R9", "test_slow", True), ("R2", "test_fast", False)]
    lines = [("R1", "one", "built"), ("R2", "two", "in part: no three"), ("R3", "three", "not yet")]
    assert missing(lines, {"R1": [], "R2": ["here"]}) == ["R1: one"]
    assert unknown(lines, {"R1": ["here"], "R3": ["here"], "R4": ["here"]}) == ["R3", "R4"]


def test_source_code_names_no_ids() -> None:
    """An id in a docstring sends its reader to another page, where a sentence would do."""
    known = "|".join(name for name, _, _ in rows())
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in re.findall(rf"\((?:{known})\b[^)]*\)", path.read_text(encoding="utf-8"))
    ]
    assert found == []
