"""Decides whether the first line of a table is a header, and which column is probably which.

If the first line were an example like the n others, each of its cells could as well be in another row. So each column
gives a probability p of a first cell that differs so much from the others:

    known word      "review", "label" … or a language; k others are such, too  k / n, at least 1 / 50
    numbers         all others are numbers, it is none                         1 / (5 (n + 1))
    digits          all others have digits, it has none                        1 / (n + 1)
    its only place  u of the others occur once as well                         (u + 1) / (n + 1)

and the whole row gives one:

    length          s of the others are at most twice as long in every column  (s + 1) / (n + 1)

The smallest p of each column counts. The product over columns and row is compared with `MAX_HEADER_PROBABILITY`.
Length counts once because the two sides of a pair are long or short together, and twice the length because files are
often sorted by it. A cell that cannot be a name (a sentence, a number, a value that occurs again) excludes a header.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

MAX_HEADER_PROBABILITY = 1e-3
"""A first line that is less probable than this as an example is a header."""

MAX_NAME_CHARACTERS, MAX_NAME_WORDS = 40, 4
"""Characters and words of a column's name."""

TEXT_WORDS: Final = (
    *("text", "sentence", "review", "tweet", "message", "comment", "body", "content", "document", "utterance"),
    *("phrase", "question", "query", "statement", "post", "article", "headline", "title", "abstract", "description"),
    *("summary", "news", "sms", "email", "mail", "doc", "txt", "word", "name", "surname", "input"),
)
LABEL_WORDS: Final = (
    *("label", "class", "category", "sentiment", "polarity", "intent", "emotion", "topic", "target", "tag"),
    *("gold", "genre", "type", "language", "lang", "nationality", "rating", "stars", "score", "output", "answer", "y"),
)
SOURCE_WORDS: Final = (
    *("source", "src", "input", "lemma", "word", "grapheme", "graphemes", "spelling", "question", "prompt", "command"),
    *("original", "article", "document", "text"),
)
TARGET_WORDS: Final = (
    *("target", "tgt", "trg", "output", "form", "inflected", "phones", "phonemes", "phoneme", "pronunciation", "ipa"),
    *("answer", "response", "action", "actions", "translation", "reference", "summary", "completion", "label"),
)
OTHER_WORDS: Final = (
    *("id", "ids", "idx", "index", "number", "no", "nr", "split", "date", "time", "timestamp", "user", "username"),
    *("author", "url", "link", "file", "filename", "path", "count", "length", "features", "feats", "tags", "labels"),
    *(
        "classes",
        "value",
        "key",
        "location",
        "country",
        "product",
        "version",
        "domain",
        "lines",
        "sentences",
        "texts",
        "sent",
    ),
)
LANGUAGES: Final = frozenset(
    (
        *(
            "arabic",
            "chinese",
            "czech",
            "danish",
            "dutch",
            "english",
            "estonian",
            "finnish",
            "french",
            "german",
            "greek",
        ),
        *(
            "hebrew",
            "hindi",
            "hungarian",
            "indonesian",
            "italian",
            "japanese",
            "korean",
            "latin",
            "norwegian",
            "persian",
        ),
        *("polish", "portuguese", "romanian", "russian", "spanish", "swahili", "swedish", "turkish", "ukrainian"),
        *("vietnamese", "ar", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi", "hu", "it", "ja"),
        *("ko", "nl", "pl", "pt", "ro", "ru", "sv", "tr", "uk", "vi", "zh", "eng", "fra", "deu", "ger", "spa", "ita"),
        *("por", "rus", "zho", "jpn", "nld", "fin", "swe"),
    )
)
COLUMN_WORDS: Final = frozenset((*TEXT_WORDS, *LABEL_WORDS, *SOURCE_WORDS, *TARGET_WORDS, *OTHER_WORDS))

_PARTS = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|\.\d+)(e[+-]?\d+)?%?", re.IGNORECASE)
_ENDS_SENTENCE = (*".!?…,;。！？", '"', "”", "»")


