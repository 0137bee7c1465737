"""Every kind of tokenizer: what comes back, what the ids mean, and what is refused."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ConfigError, DataError
from weft.text import EOS, MASK, PAD, SOS, SPECIALS, UNK, TextConfig, Tokenizer

LAW = settings(deadline=None, max_examples=60)

KINDS = ("char", "word", "bpe", "unigram")
EXACT = ("char", "bpe", "unigram")
TINY = ["The cat sat.", "The dog, too!", "A rat ran", "on the mat", "ß"]

LEARNED = {kind: Tokenizer.learn(TINY, TextConfig(kind=kind)) for kind in KINDS}
LOWERED = {kind: Tokenizer.learn(TINY, TextConfig(kind=kind, lowercase=True)) for kind in KINDS}

BLANKS = [" ", "  ", "\n", "\t", "\r\n", "\x00", "\ufeff"]
JOINED = ["e\u0301", "é", "👩\u200d👩\u200d👧", "🇫🇷", "İ", "Σ"]
FRAGMENTS = st.sampled_from([*SPECIALS, "<UNK>", "<pa", "d>", "<0x41>", "Ġ", *BLANKS, *JOINED])
TEXTS = st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join)


def learn(kind: str, texts: list[str] = TINY, **settings: object) -> Tokenizer:
    return Tokenizer.learn(iter(texts), TextConfig.model_validate({"kind": kind, **settings}))


def spoken(text: str) -> str:
    """A text without the special tokens that `decode` drops, removed in one pass from the left."""
    parts = re.split("(" + "|".join(map(re.escape, SPECIALS)) + ")", text)
    return "".join(part for part in parts if part not in (SPECIALS[PAD], SPECIALS[SOS], SPECIALS[EOS]))


@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_any_text_comes_back_exactly(kind: str, text: str) -> None:
    tokenizer = LEARNED[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == spoken(text)


@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_only_the_unknown_token_itself_is_unknown(kind: str, text: str) -> None:
    tokenizer = LEARNED[kind]
    assert tokenizer.encode(text).count(UNK) == text.count(SPECIALS[UNK])


@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_lower_cased_text_comes_back_exactly(kind: str, text: str) -> None:
    tokenizer = LOWERED[kind]
    lowered = tokenizer.decode(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(lowered)) == spoken(lowered)
    if text.isascii():
        assert lowered == spoken(text.lower())


@pytest.mark.parametrize("kind", KINDS)
@LAW
@given(texts=st.lists(TEXTS, max_size=5))
def test_many_texts_are_encoded_as_one_by_one(kind: str, texts: list[str]) -> None:
    tokenizer = LEARNED[kind]
    assert tokenizer.encode_many(texts) == [tokenizer.encode(text) for text in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_first_five_ids(kind: str) -> None:
    tokenizer = learn(kind)
    assert tokenizer.tokens(range(5)) == list(SPECIALS)
    assert [tokenizer.id(token) for token in SPECIALS] == [PAD, UNK, SOS, EOS, MASK]


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_never_split(kind: str, lowercase: bool) -> None:
    tokenizer = learn(kind, lowercase=lowercase)
    before, after = tokenizer.encode("cat"), tokenizer.encode("sat")
    for index, token in enumerate(SPECIALS):
        assert tokenizer.encode(f"cat{token}sat") == [*before, index, *after]


@pytest.mark.parametrize("punctuation", ["split", "keep"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_special_token_in_capitals_is_one_only_where_case_is_dropped(kind: str, punctuation: str) -> None:
    assert learn(kind, lowercase=True, punctuation=punctuation).encode("<MASK>") == [MASK]
    assert MASK not in learn(kind, punctuation=punctuation).encode("<MASK>")


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_in_the_corpus_are_not_learned_as_text(kind: str) -> None:
    polluted, clean = learn(kind, [f"<unk>{text}<unk>" for text in TINY]), learn(kind)
    assert polluted.tokens(range(len(polluted))) == clean.tokens(range(len(clean)))


@pytest.mark.parametrize("kind", KINDS)
def test_decode_drops_padding_start_and_end_only(kind: str) -> None:
    tokenizer = learn(kind)
    cat = tokenizer.encode("cat")
    assert tokenizer.decode([SOS, *cat, EOS, PAD, PAD]) == "cat"
    assert tokenizer.decode(np.array([PAD, *cat], dtype=np.int32)) == "cat"
    assert tokenizer.decode([UNK]) == "<unk>"
    assert tokenizer.decode([MASK]) == "<mask>"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_encoded_as_nothing(kind: str) -> None:
    tokenizer = learn(kind)
    assert tokenizer.encode("") == []
    assert tokenizer.encode_many([]) == []
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_lookups_are_inverse_over_the_whole_vocabulary(kind: str) -> None:
    tokenizer = learn(kind)
    assert [tokenizer.id(tokenizer.token(i)) for i in range(len(tokenizer))] == list(range(len(tokenizer)))
    assert tokenizer.id("no such entry") == UNK
    with pytest.raises(IndexError, match=f"{len(tokenizer)} is not below the vocabulary size"):
        tokenizer.token(len(tokenizer))


@pytest.mark.parametrize(
    ("kind", "unit"), [("char", "character"), ("word", "word"), ("bpe", "subword"), ("unigram", "subword")]
)
def test_the_unit_names_what_is_counted(kind: str, unit: str) -> None:
    tokenizer = learn(kind)
    assert (tokenizer.kind, tokenizer.unit) == (kind, unit)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corpus", [["a"], ["aaaa"], ["ab ab"], ["😀"], ["x y", "x z", "hi", "ho", "x"]])
def test_the_smallest_corpora_are_enough(kind: str, corpus: list[str]) -> None:
    tokenizer = learn(kind, corpus)
    assert tokenizer.decode(tokenizer.encode(corpus[0])) == corpus[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("corpus", [[], ["", ""], ["<unk>", "<eos>"]])
def test_an_empty_corpus_is_an_error(kind: str, corpus: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn a vocabulary from"):
        learn(kind, corpus)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_reader_passes_through(kind: str) -> None:
    def reader() -> Iterator[str]:
        yield "a cat"
        raise DataError("not UTF-8", where="train.txt:2")

    with pytest.raises(DataError, match=r"train\.txt:2: not UTF-8"):
        Tokenizer.learn(reader(), TextConfig(kind=kind))


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_is_never_exceeded_and_the_smallest_works(kind: str) -> None:
    smallest = 6 if kind == "word" else 261
    with pytest.raises(ConfigError, match=f"text.size: {smallest - 1} leaves no room.*use at least {smallest}"):
        learn(kind, size=smallest - 1)
    for size in (smallest, smallest + 1, smallest + 7):
        assert len(learn(kind, size=size)) <= size
    assert len(learn(kind, size=smallest)) == smallest


LEARN_AND_HASH = """
import hashlib, sys
from weft.text import TextConfig, Tokenizer
texts = [f"the {i % 13} cats of house {i % 7}, {i * i % 31} süß" for i in range(60)]
for kind in ("char", "word", "bpe", "unigram"):
    Tokenizer.learn(texts, TextConfig(kind=kind, size=300)).save(sys.argv[1])
    print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())
