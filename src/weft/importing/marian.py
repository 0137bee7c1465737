"""Marian: a post-norm encoder and decoder with sinusoids [sin | cos], where ours alternate. It becomes a run of
translate; the features of the whole stream are reordered, so that our sinusoids fit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.errors import DataError
from weft.importing.checkpoint import CONFIG, Checkpoint
from weft.importing.found import ACTIVATIONS, Found, Named, affine, joined
from weft.importing.gpt2 import check_roles, check_size, token_id
from weft.importing.tokenizers import FILE, read_pieces, read_sentencepieces
from weft.importing.vocabulary import Pieces, Vocabulary, arrange, build_tokenizer
from weft.limits import BEAM, LAYERS, LENGTH_PENALTY, LENGTH_TOKENS, VOCABULARY
from weft.tasks import Codec
from weft.text import EOS, PAD, SOS, UNK

UNKNOWN = "<unk>"
SIDES = ("encoder", "decoder")
RANGES: dict[str, tuple[int, float, tuple[type, ...]]] = {
    "beam": (1, BEAM, (int,)),
    "length_penalty": (0, LENGTH_PENALTY, (int, float)),
    "max_length": (1, LENGTH_TOKENS, (int,)),
}
"""The smallest and the largest value of the settings of a search, and their types."""


def read_marian(checkpoint: Checkpoint) -> Found:
    """A translator; the first token of a target is the checkpoint's decoder_start_token_id."""
    for name, values in {
        "normalize_before": (False,),
        "normalize_embedding": (False,),
        "static_position_embeddings": (True,),
        "add_bias_logits": (False,),
        "add_final_layer_norm": (False,),
        "extra_pos_embeddings": (0,),
        "scale_embedding": (True, False),
    }.items():
        checkpoint.only(name, *values)
    width = checkpoint.number("d_model", 1024)
    if width % 2:
        raise checkpoint.refuse("d_model", width, "it must be even")
    model: dict[str, Any] = {"kind": "encoder_decoder"} | {side: _side(checkpoint, side, width) for side in SIDES}
    model["decoder"]["tie"] = checkpoint.config.get("tie_word_embeddings", True) is not False
    rows = checkpoint.number("vocab_size", 58101, most=VOCABULARY)
    target_rows = checkpoint.number("decoder_vocab_size", rows, most=VOCABULARY)
    pieces = _read_pieces(checkpoint)
    shared = len(pieces) == 1
    vocabularies, tokenizers = {}, {}
    for side, size in zip(SIDES, (rows, target_rows), strict=True):
        own = pieces[0] if shared or side == "encoder" else pieces[1]
        check_size(checkpoint, len(own.entries), size)
        roles = _roles(checkpoint, own, size)
        check_roles(checkpoint, roles, len(own.entries))
        vocabularies[side] = arrange(size, roles)
        role = "" if shared else {"encoder": "source", "decoder": "target"}[side]
        if role not in tokenizers:
            tokenizers[role] = build_tokenizer(own, vocabularies[side], str(checkpoint.folder))
    decode, notes = _decode(checkpoint)
    reader = _MarianTensors(checkpoint, model, vocabularies, (rows, target_rows))
    return Found(
        "translate",
        model,
        Codec(tokenizers),
        reader.tensors(shared=shared),
        text={"kind": "imported", "shared": shared},
        decode=decode,
        notes=notes,
    )


def _side(checkpoint: Checkpoint, side: str, width: int) -> dict[str, Any]:
    return {
        "kind": "transformer",
        "width": width,
        "heads": checkpoint.number(f"{side}_attention_heads", 16, most=LAYERS),
        "layers": checkpoint.number(f"{side}_layers", 12, most=LAYERS),
        "feedforward": checkpoint.number(f"{side}_ffn_dim", 4096),
        "activation": checkpoint.choose("activation_function", ACTIVATIONS, "gelu"),
        "norm": "post",
        "embedding_scale": checkpoint.config.get("scale_embedding", False) is True,
        "positions": "sinusoid",
        "max_positions": checkpoint.number("max_position_embeddings", 1024, most=LENGTH_TOKENS),
        "dropout": checkpoint.share("dropout", 0.1),
        "attention_dropout": checkpoint.share("attention_dropout", 0.0),
        "attention_bias": True,
    }


def _read_pieces(checkpoint: Checkpoint) -> list[Pieces]:
    """The tokenizer of both sides, or that of the source and that of the target."""
    if checkpoint.has(FILE):
        return [read_pieces(checkpoint)]
    target = "target_vocab.json" if checkpoint.has("target_vocab.json") else "vocab.json"
    files = {"source.spm": "vocab.json", "target.spm": target}
    return [read_sentencepieces(checkpoint, spm, vocabulary) for spm, vocabulary in files.items()]


def _roles(checkpoint: Checkpoint, pieces: Pieces, rows: int) -> dict[int, int | None]:
    names = {SOS: "decoder_start_token_id", EOS: "eos_token_id", PAD: "pad_token_id"}
    found = {role: token_id(checkpoint, name, rows) for role, name in names.items()}
    for role in (SOS, EOS):
        if found[role] is None:
            raise DataError(f"has no {names[role]}", where=str(checkpoint.folder / CONFIG), cure="add it")
    if found[PAD] in (found[SOS], found[EOS]):
        found[PAD] = None
    unknown = pieces.entries.index(UNKNOWN) if UNKNOWN in pieces.entries else None
    return found | {UNK: None if unknown in found.values() else unknown}


