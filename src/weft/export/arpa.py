"""An n-gram model as an ARPA file, which KenLM, SRILM and speech recognisers read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.errors import ConfigError, RunError
from weft.export.agreement import differs
from weft.models import NgramModel
from weft.models.ngram import read_arpa, to_arpa_word, write_arpa
from weft.run import Run, load
from weft.run.folder.files import NO_FILE_LEFT, check_path, writing
from weft.text import TextConfig

MAX_DIFFERENCE = 1e-5
"""The largest difference of a logarithm that rounding in the file explains."""


class ExportedArpa(NamedTuple):
    """The file, its n-grams of each order, and the largest difference of a natural logarithm from the run; where texts
    are not just cut at blanks, a sentence on that."""

    path: Path
    ngrams: tuple[int, ...]
    difference: float
    cutting: str = ""


def export_arpa(run: Run | str | Path, *, out: str | Path) -> ExportedArpa:
    """Write the n-gram model of a run as an ARPA file; it is read back and compared with the run."""
    check_path(out, "--out")
    run = run if isinstance(run, Run) else load(run, device="cpu")
    model, path = run.model, Path(out)
    if not isinstance(model, NgramModel):
        kind = getattr(run.config.model, "kind", run.config.task)
        cure = 'train one: task = "lm" with model.kind = "ngram"'
        raise ConfigError("is no n-gram model", where=f'model.kind = "{kind}"', cure=cure)
    if os.path.lexists(path):
        raise RunError("is there already", where=str(path), cure="choose another --out")
    tokenizer = run.task.codec.side("target")
    entries = tokenizer.tokens(range(len(tokenizer)))
    with writing(path, cure=NO_FILE_LEFT):
        write_arpa(path, model, entries)
    return ExportedArpa(path, *_compare(path, model, entries), cutting=describe_cutting(run.config.text))


def describe_cutting(text: TextConfig) -> str:
    """How the run makes words of texts, where that is more than a cut at blanks, which readers of the file expect."""
    if text.kind != "word":
        return f"its words are tokens of kind {text.kind}: other software must be given texts as such tokens"
    changes = {
        "text.punctuation=split": "splits punctuation off" if text.punctuation == "split" else "",
        "text.lowercase=true": "lowers letters" if text.lowercase else "",
    }
    done = [name for name, what in changes.items() if what]
    if not done:
        return ""
    said = " and ".join(filter(None, changes.values()))
    return f"readers of the file cut texts at blanks; the run also {said}, as weft import does with {' '.join(done)}"


def _compare(path: Path, model: NgramModel, entries: list[str]) -> tuple[tuple[int, ...], float]:
    ids = {to_arpa_word(entry, number): number for number, entry in enumerate(entries)}
    arpa, found = read_arpa(path), 0.0
    for written, table in zip(arpa.tables(ids, model.vocabulary), model.tables.orders, strict=True):
        for ours, theirs in ((table.log_probabilities, written.log_probabilities), (table.backoffs, written.backoffs)):
            difference = np.abs(ours.numpy() - theirs[: len(ours)])
            found = max(found, float(difference.max(initial=0.0)))
    if found > MAX_DIFFERENCE:
        path.unlink()
        raise differs("a logarithm in the ARPA file")
    return tuple(len(grams.lines) for grams in arpa.grams), found
