"""Small random models, and the interpreter beside torch: one row at a time, whole and step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.export.graph.evaluate import evaluate

TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def spread(model, *, std=0.4):
    """Weights far from their start: many of these are zeros, which would hide mistakes."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=std)
    return model.eval()


def close(found, wanted, *, tolerance=2e-5):
    wanted = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else np.asarray(wanted)
    np.testing.assert_allclose(found, wanted, atol=tolerance, rtol=tolerance)


class Reader:
    """A program with a state: its graphs are run in any order, as a host does."""

    def __init__(self, program, **inputs):
        self.program, first = program, "encode" if "encode" in program.graphs else "start"
        self.state = evaluate(program.graphs[first], inputs)
        graphs = [graph for name, graph in program.graphs.items() if name in ("step", "forward")]
        for field in program.state:
            if field.name not in self.state:
                assert field.grows is not None, "only what grows may be empty"
                self.state[field.name] = np.zeros([0, *field.shape[1:]], np.float64)
            assert all(value.shape == field.shape for g in graphs for value in g.inputs if value.name == field.name)

    def __call__(self, graph, **inputs):
        found = evaluate(self.program.graphs[graph], {**inputs, **self.state})
        moving = {field.name for field in self.program.state if not field.shared}
        assert {name for name in found if name.startswith("next_")} == {f"next_{name}" for name in moving}
        self.state |= {name: found.pop(f"next_{name}") for name in moving}
        return found

    def read(self, tokens):
        """Logits of all tokens at once."""
        return self("forward", tokens=tokens)["logits"]

    def steps(self, tokens):
        """Logits of one token after the other."""
        return np.stack([self("step", token=token)["logits"] for token in tokens])
