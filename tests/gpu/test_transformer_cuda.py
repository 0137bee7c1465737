"""The kernels of transformers on a GPU against plain torch in float32, and a whole translator against the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from weft.models import Translator, TranslatorConfig
from weft.nn import NORMS, MultiHeadAttention, Packing
from weft.nn.attention import attend_packed
from weft.nn.attention.short import HEAD_SIZES, attend_short, is_short
from weft.nn.kernels import HAS_TRITON
from weft.nn.transformer.fused_norm import serves
from weft.nn.transformer.norm import LayerNorm, PostNorm

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA"),
    pytest.mark.skipif(not HAS_TRITON, reason="needs Triton"),
]

DEVICE = torch.device("cuda")
WITHIN = {torch.bfloat16: 0.04, torch.float16: 0.006}
"""How far a number may be off, as a share of the largest beside it."""

LENGTHS = [17, 0, 128, 1, 16, 5]
OTHERS = [16, 3, 17, 1, 0, 128]


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(2)
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def packing_of(lengths: list[int]) -> Packing:
    return Packing.of(torch.tensor(lengths)).to(DEVICE)


def draw(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype).requires_grad_()


def weigh(out: Tensor) -> Tensor:
    """A number in which each number of a tensor has a weight of its own, which half precision can hold."""
    weights = torch.arange(1, out.numel() + 1, device=DEVICE).view_as(out).cos()
    return (out.float() * weights.bfloat16().float()).sum()


def assert_near(found: Tensor, expected: Tensor, within: float, packing: Packing | None = None) -> None:
    """Row by row, so that a long row does not hide a short one."""
    found, expected = found.float(), expected.float()
    floor = 1e-3 * expected.abs().max().item() if expected.numel() else 0.0
    rows = [slice(None)] if packing is None else [packing.rows == row for row in range(packing.count)]
    for row in rows:
        if expected[row].numel():
            largest = max(expected[row].abs().max().item(), floor)
            assert_close(found[row], expected[row], rtol=0, atol=within * largest)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", HEAD_SIZES)
def test_short_rows(size: int, causal: bool, dtype: torch.dtype) -> None:
    packing = packing_of(LENGTHS)
    joint = draw(sum(LENGTHS), 3 * 2 * size, dtype=dtype)
    assert is_short(joint, packing, packing, size)
    out = attend_short(joint, None, packing, packing, heads=2, causal=causal, scale=size**-0.5)
    weigh(out).backward()
    plain = joint.detach().float().requires_grad_()
    q, k, v = (part.unflatten(1, (2, size)) for part in plain.chunk(3, dim=1))
    expected = attend_packed(q, k, v, packing, packing, causal=causal, scale=size**-0.5).flatten(1)
    weigh(expected).backward()
    assert out.dtype == joint.grad.dtype == dtype
    assert_near(out, expected, WITHIN[dtype], packing)
    for part, its in zip(joint.grad.chunk(3, dim=1), plain.grad.chunk(3, dim=1), strict=True):
        assert_near(part, its, WITHIN[dtype], packing)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize(("mine", "its"), [(LENGTHS, OTHERS), (OTHERS, LENGTHS), ([1, 9], [128, 3])], ids=str)
def test_short_rows_that_look_at_others(mine: list[int], its: list[int], dtype: torch.dtype) -> None:
    """Also rows without keys, whose queries get zeros, and keys without queries, whose gradient is zero."""
    size, queries, keys = 64, packing_of(mine), packing_of(its)
    query, memory = draw(sum(mine), 2 * size, dtype=dtype), draw(sum(its), 4 * size, dtype=dtype)
    out = attend_short(query, memory, queries, keys, heads=2, causal=False, scale=0.125)
    weigh(out).backward()
    plain = [x.detach().float().requires_grad_() for x in (query, memory)]
    q, k, v = (part.unflatten(1, (2, size)) for part in (plain[0], *plain[1].chunk(2, dim=1)))
    expected = attend_packed(q, k, v, queries, keys, scale=0.125).flatten(1)
    weigh(expected).backward()
    assert_near(out, expected, WITHIN[dtype], queries)
    assert_near(query.grad, plain[0].grad, WITHIN[dtype], queries)
    for part, wanted in zip(memory.grad.chunk(2, dim=1), plain[1].grad.chunk(2, dim=1), strict=True):
        assert_near(part, wanted, WITHIN[dtype], keys)
    nowhere = (keys.lengths == 0)[queries.rows]
    assert not out[nowhere].any()
    assert not memory.grad[(queries.lengths == 0)[keys.rows]].any()


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_long_rows(causal: bool, dtype: torch.dtype) -> None:
    """Beyond 128 positions torch's own kernel for rows of different lengths takes over."""
    packing = packing_of([200, 0, 1, 129])
    inputs = [draw(330, 2, 32, dtype=dtype) for _ in range(3)]
    out = attend_packed(*inputs, packing, packing, causal=causal, scale=0.2)
    weigh(out).backward()
    plain = [x.detach().float().requires_grad_() for x in inputs]
    expected = attend_packed(*plain, packing, packing, causal=causal, scale=0.2)
    weigh(expected).backward()
    assert_near(out, expected, WITHIN[dtype], packing)
    for x, its in zip(inputs, plain, strict=True):
        assert_near(x.grad, its.grad, WITHIN[dtype], packing)


