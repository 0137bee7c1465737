"""Imported runs are runs: they predict, score, evaluate, are inspected and trained on."""

from __future__ import annotations

import json

import pytest
import torch
from torch.testing import assert_close
from typer.testing import CliRunner

import weft
from weft.cli.app import app

pytest.importorskip("transformers", reason="the package transformers is not installed")


def test_a_language_model_continues_scores_and_embeds(gpt2, tmp_path) -> None:
    run = weft.import_run(gpt2(), tmp_path / "run")
    again = weft.load(tmp_path / "run")
    (found,) = again.predict(["the quick"], beam=1, sample=False, max_length=5)
    assert found.text.startswith("the quick")
    assert found == run.predict(["the quick"], beam=1, sample=False, max_length=5)[0]
    (scored,) = run.score(["the quick brown"])
    assert len(scored.log_probabilities) == len(run.task.tokenizer.encode("the quick brown")) + 1
    (stopped,) = again.predict(["the quick"], beam=1, sample=False, max_length=20, stop_at=[found.text[9:11]])
    assert len(stopped.text) <= len(found.text)
    texts = tmp_path / "texts.txt"
    texts.write_text("the quick brown fox\nthe lazy dog\n")
    assert run.evaluate(texts).metrics["perplexity"] > 1
    assert run.embed(["the fox"]).shape == (1, 32)


def test_a_translator_translates_and_scores(marian, tmp_path) -> None:
    run = weft.import_run(marian(), tmp_path / "run")
    (found,) = run.predict(["the cat"], max_length=6)
    assert "\ufdd0" not in found.text
    (scored,) = run.score([("the cat", "le chat")])
    assert scored.pieces[0] == "▁le"


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_the_command_names_the_task(name, request, tmp_path) -> None:
    folder = request.getfixturevalue(name)()
    result = CliRunner().invoke(app, ["import", str(folder), "--out", str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    assert {"gpt2": "a run of lm", "marian": "a run of translate"}[name] in " ".join(result.output.split())
    assert json.loads((tmp_path / "run" / "config.json").read_text())["text"]["kind"] == "imported"


def test_older_files_of_a_tokenizer_give_the_same_run(gpt2, tmp_path) -> None:
    """vocab.json and merges.txt in the place of tokenizer.json, and weights in two files."""
    folder = gpt2()
    change_decoder(folder)
    first = weft.import_run(folder, tmp_path / "first")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    entries = {**model["vocab"], "<|endoftext|>": len(model["vocab"])}
    (folder / "vocab.json").write_text(json.dumps(entries))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n")
    (folder / "tokenizer.json").unlink()
    split(folder)
    second = weft.import_run(folder, tmp_path / "second")
    assert first.task.tokenizer.to_json() == second.task.tokenizer.to_json()
    for name, tensor in first.model.state_dict().items():
        assert_close(second.model.state_dict()[name], tensor, rtol=0, atol=0)


def change_decoder(folder) -> None:
    """Give the decoder the options that older files imply; they act on nothing."""
    found = json.loads((folder / "tokenizer.json").read_text())
    found["decoder"] = found["pre_tokenizer"]
    (folder / "tokenizer.json").write_text(json.dumps(found))


def split(folder) -> None:
    """Rewrite the weights as two files with an index."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    names, index = sorted(tensors), {}
    for number, part in enumerate((names[::2], names[1::2])):
        file = f"model-{number}.safetensors"
        save_file({name: tensors[name] for name in part}, folder / file)
        index |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


@torch.no_grad()
def test_rows_without_an_entry_and_a_padding_token_keep_their_numbers(gpt2, tmp_path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = gpt2(vocab_size=330, pad_token_id=7, tie_word_embeddings=False)
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder)
    tokens = torch.tensor([[2, 20, 30]])
    size = 319 if theirs.config.eos_token_id == 318 else theirs.config.eos_token_id + 1
    rows = [row for row in range(330) if row not in (7, size - 1)]
    back = {5 + place: row for place, row in enumerate(rows)} | {2: size - 1}
    expected = theirs(torch.tensor([[back[int(token)] for token in tokens[0]]])).logits
    logits = run.model.output(run.model(tokens))
    assert_close(logits[..., 5:], expected[..., rows], atol=1e-4, rtol=1e-4)
    assert_close(logits[..., [0, 3]], expected[..., [7, size - 1]], atol=1e-4, rtol=1e-4)


def test_a_classifier_is_trained_from_a_masked_language_model(encoder, tmp_path) -> None:
    start = weft.import_run(encoder("BertForMaskedLM"), tmp_path / "start")
    data = tmp_path / "train.tsv"
    data.write_text("text\tlabel\n" + "the quick fox jumps\tgood\na cat sleeps .\tbad\n" * 20)
    config = {"task": "classify", "data": {"train": str(data), "valid": str(data), "max_length": 32}}
    train = {"start": str(tmp_path / "start"), "steps": 8, "rate": 1e-3}
    run = weft.train({**config, "train": train}, out=tmp_path / "run")
    assert (run.config.text.kind, run.config.text.frame, run.config.model.segments) == ("imported", "bert", 2)
    assert run.task.tokenizer.to_json() == start.task.tokenizer.to_json()
    ours, theirs = run.model.state_dict(), start.model.state_dict()
    name = "encoder.stack.blocks.1.attention.joint.weight"
    assert 0 < (ours[name] - theirs[name]).abs().max() < 0.1
    assert weft.load(tmp_path / "run").predict(["the quick fox jumps"])[0].label in ("good", "bad")


def test_a_tagger_is_trained_from_a_masked_language_model(encoder, tmp_path) -> None:
    weft.import_run(encoder("RobertaForMaskedLM"), tmp_path / "start")
    data = tmp_path / "train.txt"
    data.write_text("the D\nquick A\nfox N\n\na D\ncat N\nsleeps V\n\n" * 10)
    config = {"task": "tag", "data": {"train": str(data), "valid": str(data), "max_length": 10}}
    train = {"start": str(tmp_path / "start"), "rate": 1e-3}
    whole = weft.train({**config, "train": {**train, "steps": 6}}, out=tmp_path / "whole")
    assert (whole.config.text.kind, whole.config.text.frame, whole.config.model.characters) == (
        "imported",
        "roberta",
        0,
    )
    assert whole.predict([["the", "cat"]])[0].tags[0] in "DANV"


def test_a_language_model_is_trained_further(gpt2, tmp_path) -> None:
    start = weft.import_run(gpt2(), tmp_path / "start")
    texts = tmp_path / "texts.txt"
    texts.write_text("the quick brown fox jumps over the lazy dog\n" * 30)
    before = start.evaluate(texts).metrics["perplexity"]
    data = {"train": str(texts), "valid": str(texts), "max_length": 32}
    train = {"start": str(tmp_path / "start"), "steps": 20, "rate": 3e-3}
    run = weft.train({"task": "lm", "data": data, "train": train}, out=tmp_path / "run")
    assert run.evaluate(texts).metrics["perplexity"] < before
