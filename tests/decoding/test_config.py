"""Settings of the search that cannot be meant."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from weft.decoding import DecodeConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "greater than or equal to 1"),
        ({"n_best": 5}, "n_best = 5 is more than beam = 4; raise beam"),
        ({"min_length": 300}, "min_length = 300 is more than max_length = 256"),
        ({"temperature": 0.7}, r"temperature = 0\.7: only acts on sampling \(set sample = true, or remove it\)"),
        ({"top_k": 5}, "only acts on sampling"),
        ({"top_p": 0.9}, "only acts on sampling"),
        ({"seed": 3}, "seed = 3: only acts on sampling"),
        ({"sample": True, "beam": 3}, "beam = 3: only acts on search"),
        ({"sample": True, "temperature": 0.0}, "greater than 1e-09"),
        ({"sample": True, "top_p": 1.1}, "less than or equal to 1"),
        ({"beam": 4, "groups": 3}, "groups = 3 does not divide beam = 4; make beam a multiple of it"),
        ({"groups": 0}, "greater than or equal to 1"),
        ({"diversity": 2.0}, "diversity = 2.0: only acts between groups"),
        ({"diversity": -0.5}, "greater than or equal to 0"),
        ({"stop": "early"}, "Input should be 'bound' or 'finished'"),
        ({"sample": True, "groups": 2}, "groups = 2: only acts on search, not on sampling"),
        ({"sample": True, "stop": "finished"}, "only acts on search"),
        ({"length_penalty": -1.0}, "greater than or equal to 0"),
        ({"length_penalty": math.inf}, "finite number"),
        ({"sample": True, "temperature": math.inf}, "finite number"),
        ({"beams": 4}, "Extra inputs are not permitted"),
    ],
    ids=str,
)
def test_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        DecodeConfig(**settings)


def test_samples_need_no_beam() -> None:
    assert DecodeConfig(sample=True, n_best=50).n_best == 50
