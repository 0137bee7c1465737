"""Folders that cannot be imported: one clear line for each, and no run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import weft
from weft.errors import DataError, RunError

pytest.importorskip("transformers", reason="the package transformers is not installed")


def change(path: Path, **settings: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def refused(folder: Path, match: str) -> None:
    out = folder.with_name("out")
    with pytest.raises(DataError, match=match) as caught:
        weft.import_run(folder, out)
    assert len(str(caught.value).splitlines()) <= 2
    assert not out.exists() or not any(out.iterdir())


def rewrite(folder: Path, edit: Any) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


SETTINGS = {
    "an unknown architecture": ({"architectures": ["LlamaForCausalLM"]}, r'architectures = \["LlamaForCausalLM"\]'),
    "no architecture": ({"architectures": None}, "architectures = None is not one name"),
    "a quantized model": ({"quantization_config": {"bits": 4}}, "a quantized model cannot be imported"),
    "another activation": (
        {"activation_function": "quick_gelu"},
        "activation_function = 'quick_gelu' has no counterpart",
    ),
    "another scale": ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = true has no"),
    "a wrong vocabulary size": ({"vocab_size": 100}, "vocab_size = 100, but the tokenizer has"),
    "a start token that is none": ({"bos_token_id": 9999}, "bos_token_id = 9999 is not a row"),
    "another width": ({"n_embd": 64}, r"wte.weight is .* where config.json asks for"),
    "a width that is no number": ({"n_embd": "wide"}, "n_embd = 'wide' is not a number"),
    "a norm below 0": ({"layer_norm_epsilon": -1}, "layer_norm_epsilon = -1 is not a number from 0 to less than 1"),
    "heads that do not divide": ({"n_head": 5}, "heads = 5 does not divide width = 32"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(gpt2, name) -> None:
    settings, match = SETTINGS[name]
    folder = gpt2()
    change(folder / "config.json", **settings)
    refused(folder, match)


def test_weights(gpt2) -> None:
    folder = gpt2()
    rewrite(folder, lambda tensors: tensors.pop("transformer.h.1.ln_2.bias"))
    refused(folder, "lacks the tensor transformer.h.1.ln_2.bias")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    line = r"import AutoTokenizer, GPT2LMHeadModel; GPT2LMHeadModel.from_pretrained.*; AutoTokenizer.from_pretrained"
    refused(folder, rf"only as pytorch_model.bin, .*convert them: .*{line}")
    (folder / "pytorch_model.bin").unlink()
    refused(folder, "has no model.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    refused(folder, "names files outside of the folder")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "one.safetensors"}}))
    refused(folder, "lacks one.safetensors, which")


def test_weights_of_whole_numbers(gpt2) -> None:
    folder = gpt2()
    name = "transformer.ln_f.bias"
    rewrite(folder, lambda tensors: tensors.update({name: tensors[name].to(torch.int8)}))
    refused(folder, f"{name} has numbers of the type int8 .save the model in float32")


def test_a_folder_with_files_is_left_alone(gpt2, tmp_path) -> None:
    weft.import_run(gpt2(), tmp_path / "run")
    with pytest.raises(RunError) as caught:
        weft.import_run(tmp_path / "gpt2", tmp_path / "run")
    assert caught.value.cure == "choose another --out"


def test_weights_that_are_not_finite_or_damaged(gpt2) -> None:
    folder = gpt2()
    rewrite(folder, lambda tensors: tensors["transformer.ln_f.bias"].fill_(float("nan")))
    refused(folder, "transformer.ln_f.bias has numbers that are not finite")
    rewrite(folder, lambda tensors: tensors["transformer.ln_f.bias"].fill_(1e30))
    refused(folder, r"transformer.ln_f.bias has numbers above 1e\+09")
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-4])
    refused(folder, "is damaged")


def test_more_tensors_are_noted(gpt2, tmp_path) -> None:
    import torch

    folder, notes = gpt2(), []
    rewrite(folder, lambda tensors: tensors.update({"extra.weight": torch.ones(2)}))
    weft.import_run(folder, tmp_path / "run", note=notes.append)
    assert notes == ["left out: extra.weight, which the model does not use"]


def test_links_are_not_followed(gpt2) -> None:
    folder = gpt2()
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        outside = folder.with_name(name)
        (folder / name).rename(outside)
        (folder / name).symlink_to(outside)
        refused(folder, "is a link, which is never followed.*cp -rL")
        outside.replace(folder / name)


def hub(folder: Path, target: str = "../../blobs/{}") -> Path:
    """The snapshot of a cache of the hub with the files of the folder."""
    snapshot, blobs = folder.parent / "models--one" / "snapshots" / "a1", folder.parent / "models--one" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for path in folder.iterdir():
        path.rename(blobs / path.name)
        (snapshot / path.name).symlink_to(target.format(path.name))
    return snapshot


def test_the_cache_of_the_hub_is_read(gpt2, tmp_path) -> None:
    snapshot = hub(gpt2())
    refused(snapshot.parents[1], f"it is a cache of the hub: give one of its snapshots, such as {snapshot}")
    assert weft.import_run(snapshot, tmp_path / "run").config.task == "lm"


@pytest.mark.parametrize("kind", ["a link to a link", "a path", "another folder", "a folder"])
def test_other_links_of_a_snapshot_are_not_followed(kind, gpt2, tmp_path) -> None:
    folder = gpt2()
    targets = {"a path": f"{tmp_path}/models--one/blobs/{{}}", "another folder": "../../../models--one/blobs/{}"}
    snapshot = hub(folder, targets.get(kind, "../../blobs/{}"))
    if kind == "a link to a link":
        blob = snapshot.parents[1] / "blobs" / "config.json"
        blob.rename(tmp_path / "secret.json")
        blob.symlink_to(tmp_path / "secret.json")
    if kind == "a folder":
        (snapshot.parents[1] / "blobs" / "config.json").unlink()
        (snapshot.parents[1] / "blobs" / "config.json").mkdir()
    refused(snapshot, "Is a directory" if kind == "a folder" else "is a link, which is never followed.*cp -rL")


def test_what_is_no_checkpoint(tmp_path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(empty, "is no checkpoint: it has no config.json")


PARTS = {
    "a pattern of its own": ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+b"}}, "of the type Split"),
    "a part without a type": ("normalizer", {"lowercase": True}, "of the type None"),
    "another normalizer": (
        "normalizer",
        {"type": "Replace", "pattern": {"Regex": "(a+)+b"}, "content": ""},
        "pattern =",
    ),
    "no bytes": ("pre_tokenizer", {"type": "WhitespaceSplit"}, "without the pre-tokenizer ByteLevel"),
    "an unknown post-processor": ("post_processor", {"type": "Magic"}, "post_processor is of the type Magic"),
    "a long decoder": (
        "decoder",
        {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 99},
        "steps, and 16 is the limit",
    ),
    "a deep decoder": ("decoder", {"type": "Strip", "content": " ", "start": 10**9, "stop": 0}, "start = 1000000000"),
}


@pytest.mark.parametrize("name", PARTS)
def test_hostile_tokenizers(gpt2, name) -> None:
    part, value, match = PARTS[name]
    folder = gpt2()
    change(folder / "tokenizer.json", **{part: value})
    refused(folder, match)


MODELS: dict[str, tuple[dict[str, Any], str]] = {
    "dropout": ({"dropout": 0.1}, "dropout = 0.1, which weft does not read"),
    "an unknown model": ({"type": "Magic"}, "its model is of the type Magic"),
    "holes in the ids": ({"vocab": {"a": 0, "b": 7}}, "its ids are not 0, 1, 2"),
    "no table": ({"vocab": 3}, "another type than"),
    "merges of no entries": ({"merges": [["zzz", "yyy"]]}, "is damaged"),
    "merges that are none": ({"merges": [["a"]]}, "not enough values"),
    "two entries with one id": ({"vocab": {"a": 0, "b": 1, "c": 1}}, "the entries 'b' and 'c' have one id, 1"),
    "more merges than entries": ({"merges": [["a", "b"]] * 999}, "more merges than entries"),
}


@pytest.mark.parametrize("name", MODELS)
def test_hostile_vocabularies(gpt2, name) -> None:
    settings, match = MODELS[name]
    folder = gpt2()
    found = json.loads((folder / "tokenizer.json").read_text())
    found["model"] |= settings
    (folder / "tokenizer.json").write_text(json.dumps(found))
    refused(folder, match)


def test_tokens_that_are_found_in_texts(gpt2) -> None:
    folder = gpt2(vocab_size=400)
    found = json.loads((folder / "tokenizer.json").read_text())
    found["added_tokens"].append({"id": len(found["model"]["vocab"]) + 1, "content": "[NAME]", "special": False})
    (folder / "tokenizer.json").write_text(json.dumps(found))
    refused(folder, r"adds tokens that are found in texts \(\[NAME\]\)")


@pytest.mark.parametrize(
    ("token", "match"),
    [
        ({"content": "word", "special": True}, "the id 7 is '.*' in its vocabulary and 'word' in its added_tokens"),
        ({"content": None, "special": False}, "adds tokens that are found in texts"),
    ],
)
def test_added_tokens_that_are_entries(token, match, gpt2) -> None:
    folder = gpt2()
    found = json.loads((folder / "tokenizer.json").read_text())
    own = next(entry for entry, index in found["model"]["vocab"].items() if index == 7)
    found["added_tokens"].append({"id": 7} | token | {"content": token["content"] or own})
    (folder / "tokenizer.json").write_text(json.dumps(found))
    refused(folder, match)


def test_lists_of_entries(encoder) -> None:
    folder = encoder("BertForMaskedLM")
    path = folder / "vocab.txt"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:-1], b"the"]))
    refused(folder, f"vocab.txt: the entry 'the' is there twice, with the ids 6 and {len(lines) - 1}")
    path.write_bytes(b"\n".join([*lines[:8], b"\xff", *lines[9:]]))
    refused(folder, "vocab.txt:9: not text in UTF-8")


def test_weights_of_eight_bits(gpt2) -> None:
    folder = gpt2()

    def narrow(tensors: Any) -> None:
        tensors["transformer.wte.weight"] = tensors["transformer.wte.weight"].to(torch.float8_e4m3fn)

    rewrite(folder, narrow)
    refused(folder, r"wte.weight is of the type 'F8_E4M3' \(save the model in float32")


def test_paths_that_are_no_folder(gpt2, tmp_path) -> None:
    refused(tmp_path / "bert-base-uncased", "no such file or folder .*huggingface-cli download NAME")
    refused(gpt2() / "config.json", r"is a file of a checkpoint, which is a folder \(give the folder: ")


def test_pieces_of_sentencepiece(marian) -> None:
    from tests.importing.conftest import SOURCE, sentencepiece

    folder = marian()
    (folder / "source.spm").write_bytes(sentencepiece(SOURCE, kind=2))
    refused(folder, "is a model of the type bpe")
    for content in (b"\xff", b"\x0a\xff\xff\xff\xff", bytes(100), sentencepiece({})):
        (folder / "source.spm").write_bytes(content)
        refused(folder, "is no model of SentencePiece")
    (folder / "source.spm").unlink()
    refused(folder, "has no source.spm")


@pytest.mark.parametrize(
    "settings",
    [{"normalize_before": True}, {"static_position_embeddings": False}, {"normalize_embedding": True}],
    ids=str,
)
def test_other_translators(marian, settings) -> None:
    folder = marian()
    change(folder / "config.json", **settings)
    refused(folder, f"{next(iter(settings))} = .* has no counterpart in weft")


ENCODER_SETTINGS = {
    "kinds of texts as a string": ("BertForMaskedLM", {"type_vocab_size": "2"}, "type_vocab_size = '2' has no"),
    "no padding": ("RobertaForMaskedLM", {"pad_token_id": None}, "pad_token_id = None has no"),
    "a padding behind all positions": ("RobertaForMaskedLM", {"pad_token_id": 59}, "pad_token_id = 59 has no"),
    "several numbers": ("BertForSequenceClassification", {"problem_type": "regression"}, "problem_type = 'regression'"),
    "another problem": ("BertForSequenceClassification", {"problem_type": "x"}, "problem_type = 'x' has no"),
    "an empty label": ("BertForSequenceClassification", {"id2label": {"0": "a", "1": " "}}, "id2label = .* be printed"),
    "a label of two lines": (
        "BertForTokenClassification",
        {"id2label": {"0": "a", "1": "b\nc"}},
        "id2label = .* be printed",
    ),
}


@pytest.mark.parametrize("name", ENCODER_SETTINGS)
def test_settings_of_encoders(encoder, name) -> None:
    architecture, settings, match = ENCODER_SETTINGS[name]
    folder = encoder(architecture)
    change(folder / "config.json", **settings)
    refused(folder, match)


def test_the_tokenizer_of_another_model(gpt2, marian, encoder) -> None:
    folder = gpt2()
    (folder / "tokenizer.json").unlink()
    (encoder("BertForMaskedLM") / "vocab.txt").rename(folder / "vocab.txt")
    refused(folder, r"<sos> is row 319, and the tokenizer has 46 entries \(are the files of one model")
    folder = marian()
    (folder / "vocab.json").write_text("{}")
    refused(folder, "the tokenizer has 0 entries")


@pytest.mark.parametrize("part", [{"model": None}, {"added_tokens": [3]}, {"added_tokens": {"a": 1}}])
def test_a_tokenizer_with_parts_of_other_types(part, gpt2) -> None:
    folder = gpt2()
    change(folder / "tokenizer.json", **part)
    refused(folder, "a part of it has another type than in files of the tokenizers library")


def test_settings_of_the_search_that_weft_has_not(marian, tmp_path) -> None:
    folder, notes = marian(), []
    change(folder / "generation_config.json", num_beams=10**6, length_penalty=-3.0, max_length="long")
    run = weft.import_run(folder, tmp_path / "run", note=notes.append)
    assert notes[0] == "decode.beam is weft's own: 1000000 in generation_config.json is not from 1 to 4,096"
    assert [note.split()[0] for note in notes] == ["decode.beam", "decode.length_penalty", "decode.max_length"]
    assert run.config.decode.beam > 0
