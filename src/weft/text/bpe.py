"""Subwords by byte-pair encoding: the most frequent pair of neighbours becomes a token, repeatedly.

vocabulary = special tokens, 256 bytes, then one entry for each merge in the order of learning
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from tokenizers import models, trainers

from weft.text.pipeline import assemble, bpe_model, byte_letters, empty_model
from weft.text.rules import TextRules
from weft.text.sample import stretches
from weft.text.vocabulary import SPECIALS


def learn_bpe(texts: Iterable[str], config: TextRules) -> models.BPE:
    """Merge until the vocabulary is full or no pair occurs `min_count` times."""
    tokenizer = assemble(empty_model("bpe"), config)
    trainer = trainers.BpeTrainer(
        vocab_size=config.size,
        min_frequency=config.min_count,
        special_tokens=list(SPECIALS),
        initial_alphabet=byte_letters(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(stretches(texts, config), trainer)
    learned = json.loads(tokenizer.to_str())["model"]
    return bpe_model(learned["vocab"], [(left, right) for left, right in learned["merges"]])
