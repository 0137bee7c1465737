"""Mask: the probability of hidden tokens of a text, given all others. Accuracy, and texts whose gaps are filled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from weft.data import Capacity, Columns, Examples, Limit, Pair, Text
from weft.decoding import DecodeConfig
from weft.decoding.score import TokenScores, score_tokens
from weft.errors import DataError, counted
from weft.metrics import LossTally
from weft.models import MASKED_MODELS, MaskedLanguageModel, MaskedModelSettings
from weft.nn import Packing
from weft.settings import OneOf, TableError
from weft.tasks.filling import CANDIDATES, Filled, Filler
from weft.tasks.length import passes
from weft.tasks.lessons import Lesson
from weft.tasks.lm import LanguageModelling, TextData
from weft.tasks.masking import Chance, MaskConfig, Masking
from weft.tasks.results import Numbers, Scores
from weft.tasks.scoring import Scored, scored_text
from weft.tasks.sections import Facts, Sections, StackPlace, Tree, written
from weft.tasks.shift import IGNORED, count_unknown, lay_tokens, token_loss
from weft.tasks.states import pad_ids
from weft.tasks.task import Batch, Codec, Loss, Rows, Task
from weft.text import MASK, SPECIALS, UNK, FramedText, Tokenizer, frame_of
from weft.text.gaps import encode_gaps, fill_text

FILLERS: Final = 5
"""Candidates for a gap by default."""

SCORED_TOKENS: Final = 8192
"""Tokens of the copies of texts, each with another token hidden, that are read together."""


class MaskData(TextData):
    """Plain text, and how its tokens are hidden."""

    mask: MaskConfig = Field(default_factory=MaskConfig)


@dataclass(frozen=True)
class MaskedBatch(Batch):
    """tokens (B, T) and lengths (B), or packed; the tokens that were hidden (M), and their places (M) among all B · T.
    Places that only fill the capacity of the batch expect nothing."""

    tokens: Tensor
    lengths: Tensor | Packing
    expected: Tensor
    places: Tensor


@dataclass
class MaskedScores(Scores):
    """Loss and right answers over hidden tokens."""

    unit: str
    vocabulary: int
    loss: LossTally = field(default_factory=LossTally)
    right: int = 0

    def sums(self) -> tuple[float, ...]:
        return *self.loss.sums(), self.right

    def score(self, sums: Numbers) -> dict[str, float]:
        loss = LossTally.of(sums[:2])
        return {"loss": loss.loss, "perplexity": loss.perplexity, "accuracy": float(sums[2]) / loss.count}

    def merge(self, other: MaskedScores) -> None:
        self.loss.merge(other.loss)
        self.right += other.right

    def details(self) -> Tree:
        return self.loss.details(unit=self.unit, vocabulary=self.vocabulary)


MODEL = OneOf(MASKED_MODELS)


class Mask(Task):
    """Plain text to a masked language model."""

    name = "mask"
    summary = "plain text to a masked language model, to fill gaps and to start other models from"
    metric = "perplexity"
    metrics: tuple[str, ...] = ("loss", "perplexity", "accuracy")
    sections = Sections(MaskData, FramedText, Annotated[MaskedModelSettings, MODEL])
    data: MaskData
    files = ("train.txt", "valid.txt", "test.txt")
    pipeline_tag = "fill-mask"
    scores_texts = True
    answer_options = MappingProxyType({"n_best": FILLERS})

    def __init__(self, codec: Codec, data: MaskData) -> None:
        super().__init__(codec, data)
        self.tokenizer: Tokenizer = codec.tokenizers[""]
        self.frame = frame_of(self.tokenizer.config)
        self.masking = Masking(data.mask, self.tokenizer)

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        millions = facts.characters / 1e6
        kind = MODEL.kind_of(written(tree, "model"))
        width = 256 if millions < 20 else 512
        models: dict[str, Tree] = {
            "rnn": {"embedding": 256, "hidden": width, "dropout": 0.2},
            "transformer": {"width": width, "layers": 4, "heads": width // 64, "dropout": 0.1},
        }
        # Few tokens of a text are predicted in an epoch, so that more epochs help than for a language model.
        every = (100, 60, 30, 10) if facts.device == "cuda" else (40, 15, 8, 2)
        epochs = every[sum(millions >= limit for limit in (0.2, 2, 20))]
        batch = 2048 if millions < 2 else 4096
        train = {
            "epochs": passes(tree, facts.characters / 3, batch, epochs=epochs, between=(1, every[0]), updates=300),
            "batch_tokens": batch,
            "rate": 3e-3 if kind == "rnn" else 1e-3,
        }
        if kind == "transformer" and written(tree, "train", "optimizer") in (None, "adamw"):
            train |= {"beta2": 0.98}
        text = {"kind": "bpe", "size": 1000 if millions < 2 else 4000 if millions < 20 else 8000}
        return {"text": text, "model": models.get(kind, {}), "train": train}

    @classmethod
    def row_tokens(cls, config: Any) -> int:
        tokens: int = config.data.max_length + frame_of(config.text).marks(pairs=False)
        return tokens

    @classmethod
    def conflicts(cls, config: Any) -> Iterator[TableError]:
        yield from super().conflicts(config)
        if config.data.mask.unit == "word" and config.text.kind == "word":
            what = 'is the same as "token" with text.kind = "word"'
            yield TableError(what, where='data.mask.unit = "word"', cure="remove it")

    read = staticmethod(LanguageModelling.read)
    learn = staticmethod(LanguageModelling.learn)
    learn_with = staticmethod(LanguageModelling.learn_with)

    @staticmethod
    def columns(data: MaskData) -> Columns:
        return Columns(Text, "text", joined=data.unit == "stream", prediction="filled")

    @staticmethod
    def stacks(tree: Mapping[str, Any]) -> dict[str, StackPlace]:
        return {"encoder": StackPlace()}

    @staticmethod
    def build(model: MaskedModelSettings, codec: Codec) -> MaskedLanguageModel:
        return MaskedLanguageModel(model, len(codec.tokenizers[""]))

    def limit(self, *, training: bool) -> Limit | None:
        overlong = self.data.overlong if training else "split"
        return Limit(self.data.max_length, overlong, moving=training and self.data.running and overlong == "split")

    def encode(self, records: Sequence[Text], limit: Limit | None) -> dict[str, list[list[int]]]:
        columns: dict[str, list[list[int]]] = {"tokens": [], "first": []}
        for record, ids in zip(records, self.tokenizer.encode_many([record.text for record in records]), strict=True):
            pieces = limit.cut(ids, record.place) if limit else [ids]
            columns["tokens"] += pieces if self.data.running else map(self.frame.around, pieces)
            columns["first"] += [[0 if number else 1] for number in range(len(pieces))]
        return columns

    def record_of_row(self, examples: Examples) -> NDArray[np.int64]:
        first = examples.columns["first"].join(range(len(examples)))
        return np.asarray(np.cumsum(first) - 1, dtype=np.int64)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> MaskedBatch:
        numbers = np.asarray(rows, dtype=np.int64)
        column = examples.columns["tokens"]
        flat, lengths = column.join(numbers).astype(np.int64), column.lengths[numbers]
        read, chosen = self.masking(flat, lengths, numbers, Chance(*examples.drawn))
        side = capacity.side(0) if packed and capacity else None
        tokens, laid = lay_tokens(read, lengths, packed=packed, capacity=side)
        places, expected = np.flatnonzero(chosen), flat[chosen]
        count = len(expected)
        if isinstance(laid, Tensor):
            places = np.flatnonzero(np.arange(tokens.size(1)) < lengths[:, None])[places]
        elif side is not None:  # batches of one capacity have one shape, except for very unlikely masks
            likely = math.ceil(self.data.mask.share * side.tokens) + side.rows
            fill = max(0, (likely if count <= likely else side.tokens) - count)
            places, expected = np.pad(places, (0, fill)), np.pad(expected, (0, fill), constant_values=IGNORED)
        return MaskedBatch(
            count, tokens, laid, torch.from_numpy(expected), torch.from_numpy(places), reads=int(lengths.sum())
        )

    def loss(self, model: nn.Module, batch: MaskedBatch, *, label_smoothing: float = 0.0) -> Loss:
        assert isinstance(model, MaskedLanguageModel)
        states = model(batch.tokens, batch.lengths)
        return token_loss(model, states, batch, label_smoothing=label_smoothing)

    def scores(self) -> MaskedScores:
        return MaskedScores(self.tokenizer.unit, len(self.tokenizer))

    def measure(self, model: nn.Module, batch: MaskedBatch, scores: MaskedScores, *, records: Sequence[Text]) -> None:
        assert isinstance(model, MaskedLanguageModel)
        if not batch.count:
            return
        hidden = model(batch.tokens, batch.lengths).flatten(0, 1).index_select(0, batch.places)
        found = score_tokens(model.output, hidden, batch.expected)
        scores.loss.add(-float(found.log_probabilities.double().sum()), batch.count, count_unknown(batch))
        scores.right += int((found.ranks == 1).sum())

    def predict(
        self, model: nn.Module, batch: MaskedBatch, *, records: Sequence[Text], decode: DecodeConfig
    ) -> list[Filled]:
        assert isinstance(model, MaskedLanguageModel)
        rows = [encode_gaps(self.tokenizer, record.text) for record in records]
        rows = [self.frame.around(row) for row in rows]
        tokens, lengths = pad_ids(rows, next(model.parameters()).device)
        rows_of, places = (tokens == MASK).nonzero(as_tuple=True)
        shares = model.output(model(tokens, lengths)[rows_of, places]).float().softmax(-1)
        shares[:, : len(SPECIALS)] = -1.0  # no special token stands in a text
        best = shares.topk(min(decode.n_best, shares.size(-1) - len(SPECIALS)))
        found: list[list[tuple[Filler, ...]]] = [[] for _ in records]
        fillers: list[list[int]] = [[] for _ in records]
        for row, place, values, ids in zip(*(part.tolist() for part in (rows_of, places, *best)), strict=True):
            tokens_of = [self.tokenizer.pieces([number])[0].replace("▁", " ").strip() or "▁" for number in ids]
            found[row].append(tuple(map(Filler, tokens_of, values, map(self.tokenizer.token, ids))))
            rows[row][place] = ids[0]
            fillers[row].append(ids[0])
        # A text whose words are not all in the vocabulary keeps them; decoded, they would be unknown.
        texts = [
            fill_text(self.tokenizer, record.text, chosen) if UNK in row or not chosen else self.tokenizer.decode(row)
            for record, row, chosen in zip(records, rows, fillers, strict=True)
        ]
        return [
            Filled(record.text, text, tuple(gaps)) for record, text, gaps in zip(records, texts, found, strict=True)
        ]

    def answered(self, record: Text, answer: Filled | str) -> Pair:
        """The text with its gaps as the source, the tokens of the gaps as the target."""
        fillers = [gap[0].entry for gap in answer.gaps] if isinstance(answer, Filled) else answer.split()
        return Pair(record.text, " ".join(fillers))

    def lesson(self, model: Any, record: Pair) -> Lesson:
        """The text with its gaps; every token is expected where it has none."""
        ids, fillers = encode_gaps(self.tokenizer, record.source), (record.target or "").split()
        gaps = [place for place, token in enumerate(ids) if token == MASK]
        if len(fillers) != len(gaps):
            what = f"{counted(len(fillers), 'token')} for {counted(len(gaps), 'gap')}"
            raise DataError(what, where="target", cure="give a token of the vocabulary for each gap, between blanks")
        expected = list(ids)
        for place, filler in zip(gaps, fillers, strict=True):
            expected[place] = self._filler(filler)
        row, first = torch.tensor([self.frame.around(ids)]), len(self.frame.start)
        chosen = torch.tensor(gaps or range(len(ids)), dtype=torch.long)
        wanted = torch.tensor(expected, dtype=torch.long)[chosen]
        batch = MaskedBatch(len(chosen), row, torch.tensor([row.size(1)]), wanted, chosen + first, reads=row.size(1))
        batch = batch.to(next(model.parameters()).device)
        return Lesson(record, batch, self.read_positions(model, batch, record))

    def _filler(self, token: str) -> int:
        """The id of a token as the vocabulary spells it, or of a word that is one token."""
        ids = [self.tokenizer.id(token)] if self.tokenizer.id(token) != UNK else self.tokenizer.encode(f" {token}")
        if len(ids) != 1:
            raise DataError(f'"{token}" is not one token', where="target", cure="give one token for each gap")
        return ids[0]

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return [name, CANDIDATES]

    read_to_score = staticmethod(LanguageModelling.read_to_score)

    def record_to_score(self, item: Any) -> Text:
        if isinstance(item, Text):
            return item
        if not isinstance(item, str):
            raise DataError(f"{item!r} is not what a run of mask can score", cure="give the text alone")
        return Text(item)

    def score(
        self, model: nn.Module, batch: MaskedBatch, *, records: Sequence[Text], candidates: int = 0
    ) -> list[Scored]:
        """The pseudo-log-likelihood (Salazar et al., 2020): each token hidden in turn, given all others."""
        assert isinstance(model, MaskedLanguageModel)
        return [self._score(model, record.text, candidates) for record in records]

    def _score(self, model: MaskedLanguageModel, text: str, candidates: int) -> Scored:
        device = next(model.parameters()).device
        ids = torch.tensor(self.tokenizer.encode(text), dtype=torch.long, device=device)
        row, begin = torch.tensor(self.frame.around(ids.tolist()), device=device), len(self.frame.start)
        at_once = max(1, SCORED_TOKENS // len(row))
        found: list[TokenScores] = []
        for places in torch.split(torch.arange(len(ids), device=device) + begin, at_once) if len(ids) else ():
            copy = torch.arange(len(places), device=device)
            copies = row.repeat(len(places), 1)
            copies[copy, places] = MASK
            hidden = model(copies, torch.full((len(places),), len(row), device=device))
            found.append(score_tokens(model.output, hidden[copy, places], row[places], candidates=candidates))
        none = [torch.zeros(0)] * len(TokenScores._fields)
        whole = TokenScores(*([torch.cat(parts) for parts in zip(*found, strict=True)] or none))
        return scored_text(self.tokenizer, ids, whole, source=None, text=text)

    def summarise_scored(self, tally: LossTally, count: int) -> dict[str, float]:
        own = {"log_probability": "log_likelihood", "log_probability_per_token": "log_likelihood_per_token"}
        names = {name: f"pseudo_{new}" for name, new in {**own, "perplexity": "perplexity"}.items()}
        return {names.get(name, name): value for name, value in super().summarise_scored(tally, count).items()}

    @property
    def leading_tokens(self) -> int:
        return len(self.frame.start)

    def states(self, model: nn.Module, records: Sequence[Text]) -> Tensor:
        assert isinstance(model, MaskedLanguageModel)
        rows = self.tokenizer.encode_many([record.text for record in records])
        found: Tensor = model(*pad_ids([self.frame.around(row) for row in rows], next(model.parameters()).device))
        return found[:, self.leading_tokens :]
