"""The common part of tasks that read a source and write a target: loss, metrics and scores of targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from weft.data import FEW_WORDS, Pair
from weft.models import PairModel
from weft.nn import Packing
from weft.tasks.generation import Generation, text_columns
from weft.tasks.lessons import read_tokens
from weft.tasks.pair_scores import TranslationScores
from weft.tasks.scoring import Scored, scored
from weft.tasks.shift import count_unknown, token_loss
from weft.tasks.task import Batch, Codec, Loss, Task


@dataclass(frozen=True)
class PairBatch(Batch):
    """source (B, S) ends with the end token, or is pictures (B, H, W, C) or features (B, S, D); target (B, T) starts
    with the start token; the token expected after each token of the target (M) and its place (M), as in `Shifted`."""

    source: Tensor
    source_lengths: Tensor | Packing
    target: Tensor
    target_lengths: Tensor | Packing
    expected: Tensor
    places: Tensor | None


class PairTask(Task):
    """A task whose records are pairs and whose models are pair models; it fills in how a source is read."""

    metrics: tuple[str, ...] = ("bleu", "chrf", "exact", "wer", "cer", "loss", "perplexity")
    writes = scores_texts = measures_answers = True

    def __init__(self, codec: Codec, data: Any) -> None:
        super().__init__(codec, data)
        self.target = codec.side("target")

    def loss(self, model: nn.Module, batch: PairBatch, *, label_smoothing: float = 0.0) -> Loss:
        return self.forced_loss(model, batch, truth=1.0, label_smoothing=label_smoothing)

    def forced_loss(self, model: nn.Module, batch: PairBatch, *, truth: float, label_smoothing: float = 0.0) -> Loss:
        """The loss where the model reads a true token with probability `truth`, and else its own prediction."""
        assert isinstance(model, PairModel)
        hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths, truth=truth)
        return token_loss(model, hidden, batch, label_smoothing=label_smoothing)

    def scores(self) -> TranslationScores:
        items = self.target.kind == "word" and len(self.target) <= FEW_WORDS
        return TranslationScores(self.target.unit, len(self.target), items=items)

    def measure(
        self,
        model: nn.Module,
        batch: PairBatch,
        scores: TranslationScores,
        *,
        records: Sequence[Pair],
    ) -> None:
        loss = self.loss(model, batch)
        scores.loss.add(float(loss.total), loss.count, count_unknown(batch))

    def add_answers(self, scores: TranslationScores, records: Sequence[Pair], answers: Sequence[Generation]) -> None:
        for pair, answer in zip(records, answers, strict=True):
            scores.add_text(pair, answer.text)

    def answer_columns(self, name: str, *, n_best: int = 1, probabilities: bool = False) -> list[str]:
        return text_columns(name, n_best=n_best, probabilities=probabilities)

    def source_pieces(self, model: PairModel, batch: PairBatch) -> tuple[str, ...]:
        """The source of a batch of one record, in readable tokens or positions."""
        (found,) = self.source_tokens(model, batch) or [()]
        return found

    def read_positions(self, model: PairModel, batch: PairBatch, record: Pair) -> dict[str, tuple[str, ...]]:
        source, target = self.source_pieces(model, batch), read_tokens(self.target, batch.target)
        return {"encoder": source, "decoder": target} if model.has_encoder else {"decoder": (*source, *target)}

    def score(
        self, model: nn.Module, batch: PairBatch, *, records: Sequence[Pair], candidates: int = 0
    ) -> list[Scored]:
        assert isinstance(model, PairModel)
        assert isinstance(batch.target_lengths, Tensor)
        hidden = model(batch.source, batch.source_lengths, batch.target, batch.target_lengths)
        texts = [(pair.title, pair.target or "") for pair in records]
        lengths = batch.target_lengths
        return scored(model, self.target, hidden, batch.expected, lengths, texts=texts, candidates=candidates)
