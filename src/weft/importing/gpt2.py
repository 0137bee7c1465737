"""GPT-2: a pre-norm decoder with learned positions, whose maps are stored (in, out). It becomes a run of lm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, zeros

from weft.errors import DataError, counted
from weft.importing.checkpoint import CONFIG, Checkpoint
from weft.importing.found import ACTIVATIONS, Found, Named, affine
from weft.importing.tokenizers import read_pieces
from weft.importing.vocabulary import Vocabulary, arrange, build_tokenizer
from weft.limits import LAYERS, LENGTH_TOKENS, VOCABULARY
from weft.tasks import Codec
from weft.text import EOS, PAD, SOS, SPECIALS

MAPS = {"attn.c_attn": "attention.joint", "attn.c_proj": "attention.output"}
MAPS |= {"mlp.c_fc": "feedforward.inner", "mlp.c_proj": "feedforward.outer"}
NORMS = {"ln_1": "around_attention.norm", "ln_2": "around_feedforward.norm"}


def read_gpt2(checkpoint: Checkpoint) -> Found:
    """A language model; texts begin with its start token, and it predicts its end token."""
    checkpoint.only("add_cross_attention", False)
    checkpoint.only("scale_attn_weights", True)
    checkpoint.only("scale_attn_by_inverse_layer_idx", False)
    width, rows = checkpoint.number("n_embd", 768), checkpoint.number("vocab_size", 50257, most=VOCABULARY)
    model: dict[str, Any] = {
        "kind": "transformer",
        "width": width,
        "heads": checkpoint.number("n_head", 12, most=LAYERS),
        "layers": checkpoint.number("n_layer", 12, most=LAYERS),
        "feedforward": checkpoint.number("n_inner", 4 * width),
        "activation": checkpoint.choose("activation_function", ACTIVATIONS, "gelu_new"),
        "norm": "pre",
        "norm_epsilon": checkpoint.share("layer_norm_epsilon", 1e-5),
        "embedding_scale": False,
        "positions": "learned",
        "max_positions": checkpoint.number("n_positions", 1024, most=LENGTH_TOKENS),
        "dropout": checkpoint.share("resid_pdrop", 0.1),
        "attention_dropout": checkpoint.share("attn_pdrop", 0.1),
        "attention_bias": True,
        "tie": checkpoint.config.get("tie_word_embeddings", True) is not False,
    }
    pieces = read_pieces(checkpoint)
    check_size(checkpoint, len(pieces.entries), rows)
    roles = _roles(checkpoint, rows)
    check_roles(checkpoint, roles, len(pieces.entries))
    vocabulary = arrange(rows, roles)
    tokenizer = build_tokenizer(pieces, vocabulary, str(checkpoint.folder))
    data = {"max_length": min(256, model["max_positions"])}
    return Found("lm", model, Codec({"": tokenizer}), _tensors(checkpoint, model, vocabulary), data=data)


def check_size(checkpoint: Checkpoint, entries: int, rows: int) -> None:
    """Raise where the tokenizer has more entries than the model has rows; rows without an entry are never written."""
    if entries > rows:
        what = f"vocab_size = {rows:,}, but the tokenizer has {entries:,} entries"
        raise DataError(what, where=str(checkpoint.folder / CONFIG), cure="are the files of one model?")


def check_roles(checkpoint: Checkpoint, roles: Mapping[int, int | None], entries: int) -> None:
    """Raise where the start or the end of a text is no entry of the tokenizer: it is that of another model."""
    for role in (SOS, EOS):
        row = roles[role]
        if row is not None and row >= entries:
            what = f"{SPECIALS[role]} is row {row:,}, and the tokenizer has {counted(entries, 'entry', 'entries')}"
            raise DataError(what, where=str(checkpoint.folder / CONFIG), cure="are the files of one model?")


def _roles(checkpoint: Checkpoint, rows: int) -> dict[int, int | None]:
    """The rows of special tokens. Padding is a token of its own, if any."""
    found: dict[int, int | None] = {}
    for role, name in ((SOS, "bos_token_id"), (EOS, "eos_token_id")):
        found[role] = token_id(checkpoint, name, rows)
        if found[role] is None:
            raise DataError(f"has no {name}", where=str(checkpoint.folder / CONFIG), cure="add it")
    padding = token_id(checkpoint, "pad_token_id", rows)
    return found | ({PAD: padding} if padding not in found.values() else {})


def token_id(checkpoint: Checkpoint, name: str, rows: int) -> int | None:
    """An id in the configuration; None where there is none."""
    value = checkpoint.config.get(name)
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < rows:
        what = f"{name} = {value!r:.60} is not a row of vocab_size = {rows:,}"
        raise DataError(what, where=str(checkpoint.folder / CONFIG))
    return value


def _tensors(checkpoint: Checkpoint, model: dict[str, Any], vocabulary: Vocabulary) -> Named:
    width, units = model["width"], model["feedforward"]
    rows = checkpoint.number("vocab_size", 50257, most=VOCABULARY)
    first = "transformer." if checkpoint.holds("transformer.wte.weight") else ""
    table = checkpoint.tensor(f"{first}wte.weight", rows, width)
    yield "decoder.embedding.weight", vocabulary.table(table)
    places = checkpoint.tensor(f"{first}wpe.weight", model["max_positions"], width)
    yield "decoder.placed.positions.table.weight", places
    sizes = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width)}
    sizes |= {"mlp.c_fc": (width, units), "mlp.c_proj": (units, width)}
    for number in range(model["layers"]):
        theirs, ours = f"{first}h.{number}", f"decoder.stack.blocks.{number}"
        for name, part in NORMS.items():
            yield from affine(checkpoint, f"{theirs}.{name}", f"{ours}.{part}", width)
        for name, part in MAPS.items():
            yield f"{ours}.{part}.weight", checkpoint.tensor(f"{theirs}.{name}.weight", *sizes[name]).T
            yield f"{ours}.{part}.bias", checkpoint.tensor(f"{theirs}.{name}.bias", sizes[name][1])
    yield from affine(checkpoint, f"{first}ln_f", "decoder.stack.final", width)
    if not model["tie"]:
        yield "output.scores.weight", vocabulary.table(checkpoint.tensor("lm_head.weight", rows, width))
    checkpoint.skip("lm_head.weight")
    bias: Tensor = zeros(rows)
    yield "output.scores.bias", vocabulary.bias(bias)
