"""Parts of a model that do not learn, and bounds on the gradients of those that do."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from weft.errors import ConfigError, Fault
from weft.models import RecurrentLanguageConfig, TransformerDecoderConfig, build_language_model
from weft.training import build_optimizer, freeze
from weft.training.update import clip_gradients

MODELS = {
    "rnn": RecurrentLanguageConfig(embedding=8, hidden=8, layers=2),
    "transformer": TransformerDecoderConfig(width=8, heads=2, layers=2),
}


@pytest.mark.covers("L6")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("patterns", [["decoder.*"], ["*embedding*"], ["output.scores.weight"], ["*.weight"]])
def test_what_is_frozen_stays_and_the_rest_learns(kind, patterns):
    torch.manual_seed(0)
    model = build_language_model(MODELS[kind], 11)
    frozen = freeze(model, patterns)
    optimizer = build_optimizer(model, kind="adamw", rate=0.1, weight_decay=0.1)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    assert 0 < frozen == sum(weight.numel() for weight in model.parameters() if not weight.requires_grad)
    for _ in range(2):
        optimizer.zero_grad()
        model.output.loss(model(torch.randint(4, 11, (3, 5))).flatten(0, 1), torch.randint(4, 11, (15,))).backward()
        optimizer.step()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, before[name]) is not weight.requires_grad, name
        assert (weight in optimizer.state) is weight.requires_grad
        assert (weight.grad is not None) is weight.requires_grad


def test_a_tied_table_is_frozen_by_either_of_its_names():
    for name in ("decoder.embedding.weight", "output.scores.weight"):
        model = build_language_model(MODELS["rnn"], 11)
        assert freeze(model, [name]) == 11 * 8


def test_nothing_to_freeze_freezes_nothing():
    model = nn.Linear(2, 1)
    assert freeze(model, []) == 0
    assert model.weight.requires_grad


def test_a_pattern_without_a_parameter_is_an_error_with_the_nearest_names():
    model = build_language_model(MODELS["rnn"], 11)
    with pytest.raises(ConfigError, match=r'train\.freeze = \["output\.score\.bias"\].*near are output\.scores\.bias'):
        freeze(model, ["output.score.bias"])
    with pytest.raises(ConfigError, match=r"choose from decoder\.\*, output\.\*"):
        freeze(model, ["xyzzy*"])


def test_a_model_without_anything_to_learn_is_an_error():
    with pytest.raises(ConfigError, match=r'train\.freeze = \["\*"\]: nothing is left to learn'):
        freeze(nn.Linear(2, 1), ["*"])


@pytest.mark.covers("L3")
def test_gradients_are_bounded_one_by_one():
    weight = nn.Parameter(torch.zeros(4))
    weight.grad = torch.tensor([3.0, -0.2, 0.4, -4.0])
    norm = clip_gradients([weight], 0.0, value=0.5)
    assert norm.item() == pytest.approx(math.sqrt(25.2))
    assert weight.grad.tolist() == pytest.approx([0.5, -0.2, 0.4, -0.5])


def test_the_norm_is_bounded_before_the_values():
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    clip_gradients([weight], 1.0, value=0.7)
    assert weight.grad.tolist() == pytest.approx([0.6, 0.7])


def test_a_bound_does_not_hide_an_infinite_gradient(points, run_steps):
    model, loop = run_steps([points(value=1e30)], clip=0.0, clip_value=1.0)
    before = model.weight.detach().clone()
    with pytest.raises(Fault, match="not finite"):
        next(loop)
    assert torch.equal(model.weight, before)