"""


def test_the_same_texts_give_the_same_file_in_another_process(tmp_path: Path) -> None:
    outputs = []
    for hash_seed in ("1", "2"):
        command = [sys.executable, "-c", LEARN_AND_HASH, str(tmp_path / "tokenizer.json")]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        outputs.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment))
    assert len(outputs[0].stdout.split()) == len(set(outputs[0].stdout.split())) == 4
    assert outputs[0].stdout == outputs[1].stdout
    assert outputs[0].stderr == outputs[1].stderr == ""


@pytest.mark.parametrize("kind", KINDS)
def test_learning_again_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    hashes = set()
    for _ in range(5):
        learn(kind).save(tmp_path / "tokenizer.json")
        hashes.add(hashlib.sha256((tmp_path / "tokenizer.json").read_bytes()).hexdigest())
    assert len(hashes) == 1


FORK = """
import os
from weft.text import TextConfig, Tokenizer
texts = [f"the {i} cats" for i in range(500)]
tokenizer = Tokenizer.learn(texts, TextConfig())
expected = tokenizer.encode_many(texts)
child = os.fork()
if child == 0:
    os._exit(0 if tokenizer.encode_many(texts) == expected else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_encodes_without_a_word() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("kind", ["char", "word", "bpe", "unigram"])
def test_pieces_are_what_people_read(kind: str) -> None:
    tokenizer = Tokenizer.learn(["près de l'hôpital"] * 4, TextConfig(kind=kind, size=300))
    ids = tokenizer.encode("près de")
    pieces = tokenizer.pieces([*ids, EOS])
    assert pieces[-1] == tokenizer.token(EOS)
    assert "è" in "".join(pieces)
    assert not any(" " in piece or "\ufffd" in piece for piece in pieces)
