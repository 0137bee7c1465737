"""Language model: the probability of each next token of a text. Perplexity, and texts that continue a prompt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from weft import limits
from weft.data import BadLines, Capacity, Columns, Examples, Limit, Text, read_stream, read_texts
from weft.decoding import NEVER_CONTINUED
from weft.errors import DataError
from weft.metrics import LossTally
from weft.models import (
    LANGUAGE_MODELS,
    AnyLanguageModel,
    DecoderSettings,
    LanguageModel,
    NgramConfig,
    build_language_model,
)
from weft.nn import Packing
from weft.settings import Length, OneOf
from weft.tasks.generation import Question, text_columns
from weft.tasks.length import passes
from weft.tasks.lessons import read_tokens
from weft.tasks.results import Numbers, Scores
from weft.tasks.scoring import Scored, scored
from weft.tasks.sections import DataConfig, Facts, Sections, StackPlace, Tree, written
from weft.tasks.shift import Expecting, count_unknown, predictions, shift, token_loss
from weft.tasks.states import pad_ids
from weft.tasks.task import Batch, Codec, Loss, Rows, Task
from weft.text import EOS, SOS, TextConfig, Tokenizer

NGRAM_MAX_LENGTH: Final = 4096
"""The greatest number of tokens in a row for an n-gram model, whose memory does not grow with the length."""


class TextData(DataConfig):
    """Plain text."""

    unit: Literal["line", "stream"] = "line"
    """line: each line is a text of its own; stream: the file is one text, cut into other pieces in every epoch."""
    max_length: Length = 256
    """The greatest number of tokens in a row of a batch."""
    overlong: Literal["error", "truncate", "split", "drop"] = "split"
    """The treatment of a longer training text; in evaluation it is always split, so that every token counts."""

    @property
    def running(self) -> bool:
        return self.unit == "stream"

    @property
    def in_a_row(self) -> bool:
        return True


@dataclass(frozen=True)
class TextBatch(Batch):
    """tokens (B, T) and lengths (B), expected tokens (M) and their places (M) as in `Shifted`, and the number of
    characters of the texts."""

    tokens: Tensor
    lengths: Tensor | Packing
    expected: Tensor
    places: Tensor | None
    characters: int


@dataclass
class LanguageScores(Scores):
    """Loss per token, and per character to compare models with different tokens."""

    unit: str
    vocabulary: int
    loss: LossTally = field(default_factory=LossTally)
    characters: int = 0

    def add(self, loss: Loss, batch: Expecting, characters: int) -> None:
        """Add the loss of a batch, and the characters that its tokens stand for."""
        self.loss.add(float(loss.total), loss.count, count_unknown(batch))
        self.characters += characters

    def sums(self) -> tuple[float, ...]:
        return *self.loss.sums(), self.characters

    def score(self, sums: Numbers) -> dict[str, float]:
        loss, characters = LossTally.of(sums[:2]), int(sums[2])
        metrics = {"loss": loss.loss, "perplexity": loss.perplexity}
        if characters:
            metrics["bits_per_character"] = loss.loss * loss.count / math.log(2) / characters
        return metrics

    def merge(self, other: LanguageScores) -> None:
        self.loss.merge(other.loss)
        self.characters += other.characters

    def details(self) -> Tree:
        return self.loss.details(unit=self.unit, vocabulary=self.vocabulary)


MODEL = OneOf(LANGUAGE_MODELS)


class LanguageModelling(Task):
    """Plain text to a language model."""

    name = "lm"
    summary = "plain text to a language model that scores and continues text"
    metric = "perplexity"
    metrics: tuple[str, ...] = ("loss", "perplexity", "bits_per_character")
    sections = Sections(TextData, TextConfig, Annotated[DecoderSettings | NgramConfig, MODEL], marks=0)
    data: TextData
    files = ("train.txt", "valid.txt", "test.txt")
    pipeline_tag = "text-generation"
    writes = scores_texts = continues = has_answer = True

    def __init__(self, codec: Codec, data: TextData) -> None:
        super().__init__(codec, data)
        self.tokenizer: Tokenizer = codec.tokenizers[""]

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        millions = facts.characters / 1e6
        kind = MODEL.kind_of(written(tree, "model"))
        width = 256 if millions < 2 else 512
        models: dict[str, Tree] = {
            "rnn": {"embedding": 256, "hidden": width, "dropout": 0.3},
            "conv": {"embedding": 256, "width": width, "dropout": 0.2},
            "transformer": {"width": width, "layers": 3 if millions < 2 else 6, "heads": width // 64, "dropout": 0.2},
            "ngram": {"order": limits.NGRAM_ORDER if written(tree, "text", "kind") == "char" else 5},
        }
        if facts.device == "cuda" and millions < 20:  # the many epochs on a GPU would overfit without it
            models["transformer"]["attention_dropout"] = 0.2
        # A GPU is fast enough for as many epochs as help; on a processor fewer must do.
        every = (60, 40, 20, 4) if facts.device == "cuda" else (30, 10, 5, 1)
        epochs = every[sum(millions >= limit for limit in (0.2, 2, 20))]
        batch = 1024 if millions < 2 else 2048 if millions < 20 else 4096
        train = {
            "epochs": passes(tree, facts.characters / 3, batch, epochs=epochs, between=(1, every[0]), updates=300),
            "batch_tokens": batch,
            "rate": {"rnn": 3e-3, "conv": 2e-3}.get(kind, 1e-3),
        }
        if kind == "transformer" and written(tree, "train", "optimizer") in (None, "adamw"):
            train |= {"weight_decay": 0.1, "beta2": 0.99}
        if kind == "ngram":  # it counts, and reads none of these settings
            train = {}
        return {
            "text": {"kind": "bpe", "size": 1000 if millions < 2 else 4000 if millions < 20 else 8000},
            "model": models.get(kind, {}),
            # A network is trained on pieces of texts; for counts a cut only loses the context of a few tokens.
            **({"data": {"max_length": NGRAM_MAX_LENGTH}} if kind == "ngram" else {}),
            "train": train,
            "decode": {"beam": 1, "sample": True, "temperature": 0.8, "top_p": 0.95, "max_length": 100},
        }

    @staticmethod
    def read(path: str | list[str], data: TextData, bad: BadLines) -> Iterator[Text]:
        return (read_texts if data.unit == "line" else read_stream)(path, bad=bad)

    @staticmethod
    def columns(data: TextData) -> Columns:
        return Columns(Text, "text", joined=data.unit == "stream", lines=True)

    @classmethod
    def learn(cls, records: Iterable[Text], text: TextConfig) -> Codec:
        return cls.learn_with(records, text, {})

    @classmethod
    def learn_with(cls, records: Iterable[Text], text: TextConfig, known: Mapping[str, Tokenizer]) -> Codec:
        return Codec({"": known.get("") or Tokenizer.learn((record.text for record in records), text)})

    @staticmethod
    def stacks(tree: Mapping[str, Any]) -> dict[str, StackPlace]:
        return {"decoder": StackPlace()}

    @staticmethod
    def build(model: DecoderSettings | NgramConfig, codec: Codec) -> AnyLanguageModel:
        return build_language_model(model, len(codec.tokenizers[""]))

    def limit(self, *, training: bool) -> Limit | None:
        overlong = self.data.overlong if training else "split"
        moving = training and self.data.running and overlong == "split"
        return Limit(self.data.max_length, overlong, overlap=1, moving=moving)

    def encode(self, records: Sequence[Text], limit: Limit | None) -> dict[str, list[list[int]]]:
        end = [] if self.data.running else [EOS]
        columns: dict[str, list[list[int]]] = {"tokens": [], "characters": []}
        for record, ids in zip(records, self.tokenizer.encode_many([record.text for record in records]), strict=True):
            whole = [SOS, *ids, *end]
            pieces = limit.cut(whole, record.place) if limit else [whole]
            columns["tokens"] += pieces
            # The first piece stands for all characters of the text, the end of the line included.
            columns["characters"] += [[0 if number else len(record.text) + len(end)] for number in range(len(pieces))]
        return columns

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        lengths: NDArray[np.int64] = columns["tokens"].lengths - 1  # the last token is only expected
        return lengths

    def record_of_row(self, examples: Examples) -> NDArray[np.int64]:
        # Only the first piece of a text has a count of characters, that of the whole text.
        characters = examples.columns["characters"].join(range(len(examples)))
        return np.asarray(np.cumsum(np.asarray(characters) > 0) - 1, dtype=np.int64)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> TextBatch:
        # Texts that are cut anew in every epoch have no count of characters; only evaluation needs one.
        characters = int(examples.columns["characters"].join(rows).sum()) if "characters" in examples.columns else 0
        # Each row without its last token is read; without its first it is what is expected.
        shifted = shift(examples.columns["tokens"], rows, packed=packed, capacity=capacity and capacity.side(0))
        return TextBatch(predictions(examples.columns["tokens"], rows), *shifted, characters)

    def loss(self, model: nn.Module, batch: TextBatch, *, label_smoothing: float = 0.0) -> Loss:
        return self.forced_loss(model, batch, truth=1.0, label_smoothing=label_smoothing)

    def forced_loss(self, model: nn.Module, batch: TextBatch, *, truth: float, label_smoothing: float = 0.0) -> Loss:
        """The loss where the model reads a true token with probability `truth`, and else its own prediction: the sum of
        the cross-entropies of the expected tokens, and their number."""
        assert isinstance(model, AnyLanguageModel)
        hidden = model(batch.tokens, batch.lengths, truth=truth)
        return token_loss(model, hidden, batch, label_smoothing=label_smoothing)

    def scores(self) -> LanguageScores:
        return LanguageScores(self.tokenizer.unit, len(self.tokenizer))

    def measure(
        self,
        model: nn.Module,
        batch: TextBatch,
        scores: LanguageScores,
        *,
        records: Sequence[Text],
    ) -> None:
        scores.add(self.loss(model, batch), batch, batch.characters)

    def measure_running(self, scores: LanguageScores, losses: Iterable[tuple[Loss, Any]], examples: Examples) -> None:
        for loss, batch in losses:
            scores.add(loss, batch, 0)
        scores.characters += int(examples.columns["characters"].flat(0, len(examples)).sum())

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return text_columns(name, n_best=n_best, probabilities=probabilities)

    def question(self, model: Any, batch: TextBatch, *, records: Sequence[Text]) -> Question:
        typed = [record.text for record in records]
        prompts = self.tokenizer.encode_many(typed)
        return Question(self.tokenizer, None, prompts=prompts, typed=typed, forbid=NEVER_CONTINUED)

    @staticmethod
    def read_to_score(path: str | list[str], data: TextData, bad: BadLines) -> Iterator[Text]:
        return read_texts(path, bad=bad)  # also of a run that reads a file as one text

    def record_to_score(self, item: Any) -> Text:
        if isinstance(item, Text):
            return item
        if not isinstance(item, str):
            raise DataError(f"{item!r} is not what a run of lm can score", cure="give the text alone")
        return Text(item)

    @property
    def leading_tokens(self) -> int:
        return 1

    def states(self, model: nn.Module, records: Sequence[Text]) -> Tensor:
        if not isinstance(model, LanguageModel):
            return super().states(model, records)
        rows = self.tokenizer.encode_many([record.text for record in records])
        tokens, lengths = pad_ids([[SOS, *row] for row in rows], next(model.parameters()).device)
        hidden: Tensor = model(tokens, lengths)
        return hidden[:, self.leading_tokens :]

    def read_positions(self, model: Any, batch: TextBatch, record: Text) -> dict[str, tuple[str, ...]]:
        return {"decoder": read_tokens(self.tokenizer, batch.tokens)}

    def score(
        self, model: nn.Module, batch: TextBatch, *, records: Sequence[Text], candidates: int = 0
    ) -> list[Scored]:
        assert isinstance(model, AnyLanguageModel)
        assert isinstance(batch.lengths, Tensor)
        texts, lengths = [(None, record.text) for record in records], batch.lengths
        hidden = model(batch.tokens, lengths)
        return scored(model, self.tokenizer, hidden, batch.expected, lengths, texts=texts, candidates=candidates)
