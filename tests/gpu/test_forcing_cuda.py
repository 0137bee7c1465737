"""Scheduled sampling on a GPU: steps in CUDA graphs give the mixtures of the Python loop, and train as it does."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.models import (
    LANGUAGE_MODELS,
    LanguageModel,
    Translator,
    TranslatorConfig,
    build_language_model,
    forcing_steps,
)
from weft.models import forcing_graph as graphs
from weft.models.forcing import mix, mix_in_a_loop
from weft.models.forcing_graph import Recording, mix_recorded, python_loop, refusal
from weft.models.forcing_steps import Unrecordable
from weft.nn import SCORES, Cell
from weft.nn.slots import in_slots
from weft.training import build_optimizer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")

DEVICE = "cuda"
VOCABULARY, SIZE = 101, 32
RNN: dict[str, Any] = {"kind": "rnn", "embedding": SIZE, "hidden": SIZE, "dropout": 0.0}
SHAPES = [(3, 6, 5), (8, 40, 7), (3, 6, 5), (40, 27, 30), (3, 70, 20), (8, 40, 7)]
"""Rows, length of the target, length of the source."""

MODELS: dict[str, dict[str, Any] | None] = {
    "lstm": None,
    "gru": {"cell": "gru", "layers": 2, "skip": "dense"},
    "qrnn": {"cell": "qrnn"},
    "s_lstm": {"cell": "s_lstm"},
    "conv": {"kind": "conv", "embedding": SIZE, "width": SIZE, "layers": 2, "dropout": 0.0},
    "first": {"context": "first"},
    "every": {"context": "every", "layers": 2},
    "after": {"context": "after", "layers": 2, "skip": "residual"},
    "attention": {"context": "attention", "layers": 2},
    "attention gru": {"context": "attention", "cell": "gru", "attention_hard": True},
    **{f"after {score}": {"context": "after", "attention": score} for score in SCORES},
}


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    torch.manual_seed(4)
    places = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    yield
    for place, value in zip(places, before, strict=True):
        place.allow_tf32 = value
    graphs.release()


def build(name: str, **more: Any) -> Any:
    """A model that writes many tokens, so that a wrong state shows."""
    settings = RNN | (MODELS[name] or {}) | more
    model: Any
    if "context" in settings:
        table = {"encoder": RNN | {"hidden": SIZE // 2}, "decoder": settings}
        model = Translator(TranslatorConfig.model_validate(table), VOCABULARY, VOCABULARY, shared=False)
    else:
        own = {key: value for key, value in settings.items() if settings["kind"] == "rnn" or key != "hidden"}
        model = build_language_model(LANGUAGE_MODELS[own["kind"]].model_validate(own), VOCABULARY)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.6 / parameter.size(1) ** 0.5)
    return model.to(DEVICE)


def draw(model: Any, rows: int, length: int, source: int) -> tuple[Tensor, Any, Tensor]:
    """Tokens, the memory of a source of any lengths, and which tokens are kept."""
    tokens = torch.randint(4, VOCABULARY, (rows, length), device=DEVICE)
    kept = torch.rand(rows, length, device=DEVICE) < 0.3
    if not isinstance(model, Translator):
        return tokens, None, kept
    lengths = torch.randint(1, source + 1, (rows,))
    lengths[0] = source
    words = torch.randint(4, VOCABULARY, (rows, source), device=DEVICE)
    with torch.no_grad():
        return tokens, model.encode(words, lengths.to(DEVICE)), kept


@torch.no_grad()
def check(model: Any, found: Tensor, tokens: Tensor, memory: Any, kept: Tensor, *, rounding: float) -> None:
    """True tokens where they were kept; elsewhere one that is as likely as the likeliest, but for rounding."""
    assert torch.equal(found[:, 0], tokens[:, 0])
    assert torch.equal(found[kept], torch.where(kept, tokens, found)[kept])
    state = in_slots(model.decoder.start(memory, torch.arange(len(tokens), device=DEVICE)), 1)
    for step in range(tokens.size(1) - 1):
        hidden, state, _ = model.decoder.step_without_attention(found[:, step], state)
        scores = model.output(hidden).float()
        lost = scores.max(-1).values - scores.gather(1, found[:, step + 1 : step + 2])[:, 0]
        assert not bool((lost[~kept[:, step + 1]] > rounding).any()), f"step {step} is off by {lost.max():.3g}"


@pytest.mark.parametrize("name", MODELS)
def test_graphs_mix_as_the_loop_does(name: str) -> None:
    model = build(name)
    changed = 0
    for rows, length, source in SHAPES:
        tokens, memory, kept = draw(model, rows, length, source)
        with torch.no_grad():
            expected = mix_in_a_loop(model.decoder, model.output, tokens, memory, kept)
            found = mix_recorded(model.decoder, model.output, tokens, memory, kept)
        check(model, found, tokens, memory, kept, rounding=1e-4)
        same = (found == expected).all(1)
        assert same.double().mean() > 0.9, "ties are rare in float32"
        changed += int((found != tokens).sum())
    assert changed > 0
    recordings = graphs._recordings[model.decoder]
    assert 0 < len(recordings.cache) <= 4
    assert refusal(model.decoder) == ""


@pytest.mark.parametrize("name", ["lstm", "gru", "conv", "first", "after", "attention", "attention gru"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_under_autocast(name: str, dtype: torch.dtype) -> None:
    """The weights change in place between two calls, and so do their casts."""
    model = build(name)
    tokens, memory, kept = draw(model, 16, 45, 16)
    mixtures = []
    for factor in (1.0, -1.3, 0.5):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(factor)
        with torch.autocast(DEVICE, dtype=dtype), torch.no_grad():
            found = mix_recorded(model.decoder, model.output, tokens, memory, kept)
            torch.clear_autocast_cache()
            check(model, found, tokens, memory, kept, rounding=0.15 if dtype == torch.bfloat16 else 0.02)
            torch.clear_autocast_cache()
        mixtures.append(found)
    assert len(graphs._recordings[model.decoder].cache) == 1
    assert not torch.equal(mixtures[0], mixtures[1])
    assert not torch.equal(mixtures[1], mixtures[2])


def test_weights_may_change_and_move() -> None:
    model = build("attention")
    tokens, memory, kept = draw(model, 5, 20, 9)
    for number in range(3):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(0.8)
            found = mix_recorded(model.decoder, model.output, tokens, memory, kept)
        check(model, found, tokens, memory, kept, rounding=1e-4)
        if number == 1:
            moved = [parameter.data for parameter in model.parameters()]  # kept, so that they move
            for parameter in model.parameters():
                parameter.data = parameter.data.clone()
    del moved
    assert len(graphs._recordings[model.decoder].cache) == 2


def count_launches(run: Callable[[], object]) -> dict[str, int]:
    """Calls by the host that launch kernels and graphs."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    ) as trace:
        run()
        torch.cuda.synchronize()
    counts = {"kernels": 0, "graphs": 0}
    for event in trace.events():
        if "LaunchKernel" in event.name:
            counts["kernels"] += 1
        if event.name == "cudaGraphLaunch":
            counts["graphs"] += 1
    return counts


