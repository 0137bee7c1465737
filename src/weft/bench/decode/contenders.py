"""The contenders of the decode benchmark: weft, Hugging Face `generate` and CTranslate2, with the same weights.

With random weights all words are nearly as likely, and rounding would decide which is written. So the scores of words
are scaled up, and those of special tokens are very low, so that every translation has exactly the length of the case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from weft.bench.decode.case import DecodeCase
from weft.config import validate
from weft.decoding import DecodeConfig, search
from weft.export.ctranslate2 import load_ctranslate2, write_ctranslate2
from weft.export.huggingface import build_huggingface
from weft.export.weights import Weights, read_weights
from weft.models import Translator, TranslatorConfig
from weft.text import EOS, SPECIALS

SHARPNESS: Final = 8.0
"""The standard deviation of the scores of words, in logits."""

SPECIAL_BIAS: Final = -100.0
"""The bias of special tokens, in logits."""

Translate = Callable[[int, int], Sequence[Sequence[int]]]
"""(beam, number of sources) -> the tokens of the best translation of each source."""

COMPUTE_TYPES: Final = {
    ("ctranslate2", "cpu"): "float32",
    ("ctranslate2", "cuda"): "bfloat16",
    ("ctranslate2-int8", "cpu"): "int8",
    ("ctranslate2-int8", "cuda"): "int8_bfloat16",
}
"""The number format of CTranslate2, by contender and device."""


class Models:
    """The model, its sources, and the contenders by name; as a context it removes the files that it wrote."""

    def __init__(self, case: DecodeCase) -> None:
        self.case, self._stack = case, ExitStack()
        settings = translator_settings(case)
        generator = torch.Generator().manual_seed(0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = settings.build(case.words, case.words, shared=True).eval()
        _sharpen(model)
        self.weights: Weights | None = read_weights(model, settings) if case.kind == "transformer" else None
        self.model = model.to(case.device, case.dtype)
        rows = max(case.batches)
        self.sources = torch.randint(len(SPECIALS), case.words, (rows, case.length), generator=generator)
        self.sources[:, -1] = EOS

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def decode(self, beam: int) -> DecodeConfig:
        """The settings of a search that writes exactly the length of the case."""
        return DecodeConfig(beam=beam, min_length=self.case.length, max_length=self.case.length)

    def contender(self, who: str) -> Translate:
        build = {"weft": self._weft, "huggingface": self._huggingface}.get(who)
        return build() if build else self._ctranslate2(who)

    def _weft(self) -> Translate:
        sources = self.sources.to(self.case.device)

        def translate(beam: int, count: int) -> list[tuple[int, ...]]:
            lengths = torch.full((count,), self.case.length, device=sources.device)
            with torch.inference_mode():
                memory = self.model.encode(sources[:count], lengths)
                found = search(self.model, memory, count, self.decode(beam), attention=False)
            return [hypotheses[0].tokens for hypotheses in found]

        return translate

    def _huggingface(self) -> Translate:
        assert self.weights is not None
        theirs: Any = build_huggingface(self.weights, self.decode(1)).to(self.case.device, self.case.dtype)
        sources = self.sources.to(self.case.device)
        lengths = {"min_new_tokens": self.case.length, "max_new_tokens": self.case.length}

        def translate(beam: int, count: int) -> list[list[int]]:
            given: Tensor = sources[:count]
            with torch.inference_mode():
                found = theirs.generate(given, attention_mask=torch.ones_like(given), num_beams=beam, **lengths)
            tokens: list[list[int]] = found[:, 1:].tolist()  # the first is the start token
            return tokens

        return translate

    def _ctranslate2(self, who: str) -> Translate:
        assert self.weights is not None
        device = self.case.device.type
        entries = [*SPECIALS, *(f"word{number}" for number in range(len(SPECIALS), self.case.words))]
        ids = {entry: number for number, entry in enumerate(entries)}
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-bench-")))
        write_ctranslate2(self.weights, folder, entries, entries)
        theirs = load_ctranslate2().Translator(
            str(folder), device=device, compute_type=COMPUTE_TYPES[who, device], intra_threads=torch.get_num_threads()
        )
        sources = [[entries[index] for index in row] for row in self.sources.tolist()]
        lengths = {"min_decoding_length": self.case.length, "max_decoding_length": self.case.length}

        def translate(beam: int, count: int) -> list[list[int]]:
            found = theirs.translate_batch(sources[:count], beam_size=beam, **lengths)
            return [[ids[entry] for entry in one.hypotheses[0]] for one in found]

        return translate


def translator_settings(case: DecodeCase) -> TranslatorConfig:
    """The settings of the model: a post-norm transformer with sinusoids, ReLU and biases, or an LSTM with attention."""
    side: dict[str, Any] = {"kind": case.kind, "layers": case.layers, "dropout": 0.0}
    if case.kind == "rnn":
        side |= {"cell": "lstm", "hidden": case.width, "embedding": case.width}
    else:
        side |= {name: getattr(case, name) for name in ("width", "heads", "feedforward")}
        side |= {"norm": "post", "positions": "sinusoid", "activation": "relu", "attention_bias": True}
        side |= {"max_positions": case.length + 2}
    tree = {
        "task": "translate",
        "data": {"train": "none"},
        "model": {"encoder": side, "decoder": side | {"tie": False}},
    }
    settings = validate(tree).model
    assert isinstance(settings, TranslatorConfig)
    return settings


@torch.no_grad()
def _sharpen(model: Translator) -> None:
    scores = model.output.scores
    size = scores.in_features
    scores.weight.normal_(std=SHARPNESS * size**-0.5, generator=torch.Generator().manual_seed(1))
    scores.bias[: len(SPECIALS)] = SPECIAL_BIAS
