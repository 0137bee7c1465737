"""What the pages on attention, transformers and decoding show as output is what their code prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = r"```python\n((?:(?!```).)*)```\n\n(?:```text\n(.*?)```)?"
SHOWN = [
    pytest.param(code, output, id=f"{name}-{number}")
    for name in ("attention", "transformers", "decoding", "translate")
    for number, (code, output) in enumerate(
        re.findall(BLOCK, (DOCS / f"{name}.md").read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.parametrize(("code", "output"), SHOWN)
def test_output_on_the_page_is_real(code, output, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})
    assert capsys.readouterr().out == output


def test_every_block_shows_its_output():
    assert len(SHOWN) >= 19
    assert all(case.values[1] for case in SHOWN)