def test_the_host_launches_no_more_for_a_longer_text() -> None:
    model = build("after")
    counts = []
    for length in (33, 65):
        given = draw(model, 8, length, 9)
        tokens, memory, kept = given

        def run(tokens: Tensor = tokens, memory: Any = memory, kept: Tensor = kept) -> None:
            with torch.no_grad():
                mix_recorded(model.decoder, model.output, tokens, memory, kept)

        run()
        counts.append(count_launches(run))
    assert counts[0]["graphs"] == 2
    assert counts[1]["graphs"] == 4
    assert abs(counts[1]["kernels"] - counts[0]["kernels"]) <= 2, counts


def train(steps: Callable[[], AbstractContextManager[None]], name: str, dtype: torch.dtype | None) -> list[float]:
    torch.manual_seed(0)
    model = build(name).train()
    optimizer = build_optimizer(model, kind="adam", rate=1e-2, weight_decay=0.0)
    torch.manual_seed(1)
    losses = []
    for number in range(40):
        rows, length = ((24, 12), (16, 18))[number % 2]
        tokens = torch.randint(4, 12, (rows, 1), device=DEVICE).repeat(1, length)
        tokens[:, ::2] += 3
        lengths = torch.full((rows,), length, device=DEVICE)
        given = (tokens, lengths, tokens) if isinstance(model, Translator) else (tokens,)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=dtype or torch.bfloat16, enabled=dtype is not None), steps():
            hidden = model(*given, truth=0.5)[:, :-1].flatten(0, 1)
            loss = model.output.loss(hidden, tokens[:, 1:].flatten()) / tokens.numel()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert (len(graphs._recordings[model.decoder].cache) if model.decoder in graphs._recordings else 0) in (0, 2)
    assert refusal(model.decoder) == ""
    return losses


