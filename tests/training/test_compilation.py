"""When blocks are compiled, and what is said about it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.errors import ConfigError
from weft.training import compilation, compile_model
from weft.training.compilation import Compilation

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Linear(1, 1)])
        self.compiled = 0

    def compile_blocks(self):
        self.compiled += 1


class Outer(Stack):
    def __init__(self):
        super().__init__()
        self.stack = Stack()


@pytest.fixture
def compiler(monkeypatch):
    """A machine with a compiler, or with one that complains."""

    def have(reason):
        monkeypatch.setattr(compilation, "_obstacle", lambda device: reason)

    have("")
    return have


@pytest.mark.parametrize(
    ("setting", "device", "updates", "compiled"),
    [
        ("auto", CUDA, 500, 1),
        ("auto", CUDA, 499, 0),
        ("auto", CPU, 10_000, 0),
        (True, CPU, 1, 1),
        (True, CUDA, 1, 1),
        (False, CUDA, 10_000, 0),
    ],
)
def test_auto_compiles_where_it_pays(compiler, setting, device, updates, compiled):
    model = nn.Sequential(nn.Linear(1, 1), Stack(), Stack())
    found = compile_model(model, setting, device=device, updates=updates)
    assert found.compiled == bool(compiled)
    assert [model[1].compiled, model[2].compiled] == [compiled, compiled]
    if compiled:
        assert found.notes == ("the blocks are compiled; the first updates take longer",)
    if updates == 499:
        assert "499 updates would not pay" in found.notes[0]


def test_a_part_that_compiles_its_own_parts_is_asked_alone(compiler):
    model = Outer()
    compile_model(model, True, device=CPU, updates=1)
    assert (model.compiled, model.stack.compiled) == (1, 0)


def test_a_model_without_blocks_is_left_alone_unless_it_was_asked_for(compiler):
    assert compile_model(nn.Linear(1, 1), "auto", device=CUDA, updates=10_000) == Compilation()
    with pytest.raises(ConfigError, match=r'train\.compile = true: .*no blocks to compile \(leave it at "auto"'):
        compile_model(nn.Linear(1, 1), True, device=CPU, updates=10_000)


def test_without_a_compiler_training_goes_on_and_says_so(compiler):
    compiler("no C++ compiler found")
    model = Stack()
    found = compile_model(model, True, device=CPU, updates=1)
    assert found == Compilation(False, ("the blocks run uncompiled, more slowly: no C++ compiler found",))
    assert model.compiled == 0


def test_a_model_is_measured_uncompiled():
    """Two shapes of an evaluation are not worth two compilations."""
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    function = torch.compile(lambda x: x + 1, backend=backend)
    with Compilation(True).measuring():
        assert function(torch.zeros(2)).tolist() == [1.0, 1.0]
    assert not compiled
    with Compilation(False).measuring():
        function(torch.zeros(2))
    assert len(compiled) == 1


def test_an_obstacle_is_found_by_trying(monkeypatch):
    def refuse(function):
        raise RuntimeError("\nno compiler\nat all")

    monkeypatch.setattr(torch, "compile", refuse)
    assert compilation._obstacle(CPU) == "no compiler"
    monkeypatch.setattr(torch, "compile", lambda function: function)
    assert compilation._obstacle(CPU) == ""
