"""C for writing token by token, each function against its plain twin in torch."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.nn.attention import attend
from weft.nn.attention.kv_cache import LayerCache, attend_cached
from weft.nn.linear import Linear
from weft.nn.native import compiler, decode

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def _outside_of_training(vectors: str) -> Iterator[None]:
    if decode.library() is None:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    with torch.no_grad(), decode.PackedWeights():
        yield


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 65, 130])
@pytest.mark.parametrize(("inputs", "outputs"), [(5, 1), (16, 16), (33, 50), (64, 300)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.usefixtures("threads")
def test_products(rows: int, inputs: int, outputs: int, bias: bool) -> None:
    linear, x = nn.Linear(inputs, outputs, bias=bias), torch.randn(rows, inputs)
    assert_close(decode.multiply(x, linear), linear(x), **CLOSE)
    assert_close(decode.multiply(x, linear, relu=True), linear(x).relu(), **CLOSE)


def test_leading_dimensions_and_strides() -> None:
    linear = nn.Linear(6, 9)
    x = torch.randn(3, 4, 12)[..., ::2]
    assert_close(decode.multiply(x, linear), linear(x), **CLOSE)
    part = torch.randn(5, 12)[:, :6]
    assert_close(decode.multiply(part, linear), linear(part), **CLOSE)


def test_weights_that_changed_are_packed_anew() -> None:
    """However they did: a fused optimizer changes them without torch counting it."""
    linear, x = Linear(6, 9), torch.randn(4, 6)
    optimizer = torch.optim.AdamW(linear.parameters(), lr=0.1, fused=True)

    def learn() -> None:
        with torch.enable_grad():
            linear(x).sum().backward()
        optimizer.step()

    changes = (
        lambda: None,
        lambda: linear.weight.mul_(2),
        lambda: linear.bias.data.add_(1),
        learn,
        lambda: linear.load_state_dict(nn.Linear(6, 9).state_dict()),
        lambda: setattr(linear, "weight", nn.Parameter(torch.randn(9, 6))),
        lambda: linear.weight.data.copy_(linear.weight.flip(0)),
    )
    for change in changes:
        change()
        with decode.PackedWeights() as steady:
            for _ in range(2):
                assert_close(linear(x), nn.functional.linear(x, linear.weight, linear.bias), **CLOSE)
            assert linear in steady.known


def test_outside_of_a_steady_time_torch_multiplies() -> None:
    linear, x = Linear(6, 9), torch.randn(4, 6)
    assert decode.multiplies(x, linear)
    assert not decode.multiplies(x[:1], linear)
    with decode.PackedWeights():
        pass
    assert decode.multiplies(x, linear), "the outer time goes on"
    steady, decode._here.packed = decode._here.packed, None
    assert not decode.multiplies(x, linear)
    decode._here.packed = steady


def test_a_steady_time_may_be_entered_again() -> None:
    outer, again = decode.packed_weights(), decode.PackedWeights()
    with again:
        with again:
            assert decode.packed_weights() is again
        assert decode.packed_weights() is again
    assert decode.packed_weights() is outer


def test_what_learns_is_left_to_torch() -> None:
    linear = Linear(6, 9)
    with torch.enable_grad():
        linear(torch.randn(4, 6)).sum().backward()
    assert linear.weight.grad is not None
    assert linear.double()(torch.randn(4, 6, dtype=torch.float64)).dtype == torch.float64


def plainly(q: Tensor, k: Tensor, v: Tensor, seen: LayerCache) -> Tensor:
    """The twin, which double precision is left to."""
    store = LayerCache(seen.keys.double(), seen.values.double(), seen.origin, seen.length)
    return attend_cached(q.double(), k.double(), v.double(), store).float()


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("sizes", [(16, 16), (5, 3), (24, 40)])
@pytest.mark.usefixtures("threads")
def test_attention_to_the_past(moved: bool, sizes: tuple[int, int]) -> None:
    rows, room, heads, (m, v_size) = 12, 9, 2, sizes
    keys, values = torch.randn(rows, heads, room, m), torch.randn(rows, heads, room, v_size)
    joint = torch.randn(rows, heads * (2 * m + v_size)).split([heads * m, heads * m, heads * v_size], dim=1)
    q, k, v = (part.unflatten(1, (heads, -1)) for part in joint)
    length = torch.tensor([0, 3, 8, 5]).repeat_interleave(3)  # rows of a slot are equally long
    own = torch.arange(rows)
    origin = (own // 3 * 3)[:, None] + torch.randint(0, 3, (rows, room)) if moved else None
    if origin is not None:
        origin.scatter_(1, length[:, None], own[:, None])
    expected = plainly(q, k, v, LayerCache(keys.clone(), values.clone(), origin, length))
    found = decode.attend_cached(q, k, v, keys, values, origin, length, m**-0.5)
    assert_close(found, expected, **CLOSE)
    assert_close(keys[own, :, length], k)
    assert_close(values[own, :, length], v)


def test_what_was_never_written_is_never_read() -> None:
    keys, values = (torch.full((3, 2, 6, 8), torch.nan) for _ in range(2))
    q, k, v = (torch.randn(3, 2, 8) for _ in range(3))
    keys[:, :, :2], values[:, :, :2] = torch.randn(2, 3, 2, 2, 8)
    length = torch.tensor([2, 0, 1])
    expected = plainly(q, k, v, LayerCache(keys.clone(), values.clone(), None, length))
    assert expected.isfinite().all()
    assert_close(decode.attend_cached(q, k, v, keys, values, None, length, 8**-0.5), expected, **CLOSE)


@pytest.mark.parametrize("each", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.usefixtures("threads")
def test_attention_to_what_rows_share(each: int, masked: bool) -> None:
    slots, heads, m, length = 5, 2, 20, 7
    q = torch.randn(slots * each, heads * m + 3)[:, : heads * m].view(slots, each, heads, m)
    source = torch.randn(slots, length, 2 * heads * m)
    keys, values = (part.view(slots, length, heads, m).transpose(1, 2) for part in source.chunk(2, dim=-1))
    mask = torch.arange(length) < torch.tensor([7, 3, 1, 0, 5])[:, None] if masked else None
    found = decode.attend_shared(q, keys, values, mask, m**-0.5)
    wide = None if mask is None else mask[:, None, None]
    assert_close(found, attend(q.transpose(1, 2), keys, values, mask=wide).transpose(1, 2), **CLOSE)


@pytest.mark.parametrize("vectors", ["widest"], indirect=True)
def test_padding_changes_no_bit() -> None:
    """A source is as long as the longest of its batch."""
    q, source = torch.randn(1, 3, 2, 20), torch.randn(1, 2, 2, 40, 20)
    mask = torch.ones(1, 40, dtype=torch.bool)
    mask[:, 5:] = False
    alone = decode.attend_shared(q, source[:, 0, :, :5], source[:, 1, :, :5], mask[:, :5], 0.2)
    for length in range(6, 41):
        keys, values = source[:, 0, :, :length], source[:, 1, :, :length]
        assert torch.equal(decode.attend_shared(q, keys, values, mask[:, :length], 0.2), alone)


@pytest.mark.parametrize("size", [8, 12, 20, 64])
def test_neighbours_change_no_bit(size: int) -> None:
    """Rows that read one source do so several at a time."""
    q, (keys, values) = torch.randn(1, 9, 2, size), torch.randn(2, 1, 2, 13, size)
    together = decode.attend_shared(q, keys, values, None, 0.2)
    for first in range(9):
        for end in range(first + 1, 10):
            alone = decode.attend_shared(q[:, first:end], keys, values, None, 0.2)
            assert torch.equal(alone, together[:, first:end])


@pytest.mark.parametrize("vectors", ["widest"], indirect=True)
@pytest.mark.parametrize("machine", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_it_compiles_for_vectors_that_this_machine_may_lack(machine: str) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("only x86 has vectors of several widths")
    command = [*compiler.find_compiler(), *compiler.OPTIONS, f"-march={machine}", "-fsyntax-only", "-Wall", "-Werror"]
    command += ["-Wno-unused-function", "-Wno-unused-command-line-argument", "-x", "c", "-"]
    done = subprocess.run(command, input=decode.text(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_compiler_sees_one_product() -> None:
    linear, x = Linear(6, 9), torch.randn(4, 6)
    whole = torch.compile(lambda x: linear.relu(linear(x)[:, :6]), backend="eager", fullgraph=True)
    assert_close(whole(x), linear.relu(linear(x)[:, :6]), **CLOSE)
    with torch.enable_grad():
        whole(x).sum().backward()
    assert linear.weight.grad is not None
