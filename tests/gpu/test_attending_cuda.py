"""Attention inside the recurrence on a GPU: generated kernels in CUDA graphs against the plain loop there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.models import RecurrentDecoderConfig, RecurrentSourceConfig, Translator, TranslatorConfig
from weft.models.memory import Memory
from weft.nn import RNN, SCORES, AttendingCell, Source

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")

DEVICE = "cuda"
VOCABULARY, HIDDEN, KEYS, VALUES = 13, 24, 20, 33


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    """Of the engine, which follows the setting of cuDNN's networks, and of the plain loop."""
    settings = torch.backends.cudnn.rnn, torch.backends.cuda.matmul
    before = [setting.fp32_precision for setting in settings]
    for setting in settings:
        setting.fp32_precision = "ieee"
    yield
    for setting, precision in zip(settings, before, strict=True):
        setting.fp32_precision = precision


def build(**decoder: Any) -> Translator:
    torch.manual_seed(0)
    settings = {"embedding": 8, "hidden": HIDDEN, "dropout": 0.0, "context": "attention"} | decoder
    encoder = RecurrentSourceConfig(embedding=8, hidden=HIDDEN // 2, dropout=0.0)
    config = TranslatorConfig(encoder=encoder, decoder=RecurrentDecoderConfig(**settings))
    return config.build(VOCABULARY, VOCABULARY, shared=False).to(DEVICE)


def read(model: Translator, lengths: list[int], time: int, steps: int, *, looped: bool) -> dict[str, Tensor]:
    """The outputs of the decoder, and the gradients of a loss over them, by name."""
    model.zero_grad()
    torch.manual_seed(1)
    batch = len(lengths)
    source, target = (torch.randint(4, VOCABULARY, (batch, size), device=DEVICE) for size in (steps, time))
    memory = model.encode(source, torch.tensor(lengths))
    decoder, final = model.decoder, memory.final
    memory = Memory(memory.states.detach().requires_grad_(), torch.tensor(lengths, device=DEVICE), final)
    if looped:
        hidden = decoder.step_through(decoder.embedding(target), decoder.bridge(final), memory)
    else:
        hidden = decoder(target, memory)
    (hidden.float() * torch.arange(hidden.numel(), device=DEVICE).view_as(hidden).cos()).sum().backward()
    assert memory.states.grad is not None
    found = {"hidden": hidden.detach(), "memory": memory.states.grad}
    zero = torch.zeros_like
    return found | {name: zero(p) if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


SETTINGS: dict[str, dict[str, Any]] = {
    **{score: {"attention": score} for score in SCORES},
    **{f"{score} hard": {"attention": score, "attention_hard": True} for score in ("bilinear", "additive")},
    "gru": {"cell": "gru", "layers": 2},
    "elman": {"cell": "elman", "layers": 3, "skip": "dense"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_float32(settings: dict[str, Any]) -> None:
    """Sources longer than a block of a kernel, and batches and lengths that share one captured graph."""
    model = build(**settings)
    assert "runs on the GPU" in model.decoder.explain()
    for lengths, time, steps in (([5, 3, 0, 1], 6, 5), ([150, 70, 1], 7, 150), ([5, 3, 0, 1], 9, 6)):
        sizes = lengths, time, steps
        assert_close(read(model, *sizes, looped=False), read(model, *sizes, looped=True), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_autocast(settings: dict[str, Any]) -> None:
    model = build(**settings)
    expected = read(model, [5, 3, 0, 1], 6, 5, looped=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = read(model, [5, 3, 0, 1], 6, 5, looped=False)
    if settings.get("attention_hard"):
        return  # a rounded score may choose another position; that it runs is all that can be said
    for name, right in expected.items():
        error = (found[name].float() - right).norm() / right.norm().clamp(min=1e-2)
        assert error < 0.1, f"{name} is off by {error:.4f}"


class Both(AttendingCell):
    """u = attend(Q h);  h' = tanh(W [x; u; h]), in both directions."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, key_size=KEYS, value_size=VALUES)
        self.query = nn.Linear(hidden_size, KEYS)
        self.map = nn.Linear(input_size + VALUES + hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        u = source.attend(self.query(h))
        h = torch.tanh(self.map(torch.cat((x, u, h), dim=-1)))
        return h, h


@pytest.mark.parametrize("resets", [False, True])
def test_both_directions_with_lengths(resets: bool) -> None:
    torch.manual_seed(0)
    more: dict[str, Any] = {"resets": torch.rand(4, 6) < 0.3} if resets else {}
    keys, values = torch.randn(4, 5, KEYS, device=DEVICE), torch.randn(4, 5, VALUES, device=DEVICE)
    x, found = torch.randn(4, 6, 3, device=DEVICE), []
    for backend in ("engine", "reference"):
        torch.manual_seed(3)
        rnn = RNN(Both, 3, HIDDEN, bidirectional=True, backend=backend).to(DEVICE)  # type: ignore[arg-type]
        source = Source(keys.clone().requires_grad_(), values.clone().requires_grad_(), torch.tensor([5, 3, 0, 1]))
        output, _ = rnn(x, torch.tensor([6, 2, 0, 4]), source=source, **more)
        (output * torch.arange(output.numel(), device=DEVICE).view_as(output).cos()).sum().backward()
        found.append([output.detach(), source.keys.grad, source.values.grad, *(p.grad for p in rnn.parameters())])
    assert_close(*found, rtol=1e-4, atol=1e-4)
