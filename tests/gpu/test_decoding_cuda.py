"""Decoding on a GPU: recordings find what plain searches find on a CPU, and kernels give what plain torch gives."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.decoding import DecodeConfig, Hypothesis, cuda_graph, search
from weft.decoding import rows as rows_module
from weft.decoding.open_search import OpenSearch, most_together
from weft.decoding.request import prepare
from weft.decoding.search import NEVER
from weft.models import (
    ConvolutionalConfig,
    RecurrentDecoderConfig,
    RecurrentLanguageConfig,
    RecurrentSourceConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    TranslatorConfig,
    build_language_model,
)
from weft.models.embedding import build_embedding
from weft.models.stepper import can_prefill
from weft.nn.attention import attend
from weft.nn.attention.kv_cache import LayerCache, attend_cached
from weft.nn.attention.single_query import attend_next, attend_shared
from weft.nn.kernels import HAS_TRITON
from weft.nn.linear import Linear

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(not HAS_TRITON, reason="needs Triton"),
]

BLOCKS: dict[str, Any] = {"width": 64, "heads": 4, "layers": 2, "feedforward": 128}
SMALL: dict[str, Any] = {"embedding": 32, "hidden": 32}
MODELS = {
    "post": (
        TransformerEncoderConfig(**BLOCKS, norm="post"),
        TransformerDecoderConfig(**BLOCKS, norm="post"),
    ),
    "rotary": (
        TransformerEncoderConfig(**BLOCKS, positions="rotary"),
        TransformerDecoderConfig(**BLOCKS, positions="rotary", activation="swiglu"),
    ),
    "learned": (
        TransformerEncoderConfig(**BLOCKS, positions="learned"),
        TransformerDecoderConfig(**BLOCKS, positions="learned", norm="rezero"),
    ),
    "after": (RecurrentSourceConfig(**SMALL), RecurrentDecoderConfig(**SMALL, layers=2)),
    "inside": (RecurrentSourceConfig(**SMALL, cell="gru"), RecurrentDecoderConfig(**SMALL, context="attention")),
}
WRITERS: dict[str, Any] = {
    "post": TransformerDecoderConfig(**BLOCKS, norm="post"),
    "rotary": TransformerDecoderConfig(**BLOCKS, positions="rotary", activation="swiglu"),
    "learned": TransformerDecoderConfig(**BLOCKS, positions="learned"),
    "lstm": RecurrentLanguageConfig(**SMALL, layers=2),
    "gru": RecurrentLanguageConfig(**SMALL, cell="gru"),
    "conv": ConvolutionalConfig(embedding=32, width=32),
}
SEARCHES = {
    "greedy": DecodeConfig(beam=1),
    "beam": DecodeConfig(beam=5, n_best=3, min_length=2),
    "finished": DecodeConfig(beam=3, stop="finished"),
    "wide": DecodeConfig(beam=12, length_penalty=0.6),
    "diverse": DecodeConfig(beam=4, groups=2, n_best=2),
    "sample": DecodeConfig(sample=True, n_best=2, top_k=50),
}
COUNT, VOCABULARY = 90, 300


@pytest.fixture(autouse=True)
def _exact() -> Iterator[None]:
    torch.manual_seed(0)
    places = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    yield
    for place, value in zip(places, before, strict=True):
        place.allow_tf32 = value


def build(name: str) -> Any:
    encoder, decoder = MODELS[name]
    return loud(TranslatorConfig(encoder=encoder, decoder=decoder).build(VOCABULARY, VOCABULARY, shared=True))


def loud(model: Any) -> Any:
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=1.6 / parameter.size(1) ** 0.5)
        elif parameter.dim() == 0:
            nn.init.ones_(parameter)
    return model.eval()


def sources() -> tuple[Tensor, Tensor]:
    return torch.randint(5, VOCABULARY, (COUNT, 20)), torch.randint(1, 21, (COUNT,))


def find(
    model: Any, source: Tensor, lengths: Tensor, config: DecodeConfig, rows: list[int], *, longest: int = 3
) -> list[list[Hypothesis]]:
    device = next(model.parameters()).device
    size = int(lengths[rows].max())
    with torch.inference_mode():
        memory = model.encode(source[rows, :size].to(device), lengths[rows].to(device))
    asked = {"limits": [3 + row % 25 for row in rows], "prefixes": prompts(rows, longest), "keys": rows}
    return search(model, memory, len(rows), config, attention=False, **asked)


def prompts(rows: list[int], longest: int) -> list[list[int]]:
    """Of 0 to `longest` - 1 tokens."""
    return [[7 + number % 90 for number in range(row % longest)] for row in rows]


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[tuple[int, ...], bool]]]:
    return [[(one.tokens, one.finished) for one in own] for own in found]


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_a_gpu_finds_what_a_cpu_finds_together_and_alone(name: str, kind: str) -> None:
    model, (source, lengths), config = build(name), sources(), SEARCHES[kind]
    every = list(range(COUNT))
    expected = texts(find(model, source, lengths, config, every))
    model.cuda()
    for _ in range(3):  # plain, recorded, replayed
        assert texts(find(model, source, lengths, config, every)) == expected
    for row in (0, 17, 58):
        assert texts(find(model, source, lengths, config, [row])) == [expected[row]]


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_beginnings_of_translations_are_read_on_a_gpu_as_on_a_cpu(name: str, kind: str) -> None:
    model, (source, lengths), config = build(name), sources(), SEARCHES[kind]
    every = list(range(COUNT))
    expected = texts(find(model, source, lengths, config, every, longest=37))
    model.cuda()
    for _ in range(3):
        assert texts(find(model, source, lengths, config, every, longest=37)) == expected
    for row in (0, 17, 58):
        assert texts(find(model, source, lengths, config, [row], longest=37)) == [expected[row]]


@pytest.mark.parametrize("most", [1 << 15, 300])
@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", WRITERS)
def test_prompts_are_read_on_a_gpu_as_on_a_cpu(
    name: str, kind: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All positions together, and some at a time."""
    monkeypatch.setitem(rows_module.MAX_PREFILL_POSITIONS, "cuda", most)
    model = loud(build_language_model(WRITERS[name], VOCABULARY))

    def ask(rows: list[int]) -> Any:
        asked = {"limits": [3 + row % 9 for row in rows], "prefixes": prompts(rows, 80), "keys": rows}
        return texts(search(model, None, len(rows), SEARCHES[kind], attention=False, **asked))

    every = list(range(COUNT))
    expected = ask(every)
    model.cuda()
    for _ in range(3):  # plain, recorded, replayed
        assert ask(every) == expected
    for row in (0, 17, 79):
        assert ask([row]) == [expected[row]]


