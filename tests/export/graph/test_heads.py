"""Classifiers, taggers, masked models and word vectors as programs."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.export.graph.conftest import close, spread

from weft.catalog import CELLS, CLASSIFIERS, MASKED_MODELS, POOLINGS, TAGGERS
from weft.export.graph.evaluate import evaluate
from weft.export.graph.lower_model import program_of_model
from weft.models import REGRESSORS, MaskedLanguageModel, SequenceInputs, Spelling, TaggerSizes
from weft.text import EOS

VOCABULARY = 17
SIZES = {
    "rnn": {"embedding": 6, "hidden": 8, "dropout": 0.0},
    "transformer": {"width": 8, "heads": 2, "layers": 2, "feedforward": 12, "dropout": 0.0},
}
LENGTHS = (0, 1, 2, 7)


class Vocabulary(list):
    """As much of a tokenizer as a model is built from."""


def run(program, **inputs):
    return evaluate(program.graphs["forward"], inputs)["logits"]


def classifiers():
    for kind, pooling in itertools.product(SIZES, POOLINGS):
        yield pytest.param(kind, {"pooling": pooling, "head": [5, 4]}, id=f"{kind}-{pooling}")
    for cell in CELLS:
        yield pytest.param("rnn", {"cell": cell, "pooling": "last", "layers": 2, "skip": "residual"}, id=cell)
    for merge, skip, pooling in itertools.product(
        ("sum", "mean", "project"), ("none", "residual", "dense"), ("last", "mean")
    ):
        options = {"merge": merge, "skip": skip, "pooling": pooling, "layers": 3, "initial": "learned"}
        yield pytest.param("rnn", options, id=f"{merge}-{skip}-{pooling}")
    yield pytest.param("transformer", {"segments": 2, "norm": "post", "positions": "learned"}, id="segments")


@pytest.mark.parametrize(("kind", "options"), list(classifiers()))
@pytest.mark.parametrize("features", [None, 4])
def test_a_classifier(kind, options, features):
    config = CLASSIFIERS[kind](**SIZES[kind] | options)
    given = SequenceInputs(None if features else Vocabulary(range(VOCABULARY)), features)
    model = spread(config.build_classifier(given, 3)).double()
    program = program_of_model(model)
    for length in LENGTHS:
        x = torch.randint(5, VOCABULARY, (1, length)) if not features else torch.randn(1, length, features).double()
        if length > 2 and not features:
            x[0, [2, 4]] = EOS
        with torch.no_grad():
            wanted = model(x, torch.tensor([length]))[0]
        close(run(program, **{"features" if features else "tokens": x[0]}), wanted)


@pytest.mark.parametrize("kind", SIZES)
def test_a_regressor(kind):
    model = spread(REGRESSORS[kind](**SIZES[kind]).build_classifier(SequenceInputs(Vocabulary(range(17))), 1))
    tokens = torch.randint(5, VOCABULARY, (1, 5))
    with torch.no_grad():
        close(run(program_of_model(model), tokens=tokens[0]), model(tokens, torch.tensor([5]))[0])


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("characters", [0, 5, {"kind": "cnn", "hidden": 5}])
@pytest.mark.parametrize("form", ["words", "features", "subwords"])
def test_a_tagger(kind, characters, form):
    if form != "words" and characters:
        pytest.skip("only words are spelled")
    settings = TAGGERS[kind](characters=characters, crf=True, **SIZES[kind])
    sizes = TaggerSizes(VOCABULARY, VOCABULARY, 4, torch.zeros(VOCABULARY, dtype=torch.long))
    sizes = sizes._replace(features=3 if form == "features" else None, subwords=form == "subwords")
    model = spread(settings.build_tagger(sizes)).double()
    program = program_of_model(model)
    for name, part in model.crf.chain._asdict().items():
        close(program.constants[f"crf_{name}"], part)
    letters, lengths = torch.randint(5, VOCABULARY, (6, 4)), torch.tensor([1, 2, 3, 4, 4, 1])
    for length in LENGTHS:
        words, where = torch.randint(5, VOCABULARY, (1, length)), torch.randint(0, 6, (1, length))
        spelling, given = Spelling(letters, lengths, where), {"words": words[0]}
        if form == "features":
            words = torch.randn(1, length, 3).double()
            given = {"features": words[0]}
        elif form == "subwords":
            if not length:
                continue
            tokens, where = torch.randint(5, VOCABULARY, (1, 9)), torch.randint(0, 9, (1, length))
            spelling, given = Spelling(tokens, torch.tensor([9]), where), {"tokens": tokens[0], "places": where[0]}
        elif characters:
            every = [
                evaluate(program.graphs["spell"], {"letters": word[:size]})["spelled"]
                for word, size in zip(letters, lengths, strict=True)
            ]
            given["spelled"] = torch.tensor([every[place].tolist() for place in where[0]])
            given["spelled"] = given["spelled"].reshape(length, model.speller.output_size)
        with torch.no_grad():
            wanted = model(words, torch.tensor([length]), spelling)[0]
        close(run(program, **given), wanted)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("options", [{}, {"transform": False}, {"embedding": 6, "transform_activation": "tanh"}])
def test_a_masked_model(kind, options):
    model = spread(MaskedLanguageModel(MASKED_MODELS[kind](**SIZES[kind] | options), VOCABULARY)).double()
    program = program_of_model(model)
    for length in LENGTHS[1:]:
        tokens = torch.randint(VOCABULARY, (1, length))
        with torch.no_grad():
            wanted = model.output(model(tokens, torch.tensor([length])))[0]
        close(run(program, tokens=tokens[0]), wanted)
