"""Vectors from a file or an embed run in every model; and vectors of texts from every run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import weft as weft_package
from weft.data import write_vectors
from weft.errors import ConfigError, DataError
from weft.models.embedding import Vectors
from weft.nn.recurrent import engine
from weft.nn.recurrent.layer import Layer
from weft.run.job import set_up
from weft.run.prepare import prepare
from weft.run.run import Run
from weft.run.vectors import embed_records

SIZE = 6
KNOWN = ["the", "cat", "dog", "sleeps", "one", "two", "un", "deux", "red", "blue"]
SMALL = {"rnn": {"hidden": 5}, "transformer": {"width": 8, "heads": 2, "layers": 1}, "conv": {"width": 5, "layers": 1}}
MODELS = [
    *((task, kind) for task in ("lm", "classify", "tag", "translate") for kind in ("rnn", "transformer")),
    ("lm", "conv"),
]
FILES = {"lm": "texts", "classify": "labelled", "tag": "tagged", "translate": "pairs"}


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(Layer, "choose", lambda self, device: engine.BackendChoice("reference", "", -1))


@pytest.fixture
def vectors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = np.random.default_rng(0).normal(size=(len(KNOWN), SIZE), scale=3).astype(np.float32)
    write_vectors("vectors.txt", KNOWN, table)
    return table


def settings(request, task, kind, embedding, **train):
    own = {"kind": kind, "embedding": embedding, **SMALL[kind]}
    return {
        "task": task,
        "data": {"train": request.getfixturevalue(FILES[task])},
        "text": {"kind": "word"} if task != "tag" else {},
        "model": {"encoder": own, "decoder": own} if task == "translate" else own,
        "train": {"steps": 2, "threads": 1, **train},
    }


def test_a_vector_of_zeros_is_named_and_not_used(request, vectors):
    vectors[1] = 0
    write_vectors("zeros.txt", KNOWN, vectors)
    setup = set_up(prepare(settings(request, "lm", "rnn", "zeros.txt")))
    [note] = setup.notes
    assert '; 1 vector of zeros not used, such as that of "cat"; the others start at random' in note


@pytest.mark.covers("T6")
@pytest.mark.parametrize("tune", [True, False])
@pytest.mark.parametrize(("task", "kind"), MODELS)
def test_a_model_starts_with_the_vectors_of_a_file(request, vectors, task, kind, tune):
    """Every table has the vectors of its words, scaled by one number; the other rows are as in any model."""
    tree = settings(request, task, kind, "vectors.txt" if tune else {"file": "vectors.txt", "tune": False})
    prepared = prepare(tree)
    setup = set_up(prepared)
    tables = [(name, part) for name, part in setup.model.named_modules() if isinstance(part, Vectors) and part.source]
    assert len(tables) == len(setup.notes) == (2 if task == "translate" else 1)
    for name, table in tables:
        tokenizer = prepared.task.tokenizer_of(name)
        known = [word for word in KNOWN if tokenizer.id(word) > 4]
        assert len(known) >= 2
        rows = torch.stack([table.weight[tokenizer.id(word)] for word in known]).detach().numpy()
        wanted = np.stack([vectors[KNOWN.index(word)] for word in known])
        np.testing.assert_allclose(rows, wanted / np.sqrt((wanted**2).sum(1).mean()), rtol=1e-5, atol=1e-6)
        assert table.embedding_dim == SIZE
        assert table.weight.requires_grad == tune
        assert not table.weight[0].any()


@pytest.mark.parametrize("tune", [True, False])
def test_a_run_loads_without_the_file_and_frozen_vectors_stay_as_they_were(request, vectors, tune):
    tree = settings(request, "lm", "conv", "vectors.txt")
    before = set_up(prepare(tree)).model.decoder.embedding.weight.detach().clone()
    run = weft_package.train(tree, {"model.embedding.tune": tune}, out="run", quiet=True)
    Path("vectors.txt").unlink()
    after = weft_package.load("run").model.decoder.embedding.weight
    assert torch.equal(after, run.model.decoder.embedding.weight)
    assert torch.equal(after, before) != tune
    assert run.config.model.tie == tune  # frozen vectors would be an output that cannot learn


def test_the_note_counts_what_was_found_and_a_lower_case_form_serves(vectors, texts, weft):
    Path("more.txt").write_text("The CAT sleeps\nthe Dog sleeps\n" * 40, encoding="utf-8")
    told = weft(
        *("train", "lm", "more.txt", "text.kind=word", "model.kind=conv", "model.width=4", "train.steps=1"),
        *("model.embedding=vectors.txt", "data.valid=more.txt", "--out", "run"),
    )
    assert told.code == 0, told.err
    assert (
        "decoder.embedding: 5 of 5 tokens (100%) have a vector in vectors.txt, 3 by their lower-case form" in told.err
    )
    tensors = load_file("run/model.safetensors")
    assert tensors["decoder.embedding.weight"].shape == (10, SIZE)


@pytest.mark.covers("T6")
def test_an_embed_run_is_a_source_of_vectors(request, texts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = weft_package.train(
        {"task": "embed", "data": {"train": texts}, "model": {"embedding": 7}, "train": {"epochs": 2}},
        out="words",
        quiet=True,
    )
    tree = settings(request, "lm", "conv", {"file": "words", "tune": False})
    made = weft_package.train(tree, out="run", quiet=True)
    table, ids = made.model.decoder.embedding.weight, made.task.tokenizer.id
    [cat, dog] = (torch.from_numpy(run.embed([word], level="word")[0].vectors[0]) for word in ("cat", "dog"))
    torch.testing.assert_close(table[ids("cat")] / table[ids("cat")].norm(), cat / cat.norm())
    torch.testing.assert_close(table[ids("dog")].norm() / table[ids("cat")].norm(), dog.norm() / cat.norm())


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        ("nowhere.txt", 'model.embedding = "nowhere.txt": cannot be read: nowhere.txt: no such file'),
        ({"file": "vectors.txt", "tuned": True}, "model.embedding.tuned: no such setting .did you mean .tune"),
        ({"tune": True}, "model.embedding.file = None: names no file"),
        ({"file": "vectors.txt", "tune": "yes"}, 'model.embedding.tune = "yes": is not true or false'),
        ({"file": "vectors.txt", "size": 0}, "model.embedding.size = 0: is no number from 1"),
        ({"file": "vectors.txt", "size": 9}, "has vectors of 6 numbers, and the model was set up for 9"),
        ("other.txt", "has a vector for none of the"),
        ("broken.txt", r"broken.txt:2: 2 numbers where the first line has vectors of 3"),
        ("folder", 'model.embedding = "folder": is no run folder'),
        (0, "model.embedding = 0: .*greater than or equal to 1"),
        (2.5, "model.embedding = 2.5"),
    ],
)
def test_a_mistake_names_the_setting_and_the_cure(request, vectors, embedding, message):
    write_vectors("other.txt", ["xyzzy"], np.ones((1, 3), dtype=np.float32))
    Path("broken.txt").write_text("cat 1 2 3\nthe 1 2\n", encoding="utf-8")
    Path("folder").mkdir()
    with pytest.raises(ConfigError, match=message):
        weft_package.train(settings(request, "lm", "conv", embedding), out="run", quiet=True)


@pytest.mark.covers("M7b")
@pytest.mark.parametrize(("task", "kind"), MODELS)
def test_every_run_has_vectors_of_words_tokens_and_texts(request, tmp_path, task, kind):
    tree = settings(request, task, kind, SIZE)
    if task in ("lm", "translate"):
        tree["text"] = {"kind": "bpe", "size": 270}
    prepared = prepare(tree)
    run = Run(tmp_path, prepared.config, prepared.task, set_up(prepared).model)
    texts = ["the cat sleeps", "", "a dog", "two cats, the cat and one two three four five", "unseen"]
    sentences = run.embed(texts)
    assert sentences.shape == (5, sentences.shape[1])
    assert sentences.dtype == np.float32
    tokens, words = run.embed(texts, level="token"), run.embed(texts, level="word")
    assert words[0].tokens == ("the", "cat", "sleeps")
    assert words[1].vectors.shape == (0, sentences.shape[1])
    assert [len(one.tokens) for one in tokens] == [len(one.vectors) for one in tokens]
    if task in ("lm", "translate"):
        assert len(tokens[4].tokens) > 1
        np.testing.assert_allclose(words[4].vectors[0], tokens[4].vectors.mean(0), rtol=1e-4, atol=1e-6)
        assert "".join(tokens[0].tokens) == texts[0]
    if task != "classify":
        np.testing.assert_allclose(sentences[3], tokens[3].vectors.mean(0), rtol=1e-4, atol=1e-6)
        assert not sentences[1].any()
    else:
        with torch.no_grad():
            logits = run.model.scores(run.model.head(torch.from_numpy(sentences)))
        shares = [answer.probabilities[run.task.codec.labels[0]] for answer in run.predict(texts)]
        np.testing.assert_allclose(logits.softmax(-1)[:, 0], shares, rtol=1e-4)
    records = [run.task.record(text) for text in texts]
    for size in (1, 16):
        for level, expected in (("sentence", sentences), ("token", tokens), ("word", words)):
            found = embed_records(run.task, run.model, records, level=level, batch_tokens=size)
            for one, other in zip(found, expected, strict=True):
                assert level == "sentence" or one.tokens == other.tokens
                ours, theirs = (one, other) if level == "sentence" else (one.vectors, other.vectors)
                np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.covers("M7b")
def test_vectors_in_context_depend_on_the_context_and_those_of_words_do_not(request, tmp_path, texts):
    lm = weft_package.train(settings(request, "lm", "conv", SIZE), out=tmp_path / "lm", quiet=True)
    embed = weft_package.train({"task": "embed", "data": {"train": texts}}, out=tmp_path / "embed", quiet=True)
    both = [[row.vectors[1] for row in run.embed(["the cat", "dog cat"], level="word")] for run in (lm, embed)]
    assert not np.allclose(*both[0])
    np.testing.assert_array_equal(*both[1])
    assert embed.embed([]).shape == (0, 0)
    with pytest.raises(DataError, match="a single text"):
        embed.embed("the cat")
    with pytest.raises(ConfigError, match=r"level = 'words': is no level \(did you mean \"word\"\?\)"):
        embed.embed(["the cat"], level="words")
    with pytest.raises(ConfigError, match="runs of embed do"):
        lm.write_vectors(tmp_path / "vectors.txt")