@pytest.mark.parametrize("lengths", [LENGTHS, [300, 2], [0, 0]], ids=str)
@pytest.mark.parametrize("options", [{}, {"rotary": True}, {"head_size": 24}, {"value_head_size": 48}], ids=str)
def test_attention_on_packed_rows_whatever_serves_it(options: dict[str, int], lengths: list[int]) -> None:
    attention = MultiHeadAttention(64, heads=2, bias=True, **options).to(DEVICE)
    packing, x = packing_of(lengths), draw(sum(lengths), 64, dtype=torch.float32)
    with torch.autocast("cuda", torch.bfloat16):
        found = attention(x, packing=packing, causal=True)
    assert found.shape == (sum(lengths), 64)
    assert_near(found, attention(x, packing=packing, causal=True), 0.05, packing)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("shape", "width"), [((9000,), 512), ((2, 3), 100), ((1,), 8), ((33,), 4096), ((0,), 64)])
def test_layer_norm(shape: tuple[int, ...], width: int, added: bool, dtype: torch.dtype) -> None:
    norm = LayerNorm(width, eps=1e-3).to(DEVICE)
    for weight in norm.parameters():
        torch.nn.init.normal_(weight)
    inputs = [draw(*shape, width, dtype=dtype) for _ in range(1 + added)]
    assert serves(inputs[0])
    out = norm.of_sum(*inputs, dropout=0.0) if added else norm(*inputs)
    weigh(out).backward()
    found = [out, *(x.grad for x in inputs), norm.weight.grad, norm.bias.grad]
    plain = [x.detach().float().requires_grad_() for x in inputs]
    weights = [weight.detach().clone().requires_grad_() for weight in norm.parameters()]
    # What is normalised is the sum as it is kept, rounded.
    total = (plain[0] + plain[1]).to(dtype).float() if added else plain[0]
    expected = F.layer_norm(total, (width,), *weights, eps=1e-3)
    weigh(expected).backward()
    assert out.dtype == dtype
    for mine, its in zip(found, [expected, *(x.grad for x in (*plain, *weights))], strict=True):
        assert_near(mine, its, WITHIN[dtype])


def test_dropout_keeps_its_share_and_the_backward_pass_drops_the_same() -> None:
    share, norm = 0.3, PostNorm(512, dropout=0.3).to(DEVICE)
    x, f = (torch.full((4000, 512), value, device=DEVICE).half().requires_grad_() for value in (0.0, 1.0))
    masks = []
    for _ in range(2):
        x.grad = f.grad = None
        out = norm(x, lambda _: f)
        kept = out > 0
        masks.append(kept)
        # Both ends of a row are there, so what is above its mean was kept.
        expected = F.layer_norm(kept.float() / (1 - share), (512,))
        assert_near(out, expected, WITHIN[torch.float16])
        (out.float() * torch.randn_like(out, dtype=torch.float32)).sum().backward()
        assert_near(f.grad, kept * x.grad.float() / (1 - share), WITHIN[torch.float16])
        assert not f.grad[~kept].any()
        for part in (kept, kept[:, ::2], kept[::2], kept[:2000]):
            assert part.float().mean().item() == pytest.approx(1 - share, abs=5e-3)
        assert (kept.float().mean(0) - (1 - share)).abs().max() < 0.05
    changed = (masks[0] != masks[1]).float().mean().item()
    assert changed == pytest.approx(2 * share * (1 - share), abs=5e-3)
    assert not norm.eval()(x, lambda _: f).any()


def test_dropout_can_be_drawn_again() -> None:
    norm, x, f = PostNorm(64, dropout=0.5).to(DEVICE), *(draw(50, 64, dtype=torch.bfloat16) for _ in range(2))
    torch.manual_seed(7)
    first = norm(x, lambda _: f)
    assert not torch.equal(norm(x, lambda _: f), first)
    torch.manual_seed(7)
    assert torch.equal(norm(x, lambda _: f), first)


def translator(norm: str) -> Translator:
    side = {"kind": "transformer", "width": 64, "heads": 4, "layers": 2, "norm": norm, "dropout": 0.0}
    config = TranslatorConfig.model_validate({"encoder": side, "decoder": side})
    model = Translator(config, 90, 90, shared=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-3), (torch.bfloat16, 0.15)], ids=str)
def test_a_packed_translator_on_the_gpu_equals_a_padded_one_on_the_cpu(
    norm: str, dtype: torch.dtype, within: float
) -> None:
    model = translator(norm)
    other = deepcopy(model).to(DEVICE)
    source, target = Packing.of(torch.tensor([7, 30, 1, 16])), Packing.of(torch.tensor([9, 17, 2, 1]))
    words, wanted = torch.randint(5, 90, (54,)), torch.randint(5, 90, (29,))
    hidden = model(source.pad(words), source.lengths, target.pad(wanted), target.lengths)
    loss = model.output.loss(target.unpad(hidden), wanted.roll(-1))
    loss.backward()
    inputs = (words.to(DEVICE), source.to(DEVICE), wanted.to(DEVICE), target.to(DEVICE))
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        found = other.output.loss(other(*inputs), wanted.roll(-1).to(DEVICE))
    found.backward()
    assert_close(found.cpu(), loss, rtol=within / 5, atol=0)
    largest = max(weight.grad.norm().item() for weight in model.parameters())
    for (name, mine), its in zip(other.named_parameters(), model.parameters(), strict=True):
        error = (mine.grad.cpu() - its.grad).norm().item()
        assert error <= within * max(its.grad.norm().item(), 1e-2 * largest), name
