"""The contract of a view: one look into a model as plain data, with a chart, a table and lines for a terminal.

A view answers one question. Its function has the view's name and returns an object of a class derived from `View`:

    found = weft.inspect.gates(run, "the cat sleeps")
    found.to_dict()              plain values: numbers, texts, lists, dicts
    found.chart()                an altair chart, which a notebook draws
    found.save("gates.html")     also .svg, .png and .json
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar, Final, Literal, NamedTuple

from rich.text import Text

from weft.charts import FORMATS, Figure, Table, check_format, draw_figures, themed
from weft.disk import atomic_write
from weft.documents import to_json
from weft.errors import ConfigError, Fault
from weft.inspect.calls import loading, written


class View(ABC):
    """One look into a model. A subclass is a frozen dataclass of plain values."""

    name: ClassVar[str]
    equation: ClassVar[str] = ""
    """The equations behind the numbers, in the letters of the texts."""

    @property
    @abstractmethod
    def title(self) -> str:
        """A short heading."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """One or two sentences: what is shown, and how to read it."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain values, ready for JSON."""

    @abstractmethod
    def chart(self) -> Any:
        """Return the altair chart, without colours of a theme; None for a view that is words alone."""

    @abstractmethod
    def table(self) -> Table:
        """Return the numbers as rows of text, for those who cannot see the chart."""

    @abstractmethod
    def lines(self, width: int) -> list[Text]:
        """Return what a terminal with so many columns shows."""

    @property
    def equations(self) -> str:
        """The equations of this view; those of its kind, unless they depend on the model."""
        return self.equation

    @property
    def code(self) -> str:
        """The Python call that returns this view."""
        return str(self.__dict__.get("_code", ""))

    @property
    def subject(self) -> str:
        """The run and the input that it shows, for the title of a picture; empty where they are not known."""
        return str(self.__dict__.get("_subject", ""))

    @property
    def picture_note(self) -> str:
        """The line of a picture below its title, because it has no summary; empty for nothing."""
        return ""

    @property
    def more_tables(self) -> tuple[tuple[str, Table], ...]:
        """Tables that a page has below that of the numbers, each with its name."""
        return ()

    def with_code(self, code: str, subject: str = "") -> View:
        """Set the call that returned this view and the subject of its pictures, and return the view."""
        self.__dict__.update(_code=code, _subject=subject)
        return self

    def figure(self) -> Figure:
        """Return the chart with its words, for a page."""
        chart = self.chart()
        # Altair checks every row of the data against its schema, which takes seconds for long inputs.
        specification = None if chart is None else chart.to_dict(validate=False)
        words = (self.title, self.summary, specification, self.equations, self.code, self.table(), self.subject)
        return Figure(*words, note=self.picture_note, more_tables=self.more_tables)

    def save(self, path: str | Path, *, dark: bool = False) -> Path:
        """Write the view in the format of the file's ending: .html, .svg, .png or .json."""
        path = Path(path)
        if path.suffix == ".json":
            try:
                atomic_write(path, (to_json(self.to_dict()) + "\n").encode())
            except OSError as error:
                what = f"cannot be written: {error.strerror or error}"
                raise Fault(what, where=str(path), cure="choose another file") from None
            return path
        check_ending(path)
        figure = self.figure()
        if figure.specification is None and path.suffix != ".html":
            raise ConfigError(f"there is nothing to draw: {self.summary}", where=str(path), cure="write *.html")
        return draw_figures([figure], path, title=self.title, dark=dark)

    def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> Any:
        """Show the chart in a notebook."""
        chart = self.chart()
        if chart is None:
            return {"text/plain": self.summary}
        from altair import Chart

        return Chart.from_dict(themed(chart.to_dict()))._repr_mimebundle_(*arguments, **options)


ENDINGS: Final = (*FORMATS, ".json")
"""The endings of files that a view can be written to."""


def check_ending(path: Path) -> None:
    """Raise unless a view can be written to a file with this ending; called before any work."""
    if path.suffix not in ENDINGS:
        cure = f"name it {', '.join(f'*{ending}' for ending in ENDINGS)}"
        raise ConfigError(f"cannot write {path.suffix or 'a file without an ending'}", where=str(path), cure=cure)
    if path.suffix != ".json":
        check_format(path)


