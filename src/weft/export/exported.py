"""Exported models, loaded by the software they were exported for, to be compared with the original."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from weft.decoding import NEVER, NEVER_CONTINUED, DecodeConfig
from weft.export.agreement import Answer, Example, prompt_of
from weft.export.ctranslate2 import load_ctranslate2
from weft.export.transformers_models import load_transformers, quiet
from weft.text import EOS, PAD, SOS


class HuggingFaceModel:
    """An exported model as `AutoModelForSeq2SeqLM` or `AutoModelForCausalLM`."""

    renormalises = False

    def __init__(self, folder: Path, *, translates: bool, separated: bool = False) -> None:
        transformers = load_transformers()
        kind = "AutoModelForSeq2SeqLM" if translates else "AutoModelForCausalLM"
        self.translates, self.separated = translates, separated
        with quiet(transformers):
            self.model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def forced(self, examples: Sequence[Example]) -> Tensor:
        """Return all logits (M, V)."""
        if self.translates:
            source = _pad([example.source for example in examples])
            read = _pad([[SOS, *example.target] for example in examples])
            logits = self.model(**source, decoder_input_ids=read["input_ids"]).logits
        else:
            read = _pad([[*self._prompt(example.source), *example.target] for example in examples])
            logits = self.model(**read).logits
        found: Tensor = logits[read["attention_mask"].bool()]
        return found

    @torch.no_grad()
    def write(self, sources: Sequence[list[int]], decode: DecodeConfig) -> list[Answer]:
        settings: dict[str, Any] = {"num_beams": decode.beam, "max_new_tokens": decode.max_length, "do_sample": False}
        settings["min_new_tokens"] = decode.min_length
        settings |= {"length_penalty": decode.length_penalty, "early_stopping": True} if decode.beam > 1 else {}
        rows = list(sources) if self.translates else [self._prompt(prompt) for prompt in sources]
        inputs = _pad(rows, left=not self.translates)
        settings |= {"output_scores": True, "output_logits": True, "return_dict_in_generate": True}
        with quiet(load_transformers()):
            found = self.model.generate(**inputs, **settings)
        begun = 1 if self.translates else inputs["input_ids"].size(1)
        texts, answers = found.sequences[:, begun:].tolist(), []
        for row, text in enumerate(texts):
            finished = EOS in text
            tokens = text[: text.index(EOS)] if finished else [token for token in text if token != PAD]
            length = len(tokens) + finished
            if decode.beam > 1:
                total = float(found.sequences_scores[row]) * length**decode.length_penalty
            else:
                steps = zip(found.logits, text[:length], strict=False)
                total = float(sum(logits[row].float().log_softmax(-1)[token] for logits, token in steps))
            answers.append(Answer(tuple(tokens), total, finished))
        return answers

    def _prompt(self, source: Sequence[int]) -> list[int]:
        return prompt_of(source, separated=self.separated)


class CTranslate2Model:
    """An exported model as `ctranslate2.Translator` or `ctranslate2.Generator`, whose tokens are texts, not ids."""

    renormalises = True

    def __init__(
        self,
        folder: Path,
        source: Sequence[str],
        target: Sequence[str],
        *,
        translates: bool,
        separated: bool = False,
        **options: Any,
    ) -> None:
        ctranslate2 = load_ctranslate2()
        self.source, self.target, self.translates, self.separated = source, target, translates, separated
        self.ids = {entry: number for number, entry in enumerate(target)}
        self.model = (ctranslate2.Translator if translates else ctranslate2.Generator)(str(folder), **options)

    def forced(self, examples: Sequence[Example]) -> Tensor:
        """Return the log-probability of each token (M,)."""
        if self.translates:
            sources = [_names(example.source, self.source) for example in examples]
            found = self.model.score_batch(sources, [_names(example.target, self.target) for example in examples])
        else:
            whole = [[*self._prompt(example.source), *example.target, EOS] for example in examples]
            found = self.model.score_batch([_names(row, self.target) for row in whole])
        return torch.tensor([log for one in found for log in one.log_probs])

    def write(self, sources: Sequence[list[int]], decode: DecodeConfig) -> list[Answer]:
        settings: dict[str, Any] = {"beam_size": decode.beam, "length_penalty": decode.length_penalty}
        settings |= {"return_scores": True, "return_end_token": True}
        never = NEVER if self.translates or self.separated else NEVER_CONTINUED
        settings["suppress_sequences"] = [[self.target[index]] for index in never]
        if self.translates:
            rows, write = [_names(row, self.source) for row in sources], self.model.translate_batch
            lengths = ("min_decoding_length", "max_decoding_length")
        else:
            rows, write = [_names(self._prompt(row), self.target) for row in sources], self.model.generate_batch
            lengths, settings["include_prompt_in_result"] = ("min_length", "max_length"), False
            settings["max_batch_size"] = 1  # in a larger batch the rest of a longer prompt would count as generated
        settings |= zip(lengths, (decode.min_length, decode.max_length), strict=True)
        answers = []
        for one in write(rows, **settings):
            names = one.hypotheses[0] if self.translates else one.sequences[0]
            tokens = [self.ids[name] for name in names]
            finished = bool(tokens) and tokens[-1] == EOS
            total = one.scores[0] * len(tokens) ** decode.length_penalty
            answers.append(Answer(tuple(tokens[:-1] if finished else tokens), total, finished))
        return answers

    def _prompt(self, source: Sequence[int]) -> list[int]:
        return prompt_of(source, separated=self.separated)


def _names(ids: Sequence[int], entries: Sequence[str]) -> list[str]:
    return [entries[index] for index in ids]


def _pad(rows: Sequence[list[int]], *, left: bool = False) -> dict[str, Tensor]:
    """Return ids and mask (B, T)."""
    side = "left" if left else "right"
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD, padding_side=side)
    real = [torch.ones(len(row), dtype=torch.long) for row in rows]
    return {"input_ids": ids, "attention_mask": pad_sequence(real, batch_first=True, padding_side=side)}
