"""A decoder with start and step, and an encoder with encode and final_like, work everywhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.decoding import NEVER, Constraint, DecodeConfig, search, search_exhaustive, stream
from weft.models import Classifier, Decoded, Decoder, Encoder, LanguageModel, Memory, Translator
from weft.models.embedding import Embedding, build_embedding
from weft.models.forcing import mix
from weft.models.stepper import can_prefill
from weft.nn import Shared, State, length_mask
from weft.text import EOS, SOS

VOCABULARY, SIZE, SOURCES = 8, 6, 3
FIRST = 5
"""The first token that is a word."""


class TinyDecoder(Decoder):
    """h' = tanh(W h + e + c), where c is the mean of the source or zero."""

    def __init__(self, embedding: Embedding) -> None:
        super().__init__()
        self.embedding, self.output_size = embedding, SIZE
        self.map = nn.Linear(SIZE, SIZE)

    def start(self, memory: Memory | None, rows: Tensor) -> State:
        context = torch.zeros(int(rows.max()) + 1, SIZE) if memory is None else memory.states.mean(1)
        return torch.zeros(rows.numel(), SIZE), Shared(context, rows)

    def step(self, tokens: Tensor, state: State) -> Decoded:
        h, shared = state
        h = torch.tanh(self.map(h) + self.embedding(tokens) + shared.expand())
        return Decoded(h, (h, shared), None)


class TinyEncoder(Encoder):
    """One linear map of each token."""

    def __init__(self, embedding: Embedding) -> None:
        super().__init__()
        self.embedding, self.output_size = embedding, SIZE
        self.map = nn.Linear(SIZE, SIZE)

    def encode(self, vectors: Tensor, lengths: Tensor) -> Memory:
        states = self.map(vectors) * length_mask(lengths, vectors.size(1))[..., None]
        return Memory(states, lengths, (states[:, 0],))

    def final_like(self) -> State:
        return (torch.empty(1, SIZE),)


class TinySettings(SimpleNamespace):
    """The settings of both."""

    vectors, scales_vectors, tie, dropout = SIZE, True, False, 0.0
    pooling, word_dropout, hidden_sizes, head_activation = "last", 0.0, (), "relu"

    def build_decoder(self, embedding: Embedding, encoder: Encoder | None) -> Decoder:
        return TinyDecoder(embedding)

    def build_encoder(self, embedding: Embedding, *, extra: int = 0) -> Encoder:
        return TinyEncoder(embedding)


@pytest.fixture(params=["language model", "translator"])
def written(request: pytest.FixtureRequest) -> tuple[Any, Memory | None]:
    """A model around the tiny decoder, and the memory that it reads."""
    torch.manual_seed(3)
    model: Any
    if request.param == "language model":
        model = LanguageModel(TinyDecoder(build_embedding(SIZE, VOCABULARY)), VOCABULARY, tie=False)
    else:
        both: Any = SimpleNamespace(encoder=TinySettings(), decoder=TinySettings())
        model = Translator(both, VOCABULARY, VOCABULARY, shared=False)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    model.eval()
    if request.param == "language model":
        return model, None
    source, lengths = torch.randint(FIRST, VOCABULARY, (SOURCES, 4)), torch.tensor([4, 2, 3])
    with torch.no_grad():
        return model, model.encode(source, lengths)


def step_greedily(model: Any, memory: Memory | None, sentence: int, prefix: list[int], *, limit: int) -> list[int]:
    """The likeliest token every time, from start and step alone."""
    state, said = model.start(memory, torch.tensor([sentence])), []
    *before, token = [SOS, *prefix]
    for earlier in before:
        _, state, _ = model.step(torch.tensor([earlier]), state)
    while len(said) < limit:
        logits, state, _ = model.step(torch.tensor([token]), state)
        logits[:, list(NEVER)] = -torch.inf
        token = int(logits.argmax())
        if token == EOS:
            break
        said.append(token)
    return said