@dataclass(frozen=True)
class Nothing(View):
    """A view that this model has nothing for, with the reason: positions of a recurrent model."""

    view: str
    reason: str
    """A sentence without a full stop."""

    name: ClassVar[str] = "nothing"

    @property
    def title(self) -> str:
        return self.view

    @property
    def summary(self) -> str:
        return f"There is nothing to show: {self.reason}."

    def to_dict(self) -> dict[str, Any]:
        return {"view": self.view, "nothing": self.reason}

    def chart(self) -> None:
        return None

    def table(self) -> Table:
        return Table(("nothing to show",), [(self.reason,)])

    def lines(self, width: int) -> list[Text]:
        return [Text(self.summary)]


class Option(NamedTuple):
    """An option of a view, for the command line and the controls of the studio."""

    kind: Literal["int", "float", "bool", "text", "words", "choice"]
    """"words" are several words or phrases: a list, or one text with commas between them."""
    default: Any
    """None where the run has its own."""
    label: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    of_runs: bool = True
    """Whether it changes the view of a run; one that is only for what stands in the place of a run is not."""

    def checked(self, name: str, value: Any) -> Any:
        """Return the value in the option's type; raise where it is none of it, or outside its bounds."""
        read: dict[str, Callable[[Any], Any]] = {
            "int": int,
            "float": float,
            "text": str,
            "choice": str,
            "bool": _flag,
            "words": _words,
        }
        try:
            found = read[self.kind](value)
        except (TypeError, ValueError, OverflowError, KeyError):
            raise ConfigError(f"{value!r:.40} is no {self.kind}", where=name, cure=self._cure()) from None
        outside = (self.low is not None and not found >= self.low) or (self.high is not None and not found <= self.high)
        if outside or (self.kind == "choice" and found not in self.choices):
            raise ConfigError(f"{found!r:.40} is not possible", where=name, cure=self._cure())
        return found

    def _cure(self) -> str:
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.low is not None and self.high is not None:
            return f"from {self.low:g} to {self.high:g}"
        return f"give a {self.kind}, such as {self.default}"


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]


def _words(value: Any) -> list[str]:
    parts = value.split(",") if isinstance(value, str) else list(value)
    return [str(part).strip() for part in parts if str(part).strip()]


@dataclass(frozen=True)
class ViewKind:
    """A view as the command line and the studio know it. Each module of a view has one, `KIND`."""

    name: str
    question: str
    """The question that it answers: "When does it keep, write, show?"."""
    function: Callable[..., View]
    """function(run, text, target=…, **options) -> View; without `takes_text` it is function(run, **options)."""
    takes_text: bool = True
    reads_words: bool = False
    """Whether the text is words of the model's vocabulary, also where the model reads pairs or pictures."""
    takes_target: bool = False
    options: Mapping[str, Option] = field(default_factory=dict)

    def check_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return options in their types, without those that are None by default too; raise for an unknown one."""
        for name in given:
            if name not in self.options:
                known = ", ".join(self.options) or "no options"
                raise ConfigError(f"{self.name} has {known}", where=name, cure="leave it out")
        asked = {
            name: value for name, value in given.items() if value is not None or self.options[name].default is not None
        }
        return {name: self.options[name].checked(name, value) for name, value in asked.items()}

    def show(self, run: Any, text: Any = None, *, target: str | None = None, **options: Any) -> View:
        """Return the view, with the call that returns it."""
        chosen = self.check_options(options)
        inputs = {"target": target} if self.takes_target and target is not None else {}
        arguments = [text] if self.takes_text and text is not None else []
        found = self.function(run, *arguments, **inputs, **chosen)
        named = [f"{name}={value!r}" for name, value in {**inputs, **chosen}.items()]
        call = f"weft.inspect.{self.name}({', '.join([loading(run), *map(written, arguments), *named])})"
        shown = shorten(
            " ".join(one for one in arguments if isinstance(one, str)), SUBJECT_CHARACTERS, placeholder=" …"
        )
        return found.with_code(
            call, ": ".join(filter(None, [getattr(getattr(run, "folder", None), "name", ""), shown]))
        )


SUBJECT_CHARACTERS: Final = 90
"""Characters of the input in the title of a picture."""


VIEWS: Final[dict[str, str]] = {
    "attention": "attention_maps",
    "beam": "beam_tree",
    "ranks": "token_ranks",
    "states": "unit_states",
    "gates": "gate_values",
    "gradients": "gradient_flow",
    "positions": "position_codes",
    "neighbours": "embedding_map",
    "parameters": "parameter_table",
    "curves": "learning_curves",
}
"""The module of each view, in the order in which the studio lists them."""


def view_kind(name: str) -> ViewKind:
    """Return the view of that name; its module is imported now."""
    found: ViewKind = import_module(f"weft.inspect.{VIEWS[name]}").KIND
    return found
