"""Translate: any sequence to any other. Pairs in, text out, BLEU and chrF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weft.data import BadLines, Capacity, Columns, Examples, Limit, Pair, group_references, read_pairs
from weft.decoding.search import NEVER
from weft.errors import ConfigError, DataError
from weft.models import DECODERS, ENCODERS, PREFIX_DECODERS, TRANSLATORS, PairModel, PairSettings
from weft.settings import OneOf, TableError
from weft.tasks.generation import Question
from weft.tasks.languages import Languages, learn_languages
from weft.tasks.length import passes
from weft.tasks.pair_settings import PairData, PairText
from weft.tasks.pair_task import PairBatch, PairTask
from weft.tasks.pairs import choose_metric, choose_tokens, tokens_per_pair
from weft.tasks.sections import Facts, Sections, StackPlace, Tree, written
from weft.tasks.shift import lay, predictions, shift
from weft.tasks.states import pad_ids
from weft.tasks.task import Codec, Rows
from weft.text import EOS, SOS, TextConfig, Tokenizer

MODEL = OneOf(TRANSLATORS)


class Translate(PairTask):
    """Sentence pairs to a translator."""

    name = "translate"
    summary = "sentence pairs to a translator (or any other sequence to sequence)"
    metric = "bleu"
    sections = Sections(PairData, PairText, Annotated[PairSettings, MODEL])
    data: PairData
    pipeline_tag = "translation"
    spare: ClassVar[int] = 20
    """Tokens that a target may have besides `longer` for each token of the source."""

    def __init__(self, codec: Codec, data: PairData) -> None:
        super().__init__(codec, data)
        self.source = codec.side("source")
        self.languages = Languages(codec.labels, first=len(self.source))

    @staticmethod
    def reason(facts: Facts) -> str:
        return choose_metric(facts.target).reason

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        millions = facts.characters / 1e6  # of the source side
        size = 128 if millions < 1.5 else 256
        words = choose_metric(facts.target).metric == "exact"
        # Inflected forms and phones follow rules; a model with few examples must not learn them by heart.
        dropout = 0.1 if facts.examples > 20_000 else 0.3 if words else 0.2
        models: dict[str, Tree] = {
            "rnn": {"embedding": size, "hidden": size, "dropout": dropout},
            "transformer": {"width": size, "dropout": dropout},
        }
        if MODEL.kind_of(written(tree, "model")) == "prefix":
            kinds = {"decoder": OneOf(PREFIX_DECODERS).kind_of(written(tree, "model", "decoder"))}
            tree = {**tree, "text": {**(written(tree, "text") or {}), "shared": True}}
        else:
            kinds = {
                "encoder": OneOf(ENCODERS).kind_of(written(tree, "model", "encoder")),
                "decoder": OneOf(DECODERS).kind_of(written(tree, "model", "decoder")),
            }
        rate = 4e-3 if millions < 1.5 else 2e-3
        subwords = {"kind": "bpe", "size": 1000 if millions < 1.5 else 4000 if millions < 10 else 8000}
        text = choose_tokens(facts, tree, subwords)
        batch = 1024 if millions < 1.5 else 2048 if millions < 10 else 4096
        tokens = facts.examples * tokens_per_pair(facts, text)
        updates = min(3000 if words else 1500, max(700, 13 * facts.examples // 5))
        return {
            "text": text | ({"shared": True} if "encoder" not in kinds else {}),
            "model": {side: models.get(kind, {}) for side, kind in kinds.items()},
            "train": {
                "metric": choose_metric(facts.target).metric,
                "epochs": passes(
                    tree, tokens, batch, epochs=130_000 / facts.examples, between=(4, 60), updates=updates
                ),
                "batch_tokens": batch,
                "rate": rate if set(kinds.values()) == {"rnn"} else min(rate, 1e-3),
                # Smoothing gives every symbol a probability. The right word is then less likely than it should be, and
                # a beam finds others.
                "label_smoothing": 0.0 if words else 0.1,
                # The loss of words is lowest early, but exact matches are most frequent after the rate has fallen.
                **({"patience": 20} if words else {}),
            },
            "decode": {"beam": 4, "length_penalty": 1.0},
        }

    @staticmethod
    def read(path: str | list[str], data: PairData, bad: BadLines) -> Iterator[Pair]:
        return read_pairs(
            path,
            source=data.source,
            target=data.target,
            language=data.language,
            many=data.references == "many",
            layout=data.layout,
            bad=bad,
        )

    @staticmethod
    def columns(data: PairData) -> Columns:
        many = data.references == "many"
        return Columns(Pair, data.source, data.target, language=data.language, many=many)

    @classmethod
    def row_tokens(cls, config: Any) -> int:
        most = config.data.max_length + cls.sections.marks
        found: int = config.model.row_tokens(most + (config.data.language is not None), most)
        return found

    @classmethod
    def conflicts(cls, config: Any) -> Iterator[TableError]:
        model, decode, target = config.model, config.decode, config.text.side(config.text.target)
        apart = "shared" in config.text.model_fields_set and not config.text.shared  # the default is that of `defaults`
        if MODEL.kind_of(model) == "prefix" and apart:
            what = 'model.kind = "prefix" reads source and target with one vocabulary'
            yield TableError(what, where="text.shared = false", cure="set it to true")
        if decode.copy_unknown and not model.attends:
            what = "needs a decoder with attention, which shows the source word of an unknown one"
            yield TableError(
                what,
                where="decode.copy_unknown = true",
                cure='use an encoder, and a decoder with context = "after" or a transformer',
            )
        if decode.copy_unknown and target.kind != "word":
            what = f'copies nothing: text.kind = "{target.kind}" has no unknown words'
            yield TableError(what, where="decode.copy_unknown = true", cure='remove it, or use text.kind = "word"')

    @staticmethod
    def roles(text: PairText) -> dict[str, TextConfig]:
        return {"": text} if text.shared else {"source": text.side(text.source), "target": text.side(text.target)}

    @classmethod
    def learn(cls, records: Iterable[Pair], text: PairText) -> Codec:
        return cls.learn_with(records, text, {})

    @classmethod
    def learn_with(cls, records: Iterable[Pair], text: PairText, known: Mapping[str, Tokenizer]) -> Codec:
        texts = {
            "": (side for pair in records for side in (pair.source, pair.target or "")),
            "source": (pair.source for pair in records),
            "target": (pair.target or "" for pair in records),
        }
        tokenizers = {
            role: known.get(role) or Tokenizer.learn(texts[role], side) for role, side in cls.roles(text).items()
        }
        return Codec(tokenizers, learn_languages(records))

    @staticmethod
    def stacks(tree: Mapping[str, Any]) -> dict[str, StackPlace]:
        if MODEL.kind_of(written(tree, "model")) == "prefix":
            return {"decoder": StackPlace("model.decoder")}
        if written(tree, "text", "shared"):
            return {side: StackPlace(f"model.{side}") for side in ("encoder", "decoder")}
        places = {"encoder": "source", "decoder": "target"}
        return {side: StackPlace(f"model.{side}", f"text.{role}", role) for side, role in places.items()}

    @staticmethod
    def build(model: PairSettings, codec: Codec) -> PairModel:
        source, target = codec.side("source"), codec.side("target")
        # One table for both sides has the tokens of languages on the target side too, where they are never written.
        more = len(codec.labels)
        shared = source is target
        return model.build(len(source) + more, len(target) + more * shared, shared=shared)

    def with_language(self, record: Any, language: str) -> Pair:
        assert isinstance(record, Pair)
        return replace(record, language=self.languages.checked(language))

    @staticmethod
    def gather(records: Iterable[Pair], data: PairData, *, origins: int | None = None) -> Iterable[Pair]:
        return group_references(records) if data.references == "many" else records

    def tokenizer_of(self, part: str) -> Tokenizer:
        return self.source if part.startswith("encoder") else self.target

    def encode(self, records: Sequence[Pair], limit: Limit | None) -> dict[str, list[list[int]]]:
        columns: dict[str, list[list[int]]] = {"source": [], "target": []}
        sources = self.source.encode_many([pair.source for pair in records])
        targets = self.target.encode_many([pair.target or "" for pair in records])
        for pair, source, target in zip(records, sources, targets, strict=True):
            if limit is not None:
                cut_source, cut_target = limit.cut(source, pair.place), limit.cut(target, pair.place)
                if not cut_source or not cut_target:
                    continue
                source, target = cut_source[0], cut_target[0]
            columns["source"].append([*self.languages.tokens(pair), *source, EOS])
            columns["target"].append([SOS, *target, EOS])
        return columns

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        # The last token of a target is expected and never read.
        return np.stack([columns["source"].lengths, columns["target"].lengths - 1], axis=1)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> PairBatch:
        target = shift(examples.columns["target"], rows, packed=packed, capacity=capacity and capacity.side(1))
        tokens, lengths = lay(examples.columns["source"], rows, packed=packed, capacity=capacity and capacity.side(0))
        return PairBatch(predictions(examples.columns["target"], rows), tokens, lengths, *target)

    def states(self, model: nn.Module, records: Sequence[Pair]) -> Tensor:
        assert isinstance(model, PairModel)
        rows = self.source.encode_many([pair.source for pair in records])
        tokens, lengths = pad_ids([[*row, EOS] for row in rows], next(model.parameters()).device)
        return model.source_states(tokens, lengths)

    def question(self, model: PairModel, batch: PairBatch, *, records: Sequence[Pair]) -> Question:
        assert isinstance(batch.source_lengths, Tensor)
        memory, sources = model.read(batch.source, batch.source_lengths)
        limits = (self.longer * batch.source_lengths + self.spare).tolist()
        forbid = (*NEVER, *(self.languages.ids if self.source is self.target else ()))
        return Question(self.target, memory, sources=sources, limits=limits, forbid=forbid)

    @property
    def longer(self) -> int:
        """The tokens that a target may have for each token of the source, besides `spare` ones: a few words may command
        many actions, and a subword may have several characters."""
        return 8 if self.source.kind == "word" else 6 if self.target.kind == "char" != self.source.kind else 2

    def source_tokens(self, model: PairModel, batch: PairBatch) -> list[tuple[str, ...]]:
        assert isinstance(batch.source_lengths, Tensor)
        rows = zip(batch.source.tolist(), batch.source_lengths.tolist(), strict=True)
        return [tuple(map(self._source_token, row[:length])) for row, length in rows]

    def _source_token(self, index: int) -> str:
        return self.languages.name(index) if index in self.languages.ids else self.source.token(index)

    def source_pieces(self, model: PairModel, batch: PairBatch) -> tuple[str, ...]:
        ids = batch.source[0].tolist()
        names = [self.languages.name(index) for index in ids if index in self.languages.ids]
        return (*names, *self.source.pieces(ids[len(names) :]))

    def source_words(self, records: Sequence[Pair]) -> list[tuple[str, ...]]:
        if self.target.kind != "word":
            what = f'copies nothing: text.kind = "{self.target.kind}" has no unknown words'
            raise ConfigError(what, where="copy_unknown", cure="leave it out")
        first = [""] * bool(self.languages)
        return [(*first, *self.source.words(pair.source), "") for pair in records]

    @staticmethod
    def read_to_score(path: str | list[str], data: PairData, bad: BadLines) -> Iterator[Pair]:
        return Translate.read(path, data, bad)

    def record_to_score(self, item: Any) -> Pair:
        if isinstance(item, Pair):
            return item
        if not isinstance(item, tuple) or len(item) != 2 + bool(self.languages):
            cure = f"give (source, target{', language' * bool(self.languages)})"
            raise DataError(f"{item!r} is not what a run of translate can score", cure=cure)
        return Pair(item[0], item[1], language=item[2] if self.languages else None)
