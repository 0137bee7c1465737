"""Compares an exported model with the original: the numbers for fixed texts, and the texts of both searches.

Sentences are made from the vocabulary. The rules for stopping differ, so beam searches are compared on texts of a fixed
length. A tie may be decided either way: where a text differs from ours, the other search must have given it the
log-probability that our model gives it.
M tokens of all texts, V entries of the vocabulary.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from weft.decoding import NEVER, NEVER_CONTINUED, DecodeConfig, search
from weft.errors import Fault
from weft.export.weights import ExportedModel, Stack, Weights
from weft.models import LanguageModel, PrefixTranslator, Translator
from weft.nn import length_mask
from weft.text import EOS, SOS, SPECIALS

SENTENCES: Final = 8
MAX_SENTENCE_TOKENS: Final = 12

MAX_SEARCH_TOKENS: Final = 24
"""Tokens that a search may generate."""

LOGIT_TOLERANCE: Final = 1e-4
"""The most by which two numbers of at most 10 may differ; float32 rounds larger ones more coarsely."""

SEARCH_TOLERANCE: Final = 1e-3
"""The most by which the log-probability of a token may differ in a search, on average over its text."""

QUANTIZED_SHARE: Final = 0.5
"""The most by which numbers of a quantized model may differ, as a share of their own deviation."""

QUANTIZED_TOLERANCE: Final = 0.1
"""The tolerance for numbers that hardly differ from each other."""

IMPOSSIBLE_LOGIT: Final = -1e4
"""A logit so low that its token has no probability."""


class Example(NamedTuple):
    """source: the input of a translator, or the prompt of a language model; target: the text after it."""

    source: list[int]
    target: list[int]


def prompt_of(source: Sequence[int], *, separated: bool) -> list[int]:
    """Return what a decoder alone reads first: the start token and a prompt, or a source and then the start token."""
    return [*source, SOS] if separated else [SOS, *source]


class Answer(NamedTuple):
    """A text without its end token, and the sum of the log-probabilities of its tokens, that of an end included."""

    tokens: tuple[int, ...]
    total: float
    finished: bool


class ComparedModel(Protocol):
    """A model that can be compared: an exported one in the software that it was exported for, or the original.

    Some software renormalises: the probability of a token that may not be generated is given to the others.
    """

    renormalises: bool

    def forced(self, examples: Sequence[Example]) -> Tensor:
        """Return for each token of the texts and their ends all logits (M, V), or its own log-probability (M,)."""
        ...

    def write(self, sources: Sequence[list[int]], decode: DecodeConfig) -> list[Answer]:
        """Return the best text for each source."""
        ...


class Agreement(NamedTuple):
    """The largest difference of a number, and the shares of equal texts by greedy search and by beam search; None of a
    model that writes no text."""

    difference: float
    greedy: float | None = None
    beam: float | None = None

    def describe(self) -> str:
        if self.greedy is None or self.beam is None:
            return f"numbers within {self.difference:.1e}"
        return (
            f"numbers within {self.difference:.1e}, equal texts: {100 * self.greedy:.0f}% greedy, "
            f"{100 * self.beam:.0f}% by beam search"
        )


class Original:
    """The original model, with the methods of `ComparedModel`."""

    def __init__(self, model: ExportedModel) -> None:
        self.model, self.device = model.eval(), next(model.parameters()).device
        self.separated = isinstance(model, PrefixTranslator)

    @torch.no_grad()
    def forced(self, examples: Sequence[Example]) -> Tensor:
        """Return all logits (M, V)."""
        if isinstance(self.model, Translator):
            source, lengths = self._pad([example.source for example in examples])
            read, read_lengths = self._pad([[SOS, *example.target] for example in examples])
            hidden = self.model(source, lengths, read)
        else:
            read, read_lengths = self._pad([[*self._prompt(example.source), *example.target] for example in examples])
            hidden = self.model.decoder(read, None) if self.separated else self.model(read)
        logits: Tensor = self.model.output(hidden[length_mask(read_lengths, read.size(1))])
        return logits.float().cpu()

    def write(self, sources: Sequence[list[int]], decode: DecodeConfig) -> list[Answer]:
        if isinstance(self.model, Translator):
            with torch.no_grad():
                memory = self.model.encode(*self._pad(sources))
            found = search(self.model, memory, len(sources), decode)
        elif self.separated:
            found = search(self.model, None, len(sources), decode, sources=sources)
        else:
            found = search(self.model, None, len(sources), decode, prefixes=sources, forbid=NEVER_CONTINUED)
        best = [hypotheses[0] for hypotheses in found]
        return [Answer(one.tokens, sum(one.log_probabilities), one.finished) for one in best]

    def expected(self, examples: Sequence[Example]) -> Tensor:
        """Return the tokens (M,) whose logits `forced` returns."""
        begun = not isinstance(self.model, Translator)
        read = [self._prompt(one.source)[1:] if begun else [] for one in examples]
        rows = [[*begin, *one.target, EOS] for begin, one in zip(read, examples, strict=True)]
        return torch.tensor([token for row in rows for token in row])

    def total(self, source: list[int], answer: Answer) -> float:
        """Return the log-probability that the original gives to an answer."""
        example = Example(source, list(answer.tokens))
        logs = self.forced([example]).log_softmax(-1).gather(1, self.expected([example])[:, None]).squeeze(1)
        written = logs[-len(answer.tokens) - 1 :]
        return float((written if answer.finished else written[:-1]).sum())

    def _prompt(self, source: Sequence[int]) -> list[int]:
        return prompt_of(source, separated=self.separated)

    def _pad(self, rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        padded = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        return padded.to(self.device), torch.tensor([len(row) for row in rows], device=self.device)


def compare(
    model: ExportedModel,
    weights: Weights,
    exported: ComparedModel,
    decode: DecodeConfig,
    *,
    exact: bool = True,
) -> Agreement:
    """Compare an exported model with the original; raise a Fault where it is not the same function.

    Without `exact` it was quantized: then its log-probabilities need only be near, as those of no other model are.
    """
    original, examples = Original(model), make_examples(weights)
    difference = _compare_numbers(original, exported, examples, exact=exact)
    longest = max(1, min(MAX_SEARCH_TOKENS, decode.max_length, weights.decoder.settings.max_positions // 3))
    beam = 4 if decode.sample or decode.beam == 1 else decode.beam
    greedy = DecodeConfig(beam=1, max_length=longest)
    wide = DecodeConfig(beam=beam, length_penalty=decode.length_penalty, min_length=longest, max_length=longest)
    shares = []
    for one in (greedy, wide):
        never = NEVER_CONTINUED if isinstance(model, LanguageModel) else NEVER
        forbidden = (*never, EOS) if one.min_length else never
        with _silenced(model, forbidden if exported.renormalises else ()):
            shares.append(_compare_texts(original, exported, examples, one, exact=exact))
    return Agreement(difference, *shares)


@contextmanager
def _silenced(model: ExportedModel, forbidden: Sequence[int]) -> Iterator[None]:
    """Take all probability from some tokens inside the block, so that the others share it."""
    bias = model.output.scores.bias.detach()
    before = bias.clone()
    bias[list(forbidden)] = IMPOSSIBLE_LOGIT
    try:
        yield
    finally:
        bias.copy_(before)


def make_examples(weights: Weights) -> list[Example]:
    """Return sentences of random tokens and different lengths, the same ones on every call."""
    draw, target = random.Random(0), weights.decoder
    source = weights.encoder or target
    end = [] if weights.encoder is None and not weights.separated else [EOS]

    def words(stack: Stack) -> list[int]:
        length = draw.randint(1, max(1, min(MAX_SENTENCE_TOKENS, stack.settings.max_positions // 3)))
        return [draw.randrange(len(SPECIALS), stack.table.size(0)) for _ in range(length)]

    return [Example(words(source) + end, words(target)) for _ in range(SENTENCES)]


def _compare_numbers(original: Original, exported: ComparedModel, examples: Sequence[Example], *, exact: bool) -> float:
    ours, theirs = original.forced(examples), exported.forced(examples)
    if theirs.dim() == 1:
        ours = ours.log_softmax(-1).gather(1, original.expected(examples)[:, None]).squeeze(1)
    difference = float((ours - theirs).abs().max())
    error = float((ours - theirs).square().mean().sqrt())
    if not exact and not error <= max(QUANTIZED_SHARE * float(ours.std()), QUANTIZED_TOLERANCE):
        raise differs(f"its numbers, by {error:.2g} on average, which is more than rounding does")
    if exact and not difference <= LOGIT_TOLERANCE * max(1.0, float(ours.abs().max()) / 10):
        raise differs(f"a number of the full pass by {difference:.2g}")
    return difference


def _compare_texts(
    original: Original, exported: ComparedModel, examples: Sequence[Example], decode: DecodeConfig, *, exact: bool
) -> float:
    """Return the share of equal texts."""
    sources = [example.source for example in examples]
    ours, theirs = original.write(sources, decode), exported.write(sources, decode)
    equal = 0
    for source, own, other in zip(sources, ours, theirs, strict=True):
        if own.tokens == other.tokens:
            equal += 1
            continue
        allowed = SEARCH_TOLERANCE * (len(other.tokens) + 1)
        if exact and not abs(original.total(source, other) - other.total) <= allowed:
            raise differs(f"the text for tokens {source}, {list(own.tokens)} here and {list(other.tokens)} there")
    return equal / len(sources)


def differs(what: str) -> Fault:
    return Fault(f"the exported model differs in {what}")
