"""Positions: each kind against its equation."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import POSITIONS
from weft.nn.attention import Rotary
from weft.nn.positions import BOUNDED, sinusoids

SIZE, LONGEST, TIME = 6, 9, 5
PLACES = torch.arange(TIME)


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(2, TIME, SIZE)


def wave(place: int, size: int) -> torch.Tensor:
    angles = [place / 10_000 ** (2 * i / size) for i in range(size // 2)]
    return torch.tensor([function(angle) for angle in angles for function in (math.sin, math.cos)])


def test_sinusoids() -> None:
    assert_close(
        sinusoids(torch.tensor([0, 3, 700]), 8), torch.stack([wave(t, 8) for t in (0, 3, 700)]), atol=1e-4, rtol=0
    )
    assert sinusoids(torch.tensor([1, 2]), 5).shape == (2, 5)


def test_none_and_rotary_leave_vectors_alone(x: torch.Tensor) -> None:
    for kind in ("none", "rotary"):
        assert torch.equal(POSITIONS[kind](SIZE, LONGEST)(x, PLACES), x)


@pytest.mark.covers("X3")
def test_onehot_is_appended(x: torch.Tensor) -> None:
    found = POSITIONS["onehot"](SIZE, LONGEST)(x, PLACES)
    assert torch.equal(found[..., :SIZE], x)
    assert torch.equal(found[1, :, SIZE:], torch.eye(LONGEST)[:TIME])


@pytest.mark.covers("X3")
def test_learned_is_added(x: torch.Tensor) -> None:
    positions = POSITIONS["learned"](SIZE, LONGEST)
    assert_close(positions(x, PLACES)[1, 3], x[1, 3] + positions.table.weight[3])


@pytest.mark.covers("X3")
def test_joint_mixes_token_and_place(x: torch.Tensor) -> None:
    positions = POSITIONS["joint"](SIZE, LONGEST)
    inner = positions.w2.weight @ x[1, 3] + positions.w2.bias + positions.w3.weight[3]
    assert_close(positions(x, PLACES)[1, 3], positions.w1.weight @ torch.tanh(inner))


@pytest.mark.covers("X3")
def test_sinusoids_are_added_or_appended(x: torch.Tensor) -> None:
    assert_close(POSITIONS["sinusoid"](SIZE, LONGEST)(x, PLACES)[1, 3], x[1, 3] + wave(3, SIZE))
    appended = POSITIONS["sinusoid_concat"](SIZE, LONGEST)(x, PLACES)
    assert_close(appended[1, 3], torch.cat((x[1, 3], wave(3, SIZE))))


@pytest.mark.parametrize("kind", POSITIONS)
def test_packed_places_give_the_same_and_sizes_are_told(kind: str, x: torch.Tensor) -> None:
    positions = POSITIONS[kind](SIZE, LONGEST)
    padded = positions(x, PLACES)
    assert padded.shape[-1] == positions.output_size
    packed = positions(x.flatten(0, 1), PLACES.repeat(2))
    assert_close(packed, padded.flatten(0, 1))
    # Of several hypotheses, each at a place of its own.
    assert_close(positions(x[:, 3], torch.tensor([3, 3])), padded[:, 3])


@pytest.mark.parametrize("kind", POSITIONS)
def test_a_place_beyond_the_limit_is_known_or_refused(kind: str, x: torch.Tensor) -> None:
    positions = POSITIONS[kind](SIZE, LONGEST)
    beyond = PLACES + LONGEST
    if kind in BOUNDED:
        with pytest.raises((IndexError, RuntimeError)):
            positions(x, beyond)
    else:
        assert positions(x, beyond).isfinite().all()


@pytest.mark.covers("X3")
def test_rotary_turns_pairs_by_an_angle_of_the_place() -> None:
    x = torch.randn(4)
    turned = Rotary(4)(x, torch.tensor(3))
    for i, frequency in enumerate((1.0, 10_000**-0.5)):
        cosine, sine = math.cos(3 * frequency), math.sin(3 * frequency)
        expected = torch.stack((x[i] * cosine - x[i + 2] * sine, x[i] * sine + x[i + 2] * cosine))
        assert_close(turned[[i, i + 2]], expected)


def test_products_of_rotary_vectors_depend_on_the_distance_alone() -> None:
    torch.manual_seed(0)
    rotary, query, key = Rotary(16), torch.randn(16), torch.randn(16)

    def product(t: int, s: int) -> torch.Tensor:
        return rotary(query, torch.tensor(t)) @ rotary(key, torch.tensor(s))

    for distance in (-7, 0, 1, 40):
        products = torch.stack([product(t + distance, t) for t in (7, 8, 19, 200)])
        assert_close(products, products[0].expand(4), atol=1e-4, rtol=1e-4)
    assert not torch.isclose(product(3, 0), product(4, 0))


def test_rotary_needs_pairs() -> None:
    with pytest.raises(ConfigError, match="rotary positions turn pairs, and a head has 5 features"):
        Rotary(5)
