"""Models of the package transformers, built from settings and filled with tensors by their names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from torch import Tensor

from weft.errors import ConfigError, Fault
from weft.extras import EXTRAS
from weft.text import EOS, PAD, SOS

ACTIVATIONS: Final = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu"}
"""Our names of activations and theirs."""

TOKENS: Final = {"pad_token_id": PAD, "bos_token_id": SOS, "eos_token_id": EOS}

COMPUTED: Final = ("embed_positions.weight", "position_ids")
"""Ends of the names of tensors that their models compute from the settings."""


def load_transformers() -> Any:
    """Import the package by its name, so that weft runs and is type-checked without it."""
    try:
        return import_module("transformers")
    except ImportError:
        cure = EXTRAS["hf"].install
        raise ConfigError("needs the package transformers", where="--to huggingface", cure=cure) from None


def fill(model: Any, state: dict[str, Tensor]) -> Any:
    """Load the state; raise unless it has every tensor of the model, except those that the model computes.

    Only the shared table may be left over, in a model without shared embeddings.
    """
    found = model.load_state_dict(state, strict=False)
    lacking = [name for name in found.missing_keys if not name.endswith(COMPUTED)]
    extra = [name for name in found.unexpected_keys if name != "model.shared.weight"]
    if lacking or extra:
        what = f"this version of transformers has other tensors: {', '.join(lacking + extra)}"
        raise Fault(what, where="--to huggingface", cure=f"another may do: {EXTRAS['hf'].install}")
    return model


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """Silence progress bars and warnings of transformers inside the block."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
