"""The contenders of the training benchmark: weft's own loop, and Hugging Face transformers as an expert uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from importlib import import_module
from typing import Any, Final, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from weft.bench.training.case import TrainingCase
from weft.bench.training.sentences import Padding, Sentences
from weft.config import Config, validate
from weft.data import pad
from weft.models import TranslatorConfig
from weft.run.learner import Learner, build_batches
from weft.run.report import count_parameters
from weft.text import EOS, PAD, SOS
from weft.training import compile_model, precise

RATE: Final = 1e-4
"""A small rate, so that training on random words stays finite; it does not change the cost of an update."""

CLIP: Final = 1.0

WEIGHT_DECAY: Final = 0.01

IGNORED: Final = -100
"""The label that transformers excludes from the loss."""

TOTAL_UPDATES: Final = 1_000_000
"""The length of the training as weft sees it: long enough for every preparation that pays off in a long run."""

HostBatch: TypeAlias = dict[str, Tensor]


class Trainer(Protocol):
    """A model with its optimizer and its batches."""

    parameters: int
    padding: Padding
    notes: tuple[str, ...]

    def ready(self, updates: int) -> None:
        """Prepare that many batches, outside the measured time."""
        ...

    def update(self) -> int:
        """Forward, backward, clip, step; returns the number of real target tokens."""
        ...

    def close(self) -> None: ...


class WeftTrainer:
    """The loop of `weft train` over weft's own batches; making them is measured too."""

    def __init__(self, case: TrainingCase, sentences: Sentences) -> None:
        config = weft_config(case)
        model = build_translator(case).to(case.device)
        self.parameters, self.padding = count_parameters(model), sentences.task.padding
        self.notes = compile_model(model, case.compile, device=case.device, updates=TOTAL_UPDATES).notes
        examples = sentences.examples
        batches = build_batches(model, examples, batch_tokens=sentences.batch_tokens)
        self._steps = Learner(sentences.task, model, examples, batches, config=config, total=TOTAL_UPDATES).steps()

    def ready(self, updates: int) -> None:
        """Do nothing: weft's batches are made in the measured time."""

    def update(self) -> int:
        return next(self._steps).tokens

    def close(self) -> None:
        if isinstance(self._steps, Generator):
            self._steps.close()


class HuggingFaceTrainer:
    """MarianMTModel with fused attention and AdamW; its batches are made in advance and are not measured."""

    def __init__(self, case: TrainingCase, sentences: Sentences, *, compiled: bool = False) -> None:
        self.padding, self.notes = Padding(), tuple[str, ...]()
        self._sentences, self._device = sentences, case.device
        self._rows = sentences.random_rows()
        self._prepared: deque[tuple[HostBatch, int]] = deque()
        self._model = build_marian(case, longest=sentences.longest).to(case.device).train()
        self.parameters = count_parameters(self._model)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY, fused=True)
        self._forward: Any = self._model
        if compiled:  # batches of mixed lengths would be compiled again and again
            self._forward = torch.compile(self._model, dynamic=not sentences.uniform)

    def ready(self, updates: int) -> None:
        while len(self._prepared) < updates:
            self._prepared.append(self.collate())

    def update(self) -> int:
        self.ready(1)
        batch, tokens = self._prepared.popleft()
        inputs = {name: tensor.to(self._device, non_blocking=True) for name, tensor in batch.items()}
        self._optimizer.zero_grad(set_to_none=True)
        with precise("auto", self._device):
            loss: Tensor = self._forward(**inputs).loss
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._model.parameters(), CLIP)
        self._optimizer.step()
        return tokens

    def close(self) -> None:
        self._prepared.clear()

    def collate(self) -> tuple[HostBatch, int]:
        """Return the next batch as transformers takes it, and the number of its target tokens."""
        rows, columns = next(self._rows), self._sentences.examples.columns
        source, source_lengths = pad(columns["source"], rows, PAD)
        target, target_lengths = pad(columns["target"], rows, PAD)
        self.padding.add(source, int(source_lengths.sum()))
        given, labels = target[:, :-1].contiguous(), target[:, 1:].masked_fill(target[:, 1:] == PAD, IGNORED)
        self.padding.add(given, int((target_lengths - 1).sum()))
        batch = {"input_ids": source, "decoder_input_ids": given, "labels": labels}
        if not self._sentences.uniform:
            batch["attention_mask"] = (source != PAD).long()
        if self._device.type == "cuda":
            batch = {name: tensor.pin_memory() for name, tensor in batch.items()}
        return batch, int((target_lengths - 1).sum())


def build_trainer(who: str, case: TrainingCase, sentences: Sentences) -> Trainer:
    """Build a contender by its name."""
    if who == "weft":
        return WeftTrainer(case, sentences)
    return HuggingFaceTrainer(case, sentences, compiled=who == "huggingface-compiled")


def weft_config(case: TrainingCase) -> Config:
    """The settings of weft's model: post-norm, sinusoids, ReLU, biases everywhere, one table for all embeddings."""
    names = ("layers", "width", "heads", "feedforward", "dropout")
    side = {name: getattr(case, name) for name in names}
    side |= {
        "kind": "transformer",
        "norm": "post",
        "positions": "sinusoid",
        "activation": "relu",
        "attention_bias": True,
    }
    return validate(
        {
            "task": "translate",
            "data": {"train": list(case.data) or "none"},
            "model": {"encoder": side, "decoder": side | {"tie": True}},
            "train": {"rate": RATE, "schedule": "constant", "warmup": 0, "clip": CLIP, "weight_decay": WEIGHT_DECAY},
        }
    )


def build_translator(case: TrainingCase) -> nn.Module:
    """Build weft's model with random weights."""
    settings = weft_config(case).model
    assert isinstance(settings, TranslatorConfig)
    return settings.build(case.words, case.words, shared=True)


def build_marian(case: TrainingCase, *, longest: int) -> nn.Module:
    """Build that model in transformers, with random weights."""
    # Imported by its name, so that type checking does not need the package either.
    transformers: Any = import_module("transformers")
    sides = ("encoder", "decoder")
    config = transformers.MarianConfig(
        vocab_size=case.words,
        d_model=case.width,
        max_position_embeddings=longest,
        activation_function="relu",
        dropout=case.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        bos_token_id=SOS,
        eos_token_id=EOS,
        decoder_start_token_id=SOS,
        forced_eos_token_id=EOS,
        attn_implementation="sdpa",
        **{f"{side}_layers": case.layers for side in sides},
        **{f"{side}_attention_heads": case.heads for side in sides},
        **{f"{side}_ffn_dim": case.feedforward for side in sides},
    )
    model: nn.Module = transformers.MarianMTModel(config)
    return model
