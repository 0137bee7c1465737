"""How messages are printed: through the shared consoles, with what comes from data kept apart from the markup."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "weft"
TEMPLATED = {"say", "note", "styled", "_print"}
"""Functions whose first argument is markup; `template` is what they pass on to each other."""

CALLS = [
    (path, node)
    for path in sorted(SOURCE.rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
]


def name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def calls(*names: str) -> Iterator[tuple[Path, ast.Call]]:
    return ((path, node) for path, node in CALLS if name_of(node.func) in names)


def is_template(node: ast.expr) -> bool:
    """Text that stands in the source: a constant, a name for one, or such joined by +, * and join."""
    match node:
        case ast.Constant():
            return isinstance(node.value, str)
        case ast.Name():
            return node.id.isupper() or node.id in ("template", "mark")
        case ast.BinOp(op=ast.Add()):
            return is_template(node.left) and is_template(node.right)
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join")):
            return "JoinedStr" not in ast.dump(node)
    return False


def test_values_are_never_part_of_the_markup():
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, node in calls(*TEMPLATED)
        if path.parent.name == "cli" or path.name in ("progress.py", "console.py")
        if not is_template(node.args[0])
    ]
    assert not found, f"write the values behind the template, with a {{}} for each: {found}"


@pytest.mark.parametrize("name", ["Console", "echo", "secho"])
def test_there_is_one_kind_of_console(name):
    assert not [f"{path.relative_to(SOURCE)}:{node.lineno}" for path, node in calls(name)]


def test_the_command_line_writes_data_in_one_place():
    direct = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, node in CALLS
        if path.parent.name == "cli"
        and path.name not in ("output.py", "app.py", "bench.py")  # a version, and typer's own help
        and (ast.unparse(node.func) in ("print", "sys.stdout.write"))
    ]
    assert not direct, f"use weft.cli.output.write: {direct}"
