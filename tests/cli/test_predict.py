"""weft predict and Run.predict of models that generate text: constraints, streams, attention, sampling."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import weft as package
from weft.errors import ConfigError

SMALL = {"embedding": 8, "hidden": 8}
BLOCKS = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1}
MODELS = {
    ("lm", "rnn", "bpe"): SMALL,
    ("lm", "conv", "char"): {"kind": "conv", "embedding": 8, "width": 8},
    ("lm", "transformer", "word"): BLOCKS,
    ("translate", "rnn", "word"): {"encoder": SMALL, "decoder": SMALL},
    ("translate", "transformer", "bpe"): {"encoder": BLOCKS, "decoder": BLOCKS},
}
SOURCES = {"lm": ["the cat", "the dog runs"], "translate": ["one two", "six four three five"]}


@pytest.fixture(scope="module", params=MODELS, ids="-".join)
def run(request, tmp_path_factory):
    """A model of each kind after a few updates, whose texts are almost random."""
    task, _, text = request.param
    folder = tmp_path_factory.mktemp("run")
    lines = {
        "lm": [
            f"the {animal} {verb} {n} times"
            for n in range(20)
            for animal in ("cat", "dog")
            for verb in ("runs", "sits")
        ],
        "translate": [f"one two three {n}\tun deux trois {n}" for n in ("four", "five", "six") * 10],
    }
    (folder / "data.tsv").write_text("\n".join(lines[task]), encoding="utf-8")
    config = {
        "task": task,
        "data": {"train": str(folder / "data.tsv")},
        "model": MODELS[request.param],
        "text": {"kind": text, "min_count": 1},
        "train": {"steps": 4, "rate": 0.02},
        "decode": {"max_length": 24},
    }
    return package.train(config, out=folder / "run", quiet=True)


SEARCHES = [{"beam": 1}, {"beam": 4}, {"beam": 4, "groups": 2, "n_best": 3}, {"temperature": 1.5, "seed": 5}]


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_a_stream_is_the_text_of_predict(run, options):
    for source in SOURCES[run.config.task]:
        (whole,) = run.predict([source], **options)
        pieces = list(run.stream(source, **options))
        assert "".join(pieces) == whole.text
        if "beam" not in options:
            assert len(pieces) > 1 or len(whole.candidates[0].tokens) < 3


STOPPED = [{"beam": 1}, {"beam": 3, "n_best": 2}, {"temperature": 1.5, "seed": 5}, {"beam": 4, "groups": 2}]


@pytest.mark.covers("D7")
@pytest.mark.parametrize("options", STOPPED, ids=str)
def test_a_text_ends_before_the_first_stop_string(run, options):
    """Each string of two characters of the text that is written without it."""
    source = SOURCES[run.config.task][0]
    begins = len(source) if run.config.task == "lm" else 0
    written = run.predict(source, **options).text[begins:]
    for place in range(0, min(len(written) - 1, 12), 3):
        string = written[place : place + 2]
        if "\N{REPLACEMENT CHARACTER}" in string:
            continue  # a part of a character is not that character
        answer = run.predict(source, stop_at=string, **options)
        best = answer.candidates[0]
        assert string not in answer.text[begins:]
        if "beam" not in options or options["beam"] == 1:
            assert answer.text[begins:] == written[: written.index(string)]
            assert best.stopped == string
            assert len(best.log_probabilities) == len(best.tokens)
        assert "".join(run.stream(source, stop_at=[string], **options)) == answer.text


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_penalties_end_repetition(run, options):
    source = SOURCES[run.config.task][0]
    answer = run.predict(source, min_length=4, max_length=5, frequency_penalty=1e4, **options)
    tokens = answer.candidates[0].tokens
    assert len(set(tokens)) == len(tokens)
    assert "".join(run.stream(source, min_length=4, max_length=5, frequency_penalty=1e4, **options)) == answer.text


@pytest.mark.covers("D7")
def test_a_whole_file_is_one_prompt(weft, run, tmp_path):
    prompt = "the cat runs\nthe dog"
    Path("begin.txt").write_bytes(b"the cat runs\r\nthe dog\n")
    asked = ("--prompt-file", "begin.txt", "--beam", "1", "--max-length", "6")
    found = weft("predict", str(run.folder), *asked)
    if run.config.task != "lm":
        assert found.code == 2
        assert "--prompt-file: is for language models, not for translate" in " ".join(found.err.split())
        return
    answer = run.predict(prompt, beam=1, max_length=6)
    assert found.out == f"{answer.text}\n"
    assert weft("predict", str(run.folder), *asked, "--stream").out == f"{answer.text}\n"
    assert json.loads(weft("predict", str(run.folder), *asked, "--json").out)["text"] == answer.text
    for wrong in (("--n-best", "2", "--beam", "2"), ("--probabilities",), ("--column", "x")):
        assert weft("predict", str(run.folder), *asked, *wrong).code == 2


def test_options_replace_the_settings_of_the_run(run):
    diverse = run.decode({"beam": 4, "groups": 2, "diversity": 2.0})
    assert (diverse.sample, diverse.width, diverse.diversity) == (False, 2, 2.0)
    kept = run.config.model_copy(update={"decode": diverse})
    other = type(run)(run.folder, kept, run.task, run.model)
    assert other.decode({"min_p": 0.1}).sample
    assert other.decode({"groups": 1}).beam == 4
    assert other.decode({"n_best": 3}).groups == 2


def test_the_same_seed_gives_the_same_text_in_any_batch(run):
    sources = SOURCES[run.config.task]
    options = {"temperature": 1.5, "n_best": 3, "seed": 2}
    together = run.predict(sources, **options)
    backwards = run.predict([*sources[::-1], "one", sources[0]], **options)
    texts = [[candidate.text for candidate in answer.candidates] for answer in together]
    assert texts[0] == [candidate.text for candidate in backwards[1].candidates]
    assert texts[0] == [candidate.text for candidate in backwards[3].candidates]
    assert texts[1] == [candidate.text for candidate in backwards[0].candidates]
    assert len(set(texts[0])) > 1
    again = [candidate.text for candidate in run.predict(sources[:1], **options | {"seed": 3})[0].candidates]
    assert again != texts[0]


def test_forbidden_and_required_words(run):
    first, second, third = ("cat", "runs", "dog") if run.config.task == "lm" else ("deux", "trois", "un")
    sources = SOURCES[run.config.task]
    with_first = run.predict(sources, beam=6, require=[first])
    assert all(first in answer.text for answer in with_first)
    mixed = run.predict(sources, beam=6, require=[[first], [second, first]], forbid=[[], [third]])
    assert mixed[0].text == with_first[0].text
    assert first in mixed[1].text
    assert second in mixed[1].text
    assert all(answer.candidates[0].missing == () for answer in mixed)
    assert "".join(run.stream(sources[0], beam=6, require=[first])) == with_first[0].text


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_a_translation_begins_with_its_prefix(run, options):
    sources = SOURCES[run.config.task]
    if run.config.task == "lm":
        with pytest.raises(ConfigError, match="prefix: a language model goes on from its input"):
            run.predict(sources, prefix="the")
        return
    begun = run.predict(sources, prefix=["un deux", ""], **options)
    assert begun[0].text.startswith("un deux")
    assert begun[1].text == run.predict(sources, **options)[1].text, "who asks for nothing is left alone"
    best = begun[0].candidates[0]
    assert len(best.path) == len(best.log_probabilities) == len(best.tokens) + best.finished
    assert run.predict(sources[:1], prefix="un deux", **options)[0].text == begun[0].text
    assert "".join(run.stream(sources[0], prefix="un deux", **options)) == begun[0].text


def test_a_required_phrase_may_be_in_the_prefix(run):
    if run.config.task == "lm":
        pytest.skip("its input is what it begins with")
    (answer,) = run.predict(["one two"], beam=4, prefix="un deux", require=["deux"], max_length=1)
    assert answer.candidates[0].missing == ()
    with pytest.raises(ConfigError, match="prefix: 3 are given for 1 text"):
        run.predict(["one two"], prefix=["un", "deux", "trois"])
    if run.config.text.kind == "word":
        with pytest.raises(ConfigError, match='prefix: "un zebra" is not in the vocabulary'):
            run.predict(["one two"], prefix="un zebra")


def test_min_length_may_exceed_the_default_limit(run):
    """A translation is cut after 20 tokens and two for each of its source, unless min_length is larger."""
    asked = {"beam": 2, "min_length": 60, "max_length": 80}
    (answer,) = run.predict(["two"], **asked)
    assert len(answer.candidates[0].tokens) >= 60
    assert "".join(run.stream("two", **asked)) == answer.text


def test_every_word_that_it_writes_can_be_forbidden(run):
    if run.config.text.kind != "word":
        pytest.skip("an untrained model writes bytes that no word is made of")
    source = SOURCES[run.config.task][0]
    said: list[str] = []
    for _ in range(3):
        (answer,) = run.predict([source], beam=2, min_length=1, forbid=said)
        words = [word for word in answer.candidates[0].tokens if not word.startswith("<")]
        assert not set(said) & set(words)
        said += words[:1]
    assert len(said) > 1


def test_missing_required_words_are_reported_if_max_length_is_too_small(run):
    words = ["runs", "dog"] if run.config.task == "lm" else ["trois", "deux"]
    (answer,) = run.predict(["the"], beam=4, require=words, max_length=1)
    best = answer.candidates[0]
    assert not best.finished
    assert best.missing
    assert best.record()["missing"] == list(best.missing)


@pytest.mark.covers("I3")
def test_attention_is_that_of_the_source_tokens(run):
    sources = SOURCES[run.config.task]
    if run.config.task == "lm":
        with pytest.raises(ConfigError, match="attention: the model has no source"):
            run.predict(sources, attention=True)
        return
    plain = run.predict(sources, beam=3, n_best=2)
    for answer, other in zip(run.predict(sources, beam=3, n_best=2, attention=True), plain, strict=True):
        assert answer.source_tokens[-1] == "<eos>"
        assert "attention" not in other.record()
        for candidate, expected in zip(answer.candidates, other.candidates, strict=True):
            assert candidate.text == expected.text
            assert candidate.attention.shape == (len(candidate.log_probabilities), len(answer.source_tokens))
            torch.testing.assert_close(candidate.attention.sum(1), torch.ones(len(candidate.log_probabilities)))
            assert len(candidate.path) == len(candidate.log_probabilities)


def test_on_the_command_line(weft, run):
    source = SOURCES[run.config.task][0]
    Path("in.txt").write_text(f"{source}\n\n{source}\n", encoding="utf-8")
    folder = str(run.folder)
    whole = weft("predict", folder, "in.txt", "--beam", "3")
    assert whole.code == 0, whole.err
    assert weft("predict", folder, "in.txt", "--beam", "3", "--stream").out == whole.out
    word = "cat" if run.config.task == "lm" else "deux"
    words = weft("predict", folder, "in.txt", "--beam", "4", "--require", word, "--forbid", "un", "--forbid", "zwei")
    assert words.code == 0, words.err
    assert word in words.out.splitlines()[0]
    assert words.err == ""
    options = ["--beam", "4", "--require", word, "--require", "deux un" if word == "deux" else "dog runs"]
    short = weft("predict", folder, "in.txt", *options, "--max-length", "1")
    assert short.err.startswith("2 without all required words")
    begun = weft("predict", folder, "in.txt", "--beam", "3", "--prefix", "un")
    assert begun.code == (2 if run.config.task == "lm" else 0), begun.err
    assert begun.out.startswith("" if run.config.task == "lm" else "un")
    options = ["--groups", "2", "--beam", "4", "--diversity", "1.5", "--stop", "finished", "--n-best", "2"]
    record = json.loads(weft("predict", folder, "in.txt", "--json", *options).out.splitlines()[0])
    assert len(record["path"]) == len(record["log_probabilities"])
    assert record["missing"] == [], "the names do not depend on the answer"
    assert len(record["others"]) <= 1
    drawn = weft("predict", folder, "in.txt", "--min-p", "0.1", "--temperature", "2").out.split("\n")
    assert drawn[0] == drawn[2], "chance depends on what is asked"
    looked = weft("predict", folder, "in.txt", "--json", "--attention", "--beam", "1")
    assert looked.code == (2 if run.config.task == "lm" else 0)
    if run.config.task == "translate":
        record = json.loads(looked.out.splitlines()[0])
        assert len(record["attention"][0]) == len(record["source_tokens"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stream", "--json"], "leave out --json"),
        (["--attention"], "add --json"),
        (["--stop", "never"], "not one of bound, finished"),
        (["--groups", "3", "--beam", "4"], "groups = 3 does not divide beam = 4"),
        (["--sample", "--require", "WORD"], "needs beam search, not sample = true"),
        (["--sample", "--stream", "--n-best", "2"], "--stream: prints one text, not n_best = 2"),
    ],
    ids=str,
)
def test_an_impossible_option_is_an_error_of_one_line(weft, run, options, message):
    Path("in.txt").write_text("one\n", encoding="utf-8")
    word = "cat" if run.config.task == "lm" else "deux"
    outcome = weft("predict", str(run.folder), "in.txt", *(word if given == "WORD" else given for given in options))
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert outcome.out == "", "nothing is printed before the error"


def test_a_classifier_writes_nothing(labelled, tmp_path):
    config = {"task": "classify", "data": {"train": labelled}, "model": SMALL, "train": {"steps": 2}}
    run = package.train(config, out=tmp_path / "classify", quiet=True)
    with pytest.raises(ConfigError, match='task = "classify": writes no text'):
        run.predict(["red"], forbid=["a"])
    with pytest.raises(ConfigError, match='task = "classify": writes no text'):
        run.stream("red")
