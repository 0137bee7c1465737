"""Export to Hugging Face transformers: an architecture there that computes the same function, with our weights.

    translator   post-norm, sinusoids   Marian          language model   pre-norm, learned, gelu_tanh   GPT-2
                 pre-norm, sinusoids    Pegasus                          any others of these            OPT
                 pre-norm, learned      Blenderbot      (a translator of one decoder is a language model there)

Their sinusoids are computed from the configuration as [sin | cos], where ours alternate: so the features of the whole
stream are reordered. GPT-2 and OPT have neither a scale of embeddings nor biases of the output: see `folded`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from weft.decoding import NEVER, NEVER_CONTINUED, DecodeConfig
from weft.export.gpt2 import build_gpt2, folded, is_gpt2
from weft.export.transformers_models import ACTIVATIONS, TOKENS, fill, load_transformers, quiet
from weft.export.weights import Affine, Stack, Weights, refuse
from weft.text import EOS, PAD, SOS

TRANSLATORS: Final[Mapping[tuple[str, str], str]] = {
    ("post", "sinusoid"): "Marian",
    ("pre", "sinusoid"): "Pegasus",
    ("pre", "learned"): "Blenderbot",
}
"""Architectures of translators, by norm and positions."""

CLASSES: Final = {
    "Marian": "MarianMTModel",
    "Pegasus": "PegasusForConditionalGeneration",
    "Blenderbot": "BlenderbotForConditionalGeneration",
}

ALIKE: Final = (
    "width", "norm", "positions", "activation", "embedding_scale", "max_positions", "dropout", "attention_dropout",
)  # fmt: skip
"""Settings that must be equal in encoder and decoder."""

OPT_OFFSET: Final = 2
"""Rows of OPT's table of positions that no position uses."""


def build_huggingface(weights: Weights, decode: DecodeConfig) -> nn.Module:
    """Build their model with our weights and `[decode]`, in evaluation mode; a ConfigError where they have none."""
    transformers = load_transformers()
    with quiet(transformers):
        build = _build_pair
        if weights.encoder is None:
            build = build_gpt2 if is_gpt2(weights.decoder.settings) else _build_opt
        model: nn.Module = build(weights, transformers)
        model.generation_config = transformers.GenerationConfig(**generation_settings(weights, decode))
    return model.eval()


def write_huggingface(model: Any, folder: Path) -> None:
    """Write config.json, generation_config.json and model.safetensors."""
    with quiet(load_transformers()):
        model.save_pretrained(folder)


def generation_settings(weights: Weights, decode: DecodeConfig) -> dict[str, Any]:
    """Return `[decode]` as their settings. Their score too is divided by the length, the end token included."""
    settings: dict[str, Any] = {"pad_token_id": PAD, "bos_token_id": SOS, "eos_token_id": EOS}
    settings |= {"decoder_start_token_id": SOS} if weights.encoder is not None else {}
    never = NEVER if weights.encoder is not None or weights.separated else NEVER_CONTINUED
    settings |= {"max_new_tokens": weights.longest(decode.max_length), "suppress_tokens": sorted(never)}
    settings |= {"min_new_tokens": decode.min_length} if decode.min_length else {}
    if decode.sample:
        chance = {"temperature": decode.temperature, "top_k": decode.top_k, "top_p": decode.top_p}
        chance |= {"min_p": decode.min_p} if decode.min_p else {}
        return settings | {"do_sample": True, **chance}
    settings |= {"do_sample": False, "num_beams": decode.beam}
    return settings | ({"length_penalty": decode.length_penalty, "early_stopping": True} if decode.beam > 1 else {})


