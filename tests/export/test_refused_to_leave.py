"""Weights that are damaged after they are written and before they are compared: refused, and no folder is left."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft
from weft.errors import Fault
from weft.export import arpa, bert, export, export_arpa, export_run, export_vectors
from weft.export.weights import Weights

SHARED = {"shared": True}
BERT = {
    "kind": "transformer",
    "width": 16,
    "heads": 2,
    "layers": 1,
    "norm": "post",
    "positions": "learned",
    "max_positions": 32,
    "embedding_norm": True,
    "embedding_scale": False,
    "dropout": 0.0,
}


def damage(path: Path, weights: Weights | None = None) -> None:
    """Change one tensor of a safetensors file, or a map of a decoder in a file of CTranslate2."""
    if path.suffix == ".safetensors":
        tensors = load_file(path)
        largest = max(tensors, key=lambda name: tensors[name].numel())
        tensors[largest] = torch.flip(tensors[largest], [0]).contiguous() + 0.01
        save_file(tensors, path, metadata={"format": "pt"})
        return
    assert weights is not None
    known, content = weights.decoder.layers[0].inner.weight.contiguous().numpy().tobytes(), path.read_bytes()
    assert content.count(known) == 1
    path.write_bytes(content.replace(known, bytes(len(known))))


def after(monkeypatch: pytest.MonkeyPatch, module: object, name: str, file: str) -> list[Path]:
    """Damage a file when a function of a module has returned; the files that were damaged are listed."""
    function, damaged = getattr(module, name), []

    def call(*arguments, **options):
        result = function(*arguments, **options)
        folder = next(one for one in arguments if isinstance(one, Path))
        damage(folder / file, *(one for one in arguments if isinstance(one, Weights)))
        damaged.append(folder / file)
        return result

    monkeypatch.setattr(module, name, call)
    return damaged


def check(run, out: Path, damaged: list[Path], **options: str) -> None:
    before = set(out.parent.iterdir())
    with pytest.raises(Fault, match="the exported model differs in"):
        export_run(run, out=out, **options)
    assert damaged, "the file was written and damaged"
    assert set(out.parent.iterdir()) == before


PLACES = {"huggingface": ("write_huggingface", "model.safetensors"), "ctranslate2": ("write_ctranslate2", "model.bin")}


@pytest.mark.parametrize("to", PLACES)
@pytest.mark.parametrize("kind", ["translator", "language_model", "prefix_translator"])
def test_models_that_write(kind, to, request, tmp_path, monkeypatch):
    pytest.importorskip({"huggingface": "transformers"}.get(to, to))
    run = request.getfixturevalue(kind)(norm="post", **({"text": SHARED} if kind == "translator" else {}))
    check(run, tmp_path / "out", after(monkeypatch, export, *PLACES[to]), to=to)


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_a_quantized_model_that_is_another_one(translator, tmp_path, monkeypatch, quantization):
    """The whole numbers are right, and those that are left at the end are not."""
    pytest.importorskip("ctranslate2")
    run, write, written = translator(norm="pre", width=64), export.write_ctranslate2, []

    def call(weights, folder, *arguments, **options):
        if options:
            weights = export.read_weights(other.model, other.config.model)
            written.append(folder)
        write(weights, folder, *arguments, **options)

    other = translator(norm="pre", width=64)
    with torch.no_grad():
        for parameter in other.model.parameters():
            parameter.add_(torch.randn_like(parameter))
    monkeypatch.setattr(export, "write_ctranslate2", call)
    check(run, tmp_path / "out", written, to="ctranslate2", quantization=quantization)


@pytest.mark.parametrize("task", ["mask", "classify", "regress"])
def test_models_that_read(task, labelled, texts, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    head = {
        "mask": {"transform": True, "transform_activation": "relu", "transform_epsilon": 1e-12, "tie": True},
    }.get(task, {"pooling": "first", "head": [16], "head_activation": "tanh"})
    data = {"mask": texts}.get(task, labelled)
    if task == "regress":
        data = str(tmp_path / "numbers.tsv")
        Path(data).write_text("text\tlabel\n" + "".join(f"a word {n}\t{n}\n" for n in range(40)), encoding="utf-8")
    config = {
        "task": task,
        "data": {"train": data, "max_length": 28},
        "text": {"kind": "word", "frame": "bert"},
        "model": {**BERT, **head, "norm_epsilon": 1e-12},
        "train": {"steps": 1, "batch_tokens": 64},
    }
    run = weft.train(config, out=tmp_path / "run", quiet=True)
    assert export_run(run, to="huggingface", out=tmp_path / "good").agreement.difference < 1e-4
    check(run, tmp_path / "out", after(monkeypatch, bert, "write_reader", "model.safetensors"), to="huggingface")


def test_files(texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counted = {"task": "lm", "data": {"train": texts}, "model": {"kind": "ngram", "order": 2}, "text": {"kind": "word"}}
    ngrams = weft.train(counted, out=tmp_path / "ngrams", quiet=True)
    write = arpa.write_arpa

    def damaged(path, *arguments):
        write(path, *arguments)
        path.write_text(path.read_text(encoding="utf-8").replace("-0.", "-1.", 1), encoding="utf-8")

    monkeypatch.setattr(arpa, "write_arpa", damaged)
    with pytest.raises(Fault, match="differs in a logarithm"):
        export_arpa(ngrams, out="model.arpa")
    assert not Path("model.arpa").exists()

    small = {"embedding": 4}
    config = {
        "task": "embed",
        "data": {"train": texts},
        "model": small,
        "text": {"min_count": 1},
        "train": {"steps": 1},
    }
    vectors = weft.train(config, out=tmp_path / "vectors", quiet=True)
    whole = type(vectors).write_vectors

    def other(self, path, **options):
        whole(self, path, **options)
        path.write_text(path.read_text(encoding="utf-8").replace("the ", "THE ", 1), encoding="utf-8")

    monkeypatch.setattr(type(vectors), "write_vectors", other)
    with pytest.raises(Fault, match="differs in a vector"):
        export_vectors(vectors, out="vectors.txt")
    assert not Path("vectors.txt").exists()