@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=["float32", "bf16"])
@pytest.mark.parametrize("name", ["lstm", "after", "attention"])
def test_a_training_goes_as_with_the_loop(name: str, dtype: torch.dtype | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(nullcontext, name, dtype)
    expected = train(python_loop, name, dtype)
    assert found[-1] < 0.5 * found[0]
    # Kernels round differently, and a training carries that on.
    if dtype is None:
        assert_close(found[:8], expected[:8], rtol=1e-3, atol=1e-3)
    assert_close(sum(found[-8:]), sum(expected[-8:]), rtol=0.3, atol=0.3)


def test_dropout_between_layers_is_drawn_anew_by_every_replay() -> None:
    model = build("lstm", layers=2, dropout=0.5).train()
    tokens, memory, kept = draw(model, 32, 30, 0)
    with torch.no_grad():
        mixtures = [mix_recorded(model.decoder, model.output, tokens, memory, kept) for _ in range(3)]
        torch.manual_seed(9)
        again = mix_recorded(model.decoder, model.output, tokens, memory, kept)
        after = torch.rand(3, device=DEVICE)
        torch.manual_seed(9)
        assert torch.equal(mix_recorded(model.decoder, model.output, tokens, memory, kept), again)
        assert torch.equal(torch.rand(3, device=DEVICE), after)
        graphs.release()
        torch.manual_seed(9)  # recording draws nothing
        assert torch.equal(mix_recorded(model.decoder, model.output, tokens, memory, kept), again)
        assert torch.equal(torch.rand(3, device=DEVICE), after)
    assert not torch.equal(mixtures[0], mixtures[1])


class Blocking(Cell):
    """h' = tanh(W x + h), after which the host waits for the device: only a capture shows it."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.map = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.map(x) + h)
        if h.is_cuda:
            torch.cuda.current_stream().synchronize()
        return h, h


class Branching(Blocking):
    """h' = ±tanh(W x + h), by the sign of a sum that the host reads."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.map(x) + h)
        h = -h if h.sum() > 0 else h
        return h, h


@pytest.mark.parametrize("cell", [Blocking, Branching])
def test_what_cannot_be_captured_runs_in_the_loop_and_says_why(cell: type[Cell]) -> None:
    config = LANGUAGE_MODELS["rnn"].model_validate(RNN | {"cell": "mine"}, context={"cells": {"mine": cell}})
    model: Any = build_language_model(config, VOCABULARY).to(DEVICE)  # type: ignore[arg-type]
    assert isinstance(model, LanguageModel)
    tokens = draw(model, 5, 9, 0)[0]
    with pytest.warns(UserWarning, match="steps through RecurrentDecoder in Python, more slowly"):
        read = mix(model.decoder, model.output, tokens, None, truth=0.0)
    check(model, read, tokens, None, torch.zeros_like(tokens, dtype=torch.bool), rounding=1e-4)
    assert refusal(model.decoder)
    other = build("after")  # the device is as before
    given = draw(other, 8, 20, 9)
    with torch.no_grad():
        check(other, mix_recorded(other.decoder, other.output, *given), *given, rounding=1e-4)
    torch.randn(1 << 20, device=DEVICE).sum().item()


def test_threads_and_streams_have_their_own_buffers() -> None:
    model = build("attention")
    given = [draw(model, 8, 30, 9) for _ in range(4)]
    torch.cuda.synchronize()
    found: list[list[Tensor]] = [[] for _ in given]

    def work(number: int, stream: Any) -> None:
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(20):
                found[number].append(mix_recorded(model.decoder, model.output, *given[number]))
            stream.synchronize()

    streams = [torch.cuda.Stream(), torch.cuda.Stream(), None, None]  # type: ignore[no-untyped-call]
    plain = torch.cuda.current_stream()
    threads = [threading.Thread(target=work, args=(n, stream or plain)) for n, stream in enumerate(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch, mixtures in zip(given, found, strict=True):
        assert len(mixtures) == 20
        check(model, mixtures[0], *batch, rounding=1e-4)
        assert all(torch.equal(mixture, mixtures[0]) for mixture in mixtures)
    assert len(graphs._recordings[model.decoder].cache) == 3


def test_memory_has_a_bound_and_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_CACHED_RECORDINGS", 3)
    model = build("after")
    used = []
    for _ in range(3):
        for rows in range(8, 80, 8):
            given = draw(model, rows, 40, 12)
            with torch.no_grad():
                mix_recorded(model.decoder, model.output, *given)
        torch.cuda.synchronize()
        del given
        used.append(torch.cuda.memory_allocated())
    assert used[2] <= used[1] * 1.05
    assert len(graphs._recordings[model.decoder].cache) == 3
    del model
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() < used[2]


def test_a_lack_of_memory_frees_the_recordings_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("after")
    given = draw(model, 8, 20, 9)
    with torch.no_grad():
        mix_recorded(model.decoder, model.output, *given)
        real = forcing_steps.Buffers.advance

        def full(*args: Any, **options: Any) -> None:
            real(*args, **options)
            torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)

        other = draw(model, 30, 20, 9)
        with monkeypatch.context() as patch:
            patch.setattr(forcing_steps.Buffers, "advance", full)
            with pytest.raises(torch.OutOfMemoryError):
                mix_recorded(model.decoder, model.output, *other)
        assert len(graphs._recordings[model.decoder].cache) == 0
        for batch in (other, given):
            check(model, mix_recorded(model.decoder, model.output, *batch), *batch, rounding=1e-4)


def test_a_recording_that_fails_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Recording, *_: Any, **__: Any) -> Any:
        raise Unrecordable("its step cannot be captured: as a test")

    monkeypatch.setattr(Recording, "_capture", broken)
    model = build("lstm")
    with pytest.warns(UserWarning, match="more slowly: its step cannot be captured: as a test"):
        mix(model.decoder, model.output, draw(model, 3, 6, 0)[0], None, truth=0.5)
