"""Gates and states of runs: any task and model, equal to the equations, complete as data, nothing left on the model."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import weft
from weft.errors import ConfigError, DataError
from weft.inspect import GateValues, Nothing, UnitStates, gates, states, view_kind
from weft.inspect.readings import read_all
from weft.nn import CELLS, RNN
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.layer import Layer
from weft.nn.state import leaves_of

pytestmark = pytest.mark.usefixtures("extras")

SMALL = {"kind": "rnn", "embedding": 6, "hidden": 5}
WORDS = {"one": "un", "two": "deux", "red": "rouge"}


def train(folder: Path, task: str, rows: list[Any], model: dict[str, Any], **sections: Any) -> weft.Run:
    data = {"train": rows, "valid": rows[:4], **sections.pop("data", {})}
    train = {} if model.get("kind") == "ngram" else {"epochs": 1}
    config = {"task": task, "data": data, "model": model, "train": train, **sections}
    return weft.train(config, out=folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    draw = random.Random(0)
    rows = [[draw.choice(list(WORDS)) for _ in range(3)] for _ in range(20)]
    return [(" ".join(row), " ".join(WORDS[word] for word in row)) for row in rows]


@pytest.fixture(scope="module")
def translator(folder: Path, pairs: list[tuple[str, str]]) -> weft.Run:
    """Attention inside the recurrence, which runs step by step; the encoder reads in both directions."""
    encoder = {**SMALL, "layers": 2, "cell": "gru"}
    model = {"encoder": encoder, "decoder": {**SMALL, "context": "attention"}}
    return train(folder / "translate", "translate", pairs, model, text={"kind": "word"})


@pytest.fixture(scope="module")
def language(folder: Path, pairs: list[tuple[str, str]]) -> weft.Run:
    model = {**SMALL, "layers": 2}
    return train(folder / "lm", "lm", [source for source, _ in pairs], model, text={"kind": "char"})


def check_view(found: Any) -> None:
    """All forms of a view are there and agree on the tokens."""
    data = found.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert len(found.table().rows) == len(data["tokens"])
    assert found.chart().to_dict()["$schema"]
    assert any(line.plain.strip() for line in found.lines(80))
    assert found.title
    assert found.summary.endswith(".")


@pytest.mark.covers("I2")
def test_gates_of_a_translator_are_those_of_its_equations(translator: weft.Run) -> None:
    found = gates(translator, "one red two", target="un rouge", part="decoder")
    assert isinstance(found, GateValues)
    assert [gate.name for gate in found.gates] == ["i", "f", "o"]
    assert found.tokens == ("<sos>", "un", "rouge")
    reading = next(reading for reading in read_all(translator, "one red two", "un rouge") if reading.part == "decoder")
    (layer,) = reading.passes
    sums = layer.cell.from_input(layer.x) + layer.cell.from_state(layer.before.h)
    assert_close(torch.tensor(found.gates[1].units), sums[0, :, 5:10].sigmoid().T.detach())
    check_view(found)


@pytest.mark.covers("I2")
def test_a_decoder_that_steps_has_the_states_of_its_own_loop(translator: weft.Run) -> None:
    record = translator.task.answered(translator.record("one red two"), "un rouge")
    batch = translator.task.lesson(translator.model, record).batch
    decoder = translator.model.decoder
    with torch.no_grad():
        state = decoder.start(translator.model.encode(batch.source, batch.source_lengths), torch.tensor([0]))
        after = []
        for token in batch.target.unbind(1):
            state = decoder.step(token, state).state
            after.append(leaves_of(state[0])[1])
    found = states(translator, "one red two", target="un rouge", part="decoder", state="c")
    assert isinstance(found, UnitStates)
    assert_close(torch.tensor(found.values), torch.cat(after).T)


def test_both_directions_and_layers_of_an_encoder(translator: weft.Run) -> None:
    for layer in (1, 2):
        for direction in ("forward", "backward"):
            found = gates(translator, "one red two", layer=layer, direction=direction)
            assert isinstance(found, GateValues)
            assert (found.part, found.layer, found.direction) == ("encoder", layer, direction)
            assert [gate.name for gate in found.gates] == ["r", "u"]
            assert found.tokens == ("one", "red", "two", "<eos>")
            (product,) = found.products
            kept = 1 - found.gates[1].units
            expected = np.ones_like(kept)
            if direction == "forward":
                for t in range(kept.shape[1] - 2, -1, -1):
                    expected[:, t] = expected[:, t + 1] * kept[:, t + 1]
            else:
                for t in range(1, kept.shape[1]):
                    expected[:, t] = expected[:, t - 1] * kept[:, t - 1]
            np.testing.assert_allclose(product.units, expected, rtol=1e-5)


def test_reversed_sources_are_shown_in_the_order_of_reading(folder: Path, pairs: list[tuple[str, str]]) -> None:
    model = {"encoder": {**SMALL, "bidirectional": False, "reverse_source": True}, "decoder": SMALL}
    run = train(folder / "reversed", "translate", pairs, model, text={"kind": "word"})
    found = states(run, "one red two")
    assert isinstance(found, UnitStates)
    assert found.tokens == ("two", "red", "one", "<eos>")
    encoder = run.model.encoder
    (reading,) = (reading for reading in read_all(run, "one red two") if reading.part == "encoder")
    words = run.task.source.encode("two red one")
    assert_close(reading.passes[0].x[0, :3], encoder.embedding(torch.tensor(words)).detach())


def test_a_language_model_by_its_own_cell(language: weft.Run) -> None:
    found = gates(language, "one red", values="all", layer=1)
    assert isinstance(found, GateValues)
    assert [(gate.name, gate.kind) for gate in found.gates] == [
        *[(name, "gate") for name in "ifo"],
        ("g", "candidate"),
        ("h", "state"),
        ("c", "state"),
    ]
    i, f, o, g, h, c = (gate.units for gate in found.gates)
    np.testing.assert_allclose(c[:, 1:], f[:, 1:] * c[:, :-1] + i[:, 1:] * g[:, 1:], atol=1e-6)
    np.testing.assert_allclose(h, o * np.tanh(c), atol=1e-6)
    assert found.products[0].state == "c"
    check_view(found)
    shown = states(language, "one red", units=3)
    assert isinstance(shown, UnitStates)
    assert shown.values.shape == (5, 8)
    check_view(shown)
    with torch.no_grad():
        hidden = language.task.states(language.model, [language.record("one red")])
    assert_close(torch.tensor(shown.values[:, 1:]), hidden[0].T, atol=1e-5, rtol=1e-5)


def test_taggers_and_classifiers(folder: Path) -> None:
    tagged = [(["the", "cat"], ["D", "N"]), (["a", "dog"], ["D", "N"])] * 4
    rows = [{"words": words, "tags": tags} for words, tags in tagged]
    tagger = train(folder / "tag", "tag", rows, {**SMALL, "characters": {"kind": "rnn"}})
    found = gates(tagger, "the cat", direction="backward")
    assert isinstance(found, GateValues)
    assert found.tokens == ("the", "cat")
    labelled = [{"text": f"the {word} runs", "label": word} for word in ("cat", "dog")] * 5
    classifier = train(folder / "classify", "classify", labelled, {**SMALL, "cell": "elman", "bidirectional": False})
    nothing = gates(classifier, "the cat runs")
    assert isinstance(nothing, Nothing)
    assert "Elman has no gates" in nothing.summary
    assert isinstance(gates(classifier, "the cat runs", values="all"), GateValues)
    assert isinstance(states(classifier, "the cat runs"), UnitStates)


def test_a_forecast_reads_the_end_of_its_series(folder: Path) -> None:
    numbers = [float(step % 7 + step / 10) for step in range(90)]
    for multistep, tokens in (("direct", range(68, 84)), ("recursive", range(69, 90))):
        run = train(
            folder / multistep,
            "forecast",
            [{"value": number} for number in numbers],
            {"kind": "rnn", "multistep": multistep, "hidden": 5, "embedding": 6, "context": 16},
            data={"history": 16, "horizon": 6, "valid": None},
        )
        found = gates(run, numbers)
        assert isinstance(found, GateValues)
        assert found.tokens == tuple(map(str, tokens))
        with pytest.raises(DataError, match="the answer of a forecast is the end of its series"):
            gates(run, numbers, target="3")
        with pytest.raises(DataError, match="give a longer series"):
            gates(run, numbers[:4])


def test_models_without_gates(folder: Path, pairs: list[tuple[str, str]]) -> None:
    texts = [source for source, _ in pairs]
    counts = train(folder / "ngram", "lm", texts, {"kind": "ngram"})
    transformer = train(
        folder / "transformer", "lm", texts, {"kind": "transformer", "width": 8, "heads": 2, "layers": 2}
    )
    for run in (counts, transformer):
        found = gates(run, "one red")
        assert isinstance(found, Nothing)
        assert "no recurrent layers" in found.summary
    assert isinstance(states(counts, "one red"), Nothing)
    last = states(transformer, "one red")
    assert isinstance(last, UnitStates)
    with torch.no_grad():
        hidden = transformer.task.states(transformer.model, [transformer.record("one red")])
    assert_close(torch.tensor(last.values[:, 1:]), hidden[0].T, atol=1e-5, rtol=1e-5)
    assert not any(module._forward_hooks for module in transformer.model.modules())
    assert all(parameter.grad is None for parameter in transformer.model.parameters())
    check_view(last)


def test_bare_networks() -> None:
    torch.manual_seed(0)
    x = torch.randn(9, 4)
    rnn = RNN("gru", 4, 6).train()
    found = states(rnn, x)
    assert isinstance(found, UnitStates)
    assert_close(torch.tensor(found.values), rnn.eval()(x[None])[0][0].T.detach())
    cell = CELLS["lstm"](4, 6)
    assert isinstance(gates(cell, x), GateValues)
    assert all(not layer.observers for layer in rnn.modules() if isinstance(layer, Layer))
    with pytest.raises(DataError, match="a tensor"):
        gates(rnn, "text")


class Leaky(Cell):
    """An average over time.

        k  = σ(W x + b)                what stays
        h' = k ⊙ h
             + (1 - k) ⊙ x

    A run of it: leaky = Leaky(3, hidden_size=3).
    leaky = Leaky(3, hidden_size=3)
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.gate = torch.nn.Linear(input_size, hidden_size)

    def step(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        k = torch.sigmoid(self.gate(x))
        h = k * h + (1 - k) * x
        return h, h


class Unexplained(Leaky):
    def step(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        k = torch.sigmoid(self.gate(x))
        h = k * h
        return h, h


def test_the_equations_are_those_of_the_cell() -> None:
    own, other, lstm, unit = (
        gates(cell(3, 3), torch.randn(4, 3)).figure().equation
        for cell in (Leaky, Unexplained, CELLS["lstm"], CELLS["minimal_gated"])
    )
    path = "∂h_T/∂h_t = k_{t+1} ⊙ … ⊙ k_T     along the path of h"
    assert own.splitlines()[:-1] == ["k  = σ(W x + b)                what stays", "h' = k ⊙ h", "     + (1 - k) ⊙ x"]
    assert own.splitlines()[-1] == path
    assert other == path  # nothing is known but what was computed
    assert "h' = o ⊙ tanh(c')" in lstm
    assert unit.startswith("f  = σ(W_f x")
    assert "c'" not in unit


def test_a_long_text_stays_small_on_the_screen() -> None:
    torch.manual_seed(0)
    rnn = RNN("lstm", 4, 40)
    found = gates(rnn, torch.randn(2000, 4))
    assert isinstance(found, GateValues)
    assert found.gates[0].units.shape == (40, 2000)
    assert len(found.to_dict()["values"][0]["units"]) == 40
    assert len(json.dumps(found.chart().to_dict())) < 1_500_000


def test_mistakes(language: weft.Run) -> None:
    with pytest.raises(ConfigError, match="there are 2 layers"):
        gates(language, "one", layer=3)
    with pytest.raises(ConfigError, match="one direction"):
        gates(language, "one", direction="backward")
    with pytest.raises(ConfigError, match="no such state"):
        states(language, "one", state="m")
    with pytest.raises(ConfigError, match="no such part"):
        gates(language, "one", part="encoder")
    with pytest.raises(ConfigError, match="search in a file"):
        states(language, "one", inside=("a", "b"))


def test_the_views_are_registered(language: weft.Run) -> None:
    for name in ("gates", "states"):
        found = view_kind(name).show(language, "one", layer=1)
        assert found.code == f"weft.inspect.{name}(weft.load(\"{language.folder}\"), 'one', layer=1)"
