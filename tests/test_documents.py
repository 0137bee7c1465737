"""JSON and TOML of others: what is too deep, too long, doubled or no text is refused before it is parsed."""

from __future__ import annotations

import json
import math
import time
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.documents import FORMAT_VERSION, check_version, parse_json, parse_toml, to_json
from weft.errors import RunError
from weft.limits import DIGITS, NESTING_LEVELS, VALUES

VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUE)
def test_what_json_can_say_comes_back(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_json(text) == parse_json(text.encode()) == value


@given(VALUE)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert parse_json(to_json(value)) == value


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (nested(NESTING_LEVELS + 1), "nested deeper"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested deeper"),
        ("[" * 1_000_000, "nested deeper"),
        ('["' + "[" * 5000 + '", ' + nested(NESTING_LEVELS) + "]", "nested deeper"),
        ('["\\\\\\"", ' + nested(NESTING_LEVELS) + ', "\\\\"]', "nested deeper"),
        ("1" * (DIGITS + 1), "more than 40 digits"),
        ("[0." + "1" * 100_000 + "]", "more than 40 digits"),
        ("1e999", "too large"),
        ("NaN", "NaN is no number"),
        ("[-Infinity]", "-Infinity is no number"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' occurs twice"),
        ('"\\ud800"', "surrogate"),
        (b'"\xff"', "not text in UTF-8"),
        ('{"a": [1', "Expecting"),
        ("", "Expecting value"),
        ('"', "Unterminated string"),
    ],
)
def test_json_that_is_refused(text: str | bytes, reason: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=reason):
        parse_json(text)
    assert time.process_time() - began < 1


def test_json_within_the_limits() -> None:
    assert parse_json(nested(NESTING_LEVELS)) is not None
    assert parse_json("9" * DIGITS) == int("9" * DIGITS)
    long = "]" * 5000 + "1" * 5000 + "\\" + '"'
    assert parse_json(json.dumps([long, {long: 1}])) == [long, {long: 1}], "texts are not looked into"
    assert parse_json('"\\ud83d\\ude00"') == "😀"
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}
    found = parse_json("[NaN, 1e999]", constants=True)
    assert math.isnan(found[0])
    assert found[1] == math.inf


@pytest.mark.parametrize("item", ["[],", '"",', '"[",', "1,"])
def test_more_values_than_anybody_writes_are_refused_without_building_them(item: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="more than 4,194,304 values"):
        parse_json("[" + item * (VALUES + 1) + "1]")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"a = {nested(NESTING_LEVELS + 1)}", "nested deeper"),
        ("a = " + "{a = " * 500 + "1" + "}" * 500, "nested deeper"),
        (".".join("a" * 100) + " = 1", "nested deeper"),
        ("[" + " . ".join("a" * 100_000) + "]", "nested deeper"),
        ("[" + " . ".join(['"a"'] * 100) + "]", "nested deeper"),
        ("a = " + "1" * 5000, "more than 40 digits"),
        ("a = " + "1_" * 5000 + "1", "more than 40 digits"),
        ("a = ", "Invalid value"),
    ],
)
def test_toml_that_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_toml(text)


def test_toml_within_the_limits() -> None:
    brackets = "[" * 200 + "1" * 200
    text = f"""
        a = "{brackets} \\" '"  # {brackets} "
        b = '{brackets} \\'
        c = \"\"\"{brackets} "" \\\"\"\" {brackets}\"\"\"
        d = '''{brackets} '' " '''
        e = [{", ".join(["0.5"] * 200)}]
        f = {nested(NESTING_LEVELS)}
        [a1.b-2."c.d"]
    """
    assert parse_toml(text) == tomllib.loads(text)


def test_json_has_no_word_for_what_is_not_finite() -> None:
    value = {"a": math.nan, "b": [math.inf, 1.5, (-math.inf, "é")], "c": 3}
    assert to_json(value) == '{"a": null, "b": [null, 1.5, [null, "é"]], "c": 3}'


@pytest.mark.parametrize("found", [True, -1, "1", None, 1.0, [1]])
def test_a_version_that_is_no_number_is_damage(found: object) -> None:
    with pytest.raises(RunError, match=r"^there: is damaged: format_version is"):
        check_version(found, "there")


def test_a_newer_version_is_refused() -> None:
    for version in range(FORMAT_VERSION + 1):
        assert check_version(version, "there") == version
    newer = FORMAT_VERSION + 1
    with pytest.raises(RunError, match=rf"^there: was written by a newer weft in format {newer}, .* \(upgrade"):
        check_version(newer, "there")
    with pytest.raises(RunError, match=rf"by weft 97\.0\.1 in format {newer}, .*\(install it: pip install 'weft>=97"):
        check_version(newer, "there", written_by="97.0.1")
    for odd in ("0.0.1", "97", "97.0.1; rm -rf", "97.0.1\x1b[31m", 97, None, "9" * 50):
        with pytest.raises(RunError, match=r"by a newer weft in format .* \(upgrade: pip install -U weft\)$"):
            check_version(newer, "there", written_by=odd)
