"""Converts one Python example to a record: a tuple, a dict, a named tuple or a text, checked value by value."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from weft.data.answers import Whole, make_record
from weft.data.captions import read_features, source_pair
from weft.data.columns import Column
from weft.data.example_columns import Columns, show_column
from weft.data.images import Picture, picture_of
from weft.data.jsonrows import no_targets
from weft.data.records import Labelled, ManyLabelled, Pair, Record, Tagged, Text
from weft.data.sources import STDIN, has_surrogate
from weft.data.steps import Steps, pick_steps, read_steps
from weft.errors import DataError, counted

LabelNames: TypeAlias = Mapping[str, Sequence[str]]
"""The names of labels that a data set stores as numbers, by column."""

ALIASES: Final = {"words": "tokens", "tags": "upos"}
"""Other names of the columns of tagged words in data sets."""

UNNAMED: Final = ("text", "label", "source", "target", "pair", "features")
"""The default names of columns, which a tuple can have too."""

TAGGED: Final = 'give [("The", "DET"), …], or {"words": […], "tags": […]}'


def read_example(row: Any, columns: Columns, place: str, labels: LabelNames) -> Record:
    """Convert an example to a record with its answer."""
    if isinstance(row, columns.record):
        return row
    if columns.record is Tagged and not columns.steps:
        return _read_tagged(row, columns, place, labels)
    if columns.answer is None:
        value = _pick(row, columns.input, 0, columns, place) if _is_record(row) else row
        return Text(_text(value, columns.input, place, strip=not columns.joined), place)
    answer = _pick(row, columns.answer, 1 + (columns.second is not None), columns, place)
    if columns.record is Pair:
        text = _text(_pick(row, columns.input, 0, columns, place), columns.input, place)
        return Pair(text, _text(answer, columns.answer, place), place, read_language(row, columns, place))
    if columns.record is Labelled:
        answer = _label(_named(answer, columns.answer, labels), columns.answer, place)
    elif columns.record is ManyLabelled and isinstance(answer, Iterable) and not isinstance(answer, str):
        answer = [_named(one, columns.answer, labels) for one in answer]
    whole = _whole(row, columns, place)
    for value, column in ((whole.text or whole.steps, columns.input), (whole.second, columns.second)):
        if not value and column is not None:
            raise _empty(column, place)
    if answer == "" and columns.record is Labelled:
        raise _empty(columns.answer, place)
    name = show_column(columns.answer)
    record: Record = make_record(columns.record, whole, answer, name=name, separator=columns.separator, place=place)
    return record


def _empty(column: Column, place: str) -> DataError:
    what = f"the {show_column(column)} is empty"
    return DataError(what, where=place, cure="fill it in, or leave the record out")


def _whole(row: Any, columns: Columns, place: str, *, strip: bool = True) -> Whole:
    """The input of a row that has an answer, or that has none and `columns` say so."""
    if columns.steps:
        return Whole("", None, _pick_steps(row, columns, place))
    text = _text(_pick(row, columns.input, 0, columns, place), columns.input, place, strip=strip)
    second = None
    if columns.second is not None:
        second = _text(_pick(row, columns.second, 1, columns, place), columns.second, place, strip=strip)
    return Whole(text, second)


def _pick_steps(row: Any, columns: Columns, place: str) -> Steps:
    return pick_steps(lambda column: _pick(row, column, 0, columns, place), columns.input, place)


def read_pairs_of(row: Any, columns: Columns, place: str) -> list[Pair]:
    """Convert an example with several targets to a pair for each of them."""
    if isinstance(row, Pair):
        return [row]
    assert columns.answer is not None
    parts = columns.answer if isinstance(columns.answer, list) else [columns.answer]
    values = [_pick(row, part, 1, columns, place) for part in parts]
    if len(parts) == 1 and isinstance(values[0], list | tuple) and not values[0]:
        raise no_targets(parts[0], place)
    texts = [text for value in values for text in (value if isinstance(value, list | tuple) else [value])]
    targets = [_text(text, columns.answer, place) for text in texts if not (len(parts) > 1 and _is_missing(text))]
    if columns.pictures:
        seen = _read_source(_pick(row, columns.input, 0, columns, place), columns, place)
        return [source_pair(seen, target, place) for target in targets if target] or [source_pair(seen, "", place)]
    source = _text(_pick(row, columns.input, 0, columns, place), columns.input, place)
    language = read_language(row, columns, place)
    return [Pair(source, target, place, language) for target in targets if target] or [Pair(source, "", place)]


def _read_source(value: Any, columns: Columns, place: str) -> Picture | Steps:
    """The source of a captioner: a picture, or with `steps` feature vectors of one."""
    return read_features(value, STDIN, place) if columns.steps else picture_of(value, place=place)


def read_language(row: Any, columns: Columns, place: str) -> str | None:
    """The language of an example; None where the task has no languages, or an input does not name its own."""
    if columns.language is None or not _is_record(row):
        return None
    names = _names_of(row)
    if names and not isinstance(columns.language, list) and columns.language not in names:
        return None
    if not names and len(row) < 3:
        return None
    return _text(_pick(row, columns.language, 2, columns, place), columns.language, place) or None


def read_input(row: Any, columns: Columns, place: str) -> str | list[str] | tuple[str, str] | Steps | Picture:
    """Convert an example to an input: a text, for a tagger also the words of a sentence, two texts of a pair, steps, or
    a picture. An answer is ignored."""
    value = row
    if columns.pictures:
        named = _names_of(row) or (isinstance(row, tuple) and len(row) == columns.width)
        return _read_source(_pick(row, columns.input, 0, columns, place) if named else row, columns, place)
    if columns.steps:
        if not _names_of(row):
            return read_steps(row[0] if _is_answered(row) else row, "input", place)
        return _pick_steps(row, columns, place)
    if columns.record is Tagged:
        value = _pick(row, columns.input, 0, columns, place) if _names_of(row) else row
        if not isinstance(value, str):
            words = _items(value, "words", place)
            return _words([word[0] if _is_pair(word) else word for word in words], place)
    elif _is_record(row):
        answered = columns.answer is not None and (_names_of(row) or len(row) == columns.width)
        columns = columns if answered else columns._replace(answer=None)
        if columns.second is not None:
            text, second, _ = _whole(row, columns, place, strip=False)
            return text, second or ""
        value = _pick(row, columns.input, 0, columns, place)
    return _text(value, columns.input, place, strip=False)


def _is_answered(row: Any) -> bool:
    """Whether a row is steps with an answer, and not two steps."""
    if not isinstance(row, tuple) or len(row) != 2:
        return False
    nested = getattr(row[0], "ndim", 0) > 1 or (isinstance(row[0], list | tuple) and row[0] and _is_list(row[0][0]))
    return bool(nested) or not _is_list(row[1])


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def show_value(value: Any) -> str:
    """A value for a message, shortened, with its type."""
    try:
        shown = repr(value)
    except RecursionError:
        shown = "nested without end"
    return "None" if value is None else f"{shown[:40]}{'…' * (len(shown) > 40)} ({type(value).__name__})"


def _read_tagged(row: Any, columns: Columns, place: str, labels: LabelNames) -> Tagged:
    assert columns.answer is not None
    if _names_of(row):
        words, tags = (_pick(row, column, 0, columns, place) for column in (columns.input, columns.answer))
        tags = [_named(tag, columns.answer, labels) for tag in _items(tags, "tags", place)]
    else:
        words, tags = _unzip(row, place)
    found = _words(_items(words, "words", place), place)
    labelled = [_label(tag, "tag", place) for tag in _items(tags, "tags", place)]
    if not found or len(found) != len(labelled) or not all(labelled):
        count = sum(map(bool, labelled))
        what = f"{counted(len(found), 'word')} and {counted(count, 'tag')}"
        raise DataError(what, where=place, cure="give one tag for each word, and at least one word")
    return Tagged(tuple(found), tuple(labelled), place)


def _unzip(row: Any, place: str) -> tuple[Any, Any]:
    """Return words and tags, from a list of pairs of them, or from a tuple of two lists."""
    if isinstance(row, tuple) and len(row) == 2 and all(isinstance(part, list) for part in row):
        return row
    pairs = _items(row, "pairs of word and tag", place)
    for number, pair in enumerate(pairs):
        if not _is_pair(pair):
            what = f"word {number} is {show_value(pair)}, not a pair of word and tag"
            raise DataError(what, where=place, cure=TAGGED)
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _pick(row: Any, column: Column, position: int, columns: Columns, place: str) -> Any:
    """Return the value of a column; of several, their joined texts. Without names the order is input, answer."""
    if not isinstance(column, str | int):
        parts = [_text(_pick(row, one, position, columns, place), one, place) for one in column]
        return " ".join(part for part in parts if part)
    if names := _names_of(row):
        return _look_up(row, names, column, columns, place)
    if not _is_record(row):
        raise DataError(f"{show_value(row)} is not a record", where=place, cure=f"give {columns.example()}")
    found = counted(len(row), "value")
    if isinstance(column, int):
        if not 0 <= column < len(row):
            raise DataError(f"no column {column} in {found}", where=place, cure="columns are counted from 0")
        return row[column]
    width = columns.width
    if len(row) != width:
        what = f"{found} where {width} {'is' if width == 1 else 'are'} expected"
        raise DataError(what, where=place, cure=f"give {columns.example()}")
    return row[position]


def _look_up(row: Any, names: Sequence[str], column: str | int, columns: Columns, place: str) -> Any:
    """Return a value by its name, by its number, or by a dotted path."""
    values = row if isinstance(row, Mapping) else row._asdict()
    if isinstance(column, int) and 0 <= column < len(names):
        return values[names[column]]
    for name in (column, ALIASES.get(str(column))):
        if name in values:
            return values[name]
    value: Any = values
    for part in str(column).split("."):
        if not isinstance(value, Mapping) or part not in value:
            if columns.answer is None and columns.record is Text and len(names) == 1:
                return values[names[0]]
            setting = "field" if column == "tags" else column
            choose = f"; choose one with data.{setting}" if setting in (*UNNAMED, "field") else ""
            shown = ", ".join(map(str, names[:20])) or "nothing"
            raise DataError(f'no "{column}" in the record', where=place, cure=f"it has {shown}{choose}")
        value = value[part]
    return value


def _text(value: Any, column: Column, place: str, *, strip: bool = True) -> str:
    if isinstance(value, str):
        text = str.__str__(value)
        if has_surrogate(text):
            what = f"the {show_column(column)} has half of a surrogate pair"
            raise DataError(what, where=place, cure="it is no character: decode the text as UTF-8")
        return text.strip() if strip else text
    what = f"the {show_column(column)} is {show_value(value)}, not a text"
    cure = "leave it out, or give an empty text" if _is_missing(value) else "convert it with str()"
    cure = "decode it, as in text.decode()" if isinstance(value, bytes) else cure
    raise DataError(what, where=place, cure=cure)


def _label(value: Any, column: Column, place: str) -> str:
    """Return a label as text; numbers, true and false as JSON writes them."""
    value = value.item() if hasattr(value, "item") and not isinstance(value, str) else value
    if _is_missing(value) or not isinstance(value, str | int | float):
        cure = "leave such records out" if _is_missing(value) else "a label is a text or a number"
        raise DataError(f"the {show_column(column)} is {show_value(value)}", where=place, cure=cure)
    return _text(value, column, place) if isinstance(value, str) else json.dumps(value)


def _named(value: Any, column: Column, labels: LabelNames) -> Any:
    """Return the name of a label that a data set stores as a number; a negative number means no label."""
    names = labels.get(column, ()) if isinstance(column, str) else ()
    if not names or not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None


def _words(values: Iterable[Any], place: str) -> list[str]:
    words = [_text(value, "word", place) for value in values]
    if not all(words):
        raise DataError(f"word {words.index('')} is empty", where=place, cure="leave it out")
    return words


def _items(value: Any, what: str, place: str) -> list[Any]:
    """Return a list of a sequence such as an array; raises a DataError for other values."""
    if _is_missing(value) or isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise DataError(f"{show_value(value)} is no list of {what}", where=place, cure=TAGGED)
    return list(value)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], str)


def _is_record(row: Any) -> bool:
    """Whether a row has several values."""
    return bool(_names_of(row)) or (isinstance(row, Sequence) and not isinstance(row, str | bytes))


def _names_of(row: Any) -> Sequence[str]:
    """The names of a row's values, if they have names."""
    return list(row) if isinstance(row, Mapping) else getattr(row, "_fields", ())


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or one of pandas' missing values."""
    nan = isinstance(value, float) and math.isnan(value)
    return value is None or nan or type(value).__name__ in ("NAType", "NaTType")
