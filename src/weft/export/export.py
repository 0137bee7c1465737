"""Export of a run to a folder that other software reads."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from weft.decoding import DecodeConfig
from weft.disk import sync
from weft.errors import ConfigError, did_you_mean
from weft.export.agreement import Agreement, compare, differs
from weft.export.bert import is_reader, write_encoder
from weft.export.c.export import ExportedC, check_quantization_c, fill_folder
from weft.export.card import write_card, write_reader_card
from weft.export.ctranslate2 import check_quantization, write_ctranslate2
from weft.export.exported import CTranslate2Model, HuggingFaceModel
from weft.export.huggingface import build_huggingface, write_huggingface
from weft.export.onnx.folder import check_quantization as check_onnx_quantization
from weft.export.onnx.folder import export_onnx
from weft.export.tokenizer import TARGET, framed, write_tokenizers
from weft.export.transformers_models import load_transformers, quiet
from weft.export.weights import ExportedModel, Weights, read_weights
from weft.models import LanguageModel, NgramModel, PrefixTranslator, Translator
from weft.run import Run, load
from weft.run.folder.files import writing
from weft.run.folder.lock import claim_folder
from weft.text import EOS, SOS

ENTRIES_PER_TEXT: Final = 50
"""Entries of the vocabulary in each text by which tokenizers are compared."""

AROUND: Final[dict[str, Callable[[list[int]], list[int]]]] = {
    "source": lambda ids: [*ids, EOS],
    "prompt": lambda ids: [SOS, *ids],
    "prefix": lambda ids: [*ids, EOS, SOS],
    "target": lambda ids: ids,
}
"""Functions from the ids of a text to the ids that a model reads."""

WORDS: Final = ("finished", "stop_at", "repetition_penalty", "frequency_penalty", "presence_penalty")
QUANTIZED: Final[dict[str, Callable[[str], None]]] = {
    "ctranslate2": check_quantization,
    "onnx": check_onnx_quantization,
    "c": check_quantization_c,
}
"""The formats that hold quantized weights, and the check of the name of a type."""

LACKING: Final = {"huggingface": ("groups", "n_best", *WORDS), "ctranslate2": ("groups", "min_p", "n_best", *WORDS)}
"""Settings of `[decode]` that a folder cannot hold: the software has no such setting, or has it only in its calls."""


BERT: Final = 'with kind = "transformer", built as BERT is, it goes to huggingface: see docs/export.md'
CURES: Final = {
    **dict.fromkeys(("mask", "classify", "regress", "tag"), BERT),
    "embed": "use --to vectors",
}
"""The cure for a run of a task that neither format for text generation can hold."""


class Exported(NamedTuple):
    """The folder, and how near the exported model is to the original; for a quantized model also after quantization.

    left_out are settings of the search that have no counterpart there, as `name = value`.
    """

    folder: Path
    agreement: Agreement
    quantized: Agreement | None = None
    left_out: tuple[str, ...] = ()
    loss: str | None = None
    """The cost of quantization in score, where it was measured."""
    unmeasured: str | None = None
    """Why the cost of quantization in score was not measured."""


def export_run(
    run: Run | str | Path,
    *,
    to: str,
    out: str | Path,
    quantization: str | None = None,
    data: str | Path | None = None,
) -> Exported | ExportedC:
    """Write a folder for `to`, one of `FORMATS`, "onnx" or one of `PROGRAMS`; it is complete and compared, or absent.

    quantization is one of CTranslate2's types of numbers, such as "int8", or for ONNX and C "int8"; what that
    costs in score is measured for these two on `data`, by default on the validation data of the run.
    """
    if to not in (*FORMATS, *PROGRAMS, "onnx"):
        known = [*FORMATS, *PROGRAMS, "onnx", "arpa", "vectors", "html"]
        raise ConfigError(f'"{to}" is not a format', where="--to", cure=did_you_mean(to, known))
    if quantization is not None:
        if to not in QUANTIZED:
            cure = f"leave it out, or use --to {' or '.join(QUANTIZED)}"
            raise ConfigError(f"does not act on {to}", where="--quantization", cure=cure)
        QUANTIZED[to](quantization)
    if data is not None and to not in (*PROGRAMS, "onnx"):
        raise ConfigError(
            "is what int8 of c, html and onnx is measured on", where=f"--data {data}", cure="leave it out"
        )
    run = run if isinstance(run, Run) else load(run, device="cpu")
    if to in PROGRAMS:
        with claim_folder(out, to) as folder, _filled(folder) as temporary:
            return PROGRAMS[to](run, temporary, quantization, data)._replace(folder=folder)
    if to == "huggingface" and is_reader(run):
        with claim_folder(out, to) as folder, _filled(folder) as temporary:
            agreement = write_encoder(run, temporary)
            write_reader_card(run, temporary, facts=[agreement.describe()])
            return Exported(folder, agreement)
    if to == "onnx":
        with claim_folder(out, to) as folder, _filled(folder) as temporary:
            return _to_onnx(run, temporary, quantization, data)._replace(folder=folder)
    weights = read_weights(_model(run), run.config.model, places=_places(run))
    with claim_folder(out, to) as folder, _filled(folder) as temporary:
        found = FORMATS[to](run, weights, temporary, quantization)
        return found._replace(folder=folder, left_out=_left_out(run.config.decode, to))


def _places(run: Run) -> int:
    """Return how many positions a table of sinusoids has; a decoder alone reads the source in the same row."""
    source = int(getattr(run.config.data, "max_length", 0)) + 2 if isinstance(run.model, PrefixTranslator) else 0
    return run.config.decode.max_length + 1 + source


def _left_out(decode: DecodeConfig, to: str) -> tuple[str, ...]:
    """Return the settings that are not the default and have no counterpart."""
    plain = DecodeConfig()
    names = [name for name in LACKING[to] if getattr(decode, name) != getattr(plain, name)]
    return tuple(f"{name} = {getattr(decode, name)}" for name in names)


@contextmanager
def _filled(folder: Path) -> Iterator[Path]:
    """Yield a new folder that replaces the given empty one after the block, when every file is on the disk."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    try:
        with writing(folder, cure="nothing is left behind"):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield temporary
            for path in (*temporary.rglob("*"), temporary):
                sync(path)
            temporary.replace(folder)
            sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _to_huggingface(run: Run, weights: Weights, folder: Path, quantization: str | None) -> Exported:
    write_huggingface(build_huggingface(weights, run.config.decode), folder)
    write_tokenizers(run, folder)
    _check_tokenizers(run, folder)
    exported = HuggingFaceModel(folder, translates=weights.encoder is not None, separated=weights.separated)
    agreement = compare(_model(run), weights, exported, run.config.decode)
    write_card(run, weights, folder, to="huggingface", facts=[agreement.describe()])
    return Exported(folder, agreement)


