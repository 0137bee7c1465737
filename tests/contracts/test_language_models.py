"""Laws that every language model of the catalog must keep."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from weft.catalog import CELLS, LANGUAGE_MODELS, POSITIONS
from weft.data import Examples, Ragged
from weft.decoding import DecodeConfig, search
from weft.decoding.slots import MAX_ROWS
from weft.models import (
    ConvolutionalConfig,
    FitOptions,
    FittedModel,
    NgramConfig,
    RecurrentLanguageConfig,
    TransformerDecoderConfig,
)
from weft.models import build_language_model as build_unfitted
from weft.models.ngram import SMOOTHINGS
from weft.nn import Packing, select_rows
from weft.text import EOS, SOS

VOCABULARY = 17
TRANSFORMER = {"width": 8, "heads": 2, "layers": 2, "dropout": 0.0}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def transformers():
    for positions in POSITIONS:
        yield pytest.param(TransformerDecoderConfig(**TRANSFORMER, positions=positions), id=f"transformer-{positions}")


def configs():
    for tie in (True, False):
        for cell in CELLS:
            config = RecurrentLanguageConfig(cell=cell, embedding=6, hidden=8, layers=2, tie=tie, dropout=0.0)
            yield pytest.param(config, id=f"{cell}-{tie}")
        for kernel in (1, 2, 3):
            config = ConvolutionalConfig(embedding=6, width=8, layers=2, kernel=kernel, tie=tie, dropout=0.0)
            yield pytest.param(config, id=f"conv{kernel}-{tie}")
    yield pytest.param(ConvolutionalConfig(embedding=8, width=8, dropout=0.0), id="conv-same-width")
    yield from transformers()
    yield pytest.param(TransformerDecoderConfig(**TRANSFORMER, norm="rezero", tie=False), id="transformer-rezero")
    yield from ngrams()


def ngrams():
    for smoothing in (kind for kind in SMOOTHINGS if kind != "arpa"):
        for order in (1, 2, 4):
            config = NgramConfig(order=order, smoothing={"kind": smoothing})
            yield pytest.param(config, id=f"ngram{order}-{smoothing}")


def build_language_model(config, vocabulary):
    """A model; one of counts is fitted to some random texts."""
    model = build_unfitted(config, vocabulary)
    if isinstance(model, FittedModel):
        texts = [[SOS, *torch.randint(5, vocabulary, (size,)).tolist(), EOS] for size in (9, 3, 0, 12, 1)]
        column = Ragged.from_lists(texts)
        options = FitOptions(epochs=1, rate=1.0, batch_tokens=1, seed=0, threads=1)
        fit = model.fit(Examples({"tokens": column}, column.lengths), options)
        for part in range(1, fit.total + 1):
            fit.step(part)
    return model


@pytest.mark.covers("M1")
def test_every_kind_is_here():
    kinds = {case.values[0].kind for case in configs()}
    assert kinds == set(LANGUAGE_MODELS)
    assert {kind: arm().kind for kind, arm in LANGUAGE_MODELS.items()} == {kind: kind for kind in LANGUAGE_MODELS}


@pytest.mark.covers("X6")
@pytest.mark.parametrize("config", list(configs()))
def test_step_by_step_equals_the_full_pass(config):
    model = build_language_model(config, VOCABULARY).eval()
    tokens = torch.randint(5, VOCABULARY, (3, 7))
    full = model.output(model(tokens))
    state = model.start(None, torch.arange(3))
    for step in range(7):
        logits, state, _ = model.step(tokens[:, step], state)
        assert_close(logits, full[:, step], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("config", list(configs()))
def test_a_state_is_a_value_that_can_be_reordered(config):
    model = build_language_model(config, VOCABULARY).eval()
    tokens, order = torch.randint(5, VOCABULARY, (2, 3)), torch.tensor([2, 0, 0])
    state = model.step(tokens[0], model.start(None, torch.zeros(3, dtype=torch.long))).state
    expected = model.step(tokens[1], state).logits[order]
    moved = model.step(tokens[1][order], select_rows(state, order)).logits
    assert_close(moved, expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("config", list(configs()))
def test_what_comes_later_and_what_is_padding_change_nothing(config):
    model = build_language_model(config, VOCABULARY).eval()
    tokens = torch.randint(5, VOCABULARY, (2, 6))
    other = tokens.clone()
    other[1, 4:] = 0
    full = model(tokens)
    assert_close(model(other, torch.tensor([6, 4]))[1, :4], full[1, :4], atol=2e-5, rtol=1e-4)
    assert_close(model(tokens[1:, :4]), full[1:, :4], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("config", [case for case in configs() if "rezero" not in case.id and "ngram" not in case.id])
def test_every_parameter_learns(config):
    model = build_language_model(config, VOCABULARY)
    model.output(model(torch.randint(5, VOCABULARY, (4, 6)))).logsumexp(-1).sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []


@pytest.mark.parametrize("config", list(transformers()))
def test_packed_equals_padded(config):
    model = build_language_model(config, VOCABULARY).eval()
    assert model.packs
    tokens, packing = torch.randint(5, VOCABULARY, (3, 5)), Packing.of(torch.tensor([2, 5, 1]))
    packed = model(packing.unpad(tokens), packing)
    assert_close(packed, packing.unpad(model(tokens)), atol=2e-5, rtol=1e-4)


@pytest.mark.covers("R13")
@pytest.mark.parametrize(("layers", "kernel"), [(1, 2), (2, 3), (3, 2)])
def test_a_convolution_sees_its_context_and_nothing_before(layers, kernel):
    config = ConvolutionalConfig(embedding=6, width=8, layers=layers, kernel=kernel, dropout=0.0)
    model = build_language_model(config, VOCABULARY)
    context = layers * (kernel - 1) + 1
    assert model.decoder.context == context
    tokens = torch.randint(5, VOCABULARY, (1, 12))
    last = model(tokens)[0, -1]
    for back in range(1, 13):
        changed = tokens.clone()
        changed[0, -back] = 5 if tokens[0, -back] != 5 else 6
        same = torch.equal(model(changed)[0, -1], last)
        assert same == (back > context), f"{back} steps back"


@pytest.mark.covers("R13")
def test_a_gated_convolution_by_hand():
    """x = 1, 2, 3; a_t = x_{t-1} + 2 x_t, b_t = 0, so y_t = x_t + a_t / 2."""
    from weft.nn.conv import GatedConvolution

    layer = GatedConvolution(1, kernel=2)
    with torch.no_grad():
        layer.map.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, 0.0]]))
        layer.map.bias.zero_()
    found = layer(torch.tensor([[[1.0], [2.0], [3.0]]]))
    assert_close(found.flatten(), torch.tensor([2.0, 4.5, 7.0]))


@pytest.mark.covers("T5")
def test_the_toy_look_ahead_model_has_748_parameters():
    config = RecurrentLanguageConfig(cell="elman", embedding="onehot", hidden=20, tie=False)
    assert sum(weight.numel() for weight in build_language_model(config, 8).parameters()) == 748


@pytest.mark.parametrize(
    "decode",
    [DecodeConfig(beam=3, n_best=2), DecodeConfig(sample=True, n_best=2, min_p=0.05)],
    ids=["beam", "sample"],
)
@pytest.mark.parametrize("config", list(configs()))
def test_search_in_slots_finds_what_plain_search_finds(config, decode, monkeypatch, plain, same_hypotheses):
    """Prompts that take turns in two slots of fixed shape, against states that grow, everything at once."""
    model = build_language_model(config, VOCABULARY).eval().double()
    for parameter in () if isinstance(model, FittedModel) else model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    wanted = {"limits": [9, 4, 6, 7, 2], "prefixes": [[7], [], [6, 8, 9], [5], []], "keys": [3, 1, 4, 2, 0]}
    monkeypatch.setitem(MAX_ROWS, "cpu", 6)
    found = search(model, None, 5, decode, **wanted)
    same_hypotheses(found, search(plain(model), None, 5, decode, **wanted))
