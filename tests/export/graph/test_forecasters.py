"""Forecasters and captioners as programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.export.graph.conftest import Reader, close, spread

from weft.data import Statistics
from weft.export.graph.evaluate import evaluate
from weft.export.graph.lower_model import program_of_model
from weft.models import CaptionerConfig
from weft.models.forecaster import Forecaster, ForecastSizes, SeriesWindow
from weft.models.forecaster_settings import FORECASTERS
from weft.nn import CELLS

KINDS = {
    "rnn": {"embedding": 5, "hidden": 6, "layers": 2, "dropout": 0.0},
    "transformer": {"width": 8, "heads": 2, "layers": 2, "dropout": 0.0},
    "conv": {"embedding": 5, "width": 6, "layers": 2, "kernel": 3, "dropout": 0.0},
    "linear": {"dropout": 0.0},
}
PLAIN = ForecastSizes(9, 4, 3)
FULL = ForecastSizes(9, 4, 3, past=2, known=3, static=2, series=3, categories=(2, 4))


def window_of(sizes):
    """A window with gaps, in the type of the model."""
    observed = torch.rand(1, sizes.history) < 0.7
    observed[0, 3] = True
    target = torch.randn(1, sizes.history).double() * observed
    length = sizes.history + sizes.horizon
    return SeriesWindow(
        target,
        observed,
        torch.randn(1, sizes.history, sizes.past).double(),
        torch.randn(1, length, sizes.known).double(),
        torch.randint(0, sizes.series, (1,)),
        torch.randn(1, sizes.static).double(),
        torch.tensor([list(sizes.categories)], dtype=torch.long).reshape(1, -1),
    )


def cases():
    for kind in FORECASTERS:
        for output in ("quantile", "point", "student_t"):
            yield pytest.param(kind, {"output": output, "quantiles": [0.05, 0.5, 0.7, 0.9]}, id=f"{kind}-{output}")
        yield pytest.param(kind, {"quantiles": [0.5]}, id=f"{kind}-median")
        yield pytest.param(kind, {"context": 1}, id=f"{kind}-short")
    for cell in CELLS:
        yield pytest.param("rnn", {"cell": cell}, id=cell)
    for positions in ("learned", "rotary", "sinusoid_concat"):
        yield pytest.param("transformer", {"positions": positions}, id=positions)


@pytest.mark.parametrize(("kind", "options"), list(cases()))
@pytest.mark.parametrize("multistep", ["direct", "recursive"])
@pytest.mark.parametrize("sizes", [PLAIN, FULL], ids=["plain", "full"])
def test_a_forecaster(kind, options, multistep, sizes):
    config = FORECASTERS[kind](**{"context": 6, "multistep": multistep} | KINDS[kind] | options)
    for season in (3, 1, 5, 20) if kind == "linear" else (3, 1):
        sizes = sizes._replace(season=season)
        model = spread(Forecaster(config, sizes)).double()
        model.offsets.normal_()
        program, window = program_of_model(model), window_of(sizes)
        with torch.no_grad():
            wanted = model.quantiles(model(window))[0]
        asked = {value.name for value in next(iter(program.graphs.values())).inputs}
        given = {name: part[0] for name, part in window._asdict().items() if name in asked}
        if multistep == "direct":
            found = evaluate(program.graphs["forward"], given)["quantiles"]
        else:
            reader = Reader(program, **given)
            found = np.stack([reader("step", step=step)["quantiles"] for step in range(sizes.horizon)])
        close(found, wanted, tolerance=2e-5)


@pytest.mark.parametrize("decoder", [{"kind": "rnn", "embedding": 5, "hidden": 6}, {"kind": "transformer", "width": 8}])
@pytest.mark.parametrize("encoder", [{"kind": "conv", "channels": [3, 8], "layers": 2}, {"kind": "linear", "width": 6}])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_captioner(encoder, decoder, channels):
    config = CaptionerConfig(encoder=encoder, decoder=decoder)
    source = Statistics((0.4,) * channels, (0.3,) * channels)
    model = spread(config.build(source, 11), std=0.2).double()
    model.encoder.to(torch.float64)
    program = program_of_model(model, picture=(13, channels))
    if encoder["kind"] == "conv":
        given, lengths, name = torch.randint(0, 256, (1, 13, 13, channels)), torch.ones(1, dtype=torch.long), "picture"
    else:
        given, lengths, name = torch.randn(1, 4, channels).double(), torch.tensor([4]), "features"
    tokens = torch.randint(5, 11, (1, 5))
    with torch.no_grad():
        wanted = model.output(model(given, lengths, tokens))[0]
    close(Reader(program, **{name: given[0]}).steps(tokens[0]), wanted)
    close(Reader(program, **{name: given[0]}).read(tokens[0]), wanted)
