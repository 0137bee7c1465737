"""ARPA files: by hand, there and back, through the command line, and every bad line by its number."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import weft as weft_package
from weft.errors import ConfigError, DataError, RunError
from weft.importing import import_arpa
from weft.models import NgramConfig, NgramModel
from weft.models.ngram import from_arpa_word, read_arpa, to_arpa_word, write_arpa
from weft.text import EOS, SOS, UNK

FILE = """a line before the data is skipped

\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-1\t<unk>
-99\t<s>\t-0.2
-0.6\t</s>
-0.5\tcat\t-0.3
-0.4\tdog

\\2-grams:
-0.1\t<s> cat
-0.2\tcat dog
-99\tcat cat

\\end\\
"""
ENTRIES = ["<pad>", "<unk>", "<sos>", "<eos>", "<mask>", "cat", "dog"]
IDS = {"<unk>": UNK, "<s>": SOS, "</s>": EOS, "cat": 5, "dog": 6}


def model_of(path):
    arpa = read_arpa(path)
    model = NgramModel(NgramConfig(order=arpa.order), len(ENTRIES))
    model.set_tables(arpa.tables(IDS, len(ENTRIES)))
    return model


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("model.arpa").write_text(FILE, encoding="utf-8")
    return Path("model.arpa")


@pytest.mark.covers("M1")
def test_a_file_by_hand(file):
    """log10 P(dog|<s>) = -0.2 - 0.4; P(</s>|cat) = -0.3 - 0.6; dog has no backoff and no bigrams."""
    model = model_of(file)
    logs = model.output(model(torch.tensor([[SOS, 5, 6]])))[0] / math.log(10)
    wanted = [[-1.2, -0.8, -0.1, -0.6], [-1.3, -0.9, -math.inf, -0.2], [-1.0, -0.6, -0.5, -0.4]]
    assert_close(logs[:, [UNK, EOS, 5, 6]], torch.tensor(wanted))
    assert logs[:, [0, SOS, 4]].isneginf().all()


@pytest.mark.covers("M1")
def test_what_is_written_is_read_again(file):
    model = model_of(file)
    write_arpa("again.arpa", model, ENTRIES)
    again = model_of("again.arpa")
    for name, tensor in model.state_dict().items():
        assert_close(again.state_dict()[name], tensor, atol=1e-6, rtol=1e-6)
    with gzip.open("again.arpa.gz", "wt", encoding="utf-8") as packed:
        packed.write(Path("again.arpa").read_text(encoding="utf-8"))
    assert read_arpa("again.arpa.gz").words == read_arpa("again.arpa").words


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("\\data\\", "data", 19, "there is no line"),
        ("ngram 1=5\nngram 2=3\n", "", 5, "no counts stand after"),
        ("ngram 2=3", "ngram 3=3", 5, "order 3 follows order 1"),
        ("ngram 1=5", "ngram 1=6", 14, "only 5 of 6 1-grams stand here"),
        ("ngram 1=5", "ngram 1=4", 12, "stands where"),
        ("ngram 2=3", "ngram 2=2", 17, r'"-99\tcat cat" stands where'),
        ("-0.5\tcat", "minus\tcat", 11, '"minus" is no number'),
        ("-0.5\tcat", "0.5\tcat", 11, "0.5 is the logarithm of no probability"),
        ("-0.5\tcat", "nan\tcat", 11, "nan is the logarithm of no probability"),
        ("-0.5\tcat\t-0.3", "-0.5\tcat\t1e300", 11, "1e300 is no logarithm of a backoff"),
        ("-0.5\tcat\t-0.3", "-0.5\tcat\t50", 11, "50 is no logarithm of a backoff"),
        ("-0.2\tcat dog", "-0.2\tcat", 16, "2 columns; a 2-gram has log10 P, 2 words and perhaps a backoff"),
        ("-0.2\tcat dog", "-0.2\tcat hot dog -1", 16, "5 columns"),
        ("-0.2\tcat dog", "-0.2\tcat cow", 16, '"cow" is no 1-gram of the file'),
        ("-0.2\tcat dog", "-0.2\tcat cat", 17, '"cat cat" stands there a second time'),
        ("\\end\\", "", 19, "the file ends where"),
    ],
)
def test_a_bad_line_is_named(file, old, new, line, message):
    file.write_text(FILE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError, match=f"^model.arpa:{line}: .*{message}") as error:
        model_of(file)
    assert error.value.cure


def test_an_ngram_whose_context_is_missing_is_named(file):
    three = FILE.replace("ngram 2=3", "ngram 2=3\nngram 3=1").replace("\\end", "\\3-grams:\n-1\tdog cat dog\n\\end")
    file.write_text(three, encoding="utf-8")
    with pytest.raises(DataError, match=r'^model\.arpa:21: "dog cat dog" begins with "dog cat", which is no 2-gram'):
        model_of(file)


@pytest.mark.parametrize("word", ["cat", "<s>", "\\<unk>", "\\\\</s>", "<eos>"])
def test_words_are_spelled_apart_from_the_special_ones(word):
    spelled = to_arpa_word(word, 9)
    assert spelled not in ("<s>", "</s>", "<unk>")
    assert from_arpa_word(spelled) == word


def test_blanks_are_written_as_signs():
    assert [to_arpa_word(entry, 9) for entry in (" ", "\n", "▁")] == ["▁", "<U+000A>", "<U+2581>"]
    assert [to_arpa_word("", number) for number in (UNK, SOS, EOS)] == ["<unk>", "<s>", "</s>"]


LINES = "the cat sat on the mat .\nthe dog sat on the rug !\na cat and a dog\nthe <s> ran\n" * 2


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text(LINES, encoding="utf-8")
    return {"task": "lm", "data": {"train": "train.txt", "valid": "train.txt"}, "model": {"kind": "ngram", "order": 3}}


@pytest.mark.covers("M1")
def test_a_run_is_exported_and_imported_with_the_same_scores(corpus, weft):
    run = weft_package.train({**corpus, "text": {"kind": "word", "punctuation": "keep"}}, out="run", quiet=True)
    found = weft("export", "run", "--to", "arpa", "--out", "model.arpa")
    assert found.code == 0
    assert weft("import", "model.arpa", "--out", "again").code == 0
    again = weft_package.load("again")
    for text in ("the dog ran", "a <s> sat on the unheard mat"):
        [ours], [theirs] = run.score([text]), again.score([text])
        assert theirs.log_probabilities == pytest.approx(ours.log_probabilities, abs=1e-5)
    metrics = again.evaluate("train.txt").metrics
    assert metrics == pytest.approx(run.evaluate("train.txt").metrics, rel=1e-5)
    assert weft("export", "again", "--to", "arpa", "--out", "twice.arpa").code == 0
    assert sorted(Path("twice.arpa").read_text("utf-8").split()) == sorted(
        Path("model.arpa").read_text("utf-8").split()
    )


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_characters_and_subwords_are_exported(corpus, weft, kind):
    weft_package.train({**corpus, "text": {"kind": kind}}, out="run", quiet=True)
    assert weft("export", "run", "--to", "arpa", "--out", "model.arpa").code == 0
    assert read_arpa("model.arpa").order == 3


def test_mistakes_in_export_and_import(corpus, weft, file):
    weft_package.train({**corpus, "model": {**corpus["model"], "smoothing": {"kind": "add_k"}}}, out="k", quiet=True)
    assert "an ARPA file cannot hold it" in weft("export", "k", "--to", "arpa", "--out", "k.arpa").err
    assert not Path("k.arpa").exists()
    assert "use --to arpa" in weft("export", "k", "--to", "huggingface", "--out", "hf").err
    assert "is there already" in weft("export", "k", "--to", "arpa", "--out", "train.txt").err
    assert "no such file" in weft("import", "missing.arpa").err
    with pytest.raises(ConfigError, match=r'model.smoothing.kind = "arpa": .*weft import'):
        weft_package.train({**corpus, "model": {"kind": "ngram", "smoothing": {"kind": "arpa"}}}, out="x", quiet=True)
    file.write_text(PROPER, encoding="utf-8")
    import_arpa(file, out="run")
    with pytest.raises(RunError):
        import_arpa(file, out="run")


PROPER = """\\data\\
ngram 1=4
ngram 2=2

