"""An ARPA file as a run: an n-gram model with the words of the file, without any training data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from weft.config import merge, validate
from weft.errors import ConfigError, DataError
from weft.importing.proper import check_sums
from weft.limits import VOCABULARY
from weft.models import NgramConfig, NgramModel
from weft.models.ngram import SPECIAL_WORDS, from_arpa_word, read_arpa
from weft.run import Run, load
from weft.run.folder.files import check_path
from weft.run.folder.lock import claim_folder
from weft.run.folder.save import ModelFiles, save_run
from weft.tasks import Codec, Facts
from weft.tasks.lm import LanguageModelling
from weft.text import SPECIALS, TextConfig, Tokenizer

CUTTING: Final = ("punctuation", "lowercase")
"""The settings of `[text]` that a file does not say: how texts become its words."""


def import_arpa(
    path: str | Path, *, out: str | Path | None = None, text: Mapping[str, Any] = MappingProxyType({})
) -> Run:
    """Make a run of an ARPA file in the folder `out`. Texts are cut at blanks into the words of the file, unless `text`
    says otherwise: {"punctuation": "split", "lowercase": True}."""
    check_path(path, "path")
    for name in text:
        if name not in CUTTING:
            cure = "only text.punctuation and text.lowercase do"
            raise ConfigError("does not go with an ARPA file", where=f"text.{name}", cure=cure)
    arpa = read_arpa(path)
    words = {word: from_arpa_word(word) for word in arpa.words if word not in SPECIAL_WORDS}
    if not words or len(words) + len(SPECIALS) > VOCABULARY:
        what = f"has {len(words):,} words" if words else "has no words"
        raise DataError(what, where=str(path), cure=f"give a model of 1 to {VOCABULARY - len(SPECIALS):,} words")
    fixed = {"kind": "word", "punctuation": "keep", "size": len(words) + len(SPECIALS), "min_count": 1}
    model = {"kind": "ngram", "order": arpa.order, "smoothing": {"kind": "arpa"}}
    own = {**fixed, "unknown": "<unk>", **text}
    tree = {"task": "lm", "data": {"train": str(path)}, "text": own, "model": model}
    defaults = LanguageModelling.defaults(Facts(0, 0), tree)
    config = validate(merge(defaults, tree), keep_unread=True)  # smoothing.kind = "arpa" is not for training
    assert isinstance(config.text, TextConfig)
    assert isinstance(config.model, NgramConfig)
    tokenizer = Tokenizer.learn_words([list(words.values())], config.text)
    numbers = tokenizer.encode_words(list(words.values()))
    ids = SPECIAL_WORDS | dict(zip(words, numbers, strict=True))
    network = NgramModel(config.model, len(tokenizer))
    network.set_tables(arpa.tables(ids, len(tokenizer)))
    if warning := check_sums(arpa, network, ids):
        warnings.warn(warning, stacklevel=2)
    with claim_folder(out, config.task) as folder:
        save_run(folder, ModelFiles(config, Codec({"": tokenizer}), network), network.state_dict())
    return load(folder)
