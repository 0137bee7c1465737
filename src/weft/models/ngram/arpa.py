"""ARPA files, the text format of n-gram models: read from KenLM, SRILM or weft, and written for them.

    \\data\\
    ngram 1=4                          how many n-grams of each order follow
    ngram 2=3

    \\1-grams:
    -0.7	the	-0.3                log10 P, the words, and log10 of the backoff (0 if it is left out)
    …
    \\end\\

<s>, </s> and <unk> are the start, the end and the unknown word. -99 is the logarithm of 0. Words have no blanks in this
format: a blank in an entry of the vocabulary is written as ▁, another such character as <U+000A>, and a word that is
spelled like one of the three special ones gets a backslash before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from weft.data import BadLines
from weft.data.sources import lines
from weft.disk import atomic_write
from weft.errors import ConfigError, DataError
from weft.limits import NGRAM_ORDER
from weft.models.ngram.tables import ZERO, Longs, OrderTable, producible
from weft.text import EOS, SOS, UNK

if TYPE_CHECKING:
    from weft.models.ngram.model import NgramModel

SPECIAL_WORDS: Final = {"<unk>": UNK, "<s>": SOS, "</s>": EOS}
LOG_ZERO: Final = -99.0
"""log10 of 0 in a file."""

ROUNDING: Final = 1e-4
"""A log10 P up to this stands for 0: SRILM rounds the logarithm of 1 to numbers just above 0."""

MAX_BACKOFF: Final = 10.0
"""The largest log10 of a backoff; more than 10 to this power would make likely words more than certain."""

_LIKE_SPECIAL = re.compile(r"\\*(?:<unk>|<s>|</s>)")
_BLANK, _SPACE = re.compile(r"[\s▁]"), "▁"


class Grams(NamedTuple):
    """The n-grams of one order in a file: words (E, n) as numbers, log10 P (E,), log10 of the backoff (E,), and the
    line (E,) of each."""

    words: NDArray[np.int32]
    log_probabilities: NDArray[np.float64]
    backoffs: NDArray[np.float64]
    lines: Longs


class Arpa(NamedTuple):
    """The content of an ARPA file: its words, by their numbers, and its n-grams of each order."""

    path: str
    words: tuple[str, ...]
    grams: tuple[Grams, ...]

    @property
    def order(self) -> int:
        return len(self.grams)

    def tables(self, ids: Mapping[str, int], vocabulary: int) -> list[OrderTable]:
        """The tables of a model over a vocabulary of that size, in which each word has an id.

        Words that the file does not have get the probability 0.
        """
        numbers = np.array([ids[word] for word in self.words], dtype=np.int64)
        tables: list[OrderTable] = []
        below = np.arange(vocabulary)  # sorted keys of the order below, and their ranks
        for order, grams in enumerate(self.grams, 1):
            words = numbers[grams.words]
            keys = words[:, 0]
            for place in range(1, order):  # the key of the n-gram from those of its beginnings
                ranks = keys if place == 1 else np.searchsorted(tables[place - 1].keys, keys)
                known = np.ones(len(keys), bool) if place == 1 else _has(tables[place - 1].keys, ranks, keys)
                self._check_contexts(grams, known, place)
                keys = ranks * vocabulary + words[:, place]
            tables.append(self._table(grams, keys, vocabulary, words=below if order == 1 else None))
        return tables

    def _check_contexts(self, grams: Grams, known: NDArray[np.bool_], size: int) -> None:
        if not known.all():
            entry = int(np.flatnonzero(~known)[0])
            words = [self.words[word] for word in grams.words[entry]]
            what = f'"{" ".join(words)}" begins with "{" ".join(words[:size])}", which is no {size}-gram of the file'
            cure = "write the model again, with the contexts of all its n-grams"
            raise DataError(what, where=f"{self.path}:{grams.lines[entry]}", cure=cure)

    def _table(self, grams: Grams, keys: Longs, vocabulary: int, *, words: Longs | None) -> OrderTable:
        """Sort the entries of one order; at order 1 there is an entry for every word."""
        order = np.argsort(keys, kind="stable")
        twice = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        if len(twice):
            entry = int(order[twice[0] + 1])
            shown = " ".join(self.words[word] for word in grams.words[entry])
            where = f"{self.path}:{grams.lines[entry]}"
            raise DataError(f'"{shown}" stands there a second time', where=where, cure="remove one of the two lines")
        logs, backoffs = (_from_log10(numbers)[order] for numbers in (grams.log_probabilities, grams.backoffs))
        if words is None:
            return OrderTable(keys[order], logs, backoffs)
        table = OrderTable(words, np.full(vocabulary, ZERO, dtype=np.float32), np.zeros(vocabulary, dtype=np.float32))
        table.log_probabilities[keys[order]], table.backoffs[keys[order]] = logs, backoffs
        table.log_probabilities[~producible(vocabulary)] = ZERO
        return table


def _has(keys: Longs, places: Longs, wanted: Longs) -> NDArray[np.bool_]:
    if not len(keys):
        return np.zeros(len(wanted), dtype=bool)
    found: NDArray[np.bool_] = keys[np.minimum(places, len(keys) - 1)] == wanted
    return found


def _from_log10(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.where(numbers <= LOG_ZERO, ZERO, numbers * math.log(10)).astype(np.float32)


def _to_log10(numbers: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.where(numbers < ZERO / 2, LOG_ZERO, numbers.astype(np.float64) / math.log(10))


def read_arpa(path: str | Path) -> Arpa:
    """Read an ARPA file, plain, .gz or .xz. A line that is none of the format is a DataError with its number."""
    return _Reader(str(path)).read()


class _Reader:
    """Reads one file, line by line."""

    def __init__(self, path: str) -> None:
        self.path, self.number, self.numbers = path, 0, dict[str, int]()
        self.lines = lines(path, BadLines(skip=False))

    def read(self) -> Arpa:
        sizes = self._sizes()
        grams = [self._grams(order, size) for order, size in enumerate(sizes, 1)]
        line = self._next()
        if line != "\\end\\":
            raise self._unexpected(line, "\\end\\", "complete the file, or correct the counts at its head")
        return Arpa(self.path, tuple(self.numbers), tuple(grams))

    def _next(self) -> str:
        """The next line that is not empty; "" at the end of the file."""
        for number, line in self.lines:
            self.number = number
            if line.strip():
                return line.strip()
        return ""

    def _error(self, what: str, cure: str) -> DataError:
        return DataError(what, where=f"{self.path}:{max(1, self.number)}", cure=cure)

    def _unexpected(self, line: str, wanted: str, cure: str) -> DataError:
        found = f'"{_shown(line)}" stands' if line else "the file ends"
        return self._error(f"{found} where {wanted} is expected", cure)

    def _sizes(self) -> list[int]:
        """Read the head: how many n-grams there are of each order."""
        line = self._next()
        while line and line != "\\data\\":
            line = self._next()
        if not line:
            raise self._error("there is no line \\data\\", "give an ARPA file, such as lmplz writes")
        sizes: list[int] = []
        line = self._next()
        while found := re.fullmatch(r"ngram\s+(\d+)\s*=\s*(\d{1,15})", line):
            if int(found[1]) != len(sizes) + 1:
                raise self._error(f"order {found[1]} follows order {len(sizes)}", "give the orders from 1 on")
            sizes.append(int(found[2]))
            line = self._next()
        if not sizes:
            raise self._error("no counts stand after \\data\\", "write them as: ngram 1=1000")
        if len(sizes) > NGRAM_ORDER:
            raise self._error(
                f"the order is {len(sizes)}, and {NGRAM_ORDER} is the limit", "give a model of lower order"
            )
        self.pending = line
        return sizes

    def _grams(self, order: int, size: int) -> Grams:
        """Read the section of one order."""
        head = self.pending if order == 1 else self._next()
        if head != f"\\{order}-grams:":
            raise self._unexpected(head, f"\\{order}-grams:", "check the counts at the head of the file")
        words, logs, backoffs, places = list[int](), list[float](), list[float](), list[int]()
        for _ in range(size):
            line = self._next()
            if not line or line[0] == "\\":
                what = f"only {len(logs):,} of {size:,} {order}-grams stand here"
                raise self._error(what, f"correct the line ngram {order}={size} or complete the file")
            parts = line.split()
            if not order + 1 <= len(parts) <= order + 2:
                what = f"{len(parts)} columns; a {order}-gram has log10 P, {order} words and perhaps a backoff"
                raise self._error(what, "words have no blanks in this format")
            logs.append(self._log_probability(parts[0]))
            backoffs.append(self._backoff(parts[-1]) if len(parts) == order + 2 else 0.0)
            for word in parts[1 : order + 1]:
                words.append(self._word(word, new=order == 1))
            places.append(self.number)
        made = np.array(words, dtype=np.int32).reshape(-1, order)
        return Grams(made, np.array(logs), np.array(backoffs), np.array(places, dtype=np.int64))

    def _log_probability(self, text: str) -> float:
        number = self._number(text)
        if math.isnan(number) or number > ROUNDING:
            raise self._error(f"{text} is the logarithm of no probability", "give a logarithm to the base 10, below 0")
        return min(number, 0.0)

    def _backoff(self, text: str) -> float:
        number = self._number(text)
        if math.isnan(number) or number > MAX_BACKOFF:
            cure = f"real ones are below {MAX_BACKOFF:g}: write the model again"
            raise self._error(f"{_shown(text)} is no logarithm of a backoff", cure)
        return number

    def _number(self, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self._error(f'"{_shown(text)}" is no number', "give a logarithm to the base 10") from None

    def _word(self, word: str, *, new: bool) -> int:
        if new:
            return self.numbers.setdefault(word, len(self.numbers))
        if word not in self.numbers:
            raise self._error(f'"{_shown(word)}" is no 1-gram of the file', "add it to the 1-grams")
        return self.numbers[word]


def _shown(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}…"


def write_arpa(path: str | Path, model: NgramModel, entries: Sequence[str]) -> None:
    """Write a model over these entries of a vocabulary as an ARPA file, whole or not at all."""
    if not model.config.smoothing.backs_off:
        what = "is no backoff model: an ARPA file cannot hold it"
        cure = 'train one with smoothing = { kind = "kneser_ney" }'
        raise ConfigError(what, where=f'model.smoothing.kind = "{model.config.smoothing.kind}"', cure=cure)

    def write(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            _write(file, model, [to_arpa_word(entry, number) for number, entry in enumerate(entries)])

    atomic_write(Path(path), write)


def _write(file: TextIO, model: NgramModel, words: Sequence[str]) -> None:
    can = producible(model.vocabulary)
    can[SOS] = True
    kept = [np.flatnonzero(can), *(np.arange(len(table.keys)) for table in model.tables.orders[1:])]
    file.write("\\data\\\n")
    for order, entries in enumerate(kept, 1):
        file.write(f"ngram {order}={len(entries)}\n")
    names = np.array(words, dtype=object)
    for order, table in enumerate(model.tables.orders, 1):
        if order > 1:
            keys = table.keys.numpy()
            names = names[keys // model.vocabulary] + " " + np.array(words, dtype=object)[keys % model.vocabulary]
        logs = _to_log10(table.log_probabilities.numpy())[kept[order - 1]].tolist()
        shown = names[kept[order - 1]].tolist()
        file.write(f"\n\\{order}-grams:\n")
        if len(table.backoffs):
            backoffs = _to_log10(table.backoffs.numpy())[kept[order - 1]].tolist()
            file.writelines(f"{p:.7g}\t{name}\t{b:.7g}\n" for p, name, b in zip(logs, shown, backoffs, strict=True))
        else:
            file.writelines(f"{p:.7g}\t{name}\n" for p, name in zip(logs, shown, strict=True))
    file.write("\n\\end\\\n")


def from_arpa_word(word: str) -> str:
    """A word of an ARPA file as a word of a text: without the backslash of one that is spelled like a special word."""
    return word[1:] if word[:1] == "\\" and _LIKE_SPECIAL.fullmatch(word) else word


def to_arpa_word(entry: str, number: int) -> str:
    """An entry of the vocabulary as a word of an ARPA file."""
    special = {token: word for word, token in SPECIAL_WORDS.items()}.get(number)
    if special is not None:
        return special
    word = _BLANK.sub(lambda found: _SPACE if found[0] == " " else f"<U+{ord(found[0]):04X}>", entry)
    return f"\\{word}" if _LIKE_SPECIAL.fullmatch(word) else word
