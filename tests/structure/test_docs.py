"""Documentation runs: every Python block, every config, every command that it shows."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


FILE = re.compile(r"# (\w+)\.py\n")
"""The first line of a block that is a file, which later blocks of the page import."""


def blocks(language):
    for page in PAGES:
        found = re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        yield from (pytest.param(block, id=f"{page.name}-{number}") for number, block in enumerate(found))


@pytest.fixture
def files_of_pages(tmp_path, monkeypatch):
    """The blocks that are files, in the current folder, from which they can be imported; the catalog is restored."""
    from weft import catalog

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for block in (block.values[0] for block in blocks("python")):
        if match := FILE.match(block):
            Path(f"{match[1]}.py").write_text(block, encoding="utf-8")
            monkeypatch.delitem(sys.modules, match[1], raising=False)
    before = {name: dict(parts) for name, parts in catalog.CATALOG.items()}
    yield
    for name, parts in catalog.CATALOG.items():
        parts.clear()
        parts.update(before[name])


@pytest.mark.parametrize("block", list(blocks("python")))
@pytest.mark.usefixtures("files_of_pages")
def test_python_blocks_run(block):
    lines = [f"{word} film {n}\t{label}" for n in range(60) for word, label in (("good", "yes"), ("bad", "no"))]
    Path("reviews.tsv").write_text("\n".join(lines), encoding="utf-8")
    if "torch.compile(" in block:  # torch compiles one function for at most 8 modules of a process
        torch.compiler.reset()
    exec(compile(block, "documentation", "exec", dont_inherit=True), {"__name__": "documentation"})
    assert block


@pytest.mark.parametrize("block", list(blocks("toml")))
def test_configs_are_valid(block):
    from weft.config import validate

    assert validate(tomllib.loads(block)).task


def commands():
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            match = re.match(r"    (?:echo .*\| )?(?:\.venv/bin/)?(weft .+?)(?:  .*)?$", line)
            if match and "…" not in line:
                yield pytest.param(shlex.split(match[1], comments=True), id=match[1])


@pytest.mark.parametrize("words", [case for case in commands() if "." not in case.values[0][0]])
def test_commands_are_those_of_the_command_line(words):
    """Options and verbs exist; what they do is tested elsewhere."""
    import typer

    from weft.cli.app import app

    command = typer.main.get_command(app)
    context = command.make_context("weft", words[1:], resilient_parsing=True)
    assert context is not None
    verb = command.commands[words[1]]
    rest = words[2:]
    while hasattr(verb, "commands"):
        verb, rest = verb.commands[rest[0]], rest[1:]
    options = {name for parameter in verb.params for name in getattr(parameter, "opts", [])}
    assert {word for word in rest if word.startswith("-") and word != "-"} <= options


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
