"""Multi-head attention (Vaswani et al., 2017).

    head_h = softmax((W_q,h x)·(W_k,h y) / √m) W_v,h y            out = Σ_h W_o,h head_h + b

x are the queries' inputs, y those of the keys and values: x itself in self-attention, an encoder's states in cross
attention. The maps of all heads, and of queries, keys and values where they read the same input, are one product.
B batch, Tq queries, Tk keys, H heads, m size of a head's queries and keys, v of its values.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self, overload

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.attention import single_query_cpu, torch_weights
from weft.nn.attention.attend import attend
from weft.nn.attention.kv_cache import LayerCache, attend_cached
from weft.nn.attention.packed import attend_packed
from weft.nn.attention.recording import AttendsTo, recording
from weft.nn.attention.rotary import Rotary
from weft.nn.attention.scores import Scale, Score, scale_of
from weft.nn.attention.short import attend_short, is_short
from weft.nn.attention.single_query import attend_shared, serves
from weft.nn.linear import Linear
from weft.nn.native import pages
from weft.nn.packing import Packing


class KeysValues(NamedTuple):
    """Keys (B, H, Tk, m) and values (B, H, Tk, v) of attention. As a state, dimension 0 are hypotheses."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """Self-attention over inputs of `query_size`; with `key_size`, attention to other inputs of that size.

    `value_size` is given only where values are read from a third input. head_size is m, value_head_size v; by default
    both are query_size / heads. score: "scaled_dot", "dot" or a Score module, shared by the heads. rotary turns queries
    and keys by their positions. scale takes the place of 1/√m; hard: each head takes its best key alone (see `attend`).
    """

    def __init__(
        self,
        query_size: int,
        key_size: int | None = None,
        value_size: int | None = None,
        *,
        heads: int,
        head_size: int | None = None,
        value_head_size: int | None = None,
        output_size: int | None = None,
        bias: bool = False,
        score: str | Score = "scaled_dot",
        scale: Scale | None = None,
        hard: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if head_size is None and query_size % heads:
            cure = "choose heads that divide it, or give head_size"
            raise ConfigError(f"{heads} heads do not divide a width of {query_size}", where="heads", cure=cure)
        if rotary and key_size is not None:
            what = "places of two inputs have no distance from each other"
            raise ConfigError(what, where="rotary", cure="leave it out, or leave out key_size")
        self.heads, self.head_size = heads, head_size or query_size // heads
        self.value_head_size = value_head_size or self.head_size
        self.attends_to: AttendsTo = "self" if key_size is None else "memory"
        self.score, self.dropout, self.hard = score, dropout, hard
        self.factor = scale_of("sqrt_d" if scale is None else scale, self.head_size, self.head_size)
        usual = scale is None or (score == "scaled_dot" and self.factor == self.head_size**-0.5)
        self.scale = None if usual else self.factor
        self.fused = score == "scaled_dot" and not hard
        """Whether the kernels compute it; they take any factor."""
        self.rotary = Rotary(self.head_size) if rotary else None
        keys, values = heads * self.head_size, heads * self.value_head_size
        self.splits = [keys, keys, values]
        self.joint = self.query = self.memory = self.key = self.value = None
        if key_size is None:
            self.joint = Linear(query_size, sum(self.splits), bias=bias)
        else:
            self.query = Linear(query_size, keys, bias=bias)
            if value_size is None:
                self.memory = Linear(key_size, keys + values, bias=bias)
            else:
                self.key = Linear(key_size, keys, bias=bias)
                self.value = Linear(value_size, values, bias=bias)
        self.output = Linear(values, output_size or query_size, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each map as if it stood alone, whatever it is computed together with; biases at zero."""
        maps = [(self.joint, self.splits), (self.query, None), (self.memory, self.splits[1:]), (self.key, None)]
        for linear, splits in (*maps, (self.value, None), (self.output, None)):
            if linear is None:
                continue
            for part in torch.split(linear.weight.detach(), splits or linear.out_features):
                nn.init.xavier_uniform_(part)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention, *, cross: bool | None = None) -> Self:
        """Attention with the weights of an nn.MultiheadAttention, in its type and on its device, batch first.

        torch's module takes any inputs; ours reads one, or with `cross` another one for keys and values. By default it
        does so where the module's kdim or vdim is not its width.
        """
        settings = torch_weights.settings_of(module, cross=cross)
        with torch.device("meta"):  # nothing is drawn at random that would be overwritten at once
            attention = cls(**settings)
        weight = module.out_proj.weight
        attention = attention.to(weight.dtype).to_empty(device=weight.device)
        torch_weights.copy_from(module, attention)
        return attention.train(module.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """An nn.MultiheadAttention, batch first, with these weights; a ConfigError where torch has none."""
        return torch_weights.to_torch(self)

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = ...,
        value: Tensor | None = ...,
        *,
        mask: Tensor | None = ...,
        causal: bool = ...,
        packing: Packing | None = ...,
        key_packing: Packing | None = ...,
        weights: Literal[False] = ...,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = ...,
        value: Tensor | None = ...,
        *,
        mask: Tensor | None = ...,
        causal: bool = ...,
        packing: Packing | None = ...,
        key_packing: Packing | None = ...,
        weights: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
        key_packing: Packing | None = None,
        weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """query (B, Tq, …), key and value (B, Tk, …) -> (B, Tq, output_size); weights=True adds (B, H, Tq, Tk).

        mask: broadcastable to (B, Tq, Tk), True where a query may look; causal: each query sees the keys up to its own
        place. With `packing` the inputs are packed (N, …), and `key_packing` says how the keys lie, if otherwise.
        """
        if packing is not None:
            if weights or not self.fused:
                what = "packed rows have neither weights to show nor other scores, nor hard attention"
                raise ConfigError(what, where="packing", cure="pad them")
            return self._attend_packed(query, key, value, packing, key_packing or packing, causal=causal)
        q, k, v = self._project(query, key, value)
        if self.rotary is not None:
            places = torch.arange(q.size(1), device=q.device)[:, None]
            q, k = self.rotary(q, places), self.rotary(k, places)
        own = KeysValues(k.transpose(1, 2), v.transpose(1, 2))
        return self._look(q.transpose(1, 2), own, mask=mask, causal=causal, weights=weights)

    def remember(self, key: Tensor, value: Tensor | None = None) -> KeysValues:
        """Prepare keys and values once for many queries: key (B, Tk, …) -> keys and values."""
        return self.recall(*self._memory_products(key, value))

    def recall(self, *products: Tensor) -> KeysValues:
        """Keys and values from the product of the memory's map, or of the maps of both, (B, Tk, …) each."""
        keys, values = products if len(products) == 2 else torch.split(products[0], self.splits[1:], dim=-1)
        keys, values = self._heads(keys, self.head_size), self._heads(values, self.value_head_size)
        return KeysValues(keys.transpose(1, 2), values.transpose(1, 2))

    def look(
        self, query: Tensor, memory: KeysValues, *, mask: Tensor | None = None, weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """query (N, Tq, …), keys and values of `remember` -> (N, Tq, output_size), and the weights if weights=True."""
        assert self.query is not None
        heads = self._heads(self.query(query), self.head_size)
        plain = self.fused and not weights and (mask is None or mask.size(1) == 1) and not recording()
        if plain and (serves(heads) or single_query_cpu.LIBRARY.serves(heads, memory.keys)):
            real = None if mask is None else mask[:, 0]
            attend_one = attend_shared if heads.is_cuda else single_query_cpu.attend_shared
            context = attend_one(heads, *memory, mask=real, scale=self.factor)
            return self.output(context.flatten(2)), None
        q = heads.transpose(1, 2)
        if weights:
            return self._look(q, memory, mask=mask, causal=False, weights=True)
        return self._look(q, memory, mask=mask, causal=False, weights=False), None

    def look_at_once(self, query: Tensor, memory: KeysValues, *, mask: Tensor | None = None) -> Tensor:
        """`look` for all positions of a text; the kernel of `look` is made for a few queries."""
        if not query.is_cuda:
            return self.look(query, memory, mask=mask)[0]
        assert self.query is not None
        q = self._heads(self.query(query), self.head_size).transpose(1, 2)
        return self._look(q, memory, mask=mask, causal=False, weights=False)

    def empty(self, rows: int, like: Tensor) -> KeysValues:
        """Keys and values of no positions, for `rows` hypotheses."""
        shape = (rows, self.heads, 0)
        return KeysValues(like.new_empty(*shape, self.head_size), like.new_empty(*shape, self.value_head_size))

    def allocate(self, rows: int, positions: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Uninitialised buffers for keys and values of `positions` positions, for `step_within`."""
        sizes = [self.heads * positions * size for size in (self.head_size, self.value_head_size)]
        keys, values = (pages.empty(rows, size, like).view(rows, self.heads, positions, -1) for size in sizes)
        return keys, values

    def step_within(self, x: Tensor, cache: LayerCache) -> Tensor:
        """Self-attention of the next token, x (N, …) -> (N, output_size); its keys and values go to the cache."""
        q, k, v = self._project(x, None, None)
        if self.rotary is not None:
            q, k = self.rotary(q, cache.length[:, None]), self.rotary(k, cache.length[:, None])
        out: Tensor = self.output(attend_cached(q, k, v, cache, **self._options()).flatten(1))
        return out

    def prefill_within(self, x: Tensor, cache: LayerCache, rows: Tensor) -> Tensor:
        """Causal self-attention of texts from their beginning on, x (n, T, …) -> (n, T, output_size). Their keys and
        values are written to the rows (n,) of `cache`."""
        q, k, v = self._project(x, None, None)
        if self.rotary is not None:
            places = torch.arange(x.size(1), device=x.device)[:, None]
            q, k = self.rotary(q, places), self.rotary(k, places)
        own = KeysValues(k.transpose(1, 2), v.transpose(1, 2))
        for store, part in zip((cache.keys, cache.values), own, strict=True):
            store[rows, :, : x.size(1)] = part.to(store.dtype)
        return self._look(q.transpose(1, 2), own, mask=None, causal=True, weights=False)

    def step(self, x: Tensor, cache: KeysValues) -> tuple[Tensor, KeysValues]:
        """Self-attention of the next token: x (N, …), the keys and values before -> (N, output_size), those with x."""
        q, k, v = self._project(x[:, None], None, None)
        if self.rotary is not None:
            place = torch.full((1, 1), cache.keys.size(2), device=x.device)
            q, k = self.rotary(q, place), self.rotary(k, place)
        keys = torch.cat([cache.keys, k.transpose(1, 2)], dim=2)
        values = torch.cat([cache.values, v.transpose(1, 2)], dim=2)
        cache = KeysValues(keys, values)
        return self._look(q.transpose(1, 2), cache, mask=None, causal=False, weights=False)[:, 0], cache

    def _project(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """-> (…, H, m), (…, H, m), (…, H, v)."""
        return self._parts(self._products(query, key, value))

    def _products(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> tuple[Tensor, ...]:
        """Queries, keys and values as they are made: in one product, in two (the query's alone), or in three."""
        if self.joint is not None:
            if key is not None:
                raise ConfigError("self-attention reads one input", where="key", cure="build it with key_size")
            return (self.joint(query),)
        if key is None:
            raise ConfigError("attention to another input needs it", where="key", cure="build it without key_size")
        assert self.query is not None
        return self.query(query), *self._memory_products(key, value)

    def _memory_products(self, key: Tensor, value: Tensor | None) -> tuple[Tensor, ...]:
        if self.memory is not None:
            if value is not None and value is not key:
                raise ConfigError("values are read from the keys' input", where="value", cure="give value_size")
            return (self.memory(key),)
        assert self.key is not None
        assert self.value is not None
        return self.key(key), self.value(key if value is None else value)

    def _parts(self, products: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        if len(products) == 1:
            q, k, v = torch.split(products[0], self.splits, dim=-1)
        elif len(products) == 2:
            q, (k, v) = products[0], torch.split(products[1], self.splits[1:], dim=-1)
        else:
            q, k, v = products
        return self._heads(q, self.head_size), self._heads(k, self.head_size), self._heads(v, self.value_head_size)

    def _heads(self, x: Tensor, size: int) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, size)

    @overload
    def _look(
        self, q: Tensor, memory: KeysValues, *, mask: Tensor | None, causal: bool, weights: Literal[False]
    ) -> Tensor: ...

    @overload
    def _look(
        self, q: Tensor, memory: KeysValues, *, mask: Tensor | None, causal: bool, weights: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def _look(
        self, q: Tensor, memory: KeysValues, *, mask: Tensor | None, causal: bool, weights: bool
    ) -> Tensor | tuple[Tensor, Tensor]: ...

    def _look(
        self, q: Tensor, memory: KeysValues, *, mask: Tensor | None, causal: bool, weights: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
        """q (B, H, Tq, m) -> (B, Tq, output_size)."""
        mask = mask if mask is None or mask.dim() < 3 else mask.unsqueeze(-3)
        dropout = self.dropout if self.training else 0.0
        options = self._options() | {"mask": mask, "causal": causal, "dropout": dropout}
        if not weights:
            return self._merge(attend(q, *memory, **options))
        context, used = attend(q, *memory, weights=True, **options)
        return self._merge(context), used

    def _options(self) -> dict[str, Any]:
        return {"score": self.score, "scale": self.scale, "hard": self.hard, "module": self}

    def _attend_packed(
        self, query: Tensor, key: Tensor | None, value: Tensor | None, queries: Packing, keys: Packing, *, causal: bool
    ) -> Tensor:
        """query (N, …), key and value (M, …) -> (N, output_size)."""
        if queries.count != keys.count:
            what = f"{queries.count} rows of queries cannot look at {keys.count} rows of keys"
            raise ConfigError(what, where="key_packing", cure="pack the same sentences on both sides")
        dropout, scale = self.dropout if self.training else 0.0, self.factor
        products = self._products(query, key, value)
        plain = self.rotary is None and dropout == 0.0 and self.head_size == self.value_head_size and not recording()
        if plain and len(products) < 3 and is_short(products[0], queries, keys, self.head_size):
            memory = products[1] if len(products) == 2 else None
            context = attend_short(products[0], memory, queries, keys, heads=self.heads, causal=causal, scale=scale)
        else:
            q, k, v = self._parts(products)
            if self.rotary is not None:
                q, k = self.rotary(q, queries.positions[:, None]), self.rotary(k, keys.positions[:, None])
            options: dict[str, Any] = {"causal": causal, "scale": scale, "dropout": dropout, "module": self}
            context = attend_packed(q, k, v, queries, keys, **options).flatten(-2)
        return self.output(context)  # type: ignore[no-any-return]

    def _merge(self, context: Tensor) -> Tensor:
        """(B, H, Tq, v) -> (B, Tq, output_size)."""
        out: Tensor = self.output(context.transpose(1, 2).flatten(-2))
        return out