def close(found: list[Any], expected: list[Any]) -> None:
    """The same texts; scores agree to float32."""
    assert [[one.tokens for one in own] for own in found] == [[one.tokens for one in own] for own in expected]
    for own, others in zip(found, expected, strict=True):
        assert_close([one.score for one in own], [one.score for one in others], rtol=1e-6, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("prefixes", [[[], [], []], [[5], [], [6, 7]]])
def test_a_wide_beam_finds_what_trying_everything_finds(
    written: tuple[Any, Memory | None], prefixes: list[list[int]]
) -> None:
    model, memory = written
    config = DecodeConfig(beam=64, n_best=4, max_length=4, length_penalty=0.7)
    expected = search_exhaustive(model, memory, SOURCES, config, prefixes=prefixes)
    close(search(model, memory, SOURCES, config, prefixes=prefixes), expected)


@torch.no_grad()
def test_constraints_hold(written: tuple[Any, Memory | None]) -> None:
    model, memory = written
    constraint = Constraint(forbid=((5, 6),), require=(((7,),),))
    config = DecodeConfig(beam=64, n_best=2, max_length=4)
    expected = search_exhaustive(model, memory, SOURCES, config, constraints=[constraint] * SOURCES)
    close(search(model, memory, SOURCES, config, constraints=[constraint] * SOURCES), expected)


@torch.no_grad()
@pytest.mark.parametrize("prefix", [[], [6], [5, 7]])
def test_greedy_search_and_streams_are_plain_steps(written: tuple[Any, Memory | None], prefix: list[int]) -> None:
    model, memory = written
    assert not can_prefill(model)
    expected = [step_greedily(model, memory, sentence, prefix, limit=7) for sentence in range(SOURCES)]
    config = DecodeConfig(beam=1, max_length=7)
    for attention in (True, False):
        found = search(model, memory, SOURCES, config, prefixes=[prefix] * SOURCES, attention=attention)
        assert [list(one.tokens) for (one,) in found] == expected
    pieces = stream(model, memory, config, prefix=prefix)
    assert [token for piece in pieces for token in piece] == expected[0]


@torch.no_grad()
def test_a_drawn_text_does_not_depend_on_its_neighbours(written: tuple[Any, Memory | None]) -> None:
    model, memory = written
    config = DecodeConfig(sample=True, n_best=2, max_length=6)
    many = search(model, memory, SOURCES, config)
    (alone,) = search(model, memory, 1, config)
    assert [one.tokens for one in alone] == [one.tokens for one in many[0]]
    assert len({one.tokens for own in many for one in own}) > 2


def test_scheduled_sampling_predicts_step_by_step(written: tuple[Any, Memory | None]) -> None:
    model, memory = written
    tokens = torch.full((SOURCES, 5), SOS)
    mixed = mix(model.decoder, model.output, tokens, memory, truth=0.0)
    hidden = model.decoder(mixed, memory)
    assert torch.equal(model.output(hidden).argmax(-1)[:, :-1], mixed[:, 1:])


def test_what_is_not_offered_is_refused_by_name(written: tuple[Any, Memory | None]) -> None:
    model, _ = written
    decoder = model.decoder
    assert not model.packs
    assert decoder.longest is None
    with pytest.raises(NotImplementedError, match="TinyDecoder carries no state"):
        decoder.follow(torch.zeros(1, 1, dtype=torch.long))
    with pytest.raises(NotImplementedError, match="TinyDecoder reads prompts step by step"):
        decoder.prefill_rows(torch.zeros(1, 1, dtype=torch.long), torch.ones(1), None)


def test_a_classifier_reads_the_last_state_of_a_new_encoder() -> None:
    torch.manual_seed(0)
    settings: Any = TinySettings()
    model = Classifier(settings, VOCABULARY, 2).eval()
    tokens, lengths = torch.randint(FIRST, VOCABULARY, (2, 4)), torch.tensor([4, 2])
    last = model.encoder(tokens, lengths).states[torch.arange(2), lengths - 1]
    assert not model.packs
    assert_close(model(tokens, lengths), model.scores(last))
