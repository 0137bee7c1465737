"""A terminal never acts on data: escape codes, reading directions, markup and emoji names are shown as text."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import weft as package
from weft.cli import main, output
from weft.console import SafeConsole, styled, visible

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")

LABELS = ["\x1b[2Jred", "[/]", "[bold]x[/bold]", ":cat:", "a\u202eb", "c\x9bd", "\\"]
ACTS = ("\x1b[2J", "\x9b", "\u202e", "\x07")


def test_visible():
    assert visible("a\tb\r\nc\x1b[0m\x07\x7f\x9b\u202e\u2066\udcff\r") == (
        "a\tb\r\nc\\x1b[0m\\x07\\x7f\\x9b\\u202e\\u2066\\udcff\\r"
    )
    assert visible("déjà vu, שלום, 日本語 👩‍👩‍👧") == "déjà vu, שלום, 日本語 👩‍👩‍👧"


@pytest.mark.parametrize("label", [*LABELS, "[/foo]", "[link=x]", "[@click=x]", "a[", "\\[/]", "\\\\"])
def test_values_are_no_markup(label):
    console = SafeConsole(file=io.StringIO(), width=80)
    console.print(styled("[bold]{}[/] {}", label, "end"))
    assert console.file.getvalue().rstrip("\n").replace("\\", "") == f"{visible(label)} end".replace("\\", "")


def test_styles_stay_and_everything_printed_is_visible():
    console = SafeConsole(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    table = Table(title="t\x1b[2J")
    table.add_column(Text("h\x1b[2J"))
    table.add_row(Text("x\x1b[2J\x07", style="red"))
    console.print(table)
    console.print("[red]x[/]\x1b[2J")
    shown = console.file.getvalue()
    assert "\x1b[31mx" in shown  # rich's own
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert shown.count(r"\x1b[2J") >= 2


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier whose labels contain escape codes and markup."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [f"the \x07\x1b[2J w{number % 7} and {number}\t{LABELS[number % 7]}\n" for number in range(140)]
    (folder / "lab.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    model = {"hidden": 4, "embedding": 4}
    tree = {"task": "classify", "data": {"train": str(folder / "lab.tsv")}, "model": model, "train": {"steps": 2}}
    package.train(tree, out=folder / "[/run]", quiet=True)
    return folder


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, run: Path) -> Callable[..., str]:
    """Run a command on a terminal, and return its output."""

    def call(*words: str, typed: str = "") -> str:
        leader, follower = pty.openpty()
        os.write(leader, typed.encode())
        monkeypatch.chdir(run)
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "argv", ["weft", *words])
        with (
            open(os.dup(follower), encoding="utf-8") as keys,  # noqa: PTH123
            (run / "screen").open("w+", encoding="utf-8") as kept,
        ):
            # A file that claims to be a terminal: writing to a real one blocks without a reader.
            kept.isatty = lambda: True  # type: ignore[method-assign]
            for name, stream in {"stdin": keys, "stdout": kept, "stderr": kept}.items():
                monkeypatch.setattr(sys, name, stream)
            with pytest.raises(SystemExit):
                main()
        os.close(leader)
        os.close(follower)
        return (run / "screen").read_text(encoding="utf-8")

    return call


COMMANDS = {
    "evaluate": ["evaluate", "[/run]", "lab.tsv"],
    "predict": ["predict", "[/run]", "lab.tsv"],
    "predict as JSON": ["predict", "[/run]", "lab.tsv", "--json"],
    "data": ["data", "show", "classify", "lab.tsv", "--row", "1", "--row", "5"],
    "config": ["config", "fill", "classify", "lab.tsv", "data.label=label"],
    "an error": ["data", "show", "classify", "lab.tsv", "data.label=\x1b[2J\x07[/]"],
    "a usage error": ["doctor", "\x1b[2J\x07[/]"],
    "a file name": ["train", "classify", "\x1b[2J\x07[/].tsv"],
    "a training": ["train", "classify", "lab.tsv", "train.steps=2", "model.hidden=4", "--out", "\x1b[2J[/b]"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_control_characters_in_data_are_visible_on_a_terminal(command, terminal):
    shown = terminal(*COMMANDS[command])
    assert "mistake in weft" not in shown
    assert not any(code in shown for code in ACTS)
    assert "\\x1b" in shown or "\\u001b" in shown or command == "config"


def test_json_on_a_terminal_means_the_same(terminal):
    lines = [line for line in terminal(*COMMANDS["predict as JSON"]).splitlines() if line.startswith("{")]
    assert json.loads(lines[0])["text"] == "the \x07\x1b[2J w0 and 0"
    assert set(json.loads(lines[0])["probabilities"]) == set(LABELS)


def test_a_prompt_shows_control_characters(terminal):
    shown = terminal("predict", "[/run]", typed="the \x1b[2J w1\n\x04")
    assert "ready" in shown
    assert not any(code in shown for code in ACTS)


def test_data_in_a_file_is_unchanged(run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    monkeypatch.setattr(sys, "argv", ["weft", "predict", "[/run]", "lab.tsv"])
    monkeypatch.setattr(output.errors, "_file", None)
    with pytest.raises(SystemExit):
        main()
    assert "the \x07\x1b[2J w0 and 0\t\x1b[2Jred\t" in capsys.readouterr().out
