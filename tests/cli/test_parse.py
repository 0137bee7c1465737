"""weft parse: trees, JSON, pictures, grammars from trees, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

GRAMMAR = """
S -> NP VP [1]
NP -> Det N [0.6] | NP PP [0.4]
VP -> V NP [0.7] | VP PP [0.3]
PP -> P NP [1]
Det -> "the" [1]
N -> "cat" [0.5] | "rat" [0.5]
V -> "caught" [1]
P -> "with" [1]
"""
CAT = "the cat caught the rat"
TWO = f"{CAT} with the cat"


@pytest.fixture
def grammar(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("g.txt").write_text(GRAMMAR, encoding="utf-8")
    return "g.txt"


@pytest.mark.covers("M8")
def test_a_tree_is_drawn(weft, grammar):
    outcome = weft("parse", grammar, CAT, "--derivation")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == f"{CAT}: 1 tree, probability 0.063"
    assert "the cat caught Det  N" in outcome.out
    assert '⇒ the cat caught the rat   N -> "rat"' in lines


def test_all_trees_the_best_first(weft, grammar):
    outcome = weft("parse", grammar, TWO, "--all", "--brackets")
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [
        "(S (NP (Det the) (N cat)) (VP (V caught) (NP (NP (Det the) (N rat)) (PP (P with) (NP (Det the) (N cat))))))",
        "(S (NP (Det the) (N cat)) (VP (VP (V caught) (NP (Det the) (N rat))) (PP (P with) (NP (Det the) (N cat)))))",
    ]
    assert weft("parse", grammar, TWO).out.startswith(f"{TWO}: 1 of 2 trees, probability 0.01323\n")
    assert weft("parse", grammar, TWO, "--best", "--brackets").out.count("\n") == 1


def test_json_for_each_line_of_standard_input(weft, grammar, monkeypatch):
    import io

    lines = io.BytesIO(f"{TWO}\n\nthe dog\n".encode())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines))
    outcome = weft("parse", grammar, "--json", "--limit", "5", "--derivation")
    assert outcome.code == 2
    good, bad = map(json.loads, outcome.out.splitlines())
    assert good["words"] == TWO.split()
    assert good["count"] == len(good["trees"]) == 2
    assert good["probability"] == pytest.approx(0.6**3 * 0.5**3 * 0.7 * (0.3 + 0.4))
    assert good["trees"][0]["tree"]["children"][0] == {
        "label": "NP",
        "children": [{"label": "Det", "children": ["the"]}, {"label": "N", "children": ["cat"]}],
    }
    assert good["trees"][0]["derivation"][0] == {"rule": "S -> NP VP", "form": "NP VP"}
    assert (bad["count"], bad["trees"], bad["reached"], bad["unknown"]) == (0, [], 1, ["dog"])
    assert bad["expected"] == ["cat", "rat"]


def test_no_tree_is_said_with_what_was_expected(weft, grammar):
    outcome = weft("parse", grammar, "the cat cought the rat")
    assert outcome.code == 2
    assert 'no tree: stopped after "the cat", before "cought"' in outcome.err
    assert 'unknown word: "cought" (did you mean "caught"?)' in outcome.err


def test_a_picture(weft, grammar):
    assert weft("parse", grammar, TWO, "--all", "--svg", "two.svg").code == 0
    assert Path("two.svg").read_text(encoding="utf-8").count("<g ") == 2


def test_infinitely_many_trees_are_said(weft, grammar):
    Path("loop.txt").write_text("S -> S | E\nE -> E E | ε", encoding="utf-8")
    outcome = weft("parse", "loop.txt", "", "--limit", "3")
    assert outcome.code == 0
    assert outcome.out.startswith(": 3 of infinitely many trees")
    outcome = weft("parse", "loop.txt", "", "--all")
    assert outcome.code == 2
    assert "the sentence has infinitely many trees (use --limit)" in outcome.err
    assert json.loads(weft("parse", "loop.txt", "", "--json").out)["count"] is None


@pytest.mark.covers("M8")
def test_a_grammar_from_trees(weft, grammar):
    Path("bank.mrg").write_text(f"( {weft('parse', grammar, CAT, '--brackets').out.strip()} )\n", encoding="utf-8")
    outcome = weft("parse", "new.txt", CAT, "--from-trees", "bank.mrg", "--brackets", "--best")
    assert outcome.code == 0, outcome.err
    assert outcome.out == weft("parse", grammar, CAT, "--brackets").out
    assert 'N -> "cat" [0.5] | "rat" [0.5]' in Path("new.txt").read_text(encoding="utf-8").splitlines()
    assert weft("parse", "-", "--from-trees", "bank.mrg").out == Path("new.txt").read_text(encoding="utf-8")
    again = weft("parse", "new.txt", "--from-trees", "bank.mrg")
    assert again.code == 2
    assert "new.txt: the file exists already" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["g.txt", CAT, "--best", "--all"], "--best: prints one tree"),
        (["g.txt", CAT, "--strip-tags"], "--strip-tags: needs --from-trees"),
        (["g.txt", CAT, "--json", "--brackets"], "--brackets: JSON has the brackets"),
        (["plain.txt", "x", "--best"], "plain.txt: the rules have no probabilities"),
        (["none.txt", CAT], "none.txt: no such file"),
        (["bad.txt", CAT], 'bad.txt:1: "NP" has no rule'),
    ],
)
def test_mistakes(weft, grammar, words, said):
    Path("plain.txt").write_text("S -> 'x'", encoding="utf-8")
    Path("bad.txt").write_text("S -> NP", encoding="utf-8")
    outcome = weft("parse", *words)
    assert outcome.code == 2
    assert said in outcome.err


def test_parsing_does_not_import_torch():
    code = "import sys, weft.grammar; print(sorted({'torch', 'numpy', 'tokenizers'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
