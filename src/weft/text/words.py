"""A vocabulary of words: from running text, or from sentences that are already split into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tokenizers import models, trainers

from weft.text.pipeline import assemble, empty_model, normalizer, word_model
from weft.text.rules import TextRules, no_words
from weft.text.sample import plain
from weft.text.unknown import unknown_word
from weft.text.vocabulary import SPECIALS, entry_of, rank


def learn_words(texts: Iterable[str], config: TextRules) -> models.WordLevel:
    """Split every text, count its words and keep the most frequent."""
    tokenizer = assemble(empty_model("word"), config)
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.size, min_frequency=config.min_count, special_tokens=list(SPECIALS), show_progress=False
    )
    tokenizer.train_from_iterator(plain(texts, config), trainer)
    vocab = tokenizer.get_vocab()
    return _model(sorted(vocab.keys() - set(SPECIALS), key=vocab.__getitem__), config)


def learn_split_words(sentences: Iterable[Sequence[str]], config: TextRules) -> models.WordLevel:
    """Count words of sentences that are already split; a word may contain any character."""
    normalize, unknown = normalizer(config), unknown_word(config)
    known = (word for words in sentences for word in words if not (unknown and unknown.fullmatch(word)))
    counts = Counter(entry_of(normalize(word)) for word in known)
    capacity = config.size - len(SPECIALS)
    return _model(rank(counts, capacity=capacity, min_count=config.min_count), config)


def _model(words: list[str], config: TextRules) -> models.WordLevel:
    if not words:
        raise no_words(config)
    return word_model(words)
