"""Trees: brackets and treebanks, grammars counted from them, drawings in the terminal and as SVG."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from weft.errors import DataError
from weft.grammar import (
    Tree,
    draw,
    draw_svg,
    grammar_from_text,
    induce,
    outline,
    parse,
    read_trees,
    show_derivation,
    trees_from_lines,
)

CAT = "(S (NP (Det the) (N cat)) (VP (V sleeps)))"
PENN = """
( (S
    (NP-SBJ-1 (DT The) (NN cat))
    (VP (VBD was)
      (VP (VBN seen)
        (NP (-NONE- *-1))
        (PP (-LRB- -LRB-) (IN by) (NP (PRP us)) (-RRB- -RRB-))))
    (. .)) )
"""

names = st.text("ABC-", min_size=1, max_size=3)
leaves = st.sampled_from(["a", "日本", "(", ")", "[", "x1", "don't"])
trees = st.recursive(
    st.builds(Tree, names, st.lists(leaves, max_size=2).map(tuple)),
    lambda below: st.builds(Tree, names, st.lists(below | leaves, max_size=3).map(tuple)),
    max_leaves=8,
)


def read(text, **options):
    return list(trees_from_lines(text.split("\n"), **options))


@given(st.lists(trees, max_size=3))
def test_brackets_are_read_as_they_were_written(found):
    assert read("\n".join(tree.brackets() for tree in found)) == found


def test_a_treebank():
    (tree,) = read(PENN)
    assert str(tree).startswith(
        "(S (NP-SBJ-1 (DT The) (NN cat)) (VP (VBD was) (VP (VBN seen) (NP (-NONE- *-1)) (PP (-LRB- "
    )
    assert tree.words() == ["The", "cat", "was", "seen", "*-1", "(", "by", "us", ")", "."]
    (tree,) = read(PENN, strip=True)
    assert tree.words() == ["The", "cat", "was", "seen", "(", "by", "us", ")", "."]
    assert [child.label for child in tree.children] == ["NP", "VP", "."]
    assert (
        str(tree.children[1]) == "(VP (VBD was) (VP (VBN seen) (PP (-LRB- -LRB-) (IN by) (NP (PRP us)) (-RRB- -RRB-))))"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(S (NP cat)\n(VP", "trees:1: the tree that begins here is not closed: 2 ) missing"),
        ("(S x)\n\n(S (NP x)", "trees:3: the tree that begins here is not closed"),
        ("(S x))", "trees:1: ) without ("),
        ("(S x)\nhello", 'trees:2: "hello" outside of brackets'),
        ("(S\n((NP x)))", "trees:2: brackets without a name"),
        ("((S x) (S y))", "trees:1: 2 trees in brackets without a name"),
    ],
)
def test_bad_brackets_have_their_line(text, said):
    with pytest.raises(DataError) as error:
        read(text)
    assert said in str(error.value)


def test_a_grammar_is_counted(tmp_path):
    path = tmp_path / "bank.mrg"
    path.write_text("(S (N cats) (V sleep))\n(S (N dogs) (V sleep))\n(S (N cats) (V run))(S (V run))", encoding="utf-8")
    grammar = induce(read_trees(path))
    chances = {str(rule): rule.probability for rule in grammar.rules}
    assert chances == {
        "S -> N V": 3 / 4,
        "S -> V": 1 / 4,
        'N -> "cats"': 2 / 3,
        'N -> "dogs"': 1 / 3,
        'V -> "sleep"': 1 / 2,
        'V -> "run"': 1 / 2,
    }
    assert parse(grammar, "cats run").probability == pytest.approx(3 / 4 * 2 / 3 * 1 / 2)


def test_different_roots_get_a_start_of_their_own():
    grammar = induce(read("(S (N x))(NP (N y))(S (ROOT z))"))
    assert grammar.start == "TOP"
    assert {str(rule): rule.probability for rule in grammar.rules if rule.left == "TOP"} == {
        "TOP -> S": pytest.approx(2 / 3),
        "TOP -> NP": pytest.approx(1 / 3),
    }
    with pytest.raises(DataError, match="no trees"):
        induce([])


def test_drawings():
    (tree,) = read(CAT)
    assert draw(tree).split("\n") == [
        "      S",
        "   ┌──┴───┐",
        "   NP     VP",
        " ┌─┴─┐    │",
        "Det  N    V",
        " │   │    │",
        "the cat sleeps",
    ]
    listed = ["S", "├─ NP", "│  ├─ Det the", "│  └─ N cat", "└─ VP", "   └─ V sleeps"]
    assert outline(tree).split("\n") == listed
    assert draw(tree, width=14) == draw(tree)
    assert draw(tree, width=13) == outline(tree)


def test_a_tree_that_is_too_deep_or_too_wide_for_a_picture():
    deep = parse(grammar_from_text("S -> 'a' S | 'b'"), ["a"] * 300 + ["b"]).best
    assert draw(deep) == deep.brackets()
    wide = Tree("S", tuple(["word"] * 500))
    assert draw(wide) == outline(wide)


def test_wide_characters_empty_rules_and_control_characters_are_drawn():
    tree = Tree("句子", (Tree("名詞", ("猫",)), Tree("E", ()), "a\x1b"))
    lines = draw(tree).split("\n")
    assert lines == [
        "    句子",
        " ┌───┼───┐",
        "名詞 E a\\x1b",
        " │   │",
        " 猫  ε",
    ]
    assert outline(tree).split("\n") == ["句子", "├─ 名詞 猫", "├─ E ε", "└─ a\\x1b"]


@given(trees)
def test_drawn_lines_connect(tree):
    """Every name and word is there, and below each branch stands what it leads to."""
    lines = draw(tree).split("\n")
    for word in tree.words():
        assert any(word in line for line in lines)

    def columns(line):
        found, column = {}, 0
        for character in line:
            found[column] = character
            column += cell_len(character)
        return found

    for above, below in pairwise(lines):
        cells = columns(below)
        for column, character in columns(above).items():
            if character in "│┌┐┬┼":
                covered = column in cells or column - 1 in cells
                assert covered
                assert cells.get(column, cells.get(column - 1)) != " "


def test_a_derivation_is_shown_with_its_rules():
    (tree,) = read("(S (N cats) (E) (V sleep))")
    assert show_derivation(tree).split("\n") == [
        "S",
        "⇒ N E V        S -> N E V",
        '⇒ cats E V     N -> "cats"',
        "⇒ cats V       E -> ε",
        '⇒ cats sleep   V -> "sleep"',
    ]


@given(trees)
def test_a_picture_is_xml_with_every_label(tree):
    hostile = Tree("<script>&", (tree, Tree('"', ("\x00]]>",))))
    root = ElementTree.fromstring(draw_svg([hostile, tree]))
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "<script>&"
    assert "\\x00]]>" in texts
    expected = [node if isinstance(node, str) else node.label for node, _, _ in tree.preorder()]
    assert [text for text in texts if text != "ε"][-len(expected) :] == expected
    width, height = map(float, root.get("viewBox").split()[2:])
    for node in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 <= float(node.get("x")) <= width
        assert 0 <= float(node.get("y")) <= height
