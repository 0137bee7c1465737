"""Ranks of tokens: the numbers of `weft score`, hand-worked ones, and a layout that cuts no token."""

from __future__ import annotations

import itertools
import json
import math
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import weft as library
from weft.charts import readable
from weft.errors import ConfigError
from weft.inspect import Nothing, RankedToken, TokenRanks, ranks, view_kind
from weft.inspect.chips import CELL_PIXELS, lay_chips, reads_right_to_left, split_blanks
from weft.inspect.rank_chart import chip_rows
from weft.inspect.token_ranks import WIDTH_PIXELS
from weft.run import Run
from weft.tasks.scoring import Scored

SMALL = {"hidden": 8, "embedding": 8}
ROWS = [(f"a {word}", f"{word} b") for word in ("x", "y", "z") for _ in range(6)]
TEXTS = [{"text": text} for text in ("I am fine", "I am here", "you are fine") for _ in range(6)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    folder, made = tmp_path_factory.mktemp("runs"), dict[str, Run]()
    trees: dict[str, dict[str, Any]] = {
        "translate": {"data": {"train": ROWS}, "model": {"encoder": SMALL, "decoder": SMALL}},
        "lm": {"data": {"train": TEXTS}, "model": {"kind": "rnn"} | SMALL},
        "mask": {"data": {"train": TEXTS}, "model": {"kind": "rnn"} | SMALL},
        "ngram": {
            "data": {"train": TEXTS, "valid": TEXTS},
            "model": {"kind": "ngram", "order": 2, "smoothing": "none"},
        },
    }

    def run(name: str) -> Run:
        if name not in made:
            tree = {"task": "lm" if name == "ngram" else name, "text": {"kind": "word"}, **trees[name]}
            tree |= {} if name == "ngram" else {"train": {"steps": 2}}
            made[name] = library.train(tree, out=folder / name, quiet=True)
        return made[name]

    return run


def shown(run: Run, text: Any, **options: Any) -> TokenRanks:
    found = ranks(run, text, **options)
    assert isinstance(found, TokenRanks)
    return found


@pytest.mark.covers("I5", "D6")
@pytest.mark.parametrize(
    ("name", "text", "target", "scored"),
    [
        ("lm", "I am fine", None, "I am fine"),
        ("ngram", "you am here", None, "you am here"),
        ("mask", "I am here", None, "I am here"),
        ("translate", "a x", "x b", ("a x", "x b")),
    ],
)
def test_ranks_are_those_of_score(
    runs: Callable[[str], Run], name: str, text: str, target: str | None, scored: Any
) -> None:
    run = runs(name)
    found, (score,) = shown(run, text, target=target), run.score([scored])
    assert isinstance(score, Scored)
    assert tuple(one.rank for one in found.tokens) == score.ranks
    assert tuple(one.log_probability for one in found.tokens) == score.log_probabilities
    assert tuple(one.token for one in found.tokens) == score.pieces
    for one in found.tokens:
        logs = [log for _, log in one.candidates]
        assert logs == sorted(logs, reverse=True)
        if one.rank < 10:
            assert (one.token, one.log_probability) in one.candidates
            assert sum(log > one.log_probability for log in logs) == one.rank - 1
    json.dumps(found.to_dict(), allow_nan=False)


def test_counts_by_hand(runs: Callable[[str], Run]) -> None:
    """12 of 18 texts begin with I, and 6 of the 12 "am" are followed by fine."""
    found = shown(runs("ngram"), "you are fine")
    assert [(one.token, round(one.probability, 5), one.rank) for one in found.tokens] == [
        ("you", 0.33333, 2),
        ("are", 1.0, 1),
        ("fine", 1.0, 1),
        ("<eos>", 1.0, 1),
    ]
    assert [(token, round(math.exp(log), 5)) for token, log in found.tokens[0].candidates[:2]] == [
        ("I", 0.66667),
        ("you", 0.33333),
    ]
    assert found.counts() == {"top 1": 3, "2–10": 1, "11–100": 0, "over 100": 0}
    impossible = shown(runs("ngram"), "fine")
    assert impossible.to_dict()["tokens"][0]["log_probability"] is None


def test_a_translator_scores_its_own_answer(runs: Callable[[str], Run]) -> None:
    run = runs("translate")
    found = shown(run, "a x")
    assert found.text == run.predict("a x").text  # type: ignore[attr-defined]
    assert not found.given
    assert "own answer" in found.summary
    assert found.title.startswith("Ranks of tokens: a x → ")


def test_what_has_no_ranks_says_so(runs: Callable[[str], Run], tmp_path: Path, labelled: str, tagged: str) -> None:
    bag = {"task": "classify", "data": {"train": labelled}, "model": {"kind": "bag"}}
    assert isinstance(ranks(library.train(bag, out=tmp_path / "bag", quiet=True), "the red"), Nothing)
    assert isinstance(ranks(runs("mask"), ""), Nothing)
    with pytest.raises(ConfigError, match="scores the text itself"):
        ranks(runs("lm"), "I am", target="fine")
    with pytest.raises(ConfigError, match="is no colour"):
        ranks(runs("lm"), "I am", colour="red")
    assert view_kind("ranks").takes_target


def test_a_tagger_has_the_likeliest_tags(tmp_path: Path, tagged: str) -> None:
    run = library.train({"task": "tag", "data": {"train": tagged}, "model": {"kind": "hmm"}}, out=tmp_path / "run")
    (found,) = run.score([(["the", "cat"], ["DET", "NOUN"])], candidates=2)
    assert [place[0][0] for place in found.record()["candidates"]] == ["DET", "NOUN"]
    assert isinstance(ranks(run, ["the", "cat"]), Nothing)


def made(tokens: list[str], text: str, colour: str = "rank") -> TokenRanks:
    classes = [1, 7, 55, 4321]
    rows = [RankedToken(one, -0.1, classes[place % 4], (("▁a", -0.5),)) for place, one in enumerate(tokens)]
    return TokenRanks(None, text, True, False, False, colour, WIDTH_PIXELS, tuple(rows))


@given(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=40), st.integers(60, 400))
def test_chips_wrap_overlap_nowhere_and_have_room_for_their_token(tokens: list[str], width: int) -> None:
    laid = lay_chips(tokens, "".join(tokens), width=width)
    assert len(laid.chips) == len(tokens)
    assert [chip.line for chip in laid.chips] == sorted(chip.line for chip in laid.chips)
    for chip in laid.chips:
        assert chip.width >= CELL_PIXELS * (cell_len(chip.blanks) + cell_len(chip.word))
        assert chip.x >= -1e-6
        assert chip.x + chip.width <= laid.width + 1e-6
    for line in range(laid.lines):
        own = sorted((chip.x, chip.x + chip.width) for chip in laid.chips if chip.line == line)
        assert all(first[1] <= second[0] + 1e-6 for first, second in itertools.pairwise(own))


