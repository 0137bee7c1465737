"""Writes the phrasebook to files, one folder per task, in formats that the readers of `weft.data` accept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from weft.disk import atomic_write
from weft.phrasebook.corpus import make
from weft.phrasebook.english import glued
from weft.phrasebook.reviews import Review
from weft.phrasebook.sentence import Phrase


def write(folder: Path | str, seed: int = 0) -> list[Path]:
    """Write translate/, tag/, classify/ and lm/, each with a train, a valid and a test file; return their paths.

    A file is complete or absent: it gets its name only when it has been written.
    """
    folder, book = Path(folder), make(seed)
    written: list[Path] = []
    for part in ("train", "valid", "test"):
        phrases: Sequence[Phrase] = getattr(book, part)
        reviews: Sequence[Review] = getattr(book.reviews, part)
        pairs = (f"{phrase.english}\t{phrase.french}\n" for phrase in phrases)
        labelled = (f"{review.text}\t{review.label}\n" for review in reviews)
        written += [
            _write_file(folder / "translate" / f"{part}.tsv", pairs),
            _write_file(folder / "tag" / f"{part}.conllu", (conllu(phrase) for phrase in phrases)),
            _write_file(folder / "classify" / f"{part}.tsv", ("text\tlabel\n", *labelled)),
            _write_file(folder / "lm" / f"{part}.txt", (f"{phrase.english}\n" for phrase in phrases)),
        ]
    return written


def conllu(phrase: Phrase) -> str:
    """A sentence as a CoNLL-U block of ten columns, of which number, form and UPOS are filled."""
    rows = zip(phrase.words, phrase.tags, _spaces(phrase.words), strict=True)
    lines = (
        f"{number}\t{word}\t_\t{tag}" + "\t_" * 5 + f"\t{misc}"
        for number, (word, tag, misc) in enumerate(rows, start=1)
    )
    return "\n".join((f"# text = {phrase.english}", *lines)) + "\n\n"


def _spaces(words: Sequence[str]) -> Iterator[str]:
    for word, following in pairwise(words):
        yield "SpaceAfter=No" if glued(word, following) else "_"
    yield "_"


def _write_file(path: Path, texts: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)

    def write_texts(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(texts)

    atomic_write(path, write_texts)
    return path
