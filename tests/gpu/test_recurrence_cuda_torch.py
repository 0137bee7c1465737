"""The recurrence engine on a GPU inside torch's machinery: precision, compilation, capture, streams, threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import WeftError
from weft.nn import RNN
from weft.nn.state import leaves_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")

DEVICE = "cuda"
LENGTHS = torch.tensor([5, 2, 0, 4])
CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


class Tagger(nn.Module):
    def __init__(self, cell: str, **settings: Any) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(11, 5)
        self.rnn = RNN(cell, 5, 6, **settings)
        self.output = nn.Linear(self.rnn.output_size, 3)
        self.to(DEVICE)

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        hidden, state = self.rnn(self.embedding(tokens), lengths)
        return self.output(hidden), leaves_of(state)


def paired(cell: str, **settings: Any) -> tuple[RNN, RNN]:
    torch.manual_seed(5)
    fast, plain = (RNN(cell, 5, 6, backend=backend, **settings).to(DEVICE) for backend in ("engine", "reference"))
    plain.load_state_dict(fast.state_dict())
    return fast, plain


def tokens() -> Tensor:
    return torch.randint(0, 11, (4, 5), generator=torch.Generator().manual_seed(3)).to(DEVICE)


def results(model: nn.Module, call: Any, lengths: Tensor | None) -> list[Tensor]:
    """Logits, last states and gradients of a loss over both."""
    model.zero_grad()
    logits, state = call(tokens(), lengths)
    (logits.square().sum() + sum(part.sin().sum() for part in state)).backward()
    return [logits, *state, *(parameter.grad.clone() for parameter in model.parameters())]


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    places = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    torch.compiler.reset()
    yield
    for place, value in zip(places, before, strict=True):
        place.allow_tf32 = value


@pytest.mark.parametrize("name", ["lstm", "gru"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_mixed_precision_carries_the_state_in_single(name: str, dtype: torch.dtype) -> None:
    """Products in small floats, the state in float32 from call to call; the weights get float32 gradients."""
    fast, plain = paired(name, bidirectional=True)
    x = torch.randn(4, 5, 5, device=DEVICE)
    expected, _ = plain(x, LENGTHS)
    expected.square().sum().backward()
    with torch.autocast(DEVICE, dtype=dtype):
        output, final = fast(x, LENGTHS)
        assert {part.dtype for part in leaves_of(final)} == {torch.float32}
        again, _ = fast(x, LENGTHS, final)
        assert again.shape == output.shape
    output.float().square().sum().backward()
    assert_close(output.float(), expected, rtol=3e-2, atol=3e-2)
    for mine, its in zip(fast.parameters(), plain.parameters(), strict=True):
        assert mine.grad.dtype == torch.float32
        assert (mine.grad - its.grad).norm() < 5e-2 * its.grad.norm()


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("aot_eager", id="aot_eager"),
        pytest.param("inductor", id="inductor", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
def test_compiled_whole(lengths: Tensor | None, backend: str) -> None:
    model = Tagger("lstm", layers=2, bidirectional=True)
    given = None if lengths is None else lengths.to(DEVICE)
    compiled = torch.compile(model, fullgraph=True, backend=backend)
    found = results(model, compiled, given)
    assert_close(found, results(model, model, given), **CLOSE)
    assert_close(results(model, compiled, given), found, **CLOSE)


def test_double_backward_is_refused_with_its_cure() -> None:
    fast, _ = paired("lstm")
    x = torch.randn(4, 5, 5, device=DEVICE, requires_grad=True)
    (first,) = torch.autograd.grad(fast(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(WeftError, match=r'no second derivative \(use backend="reference"\)'):
        first.square().sum().backward()


def test_double_precision_runs_in_plain_torch() -> None:
    fast, plain = (rnn.double() for rnn in paired("gru", bidirectional=True))
    assert "runs in plain torch" in fast.explain()
    x = torch.randn(4, 5, 5, device=DEVICE, dtype=torch.float64)
    assert_close(fast(x, LENGTHS)[0], plain(x, LENGTHS)[0])


def test_inside_an_outer_graph() -> None:
    """Graphs do not nest: the loop is then captured in plain torch."""
    fast, plain = paired("gru")
    x = torch.randn(4, 5, 5, device=DEVICE)
    with torch.no_grad():
        fast(x)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            plain(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output, _ = fast(x)
        x.copy_(torch.randn(4, 5, 5, device=DEVICE))
        graph.replay()
        assert_close(output, plain(x)[0], **CLOSE)
        assert_close(fast(x)[0], plain(x)[0], **CLOSE)


def test_nothing_waits_for_the_gpu() -> None:
    """Neither forward nor backward, once captured, with lengths that are there already."""
    fast, _ = paired("gru", bidirectional=True)
    x, lengths = torch.randn(4, 5, 5, device=DEVICE), LENGTHS.to(DEVICE)
    fast(x, lengths)[0].sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        fast(x, lengths)[0].sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_memory_does_not_grow() -> None:
    fast, _ = paired("lstm")
    x = torch.randn(4, 70, 5, device=DEVICE)
    used = []
    for _ in range(4):
        fast.zero_grad()
        fast(x, LENGTHS)[0].sum().backward()
        torch.cuda.synchronize()
        used.append(torch.cuda.memory_allocated())
    assert used[-1] == used[1]


def test_nothing_of_a_call_is_kept_after_it() -> None:
    """Only the fixed buffers of one step, not the histories and gradients of all of them."""
    fast, _ = paired("lstm")
    fast(torch.randn(64, 3, 5, device=DEVICE))[0].sum().backward()
    fast.zero_grad()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    x = torch.randn(64, 500, 5, device=DEVICE)
    fast(x)[0].sum().backward()
    fast.zero_grad()
    torch.cuda.synchronize()
    kept = torch.cuda.memory_allocated() - before - x.untyped_storage().nbytes()
    assert kept < x.untyped_storage().nbytes()


def test_on_other_streams() -> None:
    fast, plain = paired("lstm")
    x = torch.randn(4, 5, 5, device=DEVICE)
    plain(x, LENGTHS)[0].square().sum().backward()
    expected = [parameter.grad for parameter in plain.parameters()]
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            fast.zero_grad()
            fast(x, LENGTHS)[0].square().sum().backward()
        stream.synchronize()
        assert_close([parameter.grad for parameter in fast.parameters()], expected, **CLOSE)


def test_from_several_threads() -> None:
    """They share a stream, and with it the graphs and the buffers these are bound to."""
    pairs, x = [paired("gru") for _ in range(4)], torch.randn(4, 5, 5, device=DEVICE)
    with torch.no_grad():
        for number, (fast, plain) in enumerate(pairs):
            for mine, its in zip(fast.parameters(), plain.parameters(), strict=True):
                its.copy_(mine.mul_(1 + 0.1 * number))
        expected = [plain(x)[0] for _, plain in pairs]
    found: list[list[Tensor]] = [[] for _ in pairs]
    barrier = threading.Barrier(len(pairs))

    def run(number: int) -> None:
        barrier.wait()
        with torch.no_grad():
            found[number] += [pairs[number][0](x)[0] for _ in range(20)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(pairs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine, right in zip(found, expected, strict=True):
        assert len(mine) == 20
        for output in mine:
            assert_close(output, right, **CLOSE)
