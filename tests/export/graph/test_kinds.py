"""Every kind of model in the catalog either has a program or is refused with a line that says why."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from weft.catalog import CLASSIFIERS, LANGUAGE_MODELS, MASKED_MODELS, POSITIONS, SCORES, TAGGERS, TASKS
from weft.errors import ConfigError
from weft.export.graph import facts, lower_attention, lower_decoder, lower_encoder, lower_input, lower_model
from weft.export.graph.lower_model import program_of_model
from weft.models import DECODERS, ENCODERS, PICTURE_ENCODERS, PREFIX_DECODERS, REGRESSORS, TRANSLATORS, VECTORS
from weft.models.forecaster_settings import FORECASTERS
from weft.nn.pooling import POOLINGS

REFUSED = {
    "classify": {"bag": "a bag of words"},
    "regress": {"bag": "a bag of words"},
    "tag": {"hmm": "a hidden Markov model"},
    "lm": {"ngram": "an n-gram model"},
}
"""The kinds without a network, and what the message calls them."""

LOWERED = {
    "classify": {"rnn", "transformer"},
    "regress": {"rnn", "transformer"},
    "tag": {"rnn", "transformer"},
    "lm": {"rnn", "transformer", "conv"},
    "mask": {"rnn", "transformer"},
    "translate": {"encoder_decoder", "prefix"},
    "caption": {"conv", "linear"},
    "forecast": {"rnn", "transformer", "conv", "linear"},
    "embed": {"skipgram", "cbow"},
}
"""The kinds that the tests of this folder compare with torch."""

CATALOG = {
    "classify": CLASSIFIERS,
    "regress": REGRESSORS,
    "tag": TAGGERS,
    "lm": LANGUAGE_MODELS,
    "mask": MASKED_MODELS,
    "translate": TRANSLATORS,
    "caption": PICTURE_ENCODERS,
    "forecast": FORECASTERS,
    "embed": VECTORS,
}


def test_every_kind_is_lowered_or_refused():
    assert CATALOG.keys() == LOWERED.keys() == TASKS.keys() == facts.FACTS.keys()
    for task, kinds in CATALOG.items():
        assert set(kinds) == LOWERED[task] | set(REFUSED.get(task, {})), task


def test_every_part_has_a_lowering():
    assert set(POSITIONS.values()) == set(lower_input.POSITIONS)
    assert set(SCORES.values()) == set(lower_attention.SCORES)
    assert set(POOLINGS.values()) == set(lower_model.POOLINGS)
    small = {"embedding": 4, "hidden": 4}
    sizes = {"rnn": small, "transformer": {"width": 4, "heads": 1, "layers": 1}}
    embedding = lower_model_embedding()
    for kind, settings in ENCODERS.items():
        assert type(settings(**sizes[kind]).build_encoder(embedding)) in lower_encoder.VECTOR_ENCODERS
    encoder = ENCODERS["rnn"](**small).build_encoder(embedding)
    for kind, settings in DECODERS.items():
        assert type(settings(**sizes[kind]).build_decoder(embedding, encoder)) in lower_decoder.DECODERS
    for kind, settings in PREFIX_DECODERS.items():
        assert type(settings(**sizes[kind]).build_decoder(embedding, None)) in lower_decoder.DECODERS


def lower_model_embedding():
    from weft.models.embedding import build_embedding

    return build_embedding(4, 11)


@pytest.mark.parametrize("kind", list(lower_model.COUNTED))
def test_a_model_of_counts_is_refused_by_name(kind):
    words = lower_model.COUNTED[kind]
    assert words in {word for task in REFUSED.values() for word in task.values()}
    with pytest.raises(ConfigError, match=f"^model: {words} is no network of operations \\(--to c"):
        program_of_model(kind.__new__(kind))


def test_an_encoder_of_somebody_else_is_refused_with_what_works():
    class Mine(lower_encoder.RecurrentEncoder):
        pass

    model = CLASSIFIERS["rnn"](embedding=4, hidden=4).build_classifier(lower_inputs(), 2)
    model.encoder.__class__ = Mine
    with pytest.raises(ConfigError, match=r"Mine is an encoder that exports without torch do not know \(known are Rec"):
        program_of_model(model)
    with pytest.raises(ConfigError, match=r"Linear is a model that exports without torch do not know"):
        program_of_model(nn.Linear(2, 2))


def lower_inputs():
    from weft.models import SequenceInputs

    return SequenceInputs(list(range(11)))


def test_the_facts_of_each_task_are_described():
    text = Path(facts.__file__).read_text(encoding="utf-8").split('"""')[1]
    for task in facts.FACTS:
        assert f"\n{task} " in text
