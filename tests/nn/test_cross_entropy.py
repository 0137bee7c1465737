"""The chunked loss against torch's own: value, every gradient, every type, and what it must refuse."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from weft.models.embedding import Output, Vectors
from weft.nn import cross_entropy
from weft.nn.cross_entropy import linear_cross_entropy, rows_at_once

N, D, V = 13, 5, 11


def tensors(dtype=torch.float32, *, rows=N, bias=True, device="cpu", classes=V):
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, D, dtype=torch.float64, generator=draw)
    weight = torch.randn(classes, D, dtype=torch.float64, generator=draw)
    offset = torch.randn(classes, dtype=torch.float64, generator=draw)
    targets = torch.randint(classes, (rows,), generator=draw).to(device)
    hidden, weight, offset = (x.to(device, dtype).requires_grad_() for x in (hidden, weight, offset))
    return hidden, weight, offset if bias else None, targets


def plain(hidden, weight, bias, targets, *, label_smoothing=0.0):
    scores = F.linear(hidden, weight, bias)
    return F.cross_entropy(scores, targets, reduction="sum", label_smoothing=label_smoothing)


def gradients(loss, *inputs):
    return torch.autograd.grad(loss, [x for x in inputs if x is not None])


@pytest.mark.covers("L1")
@pytest.mark.parametrize("chunk", [1, 4, 13, 100, None])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
def test_value_and_gradients_are_those_of_torch(bias, label_smoothing, chunk):
    *inputs, targets = tensors(bias=bias)
    ours = linear_cross_entropy(*inputs, targets, label_smoothing=label_smoothing, chunk=chunk)
    theirs = plain(*inputs, targets, label_smoothing=label_smoothing)
    assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    for mine, other in zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True):
        assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_gradients_are_exact(label_smoothing):
    *inputs, targets = tensors(torch.float64)

    def loss(*inputs):
        return linear_cross_entropy(*inputs, targets, label_smoothing=label_smoothing, chunk=4)

    assert loss(*inputs).dtype == torch.float64
    assert torch.autograd.gradcheck(loss, inputs)


def test_scores_far_apart_neither_overflow_nor_vanish():
    hidden = torch.tensor([[200.0], [-200.0]], requires_grad=True)
    weight, targets = torch.tensor([[1.0], [-1.0]]), torch.tensor([1, 1])
    loss = linear_cross_entropy(hidden, weight, None, targets)
    assert_close(loss, torch.tensor(400.0))
    assert_close(gradients(loss, hidden)[0], torch.tensor([[2.0], [0.0]]))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_is_frozen_gets_no_gradient_and_the_rest_the_same(frozen):
    *inputs, targets = tensors()
    whole = gradients(linear_cross_entropy(*inputs, targets, chunk=4), *inputs)
    inputs[frozen].requires_grad_(False)
    linear_cross_entropy(*inputs, targets, chunk=4).backward()
    for number, (tensor, expected) in enumerate(zip(inputs, whole, strict=True)):
        if number == frozen:
            assert tensor.grad is None
        else:
            assert_close(tensor.grad, expected)


def test_no_rows_cost_nothing_and_teach_nothing():
    *inputs, targets = tensors(rows=0)
    loss = linear_cross_entropy(*inputs, targets, label_smoothing=0.1)
    assert loss.item() == 0.0
    hidden, weight, bias = gradients(loss, *inputs)
    assert hidden.shape == (0, D)
    assert not weight.any()
    assert not bias.any()


def test_without_gradients_there_is_only_the_loss():
    *inputs, targets = tensors()
    with torch.no_grad():
        loss = linear_cross_entropy(*inputs, targets, label_smoothing=0.1, chunk=4)
    assert not loss.requires_grad
    assert_close(loss, plain(*inputs, targets, label_smoothing=0.1).detach())


def test_the_inputs_are_left_as_they_were():
    *inputs, targets = tensors()
    before = [x.detach().clone() for x in inputs]
    linear_cross_entropy(*inputs, targets).backward()
    assert all(torch.equal(x, old) for x, old in zip(inputs, before, strict=True))


def test_an_upstream_gradient_scales():
    *inputs, targets = tensors()
    ours = gradients(linear_cross_entropy(*inputs, targets) * -3.0 / 7, *inputs)
    theirs = gradients(plain(*inputs, targets) * -3.0 / 7, *inputs)
    for mine, other in zip(ours, theirs, strict=True):
        assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_gradients_of_a_weight_used_twice_add_up():
    _, weight, bias, targets = tensors()
    ours = linear_cross_entropy(F.embedding(targets.flip(0), weight), weight, bias, targets)
    theirs = plain(F.embedding(targets.flip(0), weight), weight, bias, targets)
    assert_close(gradients(ours, weight), gradients(theirs, weight), rtol=1e-5, atol=1e-5)


def test_a_kept_graph_can_be_walked_again():
    *inputs, targets = tensors()
    loss = linear_cross_entropy(*inputs, targets)
    first = torch.autograd.grad(2 * loss, inputs, retain_graph=True)
    second = torch.autograd.grad(2 * loss, inputs)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_differentiating_twice_is_refused_in_words():
    *inputs, targets = tensors()
    with pytest.raises(RuntimeError, match="cannot be differentiated twice"):
        torch.autograd.grad(linear_cross_entropy(*inputs, targets), inputs, create_graph=True)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_under_autocast_products_are_rounded_and_sums_are_not(half, label_smoothing):
    *inputs, targets = tensors()
    with torch.autocast("cpu", dtype=half):
        ours = linear_cross_entropy(*inputs, targets, label_smoothing=label_smoothing, chunk=4)
        theirs = plain(*inputs, targets, label_smoothing=label_smoothing)
    assert ours.dtype == torch.float32
    assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for mine, other in zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True):
        assert mine.dtype == torch.float32
        assert_close(mine, other, rtol=2e-2, atol=2e-2)


def test_autocast_leaves_float64_alone():
    *inputs, targets = tensors(torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(linear_cross_entropy(*inputs, targets), plain(*inputs, targets))


def test_the_gradient_of_a_weight_is_summed_in_float32():
    """4096 equal shares of 2⁻⁹ would stop growing at 1 if each sum were rounded to bf16."""
    rows = 4096
    hidden = torch.full((rows, 1), 2.0**-9, dtype=torch.bfloat16)
    weight = torch.tensor([[0.0], [100000.0]], dtype=torch.bfloat16, requires_grad=True)
    [gradient] = gradients(
        linear_cross_entropy(hidden, weight, None, torch.zeros(rows, dtype=torch.int64), chunk=1), weight
    )
    assert_close(gradient, torch.tensor([[-8.0], [8.0]], dtype=torch.bfloat16), rtol=1e-2, atol=0)


def test_only_a_part_of_the_scores_is_ever_held(monkeypatch):
    *inputs, targets = tensors(rows=40)
    seen, losses_of = [], cross_entropy.softmax_losses

    def watched(z, *rest, **settings):
        seen.append(len(z))
        return losses_of(z, *rest, **settings)

    monkeypatch.setattr(cross_entropy, "softmax_losses", watched)
    linear_cross_entropy(*inputs, targets, chunk=15)
    assert seen == [14, 14, 12], "three parts of about the same size"


def test_a_large_batch_on_a_gpu_takes_few_parts():
    gpu = rows_at_once(torch.device("cuda"), 32000, torch.bfloat16)
    assert -(-16384 // gpu) <= 4
    assert rows_at_once(torch.device("cpu"), 10**6, torch.float32) == cross_entropy.CPU_ROWS


@pytest.mark.parametrize("tied", [None, 5, 7])
def test_the_output_layer_has_the_loss_of_its_scores(tied):
    torch.manual_seed(0)
    output = Output(5, V, tied=None if tied is None else Vectors(V, tied))
    hidden, targets = torch.randn(N, 5), torch.randint(V, (N,))
    ours = output.loss(hidden, targets, label_smoothing=0.1)
    theirs = F.cross_entropy(output(hidden), targets, reduction="sum", label_smoothing=0.1)
    assert_close(ours, theirs)
    parameters = list(output.parameters())
    for mine, other in zip(gradients(ours, *parameters), gradients(theirs, *parameters), strict=True):
        assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_it_works_inside_a_compiled_function():
    *inputs, targets = tensors()
    compiled = torch.compile(lambda *inputs: linear_cross_entropy(*inputs, targets, chunk=4) / N, backend="eager")
    ours, theirs = compiled(*inputs), plain(*inputs, targets) / N
    assert_close(ours, theirs)
    for mine, other in zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True):
        assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
class TestOnCuda:
    """The Triton kernel against its plain version."""

    @pytest.mark.parametrize("classes", [2, 11, 1000, 40_000])
    @pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_the_kernel_gives_the_numbers_of_the_plain_version(self, dtype, label_smoothing, classes):
        from weft.nn.cross_entropy_kernel import softmax_losses as kernel

        torch.manual_seed(0)
        width = -(-classes // 8) * 8
        z = torch.randn(37, width, device="cuda").mul_(3).to(dtype)[:, :classes]
        targets = torch.randint(classes, (37,), device="cuda")
        losses, plain = z.clone(), z.clone()
        first = kernel(z, targets, label_smoothing=label_smoothing, differentiate=True)
        alone = kernel(losses, targets, label_smoothing=label_smoothing, differentiate=False)
        second = cross_entropy.softmax_losses(plain, targets, label_smoothing=label_smoothing, differentiate=True)
        assert_close(first, second, rtol=1e-5, atol=1e-5)
        assert torch.equal(first, alone)
        assert_close(z, plain, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-6)

    @pytest.mark.parametrize("classes", [11, 1000])
    def test_bf16_is_close_to_float32(self, classes):
        *inputs, targets = tensors(rows=64, device="cuda", classes=classes)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            ours = linear_cross_entropy(*inputs, targets, label_smoothing=0.1, chunk=20)
        theirs = plain(*inputs, targets, label_smoothing=0.1)
        assert_close(ours, theirs, rtol=1e-2, atol=1e-2)
        for mine, other in zip(gradients(ours, *inputs), gradients(theirs, *inputs), strict=True):
            assert_close(mine, other, rtol=5e-2, atol=5e-2)

    def test_nothing_waits_for_the_gpu(self):
        *inputs, targets = tensors(rows=64, device="cuda")
        linear_cross_entropy(*inputs, targets).backward()
        torch.cuda.set_sync_debug_mode("error")
        try:
            linear_cross_entropy(*inputs, targets).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_a_target_that_is_no_class_gives_no_number(self):
        *inputs, _ = tensors(device="cuda")
        loss = linear_cross_entropy(*inputs, torch.full((N,), V, device="cuda"))
        assert loss.isnan()