@pytest.mark.parametrize("name", WRITERS)
def test_a_recording_is_replayed_for_free_tokens_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, made = loud(build_language_model(WRITERS[name], VOCABULARY)).cuda(), []
    real = cuda_graph.GraphSlots.steps

    def counted(slots: cuda_graph.GraphSlots, most: int) -> int:
        made.append(real(slots, most))
        return made[-1]

    monkeypatch.setattr(cuda_graph.GraphSlots, "steps", counted)
    config = DecodeConfig(beam=4, min_length=11, max_length=11)
    search(model, None, 3, config, prefixes=[[7] * 200, [8], []], attention=False)
    assert sum(made) == 11


def test_a_recording_follows_the_weights() -> None:
    model, (source, lengths), config = build("post").cuda(), sources(), SEARCHES["beam"]
    rows = list(range(8))
    for _ in range(3):
        before = texts(find(model, source, lengths, config, rows))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.7)
    changed = texts(find(model, source, lengths, config, rows))
    assert changed != before
    model.cpu()
    assert texts(find(model, source, lengths, config, rows)) == changed
    model.cuda()  # to other places
    assert texts(find(model, source, lengths, config, rows)) == changed


def test_recordings_go_with_the_model() -> None:
    model, (source, lengths) = build("post").cuda(), sources()
    for beam in range(1, 8):
        find(model, source, lengths, DecodeConfig(beam=beam), [0, 1])
    assert 0 < len(cuda_graph._caches[model]) <= cuda_graph.MAX_CACHED_GRAPHS
    del model
    gc.collect()
    assert not [kept for kept in cuda_graph._caches.values() if kept]


@pytest.mark.parametrize("kind", SEARCHES)
@pytest.mark.parametrize("name", MODELS)
def test_sentences_join_slots_that_were_opened_for_them(name: str, kind: str) -> None:
    """Slots of a recording cannot become more, so there are some for sentences that are expected."""
    model, (source, lengths), config = build(name), sources(), SEARCHES[kind]
    waves = [[1], [58, 17, 3], [4], [0, 9]]
    expected = {row: texts(find(model, source, lengths, config, [row]))[0] for wave in waves for row in wave}
    model.cuda()
    for _ in range(3):  # plain, recorded, replayed
        opened = OpenSearch(model, most=most_together(config, torch.device("cuda")), attention=False)
        names: dict[int, int] = {}
        found: dict[int, Any] = {}
        for wave in waves:
            with torch.inference_mode():
                memory = model.encode(source[wave].cuda(), lengths[wave].cuda())
            asked = {"limits": [3 + row % 25 for row in wave], "prefixes": prompts(wave, 3), "keys": wave}
            request = prepare(model, len(wave), config, can_prefill=can_prefill(model), forbid=NEVER, **asked)
            while not opened.fits(memory, request):  # a later wave may write longer texts than there is space for
                found |= {names[number]: texts([one])[0] for number, one in opened.advance(4)}
            began = opened.search is None
            names |= dict(zip(opened.join(memory, request, expected=8), wave, strict=True))
            assert not began or opened.vacancies >= 8 - len(wave)
            found |= {names[number]: texts([one])[0] for number, one in opened.advance(2)}
        while opened.active:
            found |= {names[number]: texts([one])[0] for number, one in opened.advance(4)}
        assert found == expected


