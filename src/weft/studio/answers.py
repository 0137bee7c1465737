"""Answers of a run to what a page sends: predictions, and texts that arrive piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from weft.charts import can_draw
from weft.errors import ConfigError
from weft.serve.inputs import input_kind
from weft.studio.inputs import read_text

if TYPE_CHECKING:
    from weft.run import Run

BOUNDS: Final[dict[str, tuple[type[int] | type[float], float, float]]] = {
    "beam": (int, 1, 64),
    "n_best": (int, 1, 64),
    "max_length": (int, 1, 1000),
    "min_length": (int, 0, 1000),
    "length_penalty": (float, 0, 10),
    "temperature": (float, 1e-3, 100),
    "top_k": (int, 0, 100_000),
    "top_p": (float, 1e-6, 1),
    "min_p": (float, 0, 1),
    "groups": (int, 1, 64),
    "diversity": (float, 0, 100),
    "repetition_penalty": (float, 0.01, 100),
    "frequency_penalty": (float, -100, 100),
    "presence_penalty": (float, -100, 100),
    "seed": (int, 0, 2**63),
}
"""Options of a search that a page may set, with the bounds that keep an answer short."""

FLAGS: Final = ("sample", "copy_unknown", "forbid_unknown", "attention")
TEXTS: Final = ("prefix", "language")
LISTS: Final = ("forbid", "require", "stop_at")
MAX_OPTION_CHARACTERS: Final = 1000
MAX_OPTION_ITEMS: Final = 32

DEFAULT_MAX_LENGTH: Final = 200
"""Tokens of a language model's text where the page sets no other length."""


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in their types; raise for one that is unknown or outside its bounds."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None or value == "":
            continue
        if name in BOUNDS:
            found[name] = _bounded(name, value)
        elif (name in FLAGS and isinstance(value, bool)) or (name in TEXTS and _is_short(value)):
            found[name] = value
        elif name in LISTS and _is_short_list(value):
            found[name] = [text for text in value if text]
        else:
            known = (*BOUNDS, *FLAGS, *TEXTS, *LISTS)
            why = "is not possible" if name in known else "is no option here"
            raise ConfigError(why, where=f"{name:.60}", cure=f"choose from {', '.join(known)}")
    return {name: value for name, value in found.items() if value != []}


def predict(run: Run, text: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the predictions as `weft predict --json` prints them, and for a forecast its chart."""
    options = read_options(given)
    if run.task.continues:
        options.setdefault("max_length", DEFAULT_MAX_LENGTH)
    source = read_text(run, text)
    answers = run.predict(_one(run, source), **options)
    found = answers if isinstance(answers, list) else [answers]
    result: dict[str, Any] = {"predictions": [answer.record() for answer in found], "code": _code(run, source, options)}
    if input_kind(run) == "table" and not run.task.reads_text and can_draw():
        result["specification"] = run.task.draw(found).to_dict()
    shortcomings = [answer.shortcoming for answer in found if answer.shortcoming]
    return result | ({"notes": shortcomings} if shortcomings else {})


def stream(run: Run, text: str, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield ("piece", {"text": …}) for each piece of a text, then ("done", {"prediction": …})."""
    options = read_options(given)
    if run.task.continues:
        options.setdefault("max_length", DEFAULT_MAX_LENGTH)
    options.pop("attention", None)
    options.pop("n_best", None)
    source, whole = read_text(run, text), []
    for piece in run.stream(source, **options):
        whole.append(piece)
        yield "piece", {"text": piece}
    yield "done", {"prediction": {"text": "".join(whole)}, "code": _code(run, source, options)}


def _code(run: Run, source: Any, options: Mapping[str, Any]) -> str:
    """Return the lines of Python that answer the same."""
    from weft.inspect.calls import loading, written

    pair = isinstance(source, tuple)  # two texts in a tuple are two inputs to `predict`
    arguments = [f"[{written(source)}]" if pair else written(source)]
    arguments += [f"{name}={value!r}" for name, value in options.items() if value is not False]
    return f"import weft\n\nrun = {loading(run)}\nrun.predict({', '.join(arguments)})"


def _one(run: Run, source: Any) -> Any:
    """Return the input so that `predict` reads it as one where the task does; a table may hold several series."""
    return run.record(source) if isinstance(source, tuple) else source


def _bounded(name: str, value: Any) -> int | float:
    kind, low, high = BOUNDS[name]
    try:
        number = kind(value) if not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not low <= number <= high:
        raise ConfigError(f"{value!r:.40} is not possible", where=name, cure=f"from {low:g} to {high:g}")
    return number


def _is_short_list(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_OPTION_ITEMS and all(map(_is_short, value))


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_OPTION_CHARACTERS