def test_text_that_is_read_from_right_to_left_begins_at_the_right() -> None:
    assert reads_right_to_left("«שלום» world")
    assert not reads_right_to_left("12 hello שלום")
    laid = lay_chips(["▁שלום", "▁עולם"], "שלום עולם", width=800)
    assert laid.chips[0].x > laid.chips[1].x
    rows = chip_rows(made(["▁שלום"], "שלום"), lay_chips(["▁שלום"], "שלום", width=800))
    assert rows[0]["at_blanks"] > rows[0]["at_word"]


def test_blanks_stand_before_the_word() -> None:
    assert split_blanks("▁the") == ("▁", "the")
    assert split_blanks("▁") == ("", "▁")
    assert split_blanks("\n") == ("", "⏎")


def test_lines_are_the_text_and_never_wider_than_the_terminal() -> None:
    view = made(["▁The", "▁cat", "s", "▁see", "▁学校", "▁and", "▁sleep"], "x")
    lines = [line.plain for line in view.lines(20)]
    assert lines[:2] == ["The cats see 学校", "and sleep"]
    assert all(cell_len(line) <= 20 for line in lines[:2])
    styles = {span.style for line in view.lines(80) for span in line.spans}
    assert any("on #e69f00" in str(style) for style in styles)


@pytest.mark.usefixtures("extras")
@pytest.mark.parametrize("colour", ["rank", "probability"])
def test_a_long_text_makes_a_tall_chart_of_a_few_hundred_kilobytes(colour: str) -> None:
    view = made(["▁token", "ised", "▁word", "s", "."] * 400, "token", colour)
    specification = view.figure().specification
    assert specification is not None
    chips, histogram = specification["vconcat"]
    assert chips["width"] <= 900
    assert chips["height"] > 2000
    assert len(json.dumps(specification)) < 800_000
    assert histogram["height"] == 120


def test_no_token_breaks_a_picture() -> None:
    """Python takes U+001C to U+001F for white space; XML has no place for any control character."""
    allowed = {"\t", "\n", "\r"}
    for number in (*range(0x20), *range(0x7F, 0xA0), 0x202E):
        shown = readable(chr(number))
        assert shown
        assert not any(unicodedata.category(one) in ("Cc", "Cf") and one not in allowed for one in shown), number
    assert [readable(" "), readable("\n"), readable("\x1d"), readable(" \x1d")] == ["␣", "⏎", "\\x1d", "␣\\x1d"]