def looks_like_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a first row is a header of the rows after it, all of one width."""
    as_short = sum(all(len(cell) <= 2 * len(name) for cell, name in zip(row, first, strict=True)) for row in others)
    chance = (as_short + 1) / (len(others) + 1)
    names = [cell.strip() for cell in first]
    if len(set(names)) < len(names):
        return False
    # "it" and "no" are words as well: a single language is no evidence.
    languages = all(known_as(name) for name in names)
    for place, name in enumerate(names):
        column = [row[place].strip() for row in others]
        # The index that pandas writes has no name.
        if not name and column and all(map(is_number, column)):
            continue
        if not _may_be_name(name) or name in column:
            return False
        chance *= _chance(name, column, languages=languages)
    return chance < MAX_HEADER_PROBABILITY


def _may_be_name(cell: str) -> bool:
    """Whether this cell could be the name of a column."""
    return (
        0 < len(cell) <= MAX_NAME_CHARACTERS
        and len(cell.split()) <= MAX_NAME_WORDS
        and not cell.endswith(_ENDS_SENTENCE)
        and any(map(str.isalpha, cell))
        and "\n" not in cell
    )


def _chance(name: str, column: Sequence[str], *, languages: bool) -> float:
    """The probability of this cell among the values of its column."""
    rows = len(column)
    once = Counter(Counter(column).values())[1]
    chances = [1.0, (once + 1) / (rows + 1)]
    kind = known_as(name)
    if kind == "column" or (kind and languages):
        chances.append(max(1 / 50, sum(known_as(value) == kind for value in column) / max(1, rows)))
    if column and not any(map(str.isdigit, name)):
        if all(map(is_number, column)):
            chances.append(1 / (5 * (rows + 1)))
        elif all(any(map(str.isdigit, value)) for value in column):
            chances.append(1 / (rows + 1))
    return min(chances)


def is_number(value: str) -> bool:
    return _NUMBER.fullmatch(value) is not None


def known_as(name: str) -> Literal["language", "column"] | None:
    """Whether a name consists of words that are usual in headers: `review`, `Review Text`, `sentence2`; or a language.

    In a name with underscores, such as `airline_sentiment`, a single such word is enough.
    """
    parts = name_parts(name) if len(name) <= MAX_NAME_CHARACTERS else []
    known = [part in COLUMN_WORDS for part in parts]
    if parts and (all(known) or (any(known) and "_" in name and " " not in name)):
        return "column"
    return "language" if parts and all(part in LANGUAGES for part in parts) else None


def name_parts(name: str) -> list[str]:
    return [word for part in _PARTS.split(name) if (word := part.casefold().rstrip("0123456789"))]


def label_comes_first(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of two columns has few distinct values, and the second longer, mostly distinct texts."""
    if len(rows) < 4:
        return False
    labels, texts = ([row[place].strip() for row in rows] for place in (0, 1))
    return (
        2 * len(set(labels)) <= len(rows)
        and len(set(texts)) >= 0.9 * len(rows)
        and sum(map(len, texts)) > sum(map(len, labels))
    )


class ColumnSample(NamedTuple):
    """The name of a column and its first values."""

    name: str
    values: list[str]

    @property
    def is_text(self) -> bool:
        numbers = bool(self.values) and all(map(is_number, self.values))
        return not numbers and not {"id", "idx", "index"} & set(name_parts(self.name))

    @property
    def mean_length(self) -> float:
        return sum(map(len, self.values)) / max(1, len(self.values))


def _like_label(column: ColumnSample) -> tuple[float, ...]:
    distinct = len(set(column.values))
    repeats = 2 * distinct <= len(column.values)
    return _rank(column.name, LABEL_WORDS), repeats, distinct > 1, -column.mean_length


def _like_text(column: ColumnSample) -> tuple[float, ...]:
    return column.is_text, _rank(column.name, TEXT_WORDS), column.mean_length


def _like_source(column: ColumnSample) -> tuple[float, ...]:
    return column.is_text, _rank(column.name, SOURCE_WORDS), -_rank(column.name, TARGET_WORDS)


def _like_target(column: ColumnSample) -> tuple[float, ...]:
    return column.is_text, _rank(column.name, TARGET_WORDS)


LIKENESS: Final = {
    "label": _like_label,
    "text": _like_text,
    "pair": _like_text,
    "source": _like_source,
    "target": _like_target,
}
"""How well a column suits a setting. Settings choose in this order; of equal columns the first is chosen."""


def guess_columns(
    names: Sequence[str] | None,
    rows: Sequence[Sequence[str]],
    settings: Collection[str],
    taken: Collection[int] = (),
) -> dict[str, int]:
    """Return the column that each setting (text, pair, label, source, target) probably means, except those `taken`."""
    width = len(names) if names is not None else len(rows[0]) if rows else 0
    heads = names if names is not None else [""] * width
    columns = {
        place: ColumnSample(heads[place], [row[place].strip() for row in rows])
        for place in range(width)
        if place not in taken
    }
    found: dict[str, int] = {}
    for setting, likeness in LIKENESS.items():
        if setting in settings and columns:
            found[setting] = max(columns, key=lambda place: likeness(columns[place]))
            del columns[found[setting]]
    return found


def _rank(name: str, words: Sequence[str]) -> int:
    """The rank of the best of a name's parts among these words, highest for the first word; 0 if none is there."""
    return max((len(words) - words.index(part) for part in name_parts(name) if part in words), default=0)
