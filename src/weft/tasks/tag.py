"""Tag: one label for each word of a sentence, read from the word and from its characters. Accuracy, F1, span F1."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.data import (
    BadLines,
    Capacity,
    Columns,
    Examples,
    Limit,
    Ragged,
    Steps,
    Tagged,
    pad,
    read_answered,
    read_tagged,
)
from weft.data.ragged import Ids
from weft.data.values import read_example
from weft.decoding import DecodeConfig
from weft.errors import DataError, did_you_mean
from weft.metrics import Confusion, LossTally, SpanTally
from weft.models import TAGGERS, FittedSettings, TagDistribution, Tagger, TaggerSettings, TaggerSizes, TaggingModel
from weft.models.hmm.shapes import classes_of
from weft.nn import length_mask
from weft.nn.crf import Legal
from weft.settings import OneOf, TableError
from weft.tasks.baselines import word_baselines
from weft.tasks.features import FEATURES, FeatureTask, learn_features
from weft.tasks.labels import collect_labels, label_columns, require_classes
from weft.tasks.length import passes, started_rates
from weft.tasks.lessons import read_tokens
from weft.tasks.sections import Facts, Sections, StackPlace, Tree, written
from weft.tasks.states import Located
from weft.tasks.tag_data import TaggedData, TaggedText
from weft.tasks.tags import ScoredTags, TaggedBatch, Tagging, TagScores, scheme_of, score_tags, spell, summarise_tags
from weft.tasks.task import UNSEEN, Baselines, Codec, Loss, Rows
from weft.text import TextConfig, Tokenizer, word_defaults
from weft.text.split import cut_words, split_text

SPELLING = TextConfig(kind="char", size=1000)

MODEL = OneOf(TAGGERS)


class Tag(FeatureTask):
    """Tagged sentences to a tagger."""

    name = "tag"
    summary = "tagged words (parts of speech, names) to a tagger"
    metric = "accuracy"
    metrics: tuple[str, ...] = ("span_f1", "accuracy", "f1", "loss")
    sections = Sections(TaggedData, TaggedText, Annotated[TaggerSettings, MODEL], marks=0)
    data: TaggedData
    files = ("train.conllu", "valid.conllu", "test.conllu")
    pipeline_tag = "token-classification"
    label_column = "tags"
    text_column = "words"
    scores_texts = True

    def __init__(self, codec: Codec, data: TaggedData) -> None:
        super().__init__(codec, data)
        if self.features is None:
            self.words: Tokenizer = codec.tokenizers["words"]
            self.characters: Tokenizer | None = codec.tokenizers.get("characters")
        self.scheme = scheme_of(codec.labels)
        self.spans = self.scheme is not None
        if self.spans:
            self.metric = "span_f1"
        else:
            self.metrics = tuple(name for name in type(self).metrics if name != "span_f1")

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        kind = MODEL.kind_of(written(tree, "model"))
        models: dict[str, Tree] = {
            "rnn": {"embedding": 128, "hidden": 128, "characters": 64, "dropout": 0.4},
            "transformer": {"width": 128, "layers": 2, "characters": 64, "dropout": 0.2},
        }
        text = {**word_defaults(facts.characters), "min_count": 1}
        if issubclass(TAGGERS[kind], FittedSettings):  # one that counts, and guesses by capital letters too
            return {"text": text, "model": {}, "train": {}}
        epochs = 150_000 / facts.examples
        tokens = facts.characters / (facts.width or 6)
        return {
            "text": {**text, "lowercase": True},
            "model": models.get(kind, {}),
            "train": {
                "epochs": passes(tree, tokens, 1024, epochs=epochs, between=(12, 30), updates=300),
                "rate": 3e-3 if kind == "rnn" else 1e-3,
                "batch_tokens": 1024,
                **started_rates(tree),
            },
        }

    @classmethod
    def own_metric(cls, measured: Collection[str]) -> str:
        return "span_f1" if "span_f1" in measured else cls.metric

    @staticmethod
    def read(path: str | list[str], data: TaggedData, bad: BadLines) -> Iterator[Tagged]:
        if data.features is not None:
            return read_answered(path, Tag.columns(data), bad=bad)
        return read_tagged(path, field=data.field, column=data.column, bad=bad)

    @staticmethod
    def columns(data: TaggedData) -> Columns:
        tags = "tags" if data.field == "upos" else data.field
        if data.features is not None:
            return Columns(Tagged, data.features, tags, steps=True, sequence=data.sequence)
        return Columns(Tagged, "words", tags)

    @staticmethod
    def roles(text: TextConfig) -> dict[str, TextConfig]:
        if text.kind == "imported":
            return {"words": text}
        return {"words": text, "characters": SPELLING.model_copy(update={"unknown": text.unknown})}

    @classmethod
    def conflicts(cls, config: Any) -> Iterator[TableError]:
        yield from super().conflicts(config)
        if config.text.kind == "imported" and getattr(config.model, "characters", 0) != 0:
            what = 'does not go with text.kind = "imported", whose subwords spell words'
            yield TableError(what, where=f"model.characters = {config.model.characters}", cure="set it to 0")

    @classmethod
    def learn(cls, records: Iterable[Tagged], text: TextConfig) -> Codec:
        return cls.learn_with(records, text, {})

    @staticmethod
    def stacks(tree: Mapping[str, Any]) -> dict[str, StackPlace]:
        return {"encoder": StackPlace(role="words")}

    @classmethod
    def learn_with(cls, records: Iterable[Tagged], text: TextConfig, known: Mapping[str, Tokenizer]) -> Codec:
        labels = collect_labels(record.tags or () for record in records)
        require_classes(labels, model="a tagger", setting="data.field or data.column")
        if (features := learn_features(records)) is not None:
            return Codec({}, labels, {FEATURES: features})
        words = known.get("words") or Tokenizer.learn_words((record.words for record in records), text)
        spelling = cls.roles(text).get("characters")
        if spelling is None:
            return Codec({"words": words}, labels)
        letters = (word for record in records for word in record.words)
        characters = known.get("characters") or Tokenizer.learn(letters, spelling)
        return Codec({"words": words, "characters": characters}, labels)

    @staticmethod
    def build(model: TaggerSettings, codec: Codec) -> nn.Module:
        scheme, features = scheme_of(codec.labels), codec.statistics.get(FEATURES)
        parts = (scheme.start, scheme.transitions, scheme.end) if scheme else ()
        legal = Legal(*map(torch.from_numpy, parts)) if parts else None
        if features is not None:
            return model.build_tagger(TaggerSizes(0, 0, len(codec.labels), classes_of([]), legal, len(features.mean)))
        if "characters" not in codec.tokenizers:
            sizes = TaggerSizes(len(codec.tokenizers["words"]), 0, len(codec.labels), classes_of([]), legal)
            return model.build_tagger(sizes._replace(subwords=True))
        words, characters = (codec.tokenizers[role] for role in ("words", "characters"))
        # Before the data is read something that only has a size stands for a tokenizer.
        letters = characters.tokens(range(len(characters))) if isinstance(characters, Tokenizer) else ()
        classes = classes_of([*letters, *[""] * (len(characters) - len(letters))])
        return model.build_tagger(TaggerSizes(len(words), len(characters), len(codec.labels), classes, legal))

    def tokenizer_of(self, part: str) -> Tokenizer:
        return self.characters if part.startswith("speller") and self.characters is not None else self.words

    def encode(self, records: Sequence[Tagged], limit: Limit | None) -> dict[str, list[Ids]]:
        names = ("words", "tags", "characters", "sizes") if self.features is None else (FEATURES, "tags")
        if self.features is None and self.characters is None:
            names = ("words", "tags", "subwords", "first")
        columns: dict[str, list[Ids]] = {name: [] for name in names}
        for record in records:
            places = list(range(len(record.words)))
            steps = None if self.features is None else self.standardise(record)
            for piece in limit.cut(places, record.place) if limit else [places]:
                columns["tags"].append(
                    [UNSEEN if record.tags is None else self.codec.label_id(record.tags[place]) for place in piece]
                )
                if steps is not None:
                    columns[FEATURES].append(steps[piece].reshape(-1))
                    continue
                words = [record.words[place] for place in piece]
                if self.characters is None:
                    for name, ids in cut_words(self.words, words).items():
                        columns[name].append(ids)
                    continue
                spellings = self.characters.encode_many(words)
                columns["words"].append(self.words.encode_words(words))
                columns["characters"].append([letter for spelling in spellings for letter in spelling])
                columns["sizes"].append([len(spelling) for spelling in spellings])
        return columns

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        if "subwords" in columns:
            lengths: NDArray[np.int64] = columns["subwords"].lengths
            return lengths
        return super().cost(columns)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> TaggedBatch:
        assert not packed, "a tagger takes padded batches"
        assert capacity is None
        if self.features is None:
            words, lengths = pad(examples.columns["words"], rows)
            if self.characters is None:
                (spellings, sizes), (spelled, _) = (pad(examples.columns[name], rows) for name in ("subwords", "first"))
            else:
                spellings, sizes, spelled = spell(examples, rows, words.shape)
        else:
            words, lengths = self.pad_features(examples, rows)
            spellings = sizes = spelled = torch.zeros(0, dtype=torch.int64)
        tags, _ = pad(examples.columns["tags"], rows, UNSEEN)
        gold = tags if self.scheme is None else torch.from_numpy(self.scheme.repair_rows(tags.numpy(), lengths.numpy()))
        return TaggedBatch(
            int((tags != UNSEEN).sum()),
            words,
            lengths,
            tags,
            spellings,
            sizes,
            spelled,
            legal=None if gold is tags else gold,
            partial=bool((gold == UNSEEN)[length_mask(lengths, words.size(1))].any()),
        )

    def distribution(self, model: nn.Module, batch: TaggedBatch) -> TagDistribution:
        """The probability that a model gives to the tags of a batch."""
        tagger: TaggingModel = cast("TaggingModel", model)
        return tagger.distribution(batch.words, batch.lengths, batch.spelling)

    def loss(self, model: nn.Module, batch: TaggedBatch, *, label_smoothing: float = 0.0) -> Loss:
        found = self.distribution(model, batch)
        total = found.loss(batch.gold(found), partial=batch.partial, label_smoothing=label_smoothing)
        return Loss(total, batch.count)

    def scores(self) -> TagScores:
        return TagScores(Confusion(self.codec.labels), unit="words", spans=SpanTally() if self.spans else None)

    def measure(
        self,
        model: nn.Module,
        batch: TaggedBatch,
        scores: TagScores,
        *,
        records: Sequence[Tagged],
    ) -> None:
        found = self.distribution(model, batch)
        best, real = found.best(), length_mask(batch.lengths, batch.words.size(1))
        loss = found.loss(batch.gold(found), partial=batch.partial)
        scores.add_decisions(batch.tags[real], best[real], Loss(loss, batch.count))
        scores.unseen.update(
            tag for record in records for tag in record.tags or () if self.codec.label_id(tag) == UNSEEN
        )
        if scores.spans is not None:
            for record, row in zip(records, best.tolist(), strict=True):
                gold = record.tags or ()
                scores.spans.add(gold, [self.codec.labels[number] for number in row[: len(gold)]])

    def locate(self, record: Tagged) -> Located:
        return Located.of_words(record.words)

    def states(self, model: nn.Module, records: Sequence[Tagged]) -> Tensor:
        if not isinstance(model, Tagger):
            return super().states(model, records)
        columns = {name: Ragged.from_lists(rows) for name, rows in self.encode(records, None).items()}
        examples = Examples(columns, self.cost(columns))
        batch = self.collate(examples, range(len(records))).to(next(model.parameters()).device)
        return model.encode(batch.words, batch.lengths, batch.spelling)

    def read_positions(self, model: Any, batch: TaggedBatch, record: Tagged) -> dict[str, tuple[str, ...]]:
        subwords = self.features is None and self.characters is None
        return {"encoder": read_tokens(self.words, batch.spelling.characters) if subwords else record.words}

    def baselines(
        self, train: Iterable[Tagged], parts: Mapping[str, Sequence[Tagged]], *, model: nn.Module, seed: int
    ) -> dict[str, Baselines]:
        return word_baselines(self.codec, train, parts, spans=self.spans)

    def record(self, source: Any) -> Tagged:
        """A sentence as a list of words, or as text: then punctuation at a word's ends is split off."""
        if isinstance(source, Steps):
            return Tagged(source.names, None, "", source)
        known = None if self.characters is None else self.words
        words = split_text(source, known) if isinstance(source, str) else [str(word) for word in source]
        return Tagged(tuple(words), None, place="")

    def predict(
        self,
        model: nn.Module,
        batch: TaggedBatch,
        *,
        records: Sequence[Tagged],
        decode: DecodeConfig,
    ) -> list[Tagging]:
        found = self.distribution(model, batch)
        numbers = found.best()
        best = found.log_probabilities().gather(2, numbers[..., None]).squeeze(2).exp()
        answers = []
        for record, row, shares in zip(records, numbers.tolist(), best.tolist(), strict=True):
            tags = tuple(self.codec.labels[number] for number in row[: len(record.words)])
            answers.append(Tagging(record.words, tags, tuple(shares[: len(tags)])))
        return answers

    @staticmethod
    def read_to_score(path: str | list[str], data: TaggedData, bad: BadLines) -> Iterator[Tagged]:
        return Tag.read(path, data, bad)

    def record_to_score(self, item: Any) -> Tagged:
        record = read_example(item, self.columns(self.data), "", {})
        assert isinstance(record, Tagged)
        if record.tags is None:
            raise DataError("has no tags to score", where=record.place or None, cure="give a tag for each word")
        for tag in record.tags:
            if self.codec.label_id(tag) == UNSEEN:
                what, near = f'the tag "{tag}" is not in the training data', did_you_mean(tag, self.codec.labels)
                raise DataError(what, where=record.place or None, cure=near)
        return record

    def score(
        self, model: nn.Module, batch: TaggedBatch, *, records: Sequence[Tagged], candidates: int = 0
    ) -> list[ScoredTags]:
        return score_tags(self.distribution(model, batch), batch.tags, records, self.codec.labels, candidates)

    def summarise_scored(self, tally: LossTally, count: int) -> dict[str, float]:
        return summarise_tags(tally, count, self.codec.labels)

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        if self.features is not None:
            return [name, *["probabilities"] * probabilities]
        return label_columns(self.codec.labels, name, probabilities=probabilities)
