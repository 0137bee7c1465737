"""Laws that every translator of the catalog must keep: any encoder with any decoder."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.sampling import sample
from torch.testing import assert_close

from weft.catalog import CELLS, CONTEXTS, NORMS, POSITIONS, SCORES
from weft.decoding import DecodeConfig, search
from weft.decoding.slots import MAX_ROWS
from weft.errors import ConfigError
from weft.models import RecurrentDecoderConfig as DecoderConfig
from weft.models import RecurrentSourceConfig as SourceConfig
from weft.models import TransformerDecoderConfig, TransformerEncoderConfig, TranslatorConfig
from weft.models.embedding import build_embedding
from weft.nn import Cell, Packing, choose_cell, select_rows
from weft.nn.recurrent.sru import SRU
from weft.text import EOS, PAD, SOS

VOCABULARY = 17


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


UNEVEN = [{"kind": "elman", "feedback": True}, {"kind": "projected_lstm", "projection": 3}]
"""Cells whose outputs are not their states, or whose states are of several sizes."""


TRANSFORMER = {"width": 8, "heads": 2, "layers": 2, "feedforward": 12, "dropout": 0.0}


def transformers():
    """Every choice of the transformer, on both sides."""
    choices = [
        *({"positions": name} for name in POSITIONS),
        *({"norm": name} for name in NORMS),
        {"activation": "swiglu", "attention_bias": True},
        {"attention_scale": "none"},
        {"attention_scale": 0.7, "attention_hard": True},
        {"embedding": 6, "tie": False},
        {"embedding": "onehot"},
    ]
    for choice in choices:
        encoder = {name: value for name, value in choice.items() if name != "tie"}
        sides = TransformerEncoderConfig(**TRANSFORMER | encoder), TransformerDecoderConfig(**TRANSFORMER | choice)
        yield pytest.param(*sides, id="transformer-" + "-".join(map(str, choice.values())))


def mixed():
    """A network of one kind that reads and one of another that writes."""
    small = {"embedding": 6, "hidden": 8, "dropout": 0.0}
    transformer = TransformerEncoderConfig(**TRANSFORMER)
    for context in CONTEXTS:
        yield pytest.param(transformer, DecoderConfig(context=context, **small), id=f"transformer-{context}")
    yield pytest.param(transformer, DecoderConfig(bridge="none", **small), id="transformer-unbridged")
    deep = DecoderConfig(layers=2, cell="gru", **small)
    yield pytest.param(transformer, deep, id="transformer-stacked")
    decoder = TransformerDecoderConfig(**TRANSFORMER)
    for cell in ("gru", "lstm"):
        yield pytest.param(SourceConfig(cell=cell, **small), decoder, id=f"{cell}-transformer")
    # Another width than the decoder's, read from the end.
    wide = SourceConfig(**small | {"hidden": 5}, reverse_source=True)
    yield pytest.param(wide, decoder, id="reversed-transformer")


def recurrent():
    small = {"embedding": 6, "hidden": 8, "dropout": 0.0}
    cells = (*CELLS, *UNEVEN)
    quick = set(sample((len(CONTEXTS), len(cells)), 1))
    for (row, context), (column, cell) in itertools.product(enumerate(CONTEXTS), enumerate(cells)):
        yield pytest.param(
            SourceConfig(cell=cell, **small),
            DecoderConfig(cell=cell, context=context, **small),
            id=f"{context}-{cell if isinstance(cell, str) else cell['kind'] + '-uneven'}",
            marks=() if (row, column) in quick else pytest.mark.slow,
        )
    for cell in UNEVEN:
        sides = SourceConfig(cell=cell, bidirectional=False, **small), DecoderConfig(cell=cell, bridge="copy", **small)
        yield pytest.param(*sides, id=f"copied-{cell['kind']}")
    uneven = SourceConfig(cell=UNEVEN[0], **small), DecoderConfig(cell=UNEVEN[1], layers=2, **small)
    yield pytest.param(*uneven, id="uneven")
    for score in SCORES:
        width = {"bidirectional": False} if "dot" in score else {}
        yield pytest.param(SourceConfig(**small, **width), DecoderConfig(attention=score, **small), id=f"after-{score}")
    for context in ("after", "attention"):
        options = {"context": context, "attention_scale": "sqrt_max", "attention_hard": True}
        yield pytest.param(SourceConfig(**small), DecoderConfig(**options, **small), id=f"{context}-hard")
    deep = DecoderConfig(embedding=5, hidden=[8, 7], layers=2, dropout=0.0, tie=False, skip="dense")
    yield pytest.param(SourceConfig(**small, layers=2, merge="sum", reverse_source=True), deep, id="stacked")
    plain = SourceConfig(**small, bidirectional=False)
    yield pytest.param(plain, DecoderConfig(**small, bridge="copy"), id="copied")
    yield pytest.param(plain, DecoderConfig(**small, bridge="none"), id="unbridged")
    onehot = {"embedding": "onehot", "hidden": 8, "dropout": 0.0}
    yield pytest.param(SourceConfig(**onehot), DecoderConfig(**onehot), id="onehot")


def translators():
    return [*recurrent(), *transformers(), *mixed()]


def build_translator(encoder, decoder):
    return TranslatorConfig(encoder=encoder, decoder=decoder).build(VOCABULARY, VOCABULARY, shared=False).eval()


@pytest.mark.covers("X6", "M4")
@pytest.mark.parametrize(("encoder", "decoder"), translators())
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


@pytest.mark.covers("T4")
@pytest.mark.parametrize(("encoder", "decoder"), translators())
def test_a_translation_does_not_depend_on_its_neighbours_or_on_padding(encoder, decoder):
    model = build_translator(encoder, decoder)
    source, target = torch.randint(5, VOCABULARY, (2, 6)), torch.randint(5, VOCABULARY, (2, 4))
    source[1, 3:] = PAD
    together = model(source, torch.tensor([6, 3]), target)
    alone = model(source[1:, :3], torch.tensor([3]), target[1:])
    assert_close(together[1:], alone, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("encoder", "decoder"), translators())
def test_every_parameter_of_a_translator_learns(encoder, decoder):
    model = build_translator(encoder, decoder)
    source, target = torch.randint(5, VOCABULARY, (4, 6)), torch.randint(5, VOCABULARY, (4, 5))
    if "rezero" in (getattr(encoder, "norm", ""), getattr(decoder, "norm", "")):
        start_rezero(model)
    model.output(model(source, torch.tensor([6, 5, 4, 6]), target)).logsumexp(-1).sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    # These contexts read the last state alone, which the highway of an SRU goes past.
    unread = getattr(decoder, "context", "") in ("first", "every")
    highways = [
        f"encoder.{name}.resize.weight" for name, part in model.encoder.named_modules() if isinstance(part, SRU)
    ]
    assert silent == (highways if unread else [])


def start_rezero(model):
    """What each part of a block adds starts at nothing, so at first only its factor learns."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.numel() == 1:
                weight.fill_(0.5)


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


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        (SourceConfig(embedding=6, hidden=8), DecoderConfig(embedding=6, hidden=8)),
        (TransformerEncoderConfig(**TRANSFORMER), TransformerDecoderConfig(**TRANSFORMER)),
    ],
    ids=["rnn", "transformer"],
)
def test_hypotheses_share_the_source_and_can_be_reordered(encoder, decoder):
    model = build_translator(encoder, decoder)
    memory = model.encode(torch.randint(5, VOCABULARY, (2, 6)), torch.tensor([6, 3]))
    state = model.start(memory, torch.tensor([0, 0, 1]))
    tokens = torch.tensor([7, 8, 9])
    order = torch.tensor([2, 0, 0])
    moved = model.step(tokens[order], select_rows(state, order)).logits
    assert_close(moved, model.step(tokens, state).logits[order])


