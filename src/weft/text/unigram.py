"""Subwords by a unigram language model: of all cuts of a word, take the one whose pieces are the most probable.

    p(cut) = Π p(piece)                  learned by EM, dropping the pieces whose loss costs the least likelihood

The trainer of the `tokenizers` library is put right in two places, told at `_marked` and `_settled`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from weft.text.config import TextConfig, no_words
from weft.text.pipeline import byte_letters, byte_splitter, unigram_model
from weft.text.sample import stretches
from weft.text.vocabulary import SPECIALS, UNK, rank

LONGEST_PIECE = 32
"""In bytes; the library's own 16 are only eight Cyrillic or five Chinese characters."""

_MARKED_WORDS = 20_000
_FIRST_MARK = 0xF0000  # private use: no byte letter, and more of them than there are marked words
_NEVER_CHOSEN = 0.05
_DIGITS = 3


def learn_unigram(texts: Iterable[str], config: TextConfig) -> models.Unigram:
    """Learn pieces from the words that stand at least `min_count` times."""
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
        max_piece_length=LONGEST_PIECE,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated(counts, marked), trainer)
    learned = json.loads(tokenizer.to_str())["model"]["vocab"]
    scores = {piece: score for piece, score in learned if piece not in SPECIALS and marks.isdisjoint(piece)}
    return unigram_model(_settled(scores, room=config.size - len(SPECIALS)))


def _count(texts: Iterable[str], config: TextConfig) -> dict[str, int]:
    """word -> count, the words written in byte letters."""
    splitter = byte_splitter()
    counts: Counter[str] = Counter()
    for stretch in stretches(texts, config):
        counts.update(word for word, _ in splitter.pre_tokenize_str(stretch))
    return {word: count for word, count in counts.items() if count >= config.min_count}


def _marked(counts: Mapping[str, int]) -> dict[str, str]:
    """word -> the word with a mark behind it, for the most frequent words.

    The trainer proposes as pieces only what at least two different characters follow. But it puts the same sign
    behind every word, so it never proposes a word that is no beginning of another (while, but: whil, of whilst),
    nor an ending (ing) that is never inside a word; texts become a quarter longer. Hence one of the occurrences of
    a word gets a mark behind it. No two words with the same last letter have the same mark, so nothing with a mark
    in it stands twice, and only the marks themselves are learned besides.
    """
    marked: dict[str, str] = {}
    used: Counter[str] = Counter()
    for word in rank(counts, room=_MARKED_WORDS, min_count=2):
        marked[word] = word + chr(_FIRST_MARK + used[word[-1]])
        used[word[-1]] += 1
    return marked


def _repeated(counts: Mapping[str, int], marked: Mapping[str, str]) -> Iterator[str]:
    """Each word as often as it was counted, between blanks."""
    for word, count in counts.items():
        if word in marked:
            yield marked[word]
            yield f"{word} " * (count - 1)
        else:
            yield f"{word} " * count


def _settled(scores: Mapping[str, float], *, room: int) -> list[tuple[str, float]]:
    """The same pieces in the same order, with the same scores, whenever the same texts are learned.

    The trainer goes through hash maps in random order. That shifts scores by about 1e-10, which rounding hides, and
    deals out the scores of letters that it never chose at random, each just above the lowest: all get the lowest.
    It may also return more pieces than asked for; letters stay, the least likely of the others go.
    """
    letters = set(byte_letters())
    lowest = min(scores.values())
    settled = {
        piece: round(lowest if piece in letters and score < lowest + _NEVER_CHOSEN else score, _DIGITS)
        for piece, score in scores.items()
    }
    order = sorted(settled, key=lambda piece: (piece not in letters, -settled[piece], piece))[:room]
    return [(piece, settled[piece]) for piece in sorted(order, key=lambda piece: (-settled[piece], piece))]
