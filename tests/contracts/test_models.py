"""Laws that every model of the catalog must keep."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from weft.catalog import CELLS, CONTEXTS, POOLINGS, SCORES
from weft.errors import ConfigError
from weft.models import (
    ClassifierConfig,
    DecoderConfig,
    LanguageModelConfig,
    SourceConfig,
    Spelling,
    TaggerConfig,
    TranslatorConfig,
)
from weft.nn import select_rows
from weft.text import PAD, SOS

VOCABULARY = 17


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


UNEVEN = [{"kind": "elman", "feedback": True}, {"kind": "projected_lstm", "projection": 3}]
"""Cells whose outputs are not their states, or whose states are of several sizes."""


def translators():
    small = {"embedding": 6, "hidden": 8, "dropout": 0.0}
    for context in CONTEXTS:
        for cell in (*CELLS, *UNEVEN):
            yield pytest.param(
                SourceConfig(cell=cell, **small),
                DecoderConfig(cell=cell, context=context, **small),
                id=f"{context}-{cell if isinstance(cell, str) else cell['kind'] + '-uneven'}",
            )
    for cell in UNEVEN:
        sides = SourceConfig(cell=cell, bidirectional=False, **small), DecoderConfig(cell=cell, bridge="copy", **small)
        yield pytest.param(*sides, id=f"copied-{cell['kind']}")
    mixed = SourceConfig(cell=UNEVEN[0], **small), DecoderConfig(cell=UNEVEN[1], layers=2, **small)
    yield pytest.param(*mixed, id="mixed")
    for score in SCORES:
        width = {"bidirectional": False} if "dot" in score else {}
        yield pytest.param(SourceConfig(**small, **width), DecoderConfig(attention=score, **small), id=f"after-{score}")
    deep = DecoderConfig(embedding=5, hidden=[8, 7], layers=2, dropout=0.0, tie=False, skip="dense")
    yield pytest.param(SourceConfig(**small, layers=2, merge="sum", reverse_source=True), deep, id="stacked")
    plain = SourceConfig(**small, bidirectional=False)
    yield pytest.param(plain, DecoderConfig(**small, bridge="copy"), id="copied")
    yield pytest.param(plain, DecoderConfig(**small, bridge="none"), id="unbridged")
    onehot = {"embedding": "onehot", "hidden": 8, "dropout": 0.0}
    yield pytest.param(SourceConfig(**onehot), DecoderConfig(**onehot), id="onehot")


def build_translator(encoder, decoder):
    return TranslatorConfig(encoder=encoder, decoder=decoder).build(VOCABULARY, VOCABULARY, shared=False).eval()


@pytest.mark.parametrize(("encoder", "decoder"), list(translators()))
def test_a_translator_step_by_step_equals_the_full_pass(encoder, decoder):
    model = build_translator(encoder, decoder)
    source, lengths = torch.randint(5, VOCABULARY, (3, 6)), torch.tensor([6, 2, 4])
    source = source.masked_fill(torch.arange(6) >= lengths[:, None], PAD)
    target = torch.randint(5, VOCABULARY, (3, 5))
    target[:, 0] = SOS
    full = model.output(model(source, lengths, target))
    state = model.start(model.encode(source, lengths), torch.arange(3))
    for step in range(5):
        found = model.step(target[:, step], state)
        state = found.state
        assert_close(found.logits, full[:, step], atol=2e-5, rtol=1e-4)
        if found.attention is not None:
            assert_close(found.attention.sum(-1), torch.ones(3))
            assert not found.attention[1, 2:].any(), "no weight on padding"


@pytest.mark.parametrize(("encoder", "decoder"), list(translators()))
def test_a_translation_does_not_depend_on_its_neighbours_or_on_padding(encoder, decoder):
    model = build_translator(encoder, decoder)
    source, target = torch.randint(5, VOCABULARY, (2, 6)), torch.randint(5, VOCABULARY, (2, 4))
    source[1, 3:] = PAD
    together = model(source, torch.tensor([6, 3]), target)
    alone = model(source[1:, :3], torch.tensor([3]), target[1:])
    assert_close(together[1:], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("encoder", "decoder"), list(translators()))
def test_every_parameter_of_a_translator_learns(encoder, decoder):
    model = build_translator(encoder, decoder)
    source, target = torch.randint(5, VOCABULARY, (4, 6)), torch.randint(5, VOCABULARY, (4, 5))
    model.output(model(source, torch.tensor([6, 5, 4, 6]), target)).logsumexp(-1).sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        ({"cell": "gru", "bidirectional": True}, {"cell": "lstm"}),
        ({"cell": "gru", "layers": 2}, {"cell": "lstm"}),
        ({"cell": UNEVEN[0]}, {"cell": "lstm"}),
        ({"cell": "projected_lstm"}, {"cell": "lstm"}),
    ],
    ids=["directions", "layers", "fields", "sizes"],
)
def test_a_state_of_another_structure_is_not_copied(encoder, decoder):
    source = SourceConfig(**{"hidden": 8, "bidirectional": False, **encoder})
    with pytest.raises(ConfigError, match=r'model\.decoder\.bridge: "copy" needs equal states'):
        build_translator(source, DecoderConfig(hidden=8, bridge="copy", **decoder))


def test_hypotheses_share_the_source_and_can_be_reordered():
    model = build_translator(SourceConfig(embedding=6, hidden=8), DecoderConfig(embedding=6, hidden=8))
    memory = model.encode(torch.randint(5, VOCABULARY, (2, 6)), torch.tensor([6, 3]))
    state = model.start(memory, torch.tensor([0, 0, 1]))
    tokens = torch.tensor([7, 8, 9])
    order = torch.tensor([2, 0, 0])
    moved = model.step(tokens[order], select_rows(state, order)).logits
    assert_close(moved, model.step(tokens, state).logits[order])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("tie", [True, False])
def test_a_language_model_step_by_step_equals_the_full_pass(cell, tie):
    model = LanguageModelConfig(cell=cell, embedding=6, hidden=8, layers=2, tie=tie).build(VOCABULARY).eval()
    tokens = torch.randint(5, VOCABULARY, (3, 5))
    full = model.output(model(tokens))
    state = model.start(None, torch.arange(3))
    for step in range(5):
        logits, state, _ = model.step(tokens[:, step], state)
        assert_close(logits, full[:, step], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_no_class(pooling):
    model = ClassifierConfig(pooling=pooling, embedding=6, hidden=8).build(VOCABULARY, 3).eval()
    tokens = torch.randint(5, VOCABULARY, (2, 7))
    tokens[1, 4:] = PAD
    together = model(tokens, torch.tensor([7, 4]))
    assert_close(together[1:], model(tokens[1:, :4], torch.tensor([4])), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("characters", [0, 5])
def test_padding_changes_no_tag(characters):
    model = TaggerConfig(embedding=6, hidden=8, characters=characters).build(VOCABULARY, VOCABULARY, 4).eval()
    words, letters = torch.randint(5, VOCABULARY, (2, 6)), torch.randint(5, VOCABULARY, (9, 4))
    sizes, where = torch.randint(1, 5, (9,)), torch.randint(0, 9, (2, 6))
    together = model(words, torch.tensor([6, 3]), Spelling(letters, sizes, where))
    alone = model(words[1:, :3], torch.tensor([3]), Spelling(letters, sizes, where[1:, :3]))
    assert_close(together[1:, :3], alone, atol=1e-5, rtol=1e-4)


def test_spelling_tells_words_apart_that_the_vocabulary_does_not_know():
    model = TaggerConfig(embedding=6, hidden=8, characters=5).build(VOCABULARY, VOCABULARY, 4).eval()
    unknown = torch.ones(1, 2, dtype=torch.long)
    letters = torch.tensor([[5, 6, 7], [8, 9, 10]])
    logits = model(unknown, torch.tensor([2]), Spelling(letters, torch.tensor([3, 3]), torch.tensor([[0, 1]])))
    same = model(unknown, torch.tensor([2]), Spelling(letters, torch.tensor([3, 3]), torch.tensor([[0, 0]])))
    assert not torch.allclose(logits[0, 1], same[0, 1])


def test_the_toy_look_ahead_model_has_748_parameters():
    model = LanguageModelConfig(cell="elman", embedding="onehot", hidden=20, tie=False).build(8)
    assert sum(weight.numel() for weight in model.parameters()) == 748
