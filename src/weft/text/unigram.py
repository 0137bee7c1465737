"""Subwords by a unigram language model: of all cuts of a word, take the one whose pieces are the most probable.

    p(cut) = Π p(piece)                  learned by EM, dropping the pieces whose loss costs the least likelihood

`_marked` and `_settled` correct two faults of the trainer of the `tokenizers` library.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from weft.text.pipeline import byte_letters, byte_splitter, unigram_model
from weft.text.rules import TextRules, no_words
from weft.text.sample import stretches
from weft.text.vocabulary import SPECIALS, UNK, rank

MAX_PIECE_BYTES = 32
"""The library's default of 16 is only eight Cyrillic or five Chinese characters."""

_MAX_MARKED_WORDS = 20_000
_FIRST_MARK = 0xF0000  # private use characters: none is a byte letter, and there are more of them than marked words
_UNCHOSEN_MARGIN = 0.05  # the score of a letter that the trainer never chose is less than this above the lowest
_SCORE_DIGITS = 3


def learn_unigram(texts: Iterable[str], config: TextRules) -> models.Unigram:
    """Learn pieces from the words that occur at least `min_count` times."""
    counts = _count(texts, config)
    if not counts:
        raise no_words(config)
    marked = _marked(counts)
    marks = {word[-1] for word in marked.values()}
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.UnigramTrainer(
        vocab_size=config.size + len(marks),
        special_tokens=list(SPECIALS),
        unk_token=SPECIALS[UNK],
        initial_alphabet=byte_letters(),
        max_piece_length=MAX_PIECE_BYTES,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated(counts, marked), trainer)
    learned = json.loads(tokenizer.to_str())["model"]["vocab"]
    scores = {piece: score for piece, score in learned if piece not in SPECIALS and marks.isdisjoint(piece)}
    return unigram_model(_settled(scores, capacity=config.size - len(SPECIALS)))


def _count(texts: Iterable[str], config: TextRules) -> dict[str, int]:
    """word -> count, with the words written in byte letters."""
    splitter = byte_splitter()
    counts: Counter[str] = Counter()
    for stretch in stretches(texts, config):
        counts.update(word for word, _ in splitter.pre_tokenize_str(stretch))
    return {word: count for word, count in counts.items() if count >= config.min_count}


def _marked(counts: Mapping[str, int]) -> dict[str, str]:
    """word -> the word with a mark behind it, for the most frequent words.

    The trainer proposes only pieces that are followed by at least two different characters. But it puts the same sign
    behind every word, so it never proposes a word that no other word begins with (while; it proposes whil, because of
    whilst), nor an ending (ing) that never occurs inside a word; texts become a quarter longer. Hence one occurrence
    of each word gets a mark behind it. Words with the same last letter have different marks, so no piece with a mark
    in it occurs twice, and the trainer learns only the marks themselves in addition.
    """
    marked: dict[str, str] = {}
    used: Counter[str] = Counter()
    for word in rank(counts, capacity=_MAX_MARKED_WORDS, min_count=2):
        marked[word] = word + chr(_FIRST_MARK + used[word[-1]])
        used[word[-1]] += 1
    return marked


def _repeated(counts: Mapping[str, int], marked: Mapping[str, str]) -> Iterator[str]:
    """Yield each word as often as it was counted, separated by blanks."""
    for word, count in counts.items():
        if word in marked:
            yield marked[word]
            yield f"{word} " * (count - 1)
        else:
            yield f"{word} " * count


def _settled(scores: Mapping[str, float], *, capacity: int) -> list[tuple[str, float]]:
    """At most `capacity` pieces with their scores, which are equal whenever the same texts are learned.

    The trainer iterates over hash maps in random order. That shifts scores by about 1e-10, which rounding removes, and
    gives letters that it never chose random scores just above the lowest; here all of them get the lowest. It may also
    return more pieces than requested; letters are kept, and the least likely of the others are dropped.
    """
    letters = set(byte_letters())
    lowest = min(scores.values())
    settled = {
        piece: round(lowest if piece in letters and score < lowest + _UNCHOSEN_MARGIN else score, _SCORE_DIGITS)
        for piece, score in scores.items()
    }
    order = sorted(settled, key=lambda piece: (piece not in letters, -settled[piece], piece))[:capacity]
    return [(piece, settled[piece]) for piece in sorted(order, key=lambda piece: (-settled[piece], piece))]