@pytest.mark.parametrize("config", [DecodeConfig(beam=1), DecodeConfig(beam=3, n_best=2)], ids=["greedy", "beam"])
@pytest.mark.parametrize(("encoder", "decoder"), translators())
def test_search_in_slots_finds_what_plain_search_finds(encoder, decoder, config, monkeypatch, plain, same_hypotheses):
    """Sentences that take turns in two slots of fixed shape, against states that grow, everything at once."""
    model = build_translator(encoder, decoder).double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    memory = model.encode(torch.randint(5, VOCABULARY, (5, 6)), torch.tensor([6, 3, 5, 1, 2]))
    wanted = {"limits": [9, 4, 6, 7, 2], "prefixes": [[7], [], [6, 8], [], []]}
    monkeypatch.setitem(MAX_ROWS, "cpu", 2 * config.beam)
    found = search(model, memory, 5, config, **wanted)
    same_hypotheses(found, search(plain(model), memory, 5, config, **wanted))


@pytest.mark.parametrize(("encoder", "decoder"), list(transformers()))
def test_packed_equals_padded(encoder, decoder):
    model = build_translator(encoder, decoder)
    if encoder.attention_hard:
        assert not model.packs, "packed batches have no hard attention"
        return
    assert model.packs
    source, target = torch.randint(5, VOCABULARY, (3, 6)), torch.randint(5, VOCABULARY, (3, 5))
    read, written = Packing.of(torch.tensor([6, 2, 4])), Packing.of(torch.tensor([2, 5, 1]))
    padded = model(read.pad(read.unpad(source)), read.lengths, target)
    packed = model(read.unpad(source), read, written.unpad(target), written)
    assert_close(packed, written.unpad(padded), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(("encoder", "decoder"), list(mixed()))
def test_only_transformers_throughout_pack(encoder, decoder):
    assert not build_translator(encoder, decoder).packs


def test_a_shared_vocabulary_is_one_table_for_encoder_decoder_and_output():
    sides = TransformerEncoderConfig(**TRANSFORMER), TransformerDecoderConfig(**TRANSFORMER, embedding=8)
    model = TranslatorConfig(encoder=sides[0], decoder=sides[1]).build(VOCABULARY, VOCABULARY, shared=True)
    assert model.encoder.embedding is model.decoder.embedding
    assert model.output.scores.weight is model.encoder.embedding.weight


class Order(Cell):
    """Its output is the number of the step and, after it, the input."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.output_size = input_size + 1

    def step(self, x, h):
        h = h + 1
        return torch.cat((h[:, :1], x), dim=-1), h


@pytest.mark.covers("M4")
@pytest.mark.parametrize("reverse", [False, True])
def test_states_stand_in_the_order_of_the_tokens_whatever_the_order_of_reading(reverse):
    cell = choose_cell("order", {"order": Order})
    config = SourceConfig(
        cell=cell, embedding="onehot", hidden=1, bidirectional=False, reverse_source=reverse, dropout=0.0
    )
    encoder = config.build_encoder(build_embedding("onehot", VOCABULARY))
    source = torch.tensor([[7, 9, 11, 13, EOS], [6, 8, EOS, PAD, PAD]])
    memory = encoder(source, torch.tensor([5, 3]))
    read_as, tokens = memory.states[..., 0], memory.states[..., 1:].argmax(-1)
    assert tokens.tolist() == [[7, 9, 11, 13, EOS], [6, 8, EOS, PAD, PAD]]
    expected = [[4, 3, 2, 1, 5], [2, 1, 3, 0, 0]] if reverse else [[1, 2, 3, 4, 5], [1, 2, 3, 0, 0]]
    assert read_as.tolist() == expected, "the end is read last"
    assert memory.final[0][:, 0].tolist() == [5, 3]