def _decode(checkpoint: Checkpoint) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the search, and a note for each that weft cannot have; a folder has them in its own file, an
    older one in config.json."""
    own = "generation_config.json"
    found = {**checkpoint.config, **(checkpoint.table(own) if checkpoint.has(own) else {})}
    longest, new = found.get("max_length"), found.get("max_new_tokens")
    # Their max_length counts the start token.
    most = new if new is not None else longest - 1 if type(longest) is int else longest
    wanted: dict[str, Any] = {
        "beam": found.get("num_beams"),
        "length_penalty": found.get("length_penalty"),
        "max_length": most,
    }
    decode: dict[str, Any] = {"stop": "finished"} if found.get("early_stopping") is True else {}
    notes = []
    for name, value in wanted.items():
        least, limit, types = RANGES[name]
        if type(value) in types and least <= value <= limit:
            decode[name] = value
        elif value is not None:
            notes.append(f"decode.{name} is weft's own: {value!r:.40} in {own} is not from {least:,} to {limit:,}")
    return decode, tuple(notes)


class _MarianTensors:
    """The tensors of the checkpoint by their names in weft, with the features of the stream in our order."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        model: dict[str, Any],
        vocabularies: dict[str, Vocabulary],
        rows: tuple[int, int],
    ) -> None:
        self.checkpoint, self.model, self.vocabularies = checkpoint, model, vocabularies
        self.width = model["encoder"]["width"]
        self.rows = dict(zip(SIDES, rows, strict=True))
        half = self.width // 2
        self.order = torch.arange(self.width).view(2, half).T.flatten()  # sin 0, cos 0, sin 1, cos 1, …

    def tensors(self, *, shared: bool) -> Named:
        tables = {side: self._table(side) for side in SIDES}
        for side in SIDES:
            if side == "encoder" or not shared:
                yield f"{side}.embedding.weight", self.vocabularies[side].table(tables[side])[:, self.order]
            for number in range(self.model[side]["layers"]):
                for name, tensor in self._layer(side, number):
                    yield name, self._reordered(name, tensor)
        vocabulary, size = self.vocabularies["decoder"], self.rows["decoder"]
        if not self.model["decoder"]["tie"]:
            head = self.checkpoint.tensor("lm_head.weight", size, self.width)
            yield "output.scores.weight", vocabulary.table(head)[:, self.order]
        self.checkpoint.skip("lm_head.weight", "model.shared.weight")
        bias = "final_logits_bias"
        found = self.checkpoint.tensor(bias, 1, size)[0] if self.checkpoint.holds(bias) else torch.zeros(size)
        yield "output.scores.bias", vocabulary.bias(found)

    def _table(self, side: str) -> Tensor:
        """The embedding of a side, which may be the shared one."""
        own = f"model.{side}.embed_tokens.weight"
        name = own if self.checkpoint.holds(own) else "model.shared.weight"
        if side == "decoder" and name != own and self.checkpoint.holds("lm_head.weight") and self.model[side]["tie"]:
            name = "lm_head.weight"
        return self.checkpoint.tensor(name, self.rows[side], self.width)

    def _layer(self, side: str, number: int) -> Named:
        settings, width = self.model[side], self.width
        theirs, ours = f"model.{side}.layers.{number}", f"{side}.stack.blocks.{number}"
        units, square = settings["feedforward"], (width, width)
        maps = [f"{theirs}.self_attn.{short}_proj" for short in "qkv"]
        yield from joined(self.checkpoint, maps, f"{ours}.attention.joint", *square)
        yield from affine(self.checkpoint, f"{theirs}.self_attn.out_proj", f"{ours}.attention.output", *square)
        yield from affine(self.checkpoint, f"{theirs}.self_attn_layer_norm", f"{ours}.around_attention.norm", width)
        if side == "decoder":
            cross, norm = f"{theirs}.encoder_attn", f"{theirs}.encoder_attn_layer_norm"
            yield from affine(self.checkpoint, f"{cross}.q_proj", f"{ours}.cross.query", *square)
            pair = [f"{cross}.k_proj", f"{cross}.v_proj"]
            yield from joined(self.checkpoint, pair, f"{ours}.cross.memory", *square)
            yield from affine(self.checkpoint, f"{cross}.out_proj", f"{ours}.cross.output", *square)
            yield from affine(self.checkpoint, norm, f"{ours}.around_cross.norm", width)
        yield from affine(self.checkpoint, f"{theirs}.fc1", f"{ours}.feedforward.inner", units, width)
        yield from affine(self.checkpoint, f"{theirs}.fc2", f"{ours}.feedforward.outer", width, units)
        yield from affine(self.checkpoint, f"{theirs}.final_layer_norm", f"{ours}.around_feedforward.norm", width)

    def _reordered(self, name: str, tensor: Tensor) -> Tensor:
        """Maps to the stream and norms have their outputs in our order, maps from the stream their inputs."""
        part = name.rsplit(".", 2)[-2]
        if part in ("output", "outer", "norm"):
            return tensor[self.order]
        return tensor[:, self.order] if tensor.dim() == 2 else tensor
