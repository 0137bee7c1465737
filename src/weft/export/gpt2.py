"""Language models for Hugging Face transformers without biases of the output and without a scale of embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from weft.export.transformers_models import TOKENS, fill
from weft.export.weights import Affine, Stack, Weights
from weft.models.transformer_settings import TransformerConfig


def is_gpt2(settings: TransformerConfig) -> bool:
    """Return whether GPT-2 computes what these settings describe."""
    return (settings.norm, settings.positions, settings.activation) == ("pre", "learned", "gelu_tanh")


def build_gpt2(weights: Weights, transformers: Any) -> Any:
    """Build a language model."""
    settings, stack = weights.decoder.settings, weights.decoder
    config = transformers.GPT2Config(
        vocab_size=stack.table.size(0),
        n_embd=settings.width,
        n_layer=settings.layers,
        n_head=settings.heads,
        n_inner=stack.layers[0].inner.bias.numel(),
        n_positions=stack.positions.size(0),
        activation_function="gelu_new",
        resid_pdrop=settings.dropout,
        embd_pdrop=settings.dropout,
        attn_pdrop=settings.attention_dropout,
        tie_word_embeddings=False,
        **TOKENS,
    )
    return fill(transformers.GPT2LMHeadModel(config), _gpt2_state(weights))


def _gpt2_state(weights: Weights) -> dict[str, Tensor]:
    """Return our tensors by their names; maps are stored (in, out)."""
    stack, head = folded(weights)
    state = {"transformer.wte.weight": stack.table, "transformer.wpe.weight": stack.positions, "lm_head.weight": head}
    norms: dict[str, Affine] = {}
    for number, layer in enumerate(stack.layers):
        name, attention = f"transformer.h.{number}", layer.attention
        norms |= {f"{name}.ln_1": attention.norm, f"{name}.ln_2": layer.norm}
        joint = [torch.cat(parts) for parts in zip(attention.query, attention.key, attention.value, strict=True)]
        maps = {"attn.c_attn": Affine(*joint), "attn.c_proj": attention.output}
        for part, (weight, bias) in {**maps, "mlp.c_fc": layer.inner, "mlp.c_proj": layer.outer}.items():
            state |= {f"{name}.{part}.weight": weight.T, f"{name}.{part}.bias": bias}
    assert stack.end is not None
    norms["transformer.ln_f"] = stack.end
    return state | {f"{name}.{kind}": part for name, norm in norms.items() for kind, part in norm._asdict().items()}


def folded(weights: Weights) -> tuple[Stack, Tensor]:
    """Return the stack with its scale in its table, and the weights of the output (V, D) with its bias in them.

    Before the output stands a norm, h = γ ⊙ n + β, where the features of n sum to zero. So W h + b = W' (n + 1) with
    W' = W diag(γ) + c 1ᵀ / D and c = b + W β - W γ: what is added to W' acts on the constant alone.
    """
    stack, (weight, bias) = weights.decoder, weights.output
    last = stack.end or stack.layers[-1].norm
    ones = torch.ones_like(last.weight)
    constant = bias.double() + weight.double() @ (last.bias - last.weight).double()
    head = weight.double() * last.weight.double() + constant[:, None] / last.weight.numel()
    plain = Affine(ones, ones)
    if stack.end is not None:
        stack = replace(stack, end=plain)
    else:
        stack = replace(stack, layers=(*stack.layers[:-1], replace(stack.layers[-1], norm=plain)))
    return replace(stack, table=stack.table * stack.scale), head.float()
