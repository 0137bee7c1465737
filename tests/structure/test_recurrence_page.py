"""What docs/recurrence.md shows as output is what its code prints, and the commands of benchmarks/ can be typed."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "recurrence.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(
    r"^    weft (bench .+?)(?:  .*)?$", (ROOT / "benchmarks" / "README.md").read_text("utf-8"), re.MULTILINE
)


@pytest.mark.skipif(shutil.which("cc") is None, reason="without a compiler the plan runs in plain torch and says so")
@pytest.mark.parametrize(("code", "output"), SHOWN, ids=lambda text: text.splitlines()[-1][:40])
def test_output_on_the_page_is_real(code, output, capsys):
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out == output


def test_the_page_shows_output():
    assert len(SHOWN) >= 2


@pytest.mark.parametrize("words", sorted(set(COMMANDS)))
def test_commands_of_the_benchmarks_can_be_typed(words):
    import typer

    from weft.cli.app import app

    command = typer.main.get_command(app).commands["bench"]
    _, *rest = shlex.split(words)
    if rest and "--help" not in rest:
        name, *options = rest
        assert command.commands[name].make_context(name, options).params
    else:
        assert not rest or rest[0] in command.commands