def _build_pair(weights: Weights, transformers: Any) -> Any:
    """Build a translator."""
    assert weights.encoder is not None
    source, target = weights.encoder.settings, weights.decoder.settings
    for name in ALIKE:
        if getattr(source, name) != getattr(target, name):
            cure = f"train with that of the encoder, {getattr(source, name)}, or export to ctranslate2"
            raise refuse(f"model.decoder.{name}", getattr(target, name), cure)
    who = TRANSLATORS.get((source.norm, source.positions))
    if who is None:
        cure = 'train with norm = "pre" or positions = "sinusoid", or export to ctranslate2'
        raise refuse("model.encoder.positions", source.positions, cure, beside=f'norm = "{source.norm}"')
    if who != "Marian" and not weights.one_table:
        cure = 'train with shared = true or norm = "post", or export to ctranslate2'
        raise refuse("text.shared", False, cure, beside='norm = "pre"')
    sizes: dict[str, Any] = {}
    for side, stack in (("encoder", weights.encoder), ("decoder", weights.decoder)):
        sizes |= {f"{side}_layers": stack.settings.layers, f"{side}_attention_heads": stack.settings.heads}
        sizes[f"{side}_ffn_dim"] = stack.layers[0].inner.bias.numel()
    shared = weights.one_table and weights.tied
    if who == "Marian":
        sizes |= {"share_encoder_decoder_embeddings": shared, "decoder_vocab_size": weights.output.bias.numel()}
    config = getattr(transformers, f"{who}Config")(
        vocab_size=weights.encoder.table.size(0),
        d_model=source.width,
        max_position_embeddings=weights.encoder.positions.size(0),
        activation_function=ACTIVATIONS[source.activation],
        dropout=source.dropout,
        attention_dropout=source.attention_dropout,
        activation_dropout=0.0,
        scale_embedding=source.embedding_scale,
        tie_word_embeddings=weights.tied,
        decoder_start_token_id=SOS,
        forced_eos_token_id=None,
        **TOKENS,
        **sizes,
    )
    model = getattr(transformers, CLASSES[who])(config)
    return fill(model, _pair_state(weights, learned=who == "Blenderbot"))


def _pair_state(weights: Weights, *, learned: bool) -> dict[str, Tensor]:
    """Return our tensors by their names, with learned positions; sinusoids are computed by their model."""
    if not learned:
        width = weights.decoder.table.size(1)
        weights = weights.reordered(torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)]))
    assert weights.encoder is not None
    state = {"final_logits_bias": weights.output.bias[None], "lm_head.weight": weights.output.weight}
    state["model.shared.weight"] = weights.encoder.table
    for side, stack in (("encoder", weights.encoder), ("decoder", weights.decoder)):
        state |= _stack_state(stack, f"model.{side}", end="layer_norm")
        state[f"model.{side}.embed_tokens.weight"] = stack.table
        if learned:
            state[f"model.{side}.embed_positions.weight"] = stack.positions
    return state


def _build_opt(weights: Weights, transformers: Any) -> Any:
    """Build a language model."""
    settings = weights.decoder.settings
    config = transformers.OPTConfig(
        vocab_size=weights.decoder.table.size(0),
        hidden_size=settings.width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        ffn_dim=weights.decoder.layers[0].inner.bias.numel(),
        max_position_embeddings=weights.decoder.positions.size(0),
        do_layer_norm_before=settings.norm == "pre",
        activation_function=ACTIVATIONS[settings.activation],
        dropout=settings.dropout,
        attention_dropout=settings.attention_dropout,
        tie_word_embeddings=False,
        **TOKENS,
    )
    return fill(transformers.OPTForCausalLM(config), _opt_state(weights))


def _opt_state(weights: Weights) -> dict[str, Tensor]:
    """Return our tensors by their names: the table includes the scale, the weights of the output include its bias."""
    stack, head = folded(weights)
    state = _stack_state(stack, "model.decoder", end="final_layer_norm")
    state["model.decoder.embed_tokens.weight"] = stack.table
    state["model.decoder.embed_positions.weight"] = nn.functional.pad(stack.positions, (0, 0, OPT_OFFSET, 0))
    return state | {"lm_head.weight": head}


def _stack_state(stack: Stack, prefix: str, *, end: str) -> dict[str, Tensor]:
    """Return the layers and the norm after them, by the names that all four architectures use."""
    parts: dict[str, Affine] = {}
    for number, layer in enumerate(stack.layers):
        name = f"{prefix}.layers.{number}"
        for theirs, attention in (("self_attn", layer.attention), ("encoder_attn", layer.cross)):
            if attention is None:
                continue
            maps = {"q": attention.query, "k": attention.key, "v": attention.value, "out": attention.output}
            parts |= {f"{name}.{theirs}.{short}_proj": part for short, part in maps.items()}
            parts[f"{name}.{theirs}_layer_norm"] = attention.norm
        parts |= {f"{name}.fc1": layer.inner, f"{name}.fc2": layer.outer, f"{name}.final_layer_norm": layer.norm}
    if stack.end is not None:
        parts[f"{prefix}.{end}"] = stack.end
    return {f"{name}.{kind}": tensor for name, part in parts.items() for kind, tensor in part._asdict().items()}
