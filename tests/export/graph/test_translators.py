"""Translators as programs: any encoder with any decoder, and one decoder for both sides."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.contracts.test_models import VOCABULARY, build_translator, translators
from tests.export.graph.conftest import Reader, close, spread

from weft.export.graph.evaluate import evaluate
from weft.export.graph.lower_model import program_of_model
from weft.models import PrefixConfig, RecurrentLanguageConfig, TransformerDecoderConfig, TransformerEncoderConfig
from weft.models import RecurrentDecoderConfig as DecoderConfig
from weft.models import RecurrentSourceConfig as SourceConfig
from weft.text import EOS, SOS


def more():
    small = {"embedding": 6, "hidden": 8, "dropout": 0.0}
    for merge, skip in itertools.product(("sum", "mean", "project"), ("none", "residual", "dense")):
        encoder = SourceConfig(**small, layers=2, merge=merge, skip=skip, initial="learned")
        decoder = DecoderConfig(**small, skip=skip, layers=2, bridge="none", initial="learned")
        yield pytest.param(encoder, decoder, id=f"{merge}-{skip}")
    segments = TransformerEncoderConfig(width=8, heads=2, layers=1, segments=2)
    yield pytest.param(segments, DecoderConfig(**small), id="segments")


@pytest.mark.parametrize(("encoder", "decoder"), [*translators(), *more()])
def test_a_translator_is_the_same_at_once_and_in_steps(encoder, decoder):
    model = spread(build_translator(encoder, decoder)).double()
    program = program_of_model(model)
    for size in (1, 2, 6):
        source, target = torch.randint(5, VOCABULARY, (1, size)), torch.randint(5, VOCABULARY, (1, 5))
        source[0, size // 2], target[0, 0] = EOS, SOS
        with torch.no_grad():
            memory = model.encode(source, torch.tensor([size]))
            wanted = model.output(model.decoder(target, memory))[0]
            state = model.start(memory, torch.zeros(1, dtype=torch.long))
        close(evaluate(program.graphs["states"], {"tokens": source[0]})["states"], memory.states[0])
        stepping = Reader(program, tokens=source[0])
        for place, token in enumerate(target[0]):
            with torch.no_grad():
                step = model.step(token[None], state)
            state, found = step.state, stepping("step", token=token)
            close(found["logits"], wanted[place])
            assert ("attention" in found) == (step.attention is not None)
            if step.attention is not None:
                close(found["attention"], step.attention[0])
        if "forward" in program.graphs:
            close(Reader(program, tokens=source[0]).read(target[0]), wanted)


def test_only_attention_inside_the_recurrence_has_no_pass_over_all_tokens():
    small = {"embedding": 6, "hidden": 8}
    for context in ("first", "every", "attention", "after"):
        program = program_of_model(build_translator(SourceConfig(**small), DecoderConfig(**small, context=context)))
        assert ("forward" in program.graphs) == (context != "attention")


@pytest.mark.parametrize(
    "decoder",
    [
        TransformerDecoderConfig(width=8, heads=2, layers=2),
        RecurrentLanguageConfig(embedding=6, hidden=8, layers=2),
    ],
    ids=["transformer", "rnn"],
)
def test_one_decoder_reads_the_source_and_writes_the_target(decoder):
    model = spread(PrefixConfig(decoder=decoder).build(VOCABULARY, VOCABULARY, shared=True))
    source, target = torch.randint(5, VOCABULARY, (1, 4)), torch.randint(5, VOCABULARY, (1, 5))
    with torch.no_grad():
        wanted = model.output(model(source, torch.tensor([4]), target))[0]
    reader = Reader(program_of_model(model))
    reader.read(source[0])
    close(reader.steps(target[0]), wanted)


def test_weights_that_are_tied_are_one_array():
    config = TransformerDecoderConfig(width=8, heads=2, layers=1)
    model = PrefixConfig(decoder=config).build(VOCABULARY, VOCABULARY, shared=True)
    program = program_of_model(model)
    shape = tuple(model.output.scores.weight.shape)
    tables = {id(a) for graph in program.graphs.values() for a in graph.constants.values() if a.shape == shape}
    assert len(tables) == 1