def test_memory_does_not_grow_with_requests() -> None:
    model, (source, lengths) = build("post").cuda(), sources()
    used = []
    for number in range(400):
        rows = [number % COUNT, (7 * number) % COUNT][: 1 + number % 2]
        find(model, source, lengths, SEARCHES["beam"], rows)
        if number in (199, 399):
            torch.cuda.synchronize()
            used.append(torch.cuda.memory_allocated())
    assert used[1] <= used[0] * 1.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [3, 66, 300])
@pytest.mark.parametrize("moved", [False, True])
def test_attention_to_the_past(dtype: torch.dtype, rows: int, moved: bool) -> None:
    capacity, heads, m, v_size = 70, 4, 24, 32
    keys, values = (torch.randn(rows, heads, capacity, size, device="cuda", dtype=dtype) for size in (m, v_size))
    joint = torch.randn(rows, heads * (2 * m + v_size), device="cuda", dtype=dtype)
    parts = joint.split([heads * m, heads * m, heads * v_size], dim=1)
    q, k, v = (part.unflatten(1, (heads, -1)) for part in parts)
    own = torch.arange(rows, device="cuda")
    length = own // 3 * 7 % capacity
    origin = None
    if moved:
        origin = (own // 3 * 3)[:, None] + torch.randint(0, 3, (rows, capacity), device="cuda")
    store = LayerCache(keys.double(), values.double(), None if origin is None else origin.clone(), length)
    expected = attend_cached(q.double(), k.double(), v.double(), store)
    with torch.no_grad():
        found = attend_next(q, k, v, keys, values, origin, length, m**-0.5)
    tolerance = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-4}
    assert_close(found.double(), expected, **tolerance)
    assert_close(keys[own, :, length], k, rtol=0, atol=0)
    if origin is not None:
        assert torch.equal(origin, store.origin)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("each", [1, 5, 20])
def test_attention_to_what_rows_share(dtype: torch.dtype, each: int) -> None:
    slots, heads, m, size = 9, 4, 24, 75
    q = torch.randn(slots, each, heads, m, device="cuda", dtype=dtype)
    source = torch.randn(slots, size, 2 * heads * m, device="cuda", dtype=dtype)
    keys, values = (part.view(slots, size, heads, m).transpose(1, 2) for part in source.chunk(2, dim=-1))
    mask = torch.arange(size, device="cuda") < torch.randint(0, size + 1, (slots, 1), device="cuda")
    with torch.no_grad():
        found = attend_shared(q, keys, values, mask, m**-0.5)
    wide = (part.double() for part in (q.transpose(1, 2), keys, values))
    expected = attend(*wide, mask=mask[:, None, None]).transpose(1, 2)
    tolerance = {"atol": 2e-2, "rtol": 2e-2} if dtype == torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-4}
    assert_close(found.double(), expected, **tolerance)


@pytest.mark.parametrize("sizes", [(1, 512, 512), (2, 100, 37), (1, 2048, 512), (5, 64, 96)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_products_of_some_rows(sizes: tuple[int, int, int], bias: bool, relu: bool) -> None:
    rows, inputs, outputs = sizes
    x, linear = torch.randn(rows, inputs, device="cuda"), Linear(inputs, outputs, bias=bias).cuda()
    with torch.no_grad():
        found = linear.relu(x) if relu else linear(x)
        expected = nn.Linear.forward(linear.double(), x.double())
    assert_close(found.double(), expected.relu() if relu else expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("positions", ["sinusoid", "learned", "none", "joint"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tokens_with_their_places(dtype: torch.dtype, positions: str) -> None:
    config = TransformerDecoderConfig(width=48, heads=4, layers=1, positions=positions)
    decoder = config.build_decoder(build_embedding(48, VOCABULARY)).to("cuda", dtype).eval()
    tokens, places = torch.randint(0, VOCABULARY, (70,), device="cuda"), torch.arange(70, device="cuda") % 20
    with torch.no_grad():
        decoder.placed.reach(20)
        expected = decoder.placed.next(decoder.embedding(tokens), places)
        found = decoder._next(tokens, places)
    rounding = 1e-6 if dtype == torch.float32 else 0.0  # a product and a sum may be rounded once instead of twice
    assert_close(found, expected, rtol=rounding, atol=rounding)
