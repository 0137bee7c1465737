"""Language models as programs: the numbers of torch, at once, in pieces and step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.contracts.test_language_models import configs
from tests.export.graph.conftest import TOLERANCE, Reader, close, spread

from weft.export.graph.lower_model import program_of_model
from weft.models import RecurrentLanguageConfig, TransformerDecoderConfig, build_language_model
from weft.models.ngram import NgramConfig
from weft.nn import NORMS
from weft.nn.transformer.feedforward import FUNCTIONS

VOCABULARY = 17
SMALL = {"width": 8, "heads": 2, "layers": 2, "dropout": 0.0}


def networks():
    yield from (case for case in configs() if not isinstance(case.values[0], NgramConfig))
    for options in (
        *({"norm": norm} for norm in NORMS),
        *({"activation": activation} for activation in (*FUNCTIONS, "swiglu")),
        {"attention_bias": True, "embedding_norm": True, "embedding_scale": False},
        {"attention_scale": 0.7, "attention_hard": True},
        {"embedding": 6},
        {"embedding": "onehot", "tie": False},
    ):
        yield pytest.param(TransformerDecoderConfig(**SMALL | options), id="-".join(map(str, options.values())))
    for options in ({"skip": "residual"}, {"skip": "dense"}, {"initial": "learned"}, {"embedding": "onehot"}):
        config = RecurrentLanguageConfig(**{"embedding": 6, "hidden": 6, "layers": 3, "dropout": 0.0} | options)
        yield pytest.param(config, id="-".join(map(str, options.values())))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize("config", list(networks()))
def test_a_language_model_is_the_same_at_once_in_pieces_and_in_steps(config, dtype):
    model = spread(build_language_model(config, VOCABULARY)).to(dtype)
    program, tolerance = program_of_model(model), TOLERANCE[dtype]
    if getattr(config, "positions", "") in ("sinusoid", "sinusoid_concat", "rotary"):
        tolerance = 2e-5  # torch's angles are float32, whatever the type of the model
    for length in (1, 2, 9):
        tokens = torch.randint(VOCABULARY, (1, length))
        with torch.no_grad():
            wanted = model.output(model(tokens))[0]
        close(Reader(program).read(tokens[0]), wanted, tolerance=tolerance)
        close(Reader(program).steps(tokens[0]), wanted, tolerance=tolerance)
        mixed, (first, second, third) = Reader(program), tokens[0].tensor_split(3)
        pieces = [mixed.read(first), *(mixed.steps([token])[:1] for token in second), mixed.read(third)]
        close(np.concatenate(pieces), wanted, tolerance=tolerance)
