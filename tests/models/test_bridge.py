"""Every cell of the catalog is a translator's decoder with every bridge."""

from __future__ import annotations

import pytest
import torch

from weft.models import RecurrentDecoderConfig, RecurrentSourceConfig, TranslatorConfig
from weft.models.bridge import BridgeKind
from weft.nn import CELLS
from weft.text import EOS, SOS

VOCABULARY = 13


@pytest.mark.parametrize("bridge", ["learned", "copy", "none"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_decoder_learns_from_its_bridge(cell: str, bridge: BridgeKind) -> None:
    """Write the source again, of one token: the loss falls, and no number is lost on the way."""
    torch.manual_seed(1)
    sizes = {"cell": cell, "embedding": 8, "hidden": 8, "dropout": 0.0}
    config = TranslatorConfig(
        encoder=RecurrentSourceConfig(**sizes, bidirectional=False),
        decoder=RecurrentDecoderConfig(**sizes, bridge=bridge, context="first" if bridge != "none" else "after"),
    )
    model = config.build(VOCABULARY, VOCABULARY, shared=False)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    words = torch.randint(5, VOCABULARY, (32, 1))
    source = torch.cat((words, torch.full_like(words, EOS)), dim=1)
    target = torch.cat((torch.full_like(words, SOS), words), dim=1)
    losses = []
    for _ in range(60):
        memory = model.encode(source, torch.full((32,), 2))
        scores = model.output(model.decoder(target, memory))
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), source.flatten())
        optimizer.zero_grad()
        loss.backward()
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
