"""BERT, RoBERTa and DistilBERT: post-norm encoders with learned positions and a norm of their embeddings.

ForMaskedLM                  mask                   ForSequenceClassification    classify, or regress for one number
ForTokenClassification       tag

Segments: BERT has a vector for each of two (`model.segments`). RoBERTa has one for all, which is added to the
positions; its first positions, up to the id of padding, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from torch import Tensor

from weft.data import Statistics
from weft.errors import DataError
from weft.importing.checkpoint import CONFIG, Checkpoint
from weft.importing.found import ACTIVATIONS, Found, Named, affine, joined
from weft.importing.gpt2 import check_size
from weft.importing.tokenizers import describe_mask, read_pieces, special_names
from weft.importing.vocabulary import Pieces, Vocabulary, arrange, build_tokenizer
from weft.limits import LAYERS, LENGTH_TOKENS, VOCABULARY
from weft.tasks import Codec
from weft.tasks.regress import TARGET
from weft.text import EOS, MASK, PAD, SOS, UNK

MAX_MARKS: Final = 4
"""Special tokens of a row, at most: those of a pair of RoBERTa."""

MAX_SEGMENTS: Final = 16
"""Kinds of texts that have vectors of their own."""

PROBLEMS: Final = (None, "single_label_classification", "multi_label_classification", "regression")
"""The values of problem_type; a regression has one output."""

SUBWORDS_PER_WORD: Final = 4
"""Subwords for which a tagger has room, for each word of a training sentence."""

ROLES: Final = {PAD: "pad_token", UNK: "unk_token", SOS: "cls_token", EOS: "sep_token", MASK: "mask_token"}


@dataclass(frozen=True)
class Family:
    """Names of an architecture: of its settings, its layers, and its special tokens where no file names them."""

    prefix: str
    settings: Mapping[str, str]
    layer: str
    parts: Mapping[str, str]
    specials: Mapping[int, str]
    frame: str
    epsilon: float = 1e-12
    head: tuple[str, str] = ("", "")
    """The hidden layer of a classifier and its output."""
    masked: tuple[str, str, str] = ("", "", "")
    """The transform of a masked language model, its norm, and the output."""


BERT_SETTINGS: Final = {
    "width": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "feedforward": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
BERT_PARTS: Final = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}
BRACKETS: Final = {PAD: "[PAD]", UNK: "[UNK]", SOS: "[CLS]", EOS: "[SEP]", MASK: "[MASK]"}

BERT: Final = Family(
    "bert",
    BERT_SETTINGS,
    "encoder.layer",
    BERT_PARTS,
    BRACKETS,
    "bert",
    head=("bert.pooler.dense", "classifier"),
    masked=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder"),
)
ROBERTA: Final = Family(
    "roberta",
    BERT_SETTINGS,
    "encoder.layer",
    BERT_PARTS,
    {PAD: "<pad>", UNK: "<unk>", SOS: "<s>", EOS: "</s>", MASK: "<mask>"},
    "roberta",
    head=("classifier.dense", "classifier.out_proj"),
    masked=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"),
)
DISTILBERT: Final = Family(
    "distilbert",
    {
        "width": "dim",
        "heads": "n_heads",
        "layers": "n_layers",
        "feedforward": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    "transformer.layer",
    {
        "query": "attention.q_lin",
        "key": "attention.k_lin",
        "value": "attention.v_lin",
        "output": "attention.out_lin",
        "attention_norm": "sa_layer_norm",
        "inner": "ffn.lin1",
        "outer": "ffn.lin2",
        "feedforward_norm": "output_layer_norm",
    },
    BRACKETS,
    "bert",
    head=("pre_classifier", "classifier"),
    masked=("vocab_transform", "vocab_layer_norm", "vocab_projector"),
)

FAMILIES: Final = {"Bert": BERT, "Roberta": ROBERTA, "DistilBert": DISTILBERT}
"""Families by the beginning of the names of their architectures."""

USUAL: Final = {"width": 768, "heads": 12, "layers": 12, "feedforward": 3072}


class Reader:
    """Reads a checkpoint of a family for one purpose."""

    def __init__(self, checkpoint: Checkpoint, family: Family) -> None:
        self.checkpoint, self.family = checkpoint, family
        for name, values in {
            "position_embedding_type": ("absolute", None),
            "is_decoder": (False, None),
            "add_cross_attention": (False, None),
        }.items():
            checkpoint.only(name, *values)
        self.rows = checkpoint.number("vocab_size", 30522, most=VOCABULARY)
        self.places = checkpoint.number("max_position_embeddings", 512, most=LENGTH_TOKENS)
        padding = checkpoint.config.get("pad_token_id", 1) if family is ROBERTA else -1
        if type(padding) is not int or not -1 <= padding < self.places - 1:
            raise checkpoint.refuse("pad_token_id", padding, "the positions of RoBERTa begin after it")
        self.skipped = padding + 1
        kinds = 0 if family is DISTILBERT else checkpoint.config.get("type_vocab_size", 2 if family is BERT else 1)
        if type(kinds) is not int or not 0 <= kinds <= MAX_SEGMENTS:
            raise checkpoint.refuse("type_vocab_size", kinds, f"it is a number from 0 to {MAX_SEGMENTS}")
        self.segments = kinds
        self.model = self._settings()
        self.width: int = self.model["width"]
        pieces = read_pieces(checkpoint)
        check_size(checkpoint, len(pieces.entries), self.rows)
        self.vocabulary: Vocabulary = arrange(self.rows, self._roles(pieces))
        self.tokenizer = build_tokenizer(pieces, self.vocabulary, str(checkpoint.folder))

    def _settings(self) -> dict[str, Any]:
        names, checkpoint = self.family.settings, self.checkpoint
        model: dict[str, Any] = {"kind": "transformer"}
        for ours, usual in USUAL.items():
            most = LAYERS if ours in ("heads", "layers") else None
            model[ours] = checkpoint.number(names[ours], usual, **({"most": most} if most else {}))
        epsilon = self.family.epsilon if self.family is DISTILBERT else checkpoint.share("layer_norm_eps", 1e-12)
        return model | {
            "activation": checkpoint.choose(names["activation"], ACTIVATIONS, "gelu"),
            "norm": "post",
            "norm_epsilon": epsilon,
            "embedding_scale": False,
            "embedding_norm": True,
            "positions": "learned",
            "max_positions": self.places - self.skipped,
            "dropout": checkpoint.share(names["dropout"], 0.1),
            "attention_dropout": checkpoint.share(names["attention_dropout"], 0.1),
            "attention_bias": True,
            "segments": self.segments if self.segments > 1 else 0,
        }

    def _roles(self, pieces: Pieces) -> dict[int, int | None]:
        names, found = special_names(self.checkpoint), dict[int, int | None]()
        for role, name in ROLES.items():
            token = names.get(name, self.family.specials[role])
            found[role] = pieces.entries.index(token) if token in pieces.entries else None
            if found[role] is None and role in (SOS, EOS):
                what = f"has no entry {token}, the {name}"
                raise DataError(
                    what, where=str(self.checkpoint.folder), cure=f"is {name} right in the tokenizer's files?"
                )
        return found

    def sections(self) -> dict[str, Any]:
        """The sections `text` and `data` of the run."""
        longest = min(512, self.model["max_positions"]) - MAX_MARKS
        text = {"kind": "imported", "frame": self.family.frame}
        return {"text": text, "data": {"max_length": max(1, longest)}}

    def encoder(self) -> Named:
        """The tensors of the encoder."""
        checkpoint, width, first = self.checkpoint, self.width, f"{self.family.prefix}.embeddings"
        table = checkpoint.tensor(f"{first}.word_embeddings.weight", self.rows, width)
        yield "encoder.embedding.weight", self.vocabulary.table(table)
        places = checkpoint.tensor(f"{first}.position_embeddings.weight", self.places, width)
        places = places[self.skipped :]
        if self.segments:
            kinds = checkpoint.tensor(f"{first}.token_type_embeddings.weight", self.segments, width)
            if self.segments > 1:
                yield "encoder.segments.weight", kinds
            else:
                places = places + kinds
        yield "encoder.placed.positions.table.weight", places
        yield from affine(checkpoint, f"{first}.LayerNorm", "encoder.placed.norm", width)
        for number in range(self.model["layers"]):
            yield from self._layer(number)

    def _layer(self, number: int) -> Named:
        checkpoint, width, units = self.checkpoint, self.width, self.model["feedforward"]
        part = {
            ours: f"{self.family.prefix}.{self.family.layer}.{number}.{name}"
            for ours, name in self.family.parts.items()
        }
        ours = f"encoder.stack.blocks.{number}"
        maps = [part[name] for name in ("query", "key", "value")]
        yield from joined(checkpoint, maps, f"{ours}.attention.joint", width, width)
        yield from affine(checkpoint, part["output"], f"{ours}.attention.output", width, width)
        yield from affine(checkpoint, part["attention_norm"], f"{ours}.around_attention.norm", width)
        yield from affine(checkpoint, part["inner"], f"{ours}.feedforward.inner", units, width)
        yield from affine(checkpoint, part["outer"], f"{ours}.feedforward.outer", width, units)
        yield from affine(checkpoint, part["feedforward_norm"], f"{ours}.around_feedforward.norm", width)

    def masked_output(self, *, tie: bool) -> Named:
        """The tensors of the output of a masked language model."""
        dense, norm, output = self.family.masked
        yield from affine(self.checkpoint, dense, "output.transform.dense", self.width, self.width)
        yield from affine(self.checkpoint, norm, "output.transform.norm", self.width)
        if not tie:
            weight = self.checkpoint.tensor(f"{output}.weight", self.rows, self.width)
            yield "output.scores.scores.weight", self.vocabulary.table(weight)
        own, outer = f"{output}.bias", f"{output.rpartition('.')[0]}.bias"
        name = own if self.checkpoint.holds(own) else outer
        self.checkpoint.skip(f"{output}.weight", own, outer)
        bias: Tensor = self.checkpoint.tensor(name, self.rows)
        yield "output.scores.scores.bias", self.vocabulary.bias(bias)

    def scores(self, labels: int) -> Named:
        """The tensors of a classifier after its encoder."""
        hidden, output = self.family.head
        yield from affine(self.checkpoint, hidden, "head.layers.0", self.width, self.width)
        yield from affine(self.checkpoint, output, "scores", labels, self.width)


def read_masked(checkpoint: Checkpoint, family: Family) -> Found:
    """A masked language model."""
    reader = Reader(checkpoint, family)
    notes = describe_mask(checkpoint, special_names(checkpoint).get(ROLES[MASK], family.specials[MASK]))
    tie = checkpoint.config.get("tie_word_embeddings", True) is not False
    activation = reader.model["activation"] if family is not ROBERTA else "gelu"
    if activation not in ("gelu", "relu"):
        raise checkpoint.refuse(
            family.settings["activation"], activation, "the transform of the output has gelu or relu"
        )
    head = {"transform": True, "transform_activation": activation, "transform_epsilon": reader.model["norm_epsilon"]}

    def tensors() -> Named:
        yield from reader.encoder()
        yield from reader.masked_output(tie=tie)

    model = reader.model | head | {"tie": tie}
    return Found("mask", model, Codec({"": reader.tokenizer}), tensors(), notes=notes, **reader.sections())


def read_sequence(checkpoint: Checkpoint, family: Family) -> Found:
    """A classifier of texts; with one output a model that gives a number."""
    reader = Reader(checkpoint, family)
    labels = read_labels(checkpoint)
    number = len(labels) == 1
    checkpoint.only("problem_type", *(PROBLEMS if number else PROBLEMS[:-1]))
    model = reader.model | {"pooling": "first", "word_dropout": 0.0, "head": [reader.width]}
    model["head_activation"] = "relu" if family is DISTILBERT else "tanh"

    def tensors() -> Named:
        yield from reader.encoder()
        yield from reader.scores(len(labels))

    statistics = {TARGET: Statistics((0.0,), (1.0,))} if number else {}
    codec = Codec({"": reader.tokenizer}, () if number else labels, statistics)
    sections = reader.sections()
    if checkpoint.config.get("problem_type") == "multi_label_classification":
        sections["data"]["labels"] = "many"
    return Found("regress" if number else "classify", model, codec, tensors(), **sections)


def read_tokens(checkpoint: Checkpoint, family: Family) -> Found:
    """A tagger: the first subword of each word has its tag."""
    reader, labels = Reader(checkpoint, family), read_labels(checkpoint)

    def tensors() -> Named:
        yield from reader.encoder()
        yield from affine(checkpoint, "classifier", "scores", len(labels), reader.width)

    model = reader.model | {"characters": 0, "word_dropout": 0.0}
    sections = reader.sections()
    sections["data"]["max_length"] = max(1, sections["data"]["max_length"] // SUBWORDS_PER_WORD)
    return Found("tag", model, Codec({"words": reader.tokenizer}, labels), tensors(), **sections)


def read_labels(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The labels of a checkpoint in the order of its outputs."""
    table = checkpoint.config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    if isinstance(table, dict) and set(table) == set(map(str, range(len(table)))):
        labels = tuple(table[str(index)] for index in range(len(table)))
        plain = all(isinstance(label, str) and label.strip() and label.isprintable() for label in labels)
        if plain and len(set(labels)) == len(labels):
            return labels
    what = f"id2label = {table!r:.60} does not give each output a label of its own that can be printed"
    raise DataError(what, where=str(checkpoint.folder / CONFIG))
