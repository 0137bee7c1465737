"""Export of models that read whole texts to Hugging Face transformers: BERT, RoBERTa or DistilBERT with our weights.

text.frame = "roberta"                           RoBERTa
text.frame = "bert", a head of relu, or mask     DistilBERT, if there are no segments
text.frame = "bert", anything else               BERT

They are post-norm encoders with learned positions and a norm of the embeddings; names of tensors are those by which
weft imports them (weft/importing/bert.py). A classifier reads the first state through one hidden layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from weft.export.agreement import LOGIT_TOLERANCE, Agreement, differs
from weft.export.tokenizer import write_reader
from weft.export.transformers_models import ACTIVATIONS, fill, load_transformers, quiet
from weft.export.weights import refuse
from weft.importing.bert import BERT, DISTILBERT, FAMILIES, ROBERTA, Family
from weft.models.speller import Spelling
from weft.models.transformer import TransformerEncoder
from weft.nn.positions import LearnedPositions
from weft.run import Run
from weft.text import EOS, PAD, SOS, SPECIALS, frame_of

TASKS: Final = {
    "mask": "MaskedLM",
    "classify": "SequenceClassification",
    "regress": "SequenceClassification",
    "tag": "TokenClassification",
}
"""The tasks whose runs are exported so, and the last part of the names of their architectures."""

NEEDED: Final[dict[str, object]] = {
    "norm": "post",
    "positions": "learned",
    "embedding_norm": True,
    "embedding_scale": False,
    "attention_scale": "sqrt_d",
    "attention_hard": False,
}
"""Settings of the encoder that these architectures have."""

TEXTS: Final = ((7,), (1,), (3, 5))
"""Tokens of the texts that both models read, one or two of them."""


class Architecture(NamedTuple):
    """A family and the class of the model."""

    family: Family
    name: str


def is_reader(run: Run) -> bool:
    """Return whether a run is exported here."""
    return run.config.task in TASKS and isinstance(getattr(run.model, "encoder", None), TransformerEncoder)


def write_encoder(run: Run, folder: Path) -> Agreement:
    """Write the model and its tokenizer, load both again and compare them with the run."""
    transformers = load_transformers()
    found = _choose(run)
    with quiet(transformers):
        kind = getattr(transformers, found.name)
        model = kind(_config(run, found.family, transformers))
        fill(model, dict(_state(run, found.family))).eval().save_pretrained(folder)
        write_reader(run, folder)
        exported = kind.from_pretrained(folder, dtype=torch.float32).eval()
    return Agreement(_compare(run, exported, found.family))


def _choose(run: Run) -> Architecture:
    """Return the architecture; a ConfigError where there is none."""
    settings: Any = run.config.model
    frame: str = run.config.text.frame  # type: ignore[attr-defined]
    for name, value in NEEDED.items():
        if getattr(settings, name) != value:
            raise refuse(
                f"model.{name}", getattr(settings, name), f"train with {value!r}, or start from an imported run"
            )
    if frame == "end":
        cure = "start from an imported run" if run.config.task == "tag" else 'train with "bert" or "roberta"'
        raise refuse("text.frame", frame, cure)
    if settings.activation not in ACTIVATIONS:
        raise refuse("model.activation", settings.activation, f"train with {' or '.join(ACTIVATIONS)}")
    head = getattr(settings, "head_activation", "relu")
    if run.config.task == "tag":
        _check_tagger(settings)
    elif run.config.task != "mask" and (settings.pooling, settings.hidden_sizes) != ("first", [settings.width]):
        raise refuse("model.pooling", settings.pooling, f'train with pooling = "first" and head = [{settings.width}]')
    distilled = frame == "bert" and not settings.segments and head == "relu"
    family = ROBERTA if frame == "roberta" else DISTILBERT if distilled else BERT
    if run.config.task in ("classify", "regress") and head != ("relu" if family is DISTILBERT else "tanh"):
        raise refuse("model.head_activation", head, 'train with "tanh"')
    if family is DISTILBERT and settings.norm_epsilon != DISTILBERT.epsilon:
        raise refuse("model.norm_epsilon", settings.norm_epsilon, f"train with {DISTILBERT.epsilon}")
    if run.config.task == "mask":
        _check_masked(settings, family)
    (name,) = (name for name, one in FAMILIES.items() if one is family)
    return Architecture(family, f"{name}For{TASKS[run.config.task]}")


def _check_tagger(settings: Any) -> None:
    """Raise unless each state is mapped to scores of labels, and nothing else."""
    if settings.crf:
        raise refuse("model.crf", True, "train with false")
    if settings.hidden_sizes:
        raise refuse("model.head", settings.head, "train without it")


def _check_masked(settings: Any, family: Family) -> None:
    """Raise unless the output is that of BERT."""
    if not settings.transform:
        raise refuse("model.transform", False, "train with true")
    wanted = "gelu" if family is ROBERTA else settings.activation
    if settings.transform_activation != wanted:
        raise refuse("model.transform_activation", settings.transform_activation, f'train with "{wanted}"')
    if settings.transform_epsilon != settings.norm_epsilon:
        raise refuse("model.transform_epsilon", settings.transform_epsilon, f"train with {settings.norm_epsilon}")
    if not settings.tie:
        raise refuse("model.tie", False, "train with true")


def _config(run: Run, family: Family, transformers: Any) -> Any:
    settings: Any = run.config.model
    labels = run.task.codec.labels
    (name,) = (name for name, one in FAMILIES.items() if one is family)
    values = {ours: getattr(settings, ours) for ours in family.settings}
    values |= {
        "activation": ACTIVATIONS[settings.activation],
        "feedforward": settings.feedforward or 4 * settings.width,
    }
    options = {theirs: values[ours] for ours, theirs in family.settings.items()}
    options |= {"vocab_size": len(run.task.codec.tokenizers[_role(run)]), "pad_token_id": PAD}
    options["max_position_embeddings"] = settings.max_positions + _skipped(family)
    if family is not DISTILBERT:
        kinds = 1 if family is ROBERTA else settings.segments or 2
        options |= {"layer_norm_eps": settings.norm_epsilon, "type_vocab_size": kinds}
    if family is ROBERTA:
        options |= {"bos_token_id": SOS, "eos_token_id": EOS}
    if run.config.task == "regress":
        options |= {"num_labels": 1, "problem_type": "regression"}
    elif labels:
        options |= {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
        if getattr(run.config.data, "labels", "one") == "many":
            options["problem_type"] = "multi_label_classification"
    return getattr(transformers, f"{name}Config")(**options)


def _role(run: Run) -> str:
    return "words" if run.config.task == "tag" else ""


def _skipped(family: Family) -> int:
    """Return the number of positions before the first: RoBERTa counts from the id of padding on."""
    return PAD + 1 if family is ROBERTA else 0


def _state(run: Run, family: Family) -> Iterator[tuple[str, Tensor]]:
    """Yield our tensors by their names."""
    model: Any = run.model
    encoder, first = model.encoder, f"{family.prefix}.embeddings"
    positions = encoder.placed.positions
    assert isinstance(positions, LearnedPositions)
    places = positions.table.weight.detach().float()
    yield f"{first}.word_embeddings.weight", encoder.embedding.weight.detach()
    if family is not DISTILBERT:
        kinds = 2 if encoder.segments is None else encoder.segments.num_embeddings
        kinds = 1 if family is ROBERTA else kinds
        table = torch.zeros(kinds, places.size(1)) if encoder.segments is None else encoder.segments.weight.detach()
        yield f"{first}.token_type_embeddings.weight", table
    yield f"{first}.position_embeddings.weight", nn.functional.pad(places, (0, 0, _skipped(family), 0))
    yield from _affine(encoder.placed.norm, f"{first}.LayerNorm")
    for number, block in enumerate(encoder.stack.blocks):
        part = {ours: f"{family.prefix}.{family.layer}.{number}.{name}" for ours, name in family.parts.items()}
        joint = block.attention.joint
        for place, name in enumerate(("query", "key", "value")):
            yield f"{part[name]}.weight", joint.weight.detach().chunk(3)[place]
            bias = torch.zeros(joint.out_features) if joint.bias is None else joint.bias.detach()
            yield f"{part[name]}.bias", bias.chunk(3)[place]
        yield from _affine(block.attention.output, part["output"])
        yield from _affine(block.around_attention.norm, part["attention_norm"])
        yield from _affine(block.feedforward.inner, part["inner"])
        yield from _affine(block.feedforward.outer, part["outer"])
        yield from _affine(block.around_feedforward.norm, part["feedforward_norm"])
    yield from _masked(model, family) if run.config.task == "mask" else _scores(run, family)


def _masked(model: Any, family: Family) -> Iterator[tuple[str, Tensor]]:
    dense, norm, output = family.masked
    yield from _affine(model.output.transform.dense, dense)
    yield from _affine(model.output.transform.norm, norm)
    yield from _affine(model.output.scores.scores, output)
    if "." in output:
        yield f"{output.rpartition('.')[0]}.bias", model.output.scores.scores.bias.detach()


def _scores(run: Run, family: Family) -> Iterator[tuple[str, Tensor]]:
    """The hidden layer and the output; a number is written in its own unit, and not standardised."""
    model: Any = run.model
    hidden, output = family.head
    if run.config.task == "tag":
        output = "classifier"
    else:
        yield from _affine(model.head.layers[0], hidden)
    weight, bias = model.scores.weight.detach(), model.scores.bias.detach()
    if run.config.task == "regress":
        target = run.task.target  # type: ignore[attr-defined]
        weight, bias = weight * target.scale[0], bias * target.scale[0] + target.mean[0]
    yield f"{output}.weight", weight
    yield f"{output}.bias", bias


def _affine(module: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    weight = module.weight.detach().float()
    yield f"{name}.weight", weight
    yield f"{name}.bias", torch.zeros(weight.size(0)) if module.bias is None else module.bias.detach().float()


@torch.no_grad()
def _compare(run: Run, exported: Any, family: Family) -> float:
    """Return the largest difference of a logit; raise where it is too large."""
    model: Any = run.model
    device = next(model.parameters()).device
    generator, size = torch.Generator().manual_seed(0), len(run.task.codec.tokenizers[_role(run)])
    frame = frame_of(run.config.text)
    worst = 0.0
    for lengths in TEXTS:
        parts = [torch.randint(len(SPECIALS), size, (length,), generator=generator).tolist() for length in lengths]
        row = frame.around(*parts) if len(parts) == 1 else frame.pair(*parts)
        tokens = torch.tensor([row])
        ours = _logits(run, tokens.to(device), torch.tensor([len(row)], device=device))
        kinds = _kinds(row, parts) if family is BERT else {}
        theirs = exported(input_ids=tokens, attention_mask=torch.ones_like(tokens), **kinds).logits
        difference = float((ours.float().cpu() - theirs).abs().max())
        if not difference <= LOGIT_TOLERANCE * max(1.0, float(theirs.abs().max()) / 10):
            raise differs(f"a number of the full pass by {difference:.2g}")
        worst = max(worst, difference)
    return worst


def _logits(run: Run, tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the numbers that the run computes for tokens (1, T): logits, or a number in its own unit."""
    model, task = run.model, run.config.task
    if task == "tag":
        everywhere = torch.arange(tokens.size(1), device=tokens.device)[None]
        return model(tokens, lengths, Spelling(tokens, lengths, everywhere))  # type: ignore[no-any-return]
    found = model(tokens, lengths)
    if task == "mask":
        return model.output(found)  # type: ignore[operator, no-any-return]
    if task == "regress":
        return torch.from_numpy(run.task.target.restore(found.double().cpu().numpy()))  # type: ignore[attr-defined]
    return found  # type: ignore[no-any-return]


def _kinds(row: Sequence[int], parts: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Return the segments of a row: the second text and its end are of the second."""
    second = len(parts[1]) + 1 if len(parts) > 1 else 0
    return {"token_type_ids": torch.tensor([[0] * (len(row) - second) + [1] * second])}
