"""Export to CTranslate2: its model specification filled with our weights; positions of any kind are a table there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from weft.errors import ConfigError, did_you_mean
from weft.export.weights import Affine, Attention, Stack, Weights
from weft.extras import EXTRAS
from weft.nn.transformer.norm import EPSILON
from weft.text import EOS, SOS, UNK

QUANTIZATIONS: Final = (
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
)

ACTIVATIONS: Final = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
"""Our names of activations and theirs."""


def load_ctranslate2() -> Any:
    """Import the package by its name, so that weft runs and is type-checked without it."""
    try:
        return import_module("ctranslate2")
    except ImportError:
        cure = EXTRAS["ct2"].install
        raise ConfigError("needs the package ctranslate2", where="--to ctranslate2", cure=cure) from None


def check_quantization(quantization: str) -> None:
    if quantization not in QUANTIZATIONS:
        cure = did_you_mean(quantization, QUANTIZATIONS)
        raise ConfigError(f'"{quantization}" is not a type of numbers', where="--quantization", cure=cure)


def write_ctranslate2(
    weights: Weights, folder: Path, source: list[str], target: list[str], *, quantization: str = "float32"
) -> None:
    """Write model.bin, config.json and the vocabularies, given by their entries."""
    check_quantization(quantization)
    spec = _build_spec(weights)
    if weights.encoder is None:
        spec.register_vocabulary(target)
    else:
        spec.register_source_vocabulary(source)
        spec.register_target_vocabulary(target)
        spec.config.decoder_start_token = target[SOS]
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = (target[index] for index in (UNK, SOS, EOS))
    spec.config.layer_norm_epsilon = EPSILON
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def _build_spec(weights: Weights) -> Any:
    specs = load_ctranslate2().specs
    decoder = _stack_spec(
        specs.transformer_spec.TransformerDecoderSpec,
        weights.decoder,
        with_encoder_attention=weights.encoder is not None,
    )
    decoder.embeddings.weight = _own(weights.decoder.table)
    _set(decoder.projection, weights.output)
    if weights.encoder is None:
        return specs.TransformerDecoderModelSpec(decoder)
    encoder = _stack_spec(specs.transformer_spec.TransformerEncoderSpec, weights.encoder)
    encoder.embeddings[0].weight = _own(weights.encoder.table)
    return specs.TransformerSpec(encoder, decoder)


def _stack_spec(build: Any, stack: Stack, **options: Any) -> Any:
    """Return the specification of a stack, without its embedding table."""
    settings, activations = stack.settings, load_ctranslate2().specs.Activation
    spec = build(
        settings.layers,
        settings.heads,
        pre_norm=settings.norm == "pre",
        activation=getattr(activations, ACTIVATIONS[settings.activation]),
        **options,
    )
    spec.scale_embeddings = settings.embedding_scale
    spec.position_encodings.encodings = _own(stack.positions)
    if stack.end is not None:
        _set_norm(spec.layer_norm, stack.end)
    for theirs, layer in zip(spec.layer, stack.layers, strict=True):
        _set_attention(theirs.self_attention, layer.attention)
        if layer.cross is not None:
            _set_attention(theirs.attention, layer.cross)
        _set_norm(theirs.ffn.layer_norm, layer.norm)
        _set(theirs.ffn.linear_0, layer.inner)
        _set(theirs.ffn.linear_1, layer.outer)
    return spec


def _set_attention(spec: Any, attention: Attention) -> None:
    """Set the maps: [query; key; value] and output of self-attention; query, [key; value] and output of the other."""
    query, key, value = attention.query, attention.key, attention.value
    inputs = [[query, key, value]] if len(spec.linear) == 2 else [[query], [key, value]]
    for linear, maps in zip(spec.linear, inputs, strict=False):
        _set(linear, Affine(*(torch.cat(parts) for parts in zip(*maps, strict=True))))
    _set(spec.linear[-1], attention.output)
    _set_norm(spec.layer_norm, attention.norm)


def _set(spec: Any, linear: Affine) -> None:
    spec.weight, spec.bias = map(_own, linear)


def _set_norm(spec: Any, norm: Affine) -> None:
    spec.gamma, spec.beta = map(_own, norm)


def _own(tensor: Tensor) -> Tensor:
    """Return a copy: quantization overwrites its input, which is the memory of the run's model."""
    return tensor.clone(memory_format=torch.contiguous_format)
