"""BERT, RoBERTa and DistilBERT with random weights, imported: the same tokens, states, logits and labels."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import weft
from weft.text import MASK

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
FAMILIES = ["Bert", "Roberta", "DistilBert"]
LABELS = {"id2label": {0: "bad", 1: "so so", 2: "good"}, "label2id": {"bad": 0, "so so": 1, "good": 2}}
TEXT, SECOND = "The quick brown fox jumps, unknown!", "a cat sleeps."


def load(architecture: str, folder: Any) -> tuple[Any, Any]:
    """Their model and tokenizer."""
    family = architecture.partition("For")[0]
    model = getattr(transformers, architecture).from_pretrained(folder).eval()
    if family == "Roberta":
        return model, transformers.RobertaTokenizer.from_pretrained(folder)
    return model, transformers.BertTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_masked_language_models(family, encoder, tmp_path) -> None:
    architecture = f"{family}ForMaskedLM"
    folder = encoder(architecture)
    run = weft.import_run(folder, tmp_path / "run")
    theirs, tokenizer = load(architecture, folder)
    inputs = tokenizer(TEXT, return_tensors="pt")
    ours = run.task.frame.around(run.task.tokenizer.encode(TEXT))
    entries = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    assert run.task.tokenizer.tokens(ours)[1:-1] == entries[1:-1]
    found = run.model(torch.tensor([ours]), torch.tensor([len(ours)]))
    states = theirs.base_model(**inputs).last_hidden_state
    assert_close(found, states, **CLOSE)
    logits = theirs(**inputs).logits[0].log_softmax(-1)
    mine = run.model.output(found)[0].log_softmax(-1)
    for place, token in enumerate(inputs["input_ids"][0].tolist()):
        assert_close(mine[:, ours[place]], logits[:, token], **CLOSE)
    assert_close(mine.sort().values[:, -20:], logits.sort().values[:, -20:], **CLOSE)
    (filled,) = run.predict(["the quick <mask> fox"], n_best=3)
    blank = "" if family == "Roberta" else " "  # a token of RoBERTa has the blank before it
    gap = tokenizer(f"the quick{blank}{tokenizer.mask_token} fox", return_tensors="pt")
    place = gap["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    best = theirs(**gap).logits[0, place].softmax(-1).topk(3)
    assert_close(torch.tensor([one.probability for one in filled.gaps[0]]), best.values, **CLOSE)
    assert run.score([TEXT])[0].log_probabilities
    assert run.embed([TEXT]).shape == (1, 32)
    assert MASK not in ours


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_classifiers(family, pair, encoder, tmp_path) -> None:
    architecture = f"{family}ForSequenceClassification"
    folder = encoder(architecture, **LABELS)
    run = weft.import_run(folder, tmp_path / "run", pair=pair)
    theirs, tokenizer = load(architecture, folder)
    inputs = tokenizer(*([TEXT, SECOND] if pair else [TEXT]), return_tensors="pt")
    if family == "DistilBert":
        inputs.pop("token_type_ids", None)
    shares = theirs(**inputs).logits[0].softmax(-1)
    (answer,) = run.predict([(TEXT, SECOND) if pair else TEXT])
    assert run.config.task == "classify"
    assert answer.label == LABELS["id2label"][int(shares.argmax())]
    found = torch.tensor([answer.probabilities[label] for label in LABELS["label2id"]])
    assert_close(found, shares, **CLOSE)
    many = run.predict([(TEXT, SECOND), (SECOND, "a")] if pair else [TEXT, SECOND, "a"])
    assert_close(torch.tensor([many[0].probabilities[label] for label in LABELS["label2id"]]), shares, **CLOSE)


@torch.no_grad()
def test_one_output_is_a_number(encoder, tmp_path) -> None:
    folder = encoder("BertForSequenceClassification", num_labels=1)
    run = weft.import_run(folder, tmp_path / "run")
    theirs, tokenizer = load("BertForSequenceClassification", folder)
    (answer,) = run.predict([TEXT])
    assert run.config.task == "regress"
    assert answer.number == pytest.approx(float(theirs(**tokenizer(TEXT, return_tensors="pt")).logits), abs=1e-4)


@torch.no_grad()
def test_several_labels_at_once(encoder, tmp_path) -> None:
    folder = encoder("RobertaForSequenceClassification", problem_type="multi_label_classification", **LABELS)
    run = weft.import_run(folder, tmp_path / "run")
    theirs, tokenizer = load("RobertaForSequenceClassification", folder)
    shares = theirs(**tokenizer(TEXT, return_tensors="pt")).logits[0].sigmoid()
    (answer,) = run.predict([TEXT])
    assert set(answer.labels) == {LABELS["id2label"][i] for i in range(3) if shares[i] >= 0.5}


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_taggers(family, encoder, tmp_path) -> None:
    architecture = f"{family}ForTokenClassification"
    folder = encoder(architecture, **LABELS)
    run = weft.import_run(folder, tmp_path / "run")
    theirs, tokenizer = load(architecture, folder)
    words = ["quick", "unknown", "foxs", "jumping", "."]
    ids, first = [tokenizer.cls_token_id], []
    for word in words:
        first.append(len(ids))
        ids += tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
    logits = theirs(input_ids=torch.tensor([[*ids, tokenizer.sep_token_id]])).logits[0, first]
    (answer,) = weft.load(tmp_path / "run").predict([words])
    assert run.config.task == "tag"
    assert list(answer.tags) == [LABELS["id2label"][index] for index in logits.argmax(-1).tolist()]
    assert_close(torch.tensor(answer.probabilities), logits.softmax(-1).max(-1).values, **CLOSE)
    many = run.predict([words, ["a"], ["the", "cat"]])
    assert_close(torch.tensor(many[0].probabilities), torch.tensor(answer.probabilities), **CLOSE)
    assert run.predict(["The quick fox."])[0].words == ("The", "quick", "fox", ".")
    assert run.embed([words], level="word")[0].vectors.shape == (5, 32)


REFUSED = {
    "position_embedding_type": ("relative_key", "position_embedding_type = 'relative_key' has no counterpart"),
    "hidden_act": ("quick_gelu", "hidden_act = 'quick_gelu' has no counterpart"),
    "is_decoder": (True, "is_decoder = true has no counterpart"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_settings_without_a_counterpart(name, encoder) -> None:
    from tests.importing.test_refusals import change, refused

    value, match = REFUSED[name]
    folder = encoder("BertForMaskedLM")
    change(folder / "config.json", **{name: value})
    refused(folder, match)


@torch.no_grad()
def test_a_mask_token_that_leaves_the_blank_before_it(encoder, tmp_path) -> None:
    folder, notes = encoder("RobertaForMaskedLM"), []
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    tree = json.loads((folder / "tokenizer.json").read_text())
    for one in tree["added_tokens"]:
        one["lstrip"] = False
    (folder / "tokenizer.json").write_text(json.dumps(tree))
    run = weft.import_run(folder, tmp_path / "run", note=notes.append)
    assert notes == [
        "<mask> has lstrip = false: transformers reads the blank before it as a token, weft as part of the gap; "
        '"a<mask>" is the same in both'
    ]
    theirs = transformers.RobertaForMaskedLM.from_pretrained(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), mask_token="<mask>")
    ids = tokenizer("the quick<mask> fox", add_special_tokens=False)["input_ids"]
    ids = [theirs.config.bos_token_id, *ids, theirs.config.eos_token_id]
    [row] = [place for place, token in enumerate(ids) if token == tokenizer.mask_token_id]
    expected = theirs(torch.tensor([ids])).logits[0, row].log_softmax(-1)
    entries = {index: entry for entry, index in tokenizer.get_vocab().items()}
    for text in ("the quick<mask> fox", "the quick <mask> fox"):
        (gap,) = run.predict(text, n_best=3).gaps
        for found in gap:
            assert found.probability == pytest.approx(
                float(expected.exp()[next(i for i, entry in entries.items() if entry == found.entry)]), abs=1e-4
            )
