"""The temperature that was used to make the labels is found again; the error of bins is worked out by hand."""

import pytest
import torch

from weft.metrics import Reliability, fit_temperature


def draw(count: int, temperature: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and labels drawn from their softmax at a temperature."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, 4, generator=generator)
    return logits, torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator).squeeze(1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_is_found(temperature: float) -> None:
    logits, labels = draw(4000, temperature)
    assert fit_temperature(logits, labels) == pytest.approx(temperature, rel=0.1)


def test_dividing_by_it_makes_probabilities_true() -> None:
    logits, labels = draw(4000, 3.0)
    before, after = Reliability(), Reliability(1 / fit_temperature(logits, labels))
    for rows in torch.arange(4000).split(300):
        before.add(logits[rows], labels[rows])
        after.add(logits[rows], labels[rows])
    assert before.error > 0.2
    assert after.error < 0.03


def test_few_examples_change_nothing_and_right_answers_not_too_much() -> None:
    logits, labels = draw(49, 3.0)
    assert fit_temperature(logits, labels) == 1.0
    # All right by a margin of 2: without the prior the temperature would run to its bound.
    sure = torch.nn.functional.one_hot(torch.arange(60) % 2).float() * 2
    assert 0.2 < fit_temperature(sure, torch.arange(60) % 2) < 1.0


def test_probabilities_that_are_true_already_mostly_stay_and_others_change() -> None:
    """With few examples a temperature of their own would be noise; one that is needed is found from 200."""
    true = [fit_temperature(*draw(100, 1.0, seed)) for seed in range(40)]
    assert sum(temperature == 1.0 for temperature in true) >= 36
    overconfident = [fit_temperature(*draw(200, 2.0, seed)) for seed in range(20)]
    assert all(1.4 < temperature < 2.8 for temperature in overconfident)


def test_several_labels_are_halved_by_example() -> None:
    """The labels of an example stay together: a row that is repeated for each of them is no news."""
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(400, 3, generator=generator)
    labels = torch.bernoulli((logits / 2).sigmoid(), generator=generator)
    assert fit_temperature(logits, labels) == pytest.approx(2.0, rel=0.15)


@pytest.mark.covers("E5")
def test_the_error_by_hand() -> None:
    # Probabilities 0.9 (twice, one right) and 0.6 (right): |1 - 1.8| / 3 + |1 - 0.6| / 3 = 0.4.
    logits = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6]]).log()
    tally = Reliability()
    tally.add(logits, torch.tensor([0, -1, 1]))
    assert tally.error == pytest.approx(0.4, abs=1e-6)
    assert Reliability().error == 0