\\1-grams:
-0.60206\t</s>
-99\t<s>\t-0.17609
-0.60206\tcat
-0.30103\tdog\t-99

\\2-grams:
-0.1760913\t<s> dog
1e-06\tdog </s>

\\end\\
"""
"""As SRILM writes: P(</s>) = P(cat) = 1/4, P(dog) = 1/2; P(dog|<s>) = 2/3, and a
backoff of 2/3 gives the others 1/3; P(</s>|dog) = 1, rounded. There is no <unk>, and cat has no backoff."""


def test_a_file_with_rounding_without_backoffs_and_with_logarithms_of_zero_is_proper(file, recwarn):
    file.write_text(PROPER, encoding="utf-8")
    run = import_arpa(file, out="run")
    assert not recwarn.list
    assert run.score(["dog"])[0].log_probabilities == pytest.approx([math.log(2 / 3), 0.0], abs=1e-5)


@pytest.mark.parametrize(("backoff", "shown"), [("-1.5", "0.682"), ("0.3", "1.66")], ids=["too little", "too much"])
def test_probabilities_that_do_not_sum_to_one_are_named(file, weft, backoff, shown):
    file.write_text(PROPER.replace("-0.17609\n", f"{backoff}\n"), encoding="utf-8")
    with pytest.warns(UserWarning, match=rf'^model\.arpa:7: the probabilities after "<s>" sum to {shown}, not to 1'):
        import_arpa(file, out="run")


@pytest.mark.parametrize("backoff", ["1e300", "50", "3"])
def test_a_damaged_backoff_is_refused_before_anything_is_written(file, weft, backoff):
    file.write_text(PROPER.replace("-0.17609\n", f"{backoff}\n"), encoding="utf-8")
    found = weft("import", "model.arpa", "--out", "run")
    assert found.code == 2
    assert found.err.startswith("error model.arpa:7: ")
    assert "write the model again" in found.err
    assert not Path("run").exists()
