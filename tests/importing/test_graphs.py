"""Imported models as graphs of operations: the numbers of the run that was imported."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import weft
from weft.export.graph import evaluate, host_facts, program_of
from weft.text import EOS, SOS

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
TEXT, SECOND = "the quick brown fox", "a cat sleeps."


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert"])
@torch.no_grad()
def test_an_encoder(family, encoder, tmp_path) -> None:
    run = weft.import_run(encoder(f"{family}ForMaskedLM"), tmp_path / "run")
    program, frame = program_of(run), host_facts(run)["frame"]
    tokens = [*frame["start"], *run.task.tokenizer.encode(TEXT), *frame["end"]]
    wanted = run.model.output(run.model(torch.tensor([tokens]), torch.tensor([len(tokens)])))[0]
    np.testing.assert_allclose(evaluate(program.graphs["forward"], {"tokens": tokens})["logits"], wanted, **CLOSE)


@torch.no_grad()
def test_a_pair_of_texts_has_two_segments(encoder, tmp_path) -> None:
    folder = encoder("BertForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    run = weft.import_run(folder, tmp_path / "run", pair=True)
    program, facts = program_of(run), host_facts(run)
    assert facts["pair"]
    first, second = run.task.tokenizer.encode_many([TEXT, SECOND])
    frame = facts["frame"]
    tokens = [*frame["start"], *first, *frame["between"], *second, *frame["end"]]
    logits = evaluate(program.graphs["forward"], {"tokens": tokens})["logits"]
    shares = np.exp(logits - np.logaddexp.reduce(logits))
    answer = run.predict((TEXT, SECOND))
    np.testing.assert_allclose(shares, [answer.probabilities[label] for label in facts["labels"]], **CLOSE)


@torch.no_grad()
def test_a_tagger_of_subwords(encoder, tmp_path) -> None:
    labels = {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2}}
    run = weft.import_run(encoder("BertForTokenClassification", **labels), tmp_path / "run")
    program, facts = program_of(run), host_facts(run)
    assert facts["input"] == "subwords"
    words = ["the", "jumping", "cat"]
    cut, frame = run.task.words.encode_split(words), facts["frame"]
    places = [len(frame["start"]) + sum(map(len, cut[:word])) for word in range(len(words))]
    tokens = [*frame["start"], *(piece for pieces in cut for piece in pieces), *frame["end"]]
    logits = evaluate(program.graphs["forward"], {"tokens": tokens, "places": places})["logits"]
    assert tuple(facts["labels"][number] for number in logits.argmax(-1)) == run.predict([words])[0].tags


@torch.no_grad()
def test_gpt2(gpt2, tmp_path) -> None:
    run = weft.import_run(gpt2(), tmp_path / "run")
    program = program_of(run)
    tokens = [SOS, *run.task.tokenizer.encode(TEXT)]
    wanted = run.model.output(run.model(torch.tensor([tokens])))[0]
    empty = {field.name: np.zeros((0, *field.shape[1:])) for field in program.state}
    found = evaluate(program.graphs["forward"], {"tokens": tokens, **empty})["logits"]
    np.testing.assert_allclose(found, wanted, **CLOSE)


@torch.no_grad()
def test_marian(marian, tmp_path) -> None:
    run = weft.import_run(marian(), tmp_path / "run")
    program, model = program_of(run), run.model
    source = [*run.task.source.encode("the cat"), EOS]
    target = [SOS, *run.task.target.encode("le chat")]
    wanted = model.output(model(torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([target])))[0]
    state = evaluate(program.graphs["encode"], {"tokens": source})
    state |= {field.name: np.zeros((0, *field.shape[1:])) for field in program.state if field.grows}
    found = evaluate(program.graphs["forward"], {"tokens": target, **state})["logits"]
    np.testing.assert_allclose(found, wanted, **CLOSE)
