"""The conditional random field on a GPU: the numbers of the CPU, also under bfloat16."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from weft.models import TAGGERS, Spelling, TaggerSizes
from weft.nn.crf import CRF, Legal

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_loss_gradients_marginals_and_tags_are_those_of_the_cpu():
    torch.manual_seed(0)
    legal = Legal(torch.rand(7) < 0.8, torch.rand(7, 7) < 0.8, torch.rand(7) < 0.8)
    legal.start[0] = legal.end[0] = legal.transitions[0, 0] = True
    crf = CRF(7, legal=legal)
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    u, lengths = 2 * torch.randn(5, 11, 7), torch.tensor([11, 1, 6, 0, 10])
    tags = crf.decode(u, lengths)
    found = {}
    for device in ("cpu", "cuda"):
        crf.zero_grad()
        crf.to(device)
        here = u.detach().to(device, copy=True).requires_grad_()
        likelihood = crf.log_likelihood(here, tags.to(device), lengths.to(device), partial=False)
        likelihood.sum().backward()
        marginals = crf.log_marginals(here.detach(), lengths.to(device)).exp()
        numbers = [likelihood, here.grad, marginals, *(parameter.grad for parameter in crf.parameters())]
        found[device] = [number.detach().cpu().clone() for number in numbers]
        assert torch.equal(crf.decode(here.detach(), lengths.to(device)).cpu(), tags)
    for ours, theirs in zip(found["cuda"], found["cpu"], strict=True):
        assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_a_tagger_learns_under_bfloat16(kind):
    torch.manual_seed(0)
    sizes = {"rnn": {"embedding": 16, "hidden": 16}, "transformer": {"width": 16, "heads": 2, "layers": 1}}[kind]
    settings = TAGGERS[kind](characters={"kind": "cnn", "hidden": 8}, crf=True, dropout=0.0, **sizes)
    model = settings.build_tagger(TaggerSizes(30, 30, 4, torch.zeros(30, dtype=torch.long))).cuda()
    words, lengths = torch.randint(5, 30, (8, 12), device="cuda"), torch.randint(1, 13, (8,), device="cuda")
    spelling = Spelling(
        torch.randint(5, 30, (9, 6), device="cuda"),
        torch.randint(1, 7, (9,), device="cuda"),
        torch.randint(0, 9, (8, 12), device="cuda"),
    )
    tags, losses = words % 4, []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model.distribution(words, lengths, spelling).loss(tags, partial=False)
        assert loss.dtype == torch.float32
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.3 * losses[0]
