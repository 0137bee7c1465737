"""The inputs of a request as records of a task. None of them is ever the path of a file on the server."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from weft.errors import ConfigError, DataError, WeftError
from weft.serve.api_errors import RequestError
from weft.serve.settings import RequestLimits

if TYPE_CHECKING:
    from weft.data import Record
    from weft.run import Run

Kind = Literal["text", "pair", "picture", "table", "words"]

SCORED_FORMS: Final[dict[str, str]] = {
    "text": "a text, or [source, target]",
    "words": "[[word, tag], …]",
    "picture": "[picture in base64, caption]",
}
"""The form of an input of /v1/score, by what the run reads."""

MAX_PICTURE_BYTES: Final = 8 << 20
MAX_PICTURE_PIXELS: Final = 20_000_000


def input_kind(run: Run) -> Kind:
    """Return what the run reads."""
    columns = run.task.columns(run.config.data)
    if columns.pictures and not columns.steps:
        return "picture"
    if columns.steps or not run.task.reads_text:
        return "table"
    from weft.data import Tagged

    if columns.record is Tagged:
        return "words"
    return "pair" if columns.second is not None else "text"


def read_picture(text: str, *, place: str = "the picture") -> Any:
    """Return the picture in base64, which may be the address of a page (data:…)."""
    from weft.data.images import picture_from_bytes

    content = text.partition("base64,")[2] if text.startswith("data:") else text
    if len(content) > MAX_PICTURE_BYTES * 4 // 3 + 4:
        raise DataError(f"more than {MAX_PICTURE_BYTES:,} bytes", where=place, cure="make it smaller")
    try:
        found = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("is no picture in base64", where=place, cure="choose a picture file") from None
    return picture_from_bytes(found, place=place, most=MAX_PICTURE_PIXELS)


def read_records(run: Run, inputs: Sequence[Any], limits: RequestLimits, *, skip_blank: bool = False) -> list[Any]:
    """Return a record for each input, with `skip_blank` None for one without a text; raise a `RequestError` that names
    the first that cannot be one."""
    if len(inputs) > limits.inputs:
        what = f"{len(inputs):,} inputs, and {limits.inputs:,} is the limit"
        raise RequestError(what, param="inputs", cure="send them in several requests")
    kind = input_kind(run)
    if kind == "table" and run.task.read_inputs([0.0]) is not None:
        return _read_series(run, inputs, limits)
    return [
        None
        if skip_blank and is_blank(run, value, kind)
        else _read_record(run, value, f"inputs[{number}]", kind, limits)
        for number, value in enumerate(inputs)
    ]


def is_blank(run: Run, value: Any, kind: Kind) -> bool:
    """Return whether an input has no text, so that it has no answer, as in the files of `weft predict`."""
    from weft.data.values import read_input  # here, because the studio starts without NumPy

    if kind in ("picture", "table"):
        return False
    try:
        value = tuple(value) if isinstance(value, list) and kind == "pair" else value
        found = read_input(value, run.task.columns(run.config.data), "input")
    except (WeftError, TypeError, ValueError, KeyError, AttributeError):
        return False  # it is no input at all, which `read_records` says
    if isinstance(found, str):
        return not found.strip()
    if kind == "pair":
        return isinstance(found, tuple | list) and not all(isinstance(one, str) and one.strip() for one in found)
    return isinstance(found, list) and not found


def _read_record(run: Run, value: Any, place: str, kind: Kind, limits: RequestLimits) -> Record:
    try:
        check_size(value, place, limits, picture=kind == "picture")
        if kind == "picture":
            value = _with_picture(run, value, place)
        elif kind == "table" and not _is_numbers(value):
            raise DataError("is not what this model reads", where=place, cure=f"send {_form(kind)}")
        elif isinstance(value, list) and kind == "pair":
            value = tuple(value)
        if not isinstance(value, str | Mapping | list | tuple) and kind != "picture":
            raise DataError(f"{value!r:.40} is no input", where=place, cure=f"send {_form(kind)}")
        return run.record(value, place)
    except WeftError as error:
        raise RequestError(error.what, param=place, cure=error.cure) from None
    except (TypeError, ValueError, OverflowError, IndexError, KeyError, AttributeError):
        raise RequestError("is not what this model reads", param=place, cure=f"send {_form(kind)}") from None


def _with_picture(run: Run, value: Any, place: str) -> Any:
    """An input whose picture is in base64."""
    column = run.task.columns(run.config.data).input
    text = value.get(str(column)) if isinstance(value, Mapping) else value
    if isinstance(text, str):
        return read_picture(text, place=place)
    raise DataError("is no picture", where=place, cure="send the picture in base64")


def _read_series(run: Run, inputs: Sequence[Any], limits: RequestLimits) -> list[Record]:
    """Series: each input is a list of numbers, or a table as a list of rows by their columns."""
    found: list[Record] = []
    for number, value in enumerate(inputs):
        place = f"inputs[{number}]"
        if not isinstance(value, list) or not value or not all(isinstance(row, int | float | Mapping) for row in value):
            raise RequestError("is no series", param=place, cure="send a list of numbers, or of rows {column: value}")
        check_size(value, place, limits)
        try:
            read = run.task.read_inputs(value)
        except WeftError as error:
            raise RequestError(error.what, param=place, cure=error.cure) from None
        except (TypeError, ValueError, OverflowError, KeyError, IndexError, AttributeError):
            raise RequestError("is no series", param=place, cure="send a list of numbers") from None
        own: list[Any] = read if isinstance(read, list) else [read]
        if len(own) != 1:
            raise RequestError(f"has {len(own)} series", param=place, cure="send each as an input of its own")
        found += own
    return found


def read_scored(run: Run, value: Any, place: str, limits: RequestLimits) -> Record:
    """Return an input of /v1/score as a record: a text, [source, target], [picture, caption], or [[word, tag], …]."""
    kind = input_kind(run)
    if kind == "table":
        raise RequestError(
            "texts of a model that reads numbers are not scored here", param=place, cure="use weft score"
        )
    check_size(value, place, limits, picture=kind == "picture")
    texts = [value] if isinstance(value, str) else value
    try:
        if not isinstance(texts, list) or not all(_is_pair(one) if kind == "words" else _is_text(one) for one in texts):
            raise TypeError
        if kind == "picture":  # record_to_score would read the file of a path
            picture, caption = texts
            return run.task.record_to_score((read_picture(picture, place=place), caption))
        if kind == "words":
            return run.task.record_to_score([tuple(one) for one in texts])
        return run.task.record_to_score(value if isinstance(value, str) else tuple(texts))
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, WeftError) as error:
        known = error if isinstance(error, WeftError) and not isinstance(error, ConfigError) else None
        cure = known.cure if known else f"send {SCORED_FORMS.get(kind, SCORED_FORMS['text'])}"
        raise RequestError(known.what if known else "cannot be scored", param=place, cure=cure) from None


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_text, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def check_size(value: Any, place: str, limits: RequestLimits, *, picture: bool = False) -> None:
    """Raise for an input with more characters, or more values, than the limit."""
    texts = [value] if isinstance(value, str) else list(_leaves(value))
    for text in texts:
        if isinstance(text, str) and len(text) > limits.characters and not picture:
            what = f"{len(text):,} characters, and {limits.characters:,} is the limit"
            raise RequestError(what, param=place, cure="send a part of it")
        if isinstance(text, str) and "\0" in text:
            raise RequestError("has a NUL character", param=place, cure="remove it")
    size = sum(len(text) if isinstance(text, str) else 1 for text in texts)
    if size > max(limits.characters, 1) * (1 if isinstance(value, str) else 4) and not picture:
        raise RequestError(f"{size:,} characters or numbers are too many", param=place, cure="send a part of it")


def _leaves(value: Any) -> Any:
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _is_numbers(value: Any) -> bool:
    """Whether an input holds numbers alone: a text may be the path of a file with numbers."""
    return isinstance(value, list | Mapping) and all(isinstance(leaf, int | float) for leaf in _leaves(value))


def _form(kind: Kind) -> str:
    forms = {
        "text": "a text, or an object with the columns of the training data",
        "pair": "two texts in a list",
        "picture": "a picture in base64",
        "table": "lists of numbers",
        "words": "a text, or a list of words",
    }
    return forms[kind]


def check_words(options: Mapping[str, Any], limits: RequestLimits) -> None:
    """Raise for words of options that are too long, or too many."""
    for name in ("forbid", "require"):
        value = options.get(name, ())
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
            raise ConfigError("is no list of words", where=name, cure='such as ["cat", "the dog"]')
        if len(words) > limits.inputs or any(len(word) > 1000 for word in words):
            raise ConfigError("has too many or too long words", where=name, cure="leave some out")
    for name in ("prefix", "language"):
        value = options.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > limits.characters):
            raise ConfigError("is no short text", where=name, cure="send a text")
