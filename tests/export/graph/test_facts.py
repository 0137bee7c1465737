"""The facts of a run: with a program and these alone, and the tokenizers, a host gives the answers of weft."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.export.graph.conftest import Reader, close

import weft
from weft.export.graph import evaluate, host_facts, program_of
from weft.text.gaps import encode_gaps
from weft.text.split import split_text

TRAIN = {"train.steps": 2, "train.batch_tokens": 64, "train.threads": 1}
SMALL = {
    "rnn": {"kind": "rnn", "embedding": 6, "hidden": 8},
    "transformer": {"kind": "transformer", "width": 8, "heads": 2, "layers": 1},
}


def make(task, data, folder, **sections):
    run = weft.train({"task": task, "data": {"train": data}, **sections}, TRAIN, out=folder / "run")
    with torch.no_grad():
        for weight in run.model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    facts = host_facts(run)
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts, "JSON gives back what was written"
    return run, program_of(run), facts


def around(frame, ids):
    return [*frame["start"], *ids, *frame["end"]]


@pytest.mark.parametrize("kind", SMALL)
def test_a_classifier(labelled, tmp_path, kind):
    run, program, facts = make("classify", labelled, tmp_path, model={**SMALL[kind], "thresholds": "f1"})
    assert facts["tokenizers"][""]["file"] == "tokenizer.json"
    for text in ("the red and the cat", "dog", ""):
        tokens = around(facts["frame"], run.task.tokenizer.encode(text))
        logits = evaluate(program.graphs["forward"], {"tokens": tokens})["logits"].astype(np.float64)
        shares = np.exp(logits - np.logaddexp.reduce(logits))
        best = int((np.log(shares) - np.log(facts["thresholds"])).argmax())
        answer = run.predict(text)
        assert facts["labels"][best] == answer.label
        close(shares[best], answer.probability)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("crf", [True, False])
def test_a_tagger(tagged, tmp_path, kind, crf):
    run, program, facts = make("tag", tagged, tmp_path, model={**SMALL[kind], "characters": 4, "crf": crf})
    assert (facts["input"], facts["crf"]) == ("words", crf)
    text = "the dog sleeps, runs!"
    words = split_text(text, run.task.words)
    spelled = [
        evaluate(program.graphs["spell"], {"letters": run.task.characters.encode(word)})["spelled"] for word in words
    ]
    given = {"words": run.task.words.encode_words(words), "spelled": spelled}
    scores = evaluate(program.graphs["forward"], given)["logits"]
    if crf:
        start, transitions, end = (program.constants[f"crf_{part}"] for part in ("start", "transitions", "end"))
        reached, back = start + scores[0], []
        for row in scores[1:]:
            both = reached[:, None] + transitions
            back.append(both.argmax(0))
            reached = both.max(0) + row
        best = [int((reached + end).argmax())]
        for source in reversed(back):
            best.append(int(source[best[-1]]))
        best.reverse()
    else:
        best = scores.argmax(-1).tolist()
    assert tuple(facts["labels"][number] for number in best) == run.predict(text).tags


def test_a_masked_model(texts, tmp_path):
    run, program, facts = make("mask", texts, tmp_path, model=SMALL["transformer"])
    ids = encode_gaps(run.task.tokenizer, "the <mask> sleeps")
    tokens = around(facts["frame"], ids)
    row = evaluate(program.graphs["forward"], {"tokens": tokens})["logits"][tokens.index(facts["special"]["mask"])]
    shares = np.exp(row - np.logaddexp.reduce(row))
    shares[: facts["first"]] = -1
    (gap,) = run.predict("the <mask> sleeps").gaps
    assert len(gap) == facts["n_best"]
    best = np.argsort(-shares, kind="stable")[: facts["n_best"]]
    close(shares[best], [found.probability for found in gap])


def greedy(reader, facts, first, limit):
    """The likeliest token until the end token."""
    written, token = [], first
    while len(written) < limit:
        logits = reader("step", token=token)["logits"]
        logits[facts["forbid"]] = -np.inf
        token = int(logits.argmax())
        written.append(token)
        if token == facts["special"]["eos"]:
            break
    return [token for token in written if token != facts["special"]["eos"]]


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_a_language_model(texts, tmp_path, kind):
    run, program, facts = make("lm", texts, tmp_path, model=SMALL[kind], text={"kind": "word"})
    assert facts["decode"]["sample"]
    prompt = [*facts["begins"], *run.task.tokenizer.encode("the cat")]
    reader = Reader(program)
    reader.read(prompt[:-1])
    written = greedy(reader, facts, prompt[-1], 12)
    answer = run.predict("the cat", sample=False, beam=1, max_length=12)
    assert run.task.tokenizer.decode([*prompt[1:], *written]) == answer.text


@pytest.mark.parametrize("model", [
    {"encoder": SMALL["rnn"], "decoder": {**SMALL["rnn"], "context": "attention"}},
    {"encoder": SMALL["transformer"], "decoder": SMALL["transformer"]},
    {"kind": "prefix", "decoder": SMALL["transformer"]},
], ids=["rnn", "transformer", "prefix"])  # fmt: skip
def test_a_translator(pairs, tmp_path, model):
    run, program, facts = make("translate", pairs, tmp_path, model=model)
    for text in ("one two three", "four"):
        source = [*run.task.source.encode(text), *facts["ends"]]
        if facts["prefix"]:
            reader = Reader(program)
            reader.read(source)
        else:
            reader = Reader(program, tokens=source)
        limit = facts["limit"]["factor"] * len(source) + facts["limit"]["plus"]
        written = greedy(reader, facts, *facts["begins"], min(limit, facts["decode"]["max_length"]))
        assert run.task.target.decode(written) == run.predict(text, beam=1).text


def test_a_captioner(captioned, tmp_path):
    run, program, facts = make(
        "caption", captioned, tmp_path, model={"encoder": {"channels": [4]}, "decoder": SMALL["rnn"]}
    )
    size, channels = facts["picture"]["size"], facts["picture"]["channels"]
    picture = np.random.default_rng(0).integers(0, 256, (size, size, channels), dtype=np.uint8)
    grid = facts["grid"]
    reader = Reader(program, picture=picture)
    assert reader.state["source_states"].shape[0] == grid[0] * grid[1]
    written = greedy(reader, facts, *facts["begins"], min(facts["limit"]["plus"], facts["decode"]["max_length"]))
    assert run.task.target.decode(written) == run.predict(picture, beam=1).text


@pytest.mark.parametrize("multistep", ["direct", "recursive"])
def test_a_forecaster(series, tmp_path, multistep):
    run, program, facts = make("forecast", series, tmp_path, model={**SMALL["rnn"], "multistep": multistep})
    (scaling,) = facts["series"]
    answer = run.predict(series)[0]
    values = np.array(answer.history.target)
    observed = ~np.isnan(values)
    target = np.nan_to_num((values - scaling["mean"]) / scaling["scale"])
    given = {"target": target, "observed": observed}
    if facts["calendar"]:
        window = run.task.to_predict(run.task.read_inputs(series))[0]
        given["known"] = run.task.numbers(window)[:, 1:]
    if multistep == "direct":
        found = evaluate(program.graphs["forward"], given)["quantiles"]
    else:
        reader = Reader(program, **given)
        found = np.stack([reader("step", step=step)["quantiles"] for step in range(facts["horizon"])])
    found = np.maximum(found * scaling["scale"] + scaling["mean"], scaling["floor"])
    close(found[:, facts["levels"].index(0.5)], answer.values, tolerance=1e-4)
    for place, level in enumerate(facts["levels"]):
        close(found[:, place], answer.quantiles[level], tolerance=1e-4)


def test_word_vectors(texts, tmp_path):
    run = weft.train({"task": "embed", "data": {"train": texts}, "model": {"char_ngrams": [3, 4], "buckets": 50}},
                     {"train.epochs": 1, "train.threads": 1}, out=tmp_path / "run")  # fmt: skip
    program, facts = program_of(run), host_facts(run)
    assert facts["ngrams"] == [3, 4]
    ids = run.task.tokenizer.encode_words(["cat", "dog"])
    found = evaluate(program.graphs["forward"], {"tokens": ids})["vectors"]
    close(found, run.model.vectors(torch.tensor(ids)))
    assert program.constants["buckets"].shape == (facts["buckets"], facts["size"])


def test_a_regressor(tmp_path):
    lines = ["text\tlabel", *(f"{'good ' * (n % 5)}film\t{n % 5}" for n in range(60))]
    (tmp_path / "numbers.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run, program, facts = make("regress", str(tmp_path / "numbers.tsv"), tmp_path, model=SMALL["rnn"])
    tokens = around(facts["frame"], run.task.tokenizer.encode("good good film"))
    (logit,) = evaluate(program.graphs["forward"], {"tokens": tokens})["logits"]
    close(logit * facts["scale"] + facts["mean"], run.predict("good good film").number, tolerance=1e-4)
