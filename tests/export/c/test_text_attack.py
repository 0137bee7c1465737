"""No tables and no texts make the C of texts read or write outside of what it was given."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.export.c.vocabularies import imported, wordpiece

from weft.export.c.text_tables import text_tables
from weft.text import TextConfig, Tokenizer

TEXTS = [
    "¿Qué (tal), señor? “Bien” … 3.5% [yes] y «no». don't we'll",
    "naïve café\tΑΣ ΣΑΣ İstanbul STRASSE Straße \\<eos> <eos>",
    "日本語 😀 👩\u200d👩 שָׁלוֹם e\u0301 ½ ٣٫١٤ 1,000.5 the quick brown fox",
]
ROUNDS = 4000
"""Changed tables and texts for each kind; about a second under the sanitizers."""


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "char", "size": 300, "unknown": "Straße", "lowercase": True},
        {"kind": "word", "unknown": "fox", "lowercase": True},
        {"kind": "word", "punctuation": "keep"},
        {"kind": "bpe", "size": 330, "lowercase": True},
        {"kind": "unigram", "size": 330, "unknown": "fox"},
    ],
    ids=lambda settings: f"{settings['kind']}-{len(settings)}",
)
def test_changed_tables_and_texts_fault_nothing(attack: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn(TEXTS * 2, TextConfig(**settings))
    run_attack(attack, tmp_path, text_tables(tokenizer, sentences=settings["kind"] == "word"))


@pytest.mark.parametrize(
    "tokenizer", [imported(add_prefix_space=True, ignore_merges=True), wordpiece()], ids=["bpe", "wordpiece"]
)
def test_changed_tables_of_imported_runs_fault_nothing(attack: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    run_attack(attack, tmp_path, text_tables(tokenizer))


def run_attack(attack: Path, tmp_path: Path, tables: bytes) -> None:
    """Changed tables are refused or used without a fault."""
    (tmp_path / "tables").write_bytes(tables)
    (tmp_path / "texts").write_text("\n".join(TEXTS), encoding="utf-8")
    done = subprocess.run(
        [attack, "tables", "texts", str(ROUNDS), "1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:2000]
    opened = int(done.stdout.split()[0])
    assert ROUNDS / 5 < opened < ROUNDS  # some changes are found, and some are of numbers that may be anything
