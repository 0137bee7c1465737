"""Imported runs exported again: transformers loads them, with the numbers, tokens and texts of the checkpoint."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import weft
from weft.export import export_run

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

CLOSE = {"atol": 2e-4, "rtol": 1e-4}
TEXT, SECOND = "the quick brown fox jumps, unknown!", "a cat sleeps."


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def test_gpt2(gpt2, tmp_path) -> None:
    folder = gpt2()
    out = export_run(weft.import_run(folder, tmp_path / "run"), to="huggingface", out=tmp_path / "out").folder
    first, second = (transformers.AutoModelForCausalLM.from_pretrained(path).eval() for path in (folder, out))
    assert type(second).__name__ == "GPT2LMHeadModel"
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == TEXT
    end = first.config.eos_token_id
    theirs = first(torch.tensor([[end, *(ids[0, 1:] - 5).tolist()]])).logits.log_softmax(-1)
    assert_close(second(ids).logits.log_softmax(-1)[..., 5:], theirs[..., :end], **CLOSE)


def test_marian(marian, tmp_path) -> None:
    folder = marian()
    run = weft.import_run(folder, tmp_path / "run")
    out = export_run(run, to="huggingface", out=tmp_path / "out").folder
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(out).eval()
    source = transformers.AutoTokenizer.from_pretrained(out)
    target = transformers.AutoTokenizer.from_pretrained(out, subfolder="target")
    ids = source(["the cat"], return_tensors="pt")
    settings = {"num_beams": 3, "max_new_tokens": 6, "min_new_tokens": 6, "early_stopping": True}
    written = target.batch_decode(model.generate(**ids, **settings), skip_special_tokens=True)
    (found,) = run.predict(["the cat"], beam=3, max_length=6, min_length=6)
    assert written == [found.text]


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
@pytest.mark.parametrize("use", ["MaskedLM", "SequenceClassification", "TokenClassification"])
def test_encoders(family, use, encoder, tmp_path) -> None:
    folder = encoder(f"{family}For{use}")
    out = export_run(weft.import_run(folder, tmp_path / "run"), to="huggingface", out=tmp_path / "out").folder
    kind = getattr(transformers, f"AutoModelFor{use}")
    first, second = (kind.from_pretrained(path).eval() for path in (folder, out))
    assert type(first) is type(second)
    theirs = transformers.RobertaTokenizer if family == "Roberta" else transformers.BertTokenizer
    before, after = theirs.from_pretrained(folder), transformers.AutoTokenizer.from_pretrained(out)
    for texts in ([TEXT], [TEXT, SECOND]):
        inputs = [tokenizer(*texts, return_tensors="pt") for tokenizer in (before, after)]
        assert inputs[0]["input_ids"].shape == inputs[1]["input_ids"].shape
        if family != "Bert":
            inputs = [{name: one[name] for name in ("input_ids", "attention_mask")} for one in inputs]
        logits = [model(**one).logits.log_softmax(-1) for model, one in zip((first, second), inputs, strict=True)]
        assert_close(*(one.sort().values for one in logits), **CLOSE)


def test_a_number(encoder, tmp_path) -> None:
    run = weft.import_run(encoder("BertForSequenceClassification", num_labels=1), tmp_path / "run")
    out = export_run(run, to="huggingface", out=tmp_path / "out").folder
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    (answer,) = run.predict([TEXT])
    assert float(model(**tokenizer(TEXT, return_tensors="pt")).logits) == pytest.approx(answer.number, abs=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "marian"])
def test_ctranslate2(name, request, tmp_path) -> None:
    pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")
    run = weft.import_run(request.getfixturevalue(name)(), tmp_path / "run")
    assert export_run(run, to="ctranslate2", out=tmp_path / "out").agreement.difference < 1e-3


def test_other_encoders_are_refused(labelled, tmp_path) -> None:
    data = {"train": labelled, "valid": labelled}
    model = {"kind": "transformer", "width": 16, "heads": 2, "layers": 1}
    with torch.enable_grad():
        run = weft.train(
            {"task": "classify", "data": data, "model": model, "train": {"steps": 1}}, out=tmp_path / "run"
        )
    with pytest.raises(weft.WeftError, match=r'model.norm = "pre": has no counterpart in this format'):
        export_run(run, to="huggingface", out=tmp_path / "out")
