"""Simple models of the training records, which a network has to beat to be worth its time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from weft.data import Labelled, Tagged
from weft.metrics import SpanTally
from weft.models import fit_bag
from weft.tasks.labels import label_scores
from weft.tasks.task import UNSEEN, Baselines, Codec


def text_baselines(
    codec: Codec, train: Iterable[Labelled], parts: Mapping[str, Sequence[Labelled]], *, bag: bool = True, seed: int
) -> dict[str, Baselines]:
    """`majority`: always the most frequent label. `bag`: a bag of n-grams, unless it is the model itself."""
    counts: Counter[int] = Counter()

    def counted() -> Iterable[tuple[str, int]]:
        for record in train:
            number = codec.label_id(record.label or "")
            if number == UNSEEN:  # the file has changed since training began
                continue
            counts[number] += 1
            yield record.text, number

    fitted = fit_bag(counted(), len(codec.labels), seed=seed) if bag else None
    if fitted is None:
        for _ in counted():
            pass
    most = _most_frequent(counts)
    found: dict[str, Baselines] = {}
    for part, records in parts.items():
        gold = [codec.label_id(record.label or "") for record in records]
        found[part] = {"majority": label_scores(codec.labels, gold, [most] * len(gold))}
        if fitted is not None:
            predicted = fitted.predict([record.text for record in records])
            found[part]["bag"] = label_scores(codec.labels, gold, predicted.tolist()) | {"examples": fitted.fitted}
    return found


def word_baselines(
    codec: Codec, train: Iterable[Tagged], parts: Mapping[str, Sequence[Tagged]], *, spans: bool
) -> dict[str, Baselines]:
    """`majority`: always the most frequent tag. `per_word`: each word's most frequent tag, else the most frequent."""
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    total: Counter[int] = Counter()
    for record in train:
        for word, tag in zip(record.words, record.tags or (), strict=True):
            number = codec.label_id(tag)
            if number == UNSEEN:
                continue
            counts[word][number] += 1
            total[number] += 1
    most = _most_frequent(total)
    of_word = {word: _most_frequent(tags) for word, tags in counts.items()}
    return {
        part: {
            "majority": _tag_scores(codec, records, {}, most, spans=spans),
            "per_word": _tag_scores(codec, records, of_word, most, spans=spans),
        }
        for part, records in parts.items()
    }


def _tag_scores(
    codec: Codec, records: Sequence[Tagged], of_word: Mapping[str, int], most: int, *, spans: bool
) -> dict[str, float]:
    gold, predicted, tally = [], [], SpanTally()
    for record in records:
        guesses = [of_word.get(word, most) for word in record.words]
        gold += [codec.label_id(tag) for tag in record.tags or ()]
        predicted += guesses
        if spans:
            tally.add(record.tags or (), [codec.labels[number] for number in guesses])
    return ({"span_f1": tally.f1} if spans else {}) | label_scores(codec.labels, gold, predicted)


def _most_frequent(counts: Counter[int]) -> int:
    """Of equals the first in the order of the labels."""
    return int(min(counts, key=lambda number: (-counts[number], number)))
