"""An n-gram model goes through training, loading, evaluation, scoring, generation and comparison like a network."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft as weft_package
from weft.errors import ConfigError, DataError, RunError
from weft.models import NgramModel
from weft.models.ngram.fit import NgramFit
from weft.run.folder.files import WEIGHTS

LINES = ["the cat sat on the mat", "the dog sat on the rug", "a cat and a dog", "the dog ran", "a cat ran on the mat"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("\n".join(LINES * 3) + "\n", encoding="utf-8")
    Path("valid.txt").write_text("the cat ran\na dog sat on the mat\n", encoding="utf-8")


def config(**model):
    return {
        "task": "lm",
        "data": {"train": "train.txt", "valid": "valid.txt", "test": "valid.txt"},
        "text": {"kind": "word"},
        "model": {"kind": "ngram", "order": 3, **model},
    }


@pytest.mark.covers("M1")
@pytest.mark.parametrize("kind", ["char", "word", "bpe"])
@pytest.mark.parametrize("unit", ["line", "stream"])
def test_words_subwords_and_characters_of_lines_and_of_running_text(files, kind, unit):
    tree = {**config(), "text": {"kind": kind}}
    tree["data"] = {**tree["data"], "unit": unit}
    run = weft_package.train(tree, out="run", quiet=True)
    again = weft_package.load("run")
    assert isinstance(again.model, NgramModel)
    assert run.report["test"]["perplexity"] < 30
    assert again.evaluate("valid.txt").metrics == pytest.approx(run.report["test"])
    [scored] = again.score(["the cat ran"])
    assert scored.total < 0
    assert all(rank >= 1 for rank in scored.ranks)
    written = again.predict("the", beam=3, n_best=2, max_length=6)
    assert written.text.startswith("the")
    assert len(written.candidates) == 2
    assert again.predict("the", seed=1, max_length=6).text == again.predict("the", seed=1, max_length=6).text
    assert "mat" in again.predict("a dog", require=["mat"], beam=8, max_length=20).text


@pytest.mark.covers("M1")
def test_a_text_is_scored_as_its_loss_says(files):
    run = weft_package.train(config(), out="run", quiet=True)
    texts = Path("valid.txt").read_text(encoding="utf-8").splitlines()
    total = math.fsum(one.total for one in run.score(texts))
    tokens = sum(len(one.tokens) for one in run.score(texts))
    assert run.evaluate("valid.txt").metrics["loss"] == pytest.approx(-total / tokens, rel=1e-5)


@pytest.mark.covers("M1")
def test_an_impossible_text_has_an_infinite_perplexity_and_no_number_in_json(files, weft):
    run = weft_package.train(config(smoothing={"kind": "none"}), out="run", quiet=True)
    assert run.report["valid"] == {"loss": math.inf, "perplexity": math.inf, "bits_per_character": math.inf}
    for file in ("run/report.json", "run/metrics.jsonl"):
        assert "NaN" not in (text := Path(file).read_text(encoding="utf-8"))
        assert '"perplexity": null' in text
    assert "| test | perplexity | inf |" in Path("run/README.md").read_text(encoding="utf-8")
    shown = weft("evaluate", "run", "valid.txt")
    assert "perplexity             inf" in shown.out
    assert json.loads(weft("evaluate", "run", "valid.txt", "--json").out)["perplexity"] is None
    Path("one.txt").write_text("the mat\n", encoding="utf-8")
    text, summary = map(json.loads, weft("score", "run", "one.txt", "--json").out.splitlines())
    assert text["log_probability"] is None
    assert None in text["log_probabilities"]
    assert summary["perplexity"] is None
    assert "-inf" in weft("score", "run", "one.txt").out
    seen = run.score([LINES[0]])[0]
    assert math.isfinite(seen.total)


@pytest.mark.filterwarnings("error")
def test_runs_with_an_infinite_loss_are_compared(files, weft):
    weft_package.train(config(smoothing={"kind": "none"}), out="none", quiet=True)
    weft_package.train(config(), out="smooth", quiet=True)
    found = weft("compare", "none", "smooth", "--data", "valid.txt", "--json")
    assert found.code == 0
    none, smooth = json.loads(found.out)["runs"]
    assert none["metrics"]["loss"] is None
    assert smooth["differences"]["loss"]["difference"] is None  # minus infinity


def test_an_interrupted_training_begins_again(files, monkeypatch):
    step, made = NgramFit.step, []

    def stopped(self, number):
        made.append(number)
        if len(made) == 2:
            raise KeyboardInterrupt
        return step(self, number)

    expected = weft_package.train(config(), out="run", quiet=True).model.state_dict()
    monkeypatch.setattr(NgramFit, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        weft_package.train(config(), out="again", quiet=True)
    found = weft_package.train(config(), out="again", quiet=True, resume=True).model.state_dict()
    assert made == [1, 2, 1, 2, 3]
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_model_can_be_used_before_anything_is_counted(files):
    model = weft_package.train(config(), out="run", quiet=True).model
    new = NgramModel(model.config, model.vocabulary)
    assert new.output(new(torch.tensor([[2, 5]]))).exp().sum(-1).tolist() == [[pytest.approx(1), pytest.approx(1)]]


@pytest.mark.parametrize(
    ("content", "message"), [("", "no text|empty|no examples"), ("\n\n", "no text|empty|no examples")]
)
def test_an_empty_corpus_is_an_error(files, content, message):
    Path("train.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        weft_package.train(config(), out="run", quiet=True)


@pytest.mark.parametrize("text", ["word", "one sentence of six words here"])
@pytest.mark.parametrize("order", [1, 5, 7])
@pytest.mark.parametrize("smoothing", ["kneser_ney", "add_k", "none"])
def test_one_word_and_one_sentence_are_enough(files, text, order, smoothing):
    Path("train.txt").write_text(f"{text}\n", encoding="utf-8")
    run = weft_package.train(config(order=order, smoothing={"kind": smoothing}), out="run", quiet=True)
    [scored] = run.score([text])
    assert math.isfinite(scored.total)
    if order > 1:
        assert run.predict("", sample=False, max_length=9).text == text


def test_a_setting_of_training_by_gradients_is_refused(files):
    with pytest.raises(ConfigError, match=r'train.epochs = 3: does nothing with model.kind = "ngram"'):
        weft_package.train({**config(), "train": {"epochs": 3}}, out="run", quiet=True)


def damage(change):
    tensors = load_file(f"run/{WEIGHTS}")
    change(tensors)
    save_file(tensors, "wrong.safetensors")
    content = Path("wrong.safetensors").read_bytes()
    Path(f"run/{WEIGHTS}").write_bytes(content)
    manifest = json.loads(Path("run/manifest.json").read_text(encoding="utf-8"))
    manifest["sha256"][WEIGHTS] = hashlib.sha256(content).hexdigest()
    Path("run/manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors["keys2"].sub_(10**6), "not sorted, or out of range"),
        (lambda tensors: tensors["keys3"].add_(10**9), "not sorted, or out of range"),
        (lambda tensors: tensors.update(keys3=tensors["keys3"].flip(0)), "not sorted, or out of range"),
        (lambda tensors: tensors["log_probabilities2"].fill_(0.5), "more than 1"),
        (lambda tensors: tensors["log_probabilities2"].fill_(math.nan), "damaged|not finite"),
        (lambda tensors: tensors.update(keys3=tensors["keys3"][:2]), "order 3 differ in size"),
        (lambda tensors: tensors.update(log_probabilities1=torch.zeros(3)), "has 3 words"),
        (lambda tensors: tensors.pop("keys3"), "other tables"),
        (lambda tensors: tensors.update(keys4=torch.zeros(3, dtype=torch.long)), "other tables"),
        (lambda tensors: tensors.update(keys2=torch.zeros(2, 3, dtype=torch.long)), "other tables"),
    ],
)
def test_a_file_with_wrong_tables_is_refused(files, change, message):
    weft_package.train(config(), out="run", quiet=True)
    damage(change)
    with pytest.raises(RunError, match=message):
        weft_package.load("run")


@pytest.mark.covers("M1")
def test_a_text_that_cannot_be_long_enough_is_reported(files, weft):
    """Without smoothing nothing follows a sentence of the training text: there is no text of 50 tokens."""
    Path("train.txt").write_text("a b c\nd e f g\n", encoding="utf-8")
    weft_package.train(config(smoothing="none"), out="run", quiet=True)
    Path("in.txt").write_text("a\nd e\n", encoding="utf-8")
    for search in ["--no-sample"], ["--no-sample", "--beam", "3"], ["--sample"]:
        answered = weft("predict", "run", "in.txt", "--min-length", "50", *search)
        assert (answered.code, answered.out) == (0, "\n\n")
        assert answered.err.startswith("2 without a text: every text that the settings allow has the probability 0")
    Path("one.txt").write_text("a", encoding="utf-8")
    assert weft("predict", "run", "--prompt-file", "one.txt", "--min-length", "50").err.startswith("1 without a text")
    assert not weft("predict", "run", "in.txt").err


@pytest.mark.covers("M1")
def test_unknown_words_are_never_written(files):
    """Three of four words are unknown; samples share their probability among the known ones."""
    Path("train.txt").write_text("".join(f"a w{n} x{n} y{n}\nb b a\n" for n in range(40)), encoding="utf-8")
    run = weft_package.train({**config(), "text": {"kind": "word", "min_count": 2}}, out="run", quiet=True)
    assert run.score(["a w9 x9"])[0].tokens.count("<unk>") == 2
    drawn = run.predict("a", n_best=200, sample=True, temperature=1.0, top_p=1.0, max_length=5).candidates
    found = [run.predict("a", sample=False, beam=3).candidates[0], *drawn]
    assert len(found) == 201
    assert not any("<unk>" in one.tokens or "<unk>" in one.text for one in found)


def test_the_number_of_parameters_is_shown_once_it_is_known(files, weft):
    """Counting decides how many n-grams there are: the header has no number that the report would contradict."""
    done = weft("train", "lm", "train.txt", "text.kind=word", "model.kind=ngram", "--out", "run")
    assert done.code == 0, done.err
    assert " parameters" not in done.err
    assert weft_package.load("run").report["parameters"] > 0


def test_the_words_of_a_prompt_come_back_as_they_were_typed(files):
    """Unknown words, capital letters and blanks too; in pieces the text is the same."""
    run = weft_package.train({**config(), "text": {"kind": "word", "lowercase": True}}, out="run", quiet=True)
    for prompt in ("After Zyx,  the", "the zyx ", "the"):
        found = run.predict(prompt, seed=3, max_length=6).text
        assert found.startswith(prompt.rstrip() + " ")
        assert "<unk>" not in found
        assert "".join(run.stream(prompt, seed=3, max_length=6)) == found
    stopped = run.predict("Zyx the cat", sample=False, stop_at=["the"], max_length=9)
    assert stopped.text.startswith("Zyx the cat")


@pytest.mark.covers("M1")
def test_an_arpa_file_needs_the_cutting_of_its_run(files, weft):
    """The file has words without their punctuation; the import is given how texts become such words."""
    Path("valid.txt").write_text("The cat, ran.\na dog; sat on the mat!\n", encoding="utf-8")
    Path("train.txt").write_text("The cat, sat on the mat.\na dog, ran!\n" * 9, encoding="utf-8")
    weft_package.train({**config(), "text": {"kind": "word", "lowercase": True}}, out="run", quiet=True)
    done = weft("export", "run", "--to", "arpa", "--out", "run.arpa")
    said = "the run also splits punctuation off and lowers letters, as weft import does with"
    assert f"{said} text.punctuation=split text.lowercase=true" in done.err.replace("\n", " ")
    cutting = ("text.punctuation=split", "text.lowercase=true")
    assert weft("import", "run.arpa", *cutting, "--out", "again").code == 0
    assert weft("import", "run.arpa", "--out", "blanks").code == 0
    ours, again, blanks = (weft_package.load(name).evaluate("valid.txt").metrics for name in ("run", "again", "blanks"))
    assert again == pytest.approx(ours, rel=1e-4)
    assert blanks["perplexity"] != pytest.approx(ours["perplexity"], rel=0.1)
    assert weft("import", "run.arpa", "text.size=9", "--out", "other").code == 2
