"""Reads grammars from text: one rule per line, also those written for NLTK.

    # a comment                            S -> NP VP [0.9] | VP [0.1]
    %start S                               Det -> "the" | 'a'
    NP -> Det N                            A -> ε          (also: nothing behind the arrow)

Quoted symbols are words. A symbol without quotes is a name if it has a rule; if it has none and has no capital letter
it is a word too. Angle brackets hold names with odd characters: <,> -> ",". The arrow may be ->, → or ::=. A line that
begins with | continues the rule above it, and so does a line after one that ends with a backslash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from os import PathLike, fspath
from typing import Final

from weft.errors import DataError
from weft.grammar.files import read_lines
from weft.grammar.rules import BARE, Grammar, Rule, Symbol, Terminal
from weft.limits import GRAMMAR_FILE_BYTES

_TOKEN: Final = re.compile(
    rf"""\s*(?:(?P<comment>\#.*)
    | (?P<arrow>->|→|::=)
    | (?P<bar>\|)
    | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
    | \[\s*(?P<probability>[^\[\]]*?)\s*\]
    | <(?P<angle>(?:[^>\\]|\\.)+)>
    | (?P<directive>%\w+)
    | (?P<empty>ε)(?=\s|\||\[|$)
    | (?P<bare>{BARE.pattern})
    )""",
    re.VERBOSE,
)

MAX_SHOWN_CHARACTERS: Final = 60
"""Characters of a line that a message shows, from the first that cannot be read."""

_Bare = tuple[str, bool]
"""A symbol of a right side before all left sides are known: its text, and whether it may be a word."""


def read_grammar(path: str | PathLike[str]) -> Grammar:
    """Read the grammar in a file, in UTF-8; `-` is standard input. Raises a DataError with file, line and cure."""
    return grammar_from_text("\n".join(read_lines(fspath(path), most=GRAMMAR_FILE_BYTES)), name=fspath(path))


def grammar_from_text(text: str, *, name: str = "grammar") -> Grammar:
    """Read a grammar from its text; `name` stands for the file in messages."""
    drafts: list[tuple[str, list[Terminal | _Bare], float | None, str]] = []
    start: str | None = None
    left: str | None = None
    for place, line in _logical_lines(text, name):
        tokens = list(_tokens(line, place))
        if not tokens:
            continue
        if tokens[0] == ("directive", "%start"):
            if len(tokens) != 2 or tokens[1][0] not in ("bare", "angle"):
                raise DataError("%start needs one name", where=place, cure="write %start S")
            start = _name(*tokens[1])
            continue
        if tokens[0][0] == "bar":
            if left is None:
                raise DataError("| without a rule above it", where=place, cure="begin with NAME ->")
            body = tokens[1:]
        else:
            left, body = _left(tokens, place), tokens[2:]
        drafts += [(left, *right, place) for right in _right_sides(body, place)]
    return _assemble(drafts, start, name)


def _assemble(
    drafts: list[tuple[str, list[Terminal | _Bare], float | None, str]], start: str | None, name: str
) -> Grammar:
    known = {left for left, *_ in drafts}
    rules = [
        Rule(left, tuple(_symbol(one, known) for one in right), probability, place)
        for left, right, probability, place in drafts
    ]
    try:
        return Grammar(rules, start=start)
    except DataError as error:
        raise error if error.where else DataError(error.what, where=name, cure=error.cure) from None


def _symbol(one: Terminal | _Bare, known: set[str]) -> Symbol:
    if isinstance(one, Terminal):
        return one
    text, may_be_word = one
    return Terminal(text) if may_be_word and text not in known and text == text.lower() else text


def _logical_lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield file:line and text of each line; lines after a backslash belong to the one where they begin."""
    begun, place = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        place = place or f"{name}:{number}"
        line = line.removesuffix("\r")
        if line.rstrip().endswith("\\"):
            begun += line.rstrip()[:-1] + " "
            continue
        yield place, begun + line
        begun, place = "", ""
    if begun:
        yield place, begun


def _tokens(line: str, place: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token of a line."""
    at, end = 0, len(line.rstrip())
    while at < end:
        found = _TOKEN.match(line, at)
        if found is None or found.lastgroup is None:
            rest = line[at : at + MAX_SHOWN_CHARACTERS].strip()
            raise DataError(f"cannot read {rest!r}", where=place, cure=_cure(rest))
        at = found.end()
        if found.lastgroup != "comment":
            yield found.lastgroup, found[found.lastgroup]


def _cure(rest: str) -> str:
    match rest[0]:
        case '"' | "'":
            return "close the quotes"
        case "[" | "]":
            return "write a probability in brackets: [0.3]"
        case "<":
            return "close the angle bracket"
        case _:
            return "put a word in quotes, and a name with odd characters in angle brackets: <NAME>"


def _left(tokens: list[tuple[str, str]], place: str) -> str:
    (kind, text), arrow = tokens[0], tokens[1][0] if len(tokens) > 1 else ""
    if kind in ("double", "single"):
        raise DataError(f'"{text}" is a word, and words have no rules', where=place, cure="leave out the quotes")
    if kind not in ("bare", "angle"):
        cure = "write NAME -> …" if kind != "directive" else "the only line with % is %start NAME"
        raise DataError(f"{text} where a name must stand", where=place, cure=cure)
    if arrow != "arrow":
        what = f'no arrow after "{text}"'
        raise DataError(what, where=place, cure="write NAME -> …, one name before the arrow")
    return _name(kind, text)


def _right_sides(tokens: list[tuple[str, str]], place: str) -> Iterator[tuple[list[Terminal | _Bare], float | None]]:
    """Yield symbols and probability of each right side; | separates them."""
    right: list[Terminal | _Bare] = []
    probability: float | None = None
    for kind, text in [*tokens, ("bar", "|")]:
        if kind == "bar":
            yield right, probability
            right, probability = [], None
        elif probability is not None:
            cure = "the probability is the last of a right side; | separates right sides"
            raise DataError(f"{text!r} stands behind [{probability:g}]", where=place, cure=cure)
        elif kind == "probability":
            probability = _number(text, place)
        elif kind in ("double", "single"):
            if not text:
                raise DataError("a word without a letter", where=place, cure="an empty right side is ε")
            right.append(Terminal(_unescape(text, only="\\\"'")))
        elif kind in ("bare", "angle"):
            right.append((_name(kind, text), kind == "bare"))
        elif kind != "empty":
            raise DataError(
                f"{text} on the right side", where=place, cure="one rule per line; quote it if it is a word"
            )


def _number(text: str, place: str) -> float:
    try:
        return float(Fraction(text.replace(" ", "")))
    except (ValueError, ZeroDivisionError, OverflowError):
        cure = "write [0.3] or [1/3]; grammars with features are not read"
        raise DataError(f"[{text}] is no probability", where=place, cure=cure) from None


def _name(kind: str, text: str) -> str:
    """The name of a token: without the backslashes that it needs between angle brackets."""
    return text if kind == "bare" else _unescape(text)


def _unescape(text: str, only: str | None = None) -> str:
    """Drop the backslash before a character, or only before some of them."""
    return re.sub(r"\\(.)", lambda found: found[1] if only is None or found[1] in only else found[0], text)