def _to_ctranslate2(run: Run, weights: Weights, folder: Path, quantization: str | None) -> Exported:
    """Export in float32 first, to be compared exactly: a quantized model computes another function."""
    write_ctranslate2(weights, folder, *_entries(run))
    agreement = compare(_model(run), weights, _load_ctranslate2(run, folder), run.config.decode)
    facts, quantized = [agreement.describe()], None
    if quantization not in (None, "float32"):
        write_ctranslate2(weights, folder, *_entries(run), quantization=quantization)
        quantized = compare(_model(run), weights, _load_ctranslate2(run, folder), run.config.decode, exact=False)
        facts = [f"before quantization {facts[0]}", f"in {quantization} {quantized.describe()}"]
    write_tokenizers(run, folder)
    write_card(run, weights, folder, to="ctranslate2", facts=facts)
    return Exported(folder, agreement, quantized)


def _to_onnx(run: Run, folder: Path, quantization: str | None, data: str | Path | None = None) -> Exported:
    made = export_onnx(run, folder, quantization=quantization, data=data)
    agreement = Agreement(made.difference, made.greedy, made.beam)
    loss = made.loss.describe() if made.loss else None
    return Exported(folder, agreement, left_out=made.left_out, loss=loss, unmeasured=made.unmeasured)


FORMATS: Final[dict[str, Callable[[Run, Weights, Path, str | None], Exported]]] = {
    "huggingface": _to_huggingface,
    "ctranslate2": _to_ctranslate2,
}
"""The function of each format that fills a folder."""


PROGRAMS: Final[dict[str, Callable[[Run, Path, str | None, str | Path | None], ExportedC]]] = {"c": fill_folder}
"""The function of each format that needs no software but weft's own to run."""


def _load_ctranslate2(run: Run, folder: Path) -> CTranslate2Model:
    translates, separated = isinstance(run.model, Translator), isinstance(run.model, PrefixTranslator)
    return CTranslate2Model(folder, *_entries(run), translates=translates, separated=separated)


def _entries(run: Run) -> tuple[list[str], list[str]]:
    """Return the vocabularies of both sides, which are one for a language model."""
    sides = [framed(run.task.codec.side(side), side) for side in ("source", "target")]
    source, target = (sorted(vocab := side.get_vocab(), key=vocab.__getitem__) for side in sides)
    return source, target


def _model(run: Run) -> ExportedModel:
    if isinstance(run.model, NgramModel):
        raise ConfigError("is written as an ARPA file", where='model.kind = "ngram"', cure="use --to arpa")
    if (language := getattr(run.config.data, "language", None)) is not None:
        cure = "train without it: the vocabularies of other formats have no tokens of languages"
        raise ConfigError("cannot be exported", where=f"data.language = {language}", cure=cure)
    if not isinstance(run.model, ExportedModel):
        task, kind = run.config.task, getattr(run.config.model, "kind", None)
        cure = CURES.get(task, "runs of lm and translate can be exported")
        where = f'model.kind = "{kind}"' if task in CURES and kind not in (None, "transformer") else f'task = "{task}"'
        raise ConfigError("has no counterpart in this format", where=where, cure=cure)
    return run.model


def _check_tokenizers(run: Run, folder: Path) -> None:
    """Raise unless every tokenizer has our ids for a text and our text for ids; the texts cover all entries."""
    transformers = load_transformers()
    frames = {"": "prompt" if isinstance(run.model, LanguageModel) else "source"}
    frames = {"": "prefix"} if isinstance(run.model, PrefixTranslator) else frames
    frames |= {TARGET: "target"} if (folder / TARGET).is_dir() else {}
    for place, frame in frames.items():
        ours = run.task.codec.side("source" if frame == "prefix" else frame)
        with quiet(transformers):
            theirs = transformers.AutoTokenizer.from_pretrained(folder / place)
        for first in range(0, len(ours), ENTRIES_PER_TEXT):
            text = ours.decode(range(first, min(first + ENTRIES_PER_TEXT, len(ours))))
            ids = ours.encode(text)
            given = theirs(text)["input_ids"]
            if given != AROUND[frame](ids):
                raise differs(f"the tokens of {text!r}")
            if theirs.decode(given, skip_special_tokens=True) != ours.decode(ids):
                raise differs(f"the text of tokens {ids}")
