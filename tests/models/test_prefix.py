"""One network over source, separator and target: rows, loss and search are those of the two sides read one after the
other by a language model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from weft.decoding import DecodeConfig, Step, search, stream
from weft.decoding.constraints import Constraint
from weft.decoding.slots import MAX_ROWS
from weft.errors import DataError
from weft.models import PREFIX_DECODERS, PrefixConfig, PrefixTranslator
from weft.models.prefix import join_packed, join_padded
from weft.nn import Packing
from weft.text import EOS, PAD, SOS

VOCABULARY = 17
TRANSFORMER = {"kind": "transformer", "width": 8, "heads": 2, "layers": 2, "feedforward": 12, "dropout": 0.0}
RNN = {"kind": "rnn", "embedding": 6, "hidden": 8, "dropout": 0.0}
DECODERS = {
    "sinusoid": TRANSFORMER,
    "rotary": {**TRANSFORMER, "positions": "rotary", "norm": "post"},
    "learned": {**TRANSFORMER, "positions": "learned", "max_positions": 16},
    "lstm": RNN,
    "gru": {**RNN, "cell": "gru", "layers": 2, "tie": False},
}
SOURCES = [[7, 8, 9, 10, EOS], [6, EOS], [5, 11, 12, EOS]]
TARGETS = [[SOS, 9, 8], [SOS, 5, 6, 7, 8], [SOS]]


def build(name: str) -> PrefixTranslator:
    torch.manual_seed(0)
    config = PrefixConfig.model_validate({"decoder": DECODERS[name]})
    model = config.build(VOCABULARY, VOCABULARY, shared=True).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def padded(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    size = max(map(len, rows))
    return torch.tensor([row + [PAD] * (size - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


def test_every_kind_of_decoder_is_tested() -> None:
    assert {settings["kind"] for settings in DECODERS.values()} == set(PREFIX_DECODERS)


def test_a_target_stands_directly_after_its_source() -> None:
    source, lengths = padded(SOURCES)
    rows = join_padded(source, lengths, padded(TARGETS)[0])
    assert rows.tokens.tolist() == [
        [7, 8, 9, 10, EOS, SOS, 9, 8, PAD, PAD],
        [6, EOS, SOS, 5, 6, 7, 8, PAD, PAD, PAD],
        [5, 11, 12, EOS, SOS, PAD, PAD, PAD, PAD, PAD],
    ]
    assert rows.tokens.gather(1, rows.places).tolist() == padded(TARGETS)[0].tolist()
    assert not rows.free[:, :2].any(), "a source stays as it is"
    assert not rows.free[rows.tokens == SOS].any()


def test_packed_rows_are_the_padded_ones_end_to_end() -> None:
    read, written = (Packing.of(torch.tensor([len(row) for row in rows])) for rows in (SOURCES, TARGETS))
    source, target = (torch.tensor([token for row in rows for token in row]) for rows in (SOURCES, TARGETS))
    found = join_packed(source, read, target, written)
    whole = [[*left, *right] for left, right in zip(SOURCES, TARGETS, strict=True)]
    expected = Packing.of(torch.tensor([len(row) for row in whole]))
    assert found.packing is not None
    assert found.tokens.tolist() == [token for row in whole for token in row]
    assert found.packing.offsets.tolist() == expected.offsets.tolist()
    assert found.packing.positions.tolist() == expected.positions.tolist()
    assert found.packing.rows.tolist() == expected.rows.tolist()
    assert found.packing.longest >= expected.longest
    assert found.tokens[found.places].tolist() == target.tolist()


def test_packings_filled_to_a_capacity_join_too() -> None:
    lengths = [len(row) for row in SOURCES], [len(row) for row in TARGETS]
    read = Packing.filled(torch.tensor(lengths[0]), rows=5, tokens=16, longest=5)
    written = Packing.filled(torch.tensor(lengths[1]), rows=6, tokens=12, longest=5)
    found = join_packed(torch.arange(100, 116), read, torch.arange(200, 212), written)
    assert found.packing is not None
    assert found.packing.count == 6
    assert found.tokens[found.places].tolist() == list(range(200, 212))
    assert sorted(found.tokens.tolist()) == [*range(100, 116), *range(200, 212)]
    begins = found.packing.offsets[:-1].long()[found.packing.rows]
    assert (begins + found.packing.positions).tolist() == list(range(28)), "rows lie end to end"


@pytest.mark.covers("M4b")
@pytest.mark.parametrize("name", DECODERS)
def test_step_by_step_equals_the_full_pass(name: str) -> None:
    model = build(name)
    full = model.output(model(*padded(SOURCES), *padded(TARGETS)))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        state: Any = model.start(None, torch.tensor([0]))
        steps = []
        for token in [*source, *target]:
            logits, state, _ = model.step(torch.tensor([token]), state)
            steps.append(logits[0])
        assert_close(torch.stack(steps[len(source) :]), full[row, : len(target)])


@pytest.mark.parametrize("name", [name for name in DECODERS if DECODERS[name]["kind"] == "transformer"])
def test_packed_equals_padded(name: str) -> None:
    model = build(name)
    assert model.packs
    read, written = (Packing.of(padded(rows)[1]) for rows in (SOURCES, TARGETS))
    full = model(*padded(SOURCES), *padded(TARGETS))
    packed = model(read.unpad(padded(SOURCES)[0]), read, written.unpad(padded(TARGETS)[0]), written)
    assert_close(packed, written.unpad(full))


@pytest.mark.parametrize("name", DECODERS)
def test_a_text_does_not_depend_on_its_neighbours(name: str) -> None:
    model = build(name)
    together = model(*padded(SOURCES), *padded(TARGETS))
    alone = model(*padded(SOURCES[1:2]), *padded(TARGETS[1:2]))
    assert_close(together[1:2], alone)


class Plain:
    """A model of which a search knows `start` and `step` alone."""

    def __init__(self, model: PrefixTranslator) -> None:
        self.model = model

    def start(self, memory: Any, rows: torch.Tensor) -> Any:
        return self.model.start(memory, rows)

    def step(self, tokens: torch.Tensor, state: Any) -> Step:
        return self.model.step(tokens, state)


@pytest.mark.covers("M4b")
@pytest.mark.parametrize("config", [DecodeConfig(beam=1), DecodeConfig(beam=3, n_best=3)], ids=["greedy", "beam"])
@pytest.mark.parametrize("name", DECODERS)
def test_a_search_after_a_prefill_finds_what_forced_steps_find(
    name: str, config: DecodeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(name)
    source, lengths = padded([*SOURCES, [8, EOS]])
    memory, prompts = model.read(source, lengths)
    assert prompts == [*SOURCES, [8, EOS]]
    wanted: dict[str, Any] = {"limits": [6, 4, 3, 5], "prefixes": [[], [7], [], [6, 8]], "sources": prompts}
    monkeypatch.setitem(MAX_ROWS, "cpu", 2 * config.beam)  # sentences wait for others to end
    found = search(model, memory, 4, config, **wanted)
    monkeypatch.undo()
    plain = search(Plain(model), memory, 4, config, **wanted)
    assert [[one.tokens for one in own] for own in found] == [[one.tokens for one in own] for own in plain]
    for ours, theirs in zip(found, plain, strict=True):
        assert_close([one.score for one in ours], [one.score for one in theirs])
    for prefix, own in zip(wanted["prefixes"], found, strict=True):
        text = torch.tensor([[SOS, *prefix, *own[0].tokens]])
        scores = model.output(model(source, lengths, text.expand(4, -1))).log_softmax(-1)
        row = found.index(own)
        ends = [*prefix, *own[0].tokens, EOS][len(prefix) :][: len(own[0].log_probabilities)]
        places = range(len(prefix), len(prefix) + len(ends))
        assert_close(
            [scores[row, place, token].item() for place, token in zip(places, ends, strict=True)],
            list(own[0].log_probabilities),
        )


@pytest.mark.parametrize("name", ["sinusoid", "lstm"])
def test_constraints_are_about_the_target_and_not_the_source(name: str) -> None:
    model = build(name)
    constraint = Constraint(((9,),), (((7, 8),),))
    [[best]] = search(
        model, None, 1, DecodeConfig(beam=4), sources=[[7, 8, 9, EOS]], limits=[8], constraints=[constraint]
    )
    assert not best.missing, "the source has 7 8, but that is not the text"
    assert any(pair == (7, 8) for pair in zip(best.tokens, best.tokens[1:], strict=False))
    assert 9 not in best.tokens


@pytest.mark.parametrize("name", ["sinusoid", "lstm"])
def test_a_streamed_text_is_the_found_one(name: str) -> None:
    model = build(name)
    [[best]] = search(model, None, 1, DecodeConfig(beam=3), sources=SOURCES[:1], limits=[6])
    pieces = stream(model, None, DecodeConfig(beam=3), source=SOURCES[0], limit=6)
    assert tuple(token for piece in pieces for token in piece) == best.tokens


def test_source_and_target_share_the_positions() -> None:
    model = build("learned")
    [[best]] = search(model, None, 1, DecodeConfig(beam=1, min_length=30, max_length=40), sources=[[5] * 9 + [EOS]])
    assert len(best.tokens) == 16 - 10, "ten of sixteen positions are the source's"
    with pytest.raises(DataError, match=r"leaves no position of model\.max_positions = 16"):
        search(model, None, 1, DecodeConfig(beam=1), sources=[[5] * 16])


def test_rows_that_fit_are_read_whatever_their_padding() -> None:
    model = build("learned")
    sources, targets = [[5] * 10 + [EOS], [6, EOS]], [[SOS, 7], [SOS, *[8] * 11]]
    found = model(*padded(sources), *padded(targets))
    assert_close(found[1:, :12], model(*padded(sources[1:]), *padded(targets[1:])))


@pytest.mark.parametrize("name", ["sinusoid", "lstm"])
def test_scheduled_sampling_replaces_tokens_of_the_target_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = build(name), []
    forward = model.decoder.forward
    monkeypatch.setattr(model.decoder, "forward", lambda *parts: seen.append(parts[0]) or forward(*parts))
    model(*padded(SOURCES), *padded(TARGETS), truth=0.0)
    rows = join_padded(*padded(SOURCES), padded(TARGETS)[0])
    assert (seen[-1][~rows.free] == rows.tokens[~rows.free]).all()
    assert (seen[-1][rows.free] != rows.tokens[rows.free]).any()
