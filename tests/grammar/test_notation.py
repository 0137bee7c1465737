"""Grammar files: what is read, what is written back, and an error with file, line and cure for everything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DataError
from weft.grammar import Grammar, Rule, Terminal, grammar_from_text, read_grammar


def rules(text):
    return [(rule.left, rule.right, rule.probability) for rule in grammar_from_text(text).rules]


def words(*texts):
    return tuple(map(Terminal, texts))


def test_a_file_as_nltk_writes_it(tmp_path):
    path = tmp_path / "toy.pcfg"
    path.write_text(
        "# a toy grammar\n%start S\nS -> NP VP [1.0]\nNP -> Det N [0.5] | NP PP [0.25] | 'John' [.1] | \"I\" [0.15]\n"
        "Det->'the'[0.8]|'my'[0.2]\nN -> 'man' [0.5] | 'telescope' [0.5]\nVP -> VP PP [0.1] | V NP [0.7] | \\\n"
        "  V [0.2]\nV -> 'ate' [1.0]\nPP -> P NP [1.0]\nP -> 'with' [1.0]\n",
        encoding="utf-8",
    )
    grammar = read_grammar(path)
    assert grammar.start == "S"
    assert grammar.probabilistic
    assert len(grammar.rules) == 15
    assert grammar.rules[3] == Rule("NP", words("John"), 0.1)
    assert grammar.rules[11] == Rule("VP", ("V",), 0.2)
    assert grammar.rules[11].place == f"{path}:7"
    assert grammar.words == ("John", "I", "the", "my", "man", "telescope", "ate", "with")


READ = [
    ("S -> a S | # an empty right side\n", [("S", (Terminal("a"), "S"), None), ("S", (), None)]),
    ("S → ε", [("S", (), None)]),
    ("<a b> ::= <a b> 'x' | ε", [("a b", ("a b", Terminal("x")), None), ("a b", (), None)]),
    (
        "S -> N' \"#\" [1/3] | don't [2/3]\nN' -> 'n' [1]",
        [("S", ("N'", Terminal("#")), 1 / 3), ("S", words("don't"), 2 / 3), ("N'", words("n"), 1.0)],
    ),
    ("S -> 'a'\n  | 'b'\r\n\n  | 'c'", [("S", words("a"), None), ("S", words("b"), None), ("S", words("c"), None)]),
    ("s -> np\nnp -> cat", [("s", ("np",), None), ("np", words("cat"), None)]),
    (r"""S -> "say \"it's\"" '1\/2'""", [("S", words('say "it\'s"', r"1\/2"), None)]),
    ("S -> 'x' [0.5] | 'x' [0.5]", [("S", words("x"), 1.0)]),
    (
        "PRP$ -> , | <#> \n, -> ','\n<#> -> '#'",
        [("PRP$", (",",), None), ("PRP$", ("#",), None), (",", words(","), None), ("#", words("#"), None)],
    ),
]


@pytest.mark.parametrize(("text", "expected"), READ)
def test_what_is_read(text, expected):
    assert rules(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "g: the grammar has no rules"),
        ("# nothing\n\n", "g: the grammar has no rules"),
        ("S -> NP\n", 'g:1: "NP" has no rule (write a rule NP -> …, or "NP" in quotes if it is a word)'),
        ("S -> NNP\nNNPS -> 'x'", 'g:1: "NNP" has no rule (did you mean "NNPS"? Else'),
        ("S -> 'a'\nS NP -> 'b'", 'g:2: no arrow after "S"'),
        ("S -> 'a'\n-> 'b'", "g:2: -> where a name must stand"),
        ("S -> 'a' -> 'b'", "g:1: -> on the right side"),
        ("'S' -> 'a'", 'g:1: "S" is a word, and words have no rules'),
        ("S -> 'a", 'g:1: cannot read "\'a" (close the quotes)'),
        ("S -> '' 'a'", "g:1: a word without a letter (an empty right side is ε)"),
        ("S -> NP[NUM=?n]", "g:1: [NUM=?n] is no probability"),
        ("S -> 'a' [1/0]", "g:1: [1/0] is no probability"),
        ("S -> 'a' [0.5] 'b'", "g:1: 'b' stands behind [0.5]"),
        ("S -> 'a' [0.5]\nS -> 'b'", 'g:2: S -> "b": some rules have a probability, some have none'),
        ("S -> 'a' [0.5]\nS -> 'b' [0.2]", "g:1: the probabilities of S sum to 0.7, not to 1"),
        ("S -> 'a' [0] | 'b' [1]", 'g:1: S -> "a": probability 0.0'),
        ("S -> 'a' [-0.5] | 'b' [1.5]", 'g:1: S -> "a": probability -0.5'),
        ("%start X\nS -> 'a'", 'g: no rule for the start "X" (write one, or start with S)'),
        ("%start\nS -> 'a'", "g:1: %start needs one name"),
        ("%begin S", "g:1: %begin where a name must stand (the only line with % is %start NAME)"),
        ("| 'a'", "g:1: | without a rule above it"),
    ],
)
def test_what_is_refused(text, said):
    with pytest.raises(DataError) as error:
        grammar_from_text(text, name="g")
    assert said in str(error.value)


def test_a_line_may_be_long():
    """Reading takes a time in proportion to its length; a text that is copied for each symbol would take an hour."""
    grammar = grammar_from_text("S -> " + " | ".join(f"'w{number}'" for number in range(30_000)))
    assert len(grammar.rules) == 30_000


def test_files_that_are_no_text(tmp_path):
    path = tmp_path / "g.txt"
    for content, said in ((b"S -> 'a'\n\xff", ":2: not UTF-8: byte 0xff"), (b"S\0", ":1: looks binary")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=said):
            read_grammar(path)
    with pytest.raises(DataError, match="no such file"):
        read_grammar(tmp_path / "none.txt")
    with pytest.raises(DataError, match=r"is a folder|regular file"):
        read_grammar(tmp_path)


texts = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=5) | st.sampled_from(
    [
        "a b",
        "''",
        "``",
        '"',
        "'\"",
        "\\",
        "a\\",
        "\\'\"",
        "<s>",
        "#",
        "%",
        "ε",
        "|",
        "->",
        "x->y",
        "[0.3]",
        "-LRB-",
        "→",
        "S'",
    ]
)


@given(st.lists(st.tuples(texts, st.lists(texts.map(Terminal), max_size=3)), min_size=1, max_size=4))
def test_what_is_written_is_read_again(drafts):
    names = [name for name, _ in drafts]
    counts = {}
    for name, right in drafts:
        counts.setdefault(name, {})[(*right, names[0])] = None
    grammar = Grammar([Rule(name, right, 1 / len(all_)) for name, all_ in counts.items() for right in all_])
    again = grammar_from_text(str(grammar))
    assert sorted(again.rules, key=str) == sorted(grammar.rules, key=str)
    assert again.start == grammar.start
    plain = Grammar([Rule(rule.left, rule.right) for rule in grammar.rules], start=names[-1])
    assert set(grammar_from_text(str(plain)).rules) == set(plain.rules)
    assert grammar_from_text(str(plain)).start == names[-1]
