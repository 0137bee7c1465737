"""Search in the states of a corpus: which units fire on which tokens, and which are on between two marks.

search_states(run, Path("valid.txt"), inside=('"', '"'))       units that are on inside quotation marks
search_states(run, corpus, like="he said [[so]] and")           units that are on in the marked part, and where else
search_states(run, corpus, units=[12, 40])                      where these are on together
search_states(run, corpus)                                      the tokens that each unit fires on
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from rich.text import Text

from weft.charts import Table, row_data
from weft.errors import ConfigError, DataError
from weft.inspect import unit_search
from weft.inspect.corpus_states import MAX_TOKENS, CorpusStates, LayerChoice, read_corpus
from weft.inspect.found_units import CONTEXT, Excerpt, FoundUnit, Place, excerpt_of, place_at
from weft.inspect.gate_values import place_of
from weft.inspect.heat_chart import heat_chart
from weft.inspect.lesson import kind_of
from weft.inspect.terminal import heat_lines
from weft.inspect.view import Nothing, View
from weft.models import FittedModel
from weft.run import Run

SHOWN_ROWS: Final = 6
"""Units of the heat map."""

MAX_SET: Final = 3
"""Units of a set whose common places are found, where the search chooses them."""

OPEN, CLOSE = "[[", "]]"
"""The marks around the part of a text that `like` is about."""


@dataclass(frozen=True)
class StateSearch(View):
    """The result of a search: units, the best first, and places of the corpus."""

    question: str
    part: str
    layer: int
    direction: str
    state: str
    tokens: int
    size: int
    """Units of the layer."""
    share: float | None
    """The share of tokens that lie inside."""
    units: tuple[FoundUnit, ...]
    places: tuple[Place, ...]
    excerpt: Excerpt
    cut: bool

    name: ClassVar[str] = "states"
    equation: ClassVar[str] = (
        "on_t = h_t ≥ θ   (or h_t ≤ θ)\nprecision = P(inside | on)     recall = P(on | inside)     "
        "F1 = 2 · precision · recall / (precision + recall)"
    )

    @property
    def title(self) -> str:
        return f"Units of {self.state}, {place_of(self.part, self.layer, self.direction)}: {self.question}"

    @property
    def summary(self) -> str:
        text = f"{self.size} units at {self.tokens:,} tokens"
        text += " (the corpus has more, which were not read)." if self.cut else "."
        if self.share is not None and self.units:
            best, always = self.units[0], 2 * self.share / (1 + self.share)
            text += (
                f" Unit {best.unit} agrees best: F1 {best.f1:.3f}, where a unit that is always on has {always:.3f}; "
                f"{self.share:.1%} of the tokens are inside."
            )
        elif self.share is not None:
            text += " No token is inside: the marks do not occur in pairs."
        if any(unit.tokens for unit in self.units):
            text += (
                " A number beside a token is the mean of the unit there, in standard deviations from its mean over all "
                "tokens."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": "states",
            "search": self.question,
            "part": self.part,
            "layer": self.layer,
            "direction": self.direction,
            "state": self.state,
            "tokens": self.tokens,
            "size": self.size,
            "share": self.share,
            "cut": self.cut,
            "units": [unit.to_dict() for unit in self.units],
            "places": [place.to_dict() for place in self.places],
            "excerpt": self.excerpt.to_dict(),
        }

    def chart(self) -> Any:
        import altair

        excerpt = self.excerpt
        if not excerpt.tokens:
            return None
        title = "distance to the threshold"
        rows = [heat_chart(excerpt.scaled(), excerpt.rows, excerpt.tokens, title=title, signed=True)]
        if self.share is not None:
            data = [{"unit": f"unit {one.unit}", "F1": one.f1} for one in self.units if one.f1 is not None]
            bars = altair.Chart(row_data(data)).mark_bar()
            rows.insert(
                0,
                bars.encode(
                    x=altair.X("F1:Q", scale=altair.Scale(domain=[0, 1])),
                    y=altair.Y("unit:N", sort=None, title=None),
                    tooltip=["unit:N", altair.Tooltip("F1:Q", format=".3f")],
                ).properties(width=360, height=altair.Step(16)),
            )
        return altair.vconcat(*rows).resolve_scale(color="independent")

    def table(self) -> Table:
        if self.units:
            return Table(FoundUnit.headings, [unit.row() for unit in self.units])
        return Table(Place.headings, [place.row() for place in self.places])

    @property
    def more_tables(self) -> tuple[tuple[str, Table], ...]:
        if not self.units or not self.places:
            return ()
        return ((self.places_heading, Table(Place.headings, [place.row() for place in self.places])),)

    @property
    def places_heading(self) -> str:
        units = ", ".join(map(str, self.excerpt.units))
        return f"Where units {units} are on together" if len(self.excerpt.units) > 1 else f"Where unit {units} is on"

    def lines(self, width: int) -> list[Text]:
        found = [Text(self.title, style="bold"), Text(self.summary), Text()]
        for unit in self.units:
            found.append(unit.line())
            found += [place.line(width) for place in unit.contexts]
        if self.places:
            found += [Text(), Text(self.places_heading, style="bold")]
            found += [place.line(width) for place in self.places]
        if self.excerpt.tokens:
            rows = ((self.excerpt.scaled() + 1) / 2).tolist()
            found += [Text(), *heat_lines(rows, self.excerpt.rows, self.excerpt.tokens, width=width, each=1)]
        return found


def search_states(
    run: Run,
    corpus: Path | str | Iterable[str],
    *,
    inside: tuple[str, str] | None = None,
    like: str | None = None,
    span: tuple[int, int] | None = None,
    units: Sequence[int] | None = None,
    threshold: float | None = None,
    part: str = "auto",
    layer: int = 0,
    direction: str = "forward",
    state: str = "",
    top: int = 10,
    limit: int = MAX_TOKENS,
) -> StateSearch | Nothing:
    """Search the states of one layer over a corpus: a file, a text with a record in each line, or a list of texts.

    `inside` gives two marks: units are ranked by how well they are on between them. `like` gives a text with a part
    [[marked so]], or with `span` its first and last token: units that are on there and not beside it, and the other
    places where the best of them are on together. `units` asks where these are on together. Without any of these, the
    units that the token just read explains best are found, with their tokens. `threshold` replaces the one that fits
    best. `top` is the number of units and places.
    """
    if sum(given is not None for given in (inside, like, units)) > 1:
        raise ConfigError("ask for one of inside, like and units", where="search", cure="leave out the others")
    if isinstance(run.model, FittedModel):
        return Nothing("states", f"{kind_of(run)} has no states over time")
    read = read_corpus(run, corpus, LayerChoice(part, layer, direction, state), limit=limit)
    if inside is not None:
        return _search_inside(read, inside, threshold, top)
    if like is not None:
        return _search_like(run, read, like, span, top)
    if units is not None:
        return _search_together(read, units, threshold, top)
    return _search_tokens(read, top)


def answer_search(run: Run, body: Mapping[str, Any]) -> StateSearch | Nothing:
    """Run the search of a JSON object: corpus (a text), and the options of `search_states` by their names."""
    known = {"corpus", "inside", "like", "span", "units", "threshold", "part", "layer", "direction", "state", "top"}
    for name in body:
        if name not in known:
            raise ConfigError("is no part of a search", where=name, cure=f"one of {', '.join(sorted(known))}")
    options = {name: value for name, value in body.items() if value is not None and name != "corpus"}
    kinds: dict[str, type | tuple[type, ...]] = {"layer": int, "top": int, "threshold": (int, float)}
    kinds |= dict.fromkeys(("inside", "span", "units"), list) | dict.fromkeys(
        ("like", "part", "direction", "state"), str
    )
    for name, value in options.items():
        inner = str if name == "inside" else int
        listed = not isinstance(value, list) or all(isinstance(one, inner) for one in value)
        paired = name not in ("inside", "span") or (isinstance(value, list) and len(value) == 2)
        if not isinstance(value, kinds[name]) or isinstance(value, bool) or not listed or not paired:
            raise ConfigError(f"{value!r:.40} is not possible", where=name, cure="see weft.inspect.search_states")
    if not isinstance(body.get("corpus"), str):
        raise DataError("is missing", where="corpus", cure="give a text to search in")
    for name in ("inside", "span"):
        if name in options:
            options[name] = tuple(options[name])
    return search_states(run, body["corpus"], **options)


def _search_inside(read: CorpusStates, marks: tuple[str, str], threshold: float | None, top: int) -> StateSearch:
    opening, closing = marks
    if not opening or not closing:
        raise ConfigError("a mark is empty", where="inside", cure='give two texts, such as "(" and ")"')
    inside, counts = unit_search.mark_inside(read.texts, read.spans, list(read.bounds()), opening, closing)
    fits = unit_search.rank_inside(read.values, inside, counts, threshold=threshold)[:top]
    found = [FoundUnit(*fit) for fit in fits]
    share = float(inside[counts].mean()) if counts.any() else 0.0
    places: list[Place] = []
    excerpt = Excerpt()
    if fits:
        best = fits[0]
        on = unit_search.is_on(read.values[:, best.unit], best.sign, best.threshold)
        stretches = unit_search.find_together(on, read.text_of, most=top)
        places = [place_at(read, first, last, best.unit) for first, last in stretches]
        middle = unit_search.find_together(inside, read.text_of, most=10_000)
        first, last = middle[len(middle) // 2]
        excerpt = excerpt_of(read, first, last, found[:SHOWN_ROWS], truth=inside, chosen=[best.unit])
    question = f"on between {opening} and {closing}"
    return _found(read, question, found, places, excerpt, share=share)


def _search_like(run: Run, read: CorpusStates, like: str, span: tuple[int, int] | None, top: int) -> StateSearch:
    text, first, last = _marked(like) if span is None else (like, *span)
    choice = LayerChoice(read.part or "auto", read.layer if read.part else 0, read.direction, read.asked)
    own = read_corpus(run, [text], choice)
    if span is None:
        tokens = np.flatnonzero((own.spans[:, 1] > first) & (own.spans[:, 0] < last))
        if not len(tokens):
            raise DataError("the marked part has no token", where="like", cure="mark at least one token")
        first, last = int(tokens[0]), int(tokens[-1])
    if not 0 <= first <= last < len(own.values):
        raise DataError(f"the text has {len(own.values)} tokens", where=f"span = {first}, {last}", cure="count from 0")
    held = unit_search.rank_span(own.values, first, last, read.values)[:top]
    found = [FoundUnit(*one.fit, margin=one.margin) for one in held]
    # Units that fit the marked part less well than the best would only narrow the places down by chance.
    chosen, places = [one.fit for one in held[:MAX_SET] if one.fit.f1 == held[0].fit.f1], []
    if chosen:
        on = np.ones(len(read.values), dtype=bool)
        for one in chosen:
            on &= unit_search.is_on(read.values[:, one.unit], one.sign, one.threshold)
        stretches = unit_search.find_together(on, read.text_of, most=top)
        places = [place_at(read, begin, end, chosen[0].unit) for begin, end in stretches]
    truth = np.zeros(len(own.values), dtype=bool)
    truth[first : last + 1] = True
    excerpt = excerpt_of(own, first, last + 1, found[:SHOWN_ROWS], truth=truth, chosen=[one.unit for one in chosen])
    return _found(read, f"on in “{text[own.spans[first, 0] : own.spans[last, 1]]}”", found, places, excerpt)


def _search_together(read: CorpusStates, units: Sequence[int], threshold: float | None, top: int) -> StateSearch:
    size = read.values.shape[1]
    for unit in units:
        if not 0 <= unit < size:
            raise ConfigError(f"there are {size} units", where=f"units = {unit}", cure=f"from 0 to {size - 1}")
    on, found = np.ones(len(read.values), dtype=bool), []
    for unit in units:
        column = read.values[:, unit]
        # Without a threshold a unit is on in the upper half of its usual range.
        limit = float(np.quantile(column, (0.05, 0.95)).mean()) if threshold is None else threshold
        on &= unit_search.is_on(column, 1, limit)
        places = [place_at(read, at, at + 1, unit) for at in unit_search.top_places(read.values, unit, 1, most=3)]
        found.append(FoundUnit(unit, 1, limit, contexts=tuple(places)))
    stretches = unit_search.find_together(on, read.text_of, most=top)
    places = [place_at(read, first, last, units[0]) for first, last in stretches]
    excerpt = excerpt_of(read, *stretches[0], found[:SHOWN_ROWS], chosen=units) if stretches else Excerpt()
    return _found(read, f"units {', '.join(map(str, units))} on together", found, places, excerpt)


def _search_tokens(read: CorpusStates, top: int) -> StateSearch:
    found = []
    for one in unit_search.rank_by_token(read.values, read.tokens(), each=5)[:top]:
        sign = 1 if not one.tokens or one.tokens[0][1] > 0 else -1
        column = read.values[:, one.unit]
        limit = float(column.mean() + sign * column.std())
        places = unit_search.top_places(read.values, one.unit, sign, most=3)
        contexts = tuple(place_at(read, at, at + 1, one.unit) for at in places)
        found.append(
            FoundUnit(one.unit, sign, limit, explained=one.explained, tokens=tuple(one.tokens), contexts=contexts)
        )
    end = min(CONTEXT, len(read.values))
    excerpt = excerpt_of(read, 0, end, found[:SHOWN_ROWS], chosen=[found[0].unit])
    return _found(read, "the tokens that they fire on", found, [], excerpt)


def _found(
    read: CorpusStates,
    question: str,
    units: Sequence[FoundUnit],
    places: Sequence[Place],
    excerpt: Excerpt,
    *,
    share: float | None = None,
) -> StateSearch:
    about = read.part, read.layer, read.direction, read.state
    tokens, size = read.values.shape
    return StateSearch(question, *about, tokens, size, share, tuple(units), tuple(places), excerpt, read.cut)


def _marked(text: str) -> tuple[str, int, int]:
    """A text without the marks, and the characters that stood between them."""
    first, last = text.find(OPEN), text.find(CLOSE)
    if first < 0 or last < first:
        raise DataError("marks no part", where="like", cure=f"write {OPEN} before it and {CLOSE} after it")
    return text[:first] + text[first + 2 : last] + text[last + 2 :], first, last - 2
