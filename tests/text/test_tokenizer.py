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
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import WhitespaceSplit

from weft.errors import ConfigError, DataError
from weft.text import EOS, MASK, PAD, SOS, SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.tokenizer import MAX_SERIAL_CHARACTERS, read_bytes

LAW = settings(deadline=None, max_examples=60)

KINDS = ("char", "word", "bpe", "unigram")
EXACT = ("char", "bpe", "unigram")
TINY = ["The cat sat.", "The dog, too!", "A rat ran", "on the mat", "ß"]

LEARNED = {kind: Tokenizer.learn(TINY, TextConfig(kind=kind)) for kind in KINDS}
LOWERED = {kind: Tokenizer.learn(TINY, TextConfig(kind=kind, lowercase=True)) for kind in KINDS}

BLANKS = [" ", "  ", "\n", "\t", "\r\n", "\x00", "\ufeff"]
JOINED = ["e\u0301", "é", "👩\u200d👩\u200d👧", "🇫🇷", "İ", "Σ"]
FRAGMENTS = st.sampled_from([*SPECIALS, "<UNK>", "<pa", "d>", "\\", "<0x41>", "Ġ", *BLANKS, *JOINED])
TEXTS = st.lists(FRAGMENTS | st.text(max_size=8), max_size=12).map("".join)


def learn(kind: str, texts: list[str] = TINY, **settings: object) -> Tokenizer:
    return Tokenizer.learn(iter(texts), TextConfig.model_validate({"kind": kind, **settings}))


@pytest.mark.covers("T1")
@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_any_text_comes_back_exactly(kind: str, text: str) -> None:
    tokenizer = LEARNED[kind]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_no_id_is_special_because_of_a_text(kind: str, text: str) -> None:
    assert min(LEARNED[kind].encode(text), default=MASK + 1) > MASK
    assert min(LOWERED[kind].encode(text), default=MASK + 1) > MASK


@pytest.mark.parametrize("lowercase", [False, True])
@LAW
@given(text=TEXTS)
def test_words_between_blanks_come_back_whatever_they_are(lowercase: bool, text: str) -> None:
    tokenizer = learn("word", [text, "x"], punctuation="keep", lowercase=lowercase)
    ids = tokenizer.encode(text)
    assert min(ids, default=MASK + 1) > MASK
    expected = " ".join(word for word, _ in WhitespaceSplit().pre_tokenize_str(text))
    assert tokenizer.decode(ids) == (Lowercase().normalize_str(expected) if lowercase else expected)
    assert min(learn("word", [text, "x"], lowercase=lowercase).encode(text), default=MASK + 1) > MASK


@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_lower_cased_text_comes_back_exactly(kind: str, text: str) -> None:
    tokenizer = LOWERED[kind]
    lowered = tokenizer.decode(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(lowered)) == lowered
    if text.isascii():
        assert lowered == text.lower()


@pytest.mark.parametrize("kind", KINDS)
@LAW
@given(texts=st.lists(TEXTS, max_size=5))
def test_many_texts_are_encoded_as_one_by_one(kind: str, texts: list[str]) -> None:
    tokenizer = LEARNED[kind]
    assert tokenizer.encode_many(texts) == [tokenizer.encode(text) for text in texts]


@pytest.mark.covers("T2")
@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_have_the_first_five_ids(kind: str) -> None:
    tokenizer = learn(kind)
    assert tokenizer.tokens(range(5)) == list(SPECIALS)
    assert [tokenizer.id(token) for token in SPECIALS] == [PAD, UNK, SOS, EOS, MASK]


def test_a_word_like_a_special_token_has_an_entry_of_its_own() -> None:
    tokenizer = learn("word", ["<eos> a <eos>", r"\<eos>"], punctuation="keep")
    ids = tokenizer.encode(r"a <eos> \<eos> b")
    assert tokenizer.tokens(ids) == ["a", r"\<eos>", r"\\<eos>", "<unk>"]
    assert EOS not in ids
    assert tokenizer.decode([*ids, EOS]) == r"a <eos> \<eos> <unk>"
    assert tokenizer.pieces([*ids[:2], EOS]) == ["a", r"\<eos>", "<eos>"]


@pytest.mark.parametrize("unknown", ["<unk>", "UNK", "[UNK]", "ñ"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_word_may_mean_unknown(kind: str, unknown: str) -> None:
    corpus = [f"{unknown} {text} {unknown} {unknown}" for text in TINY]
    tokenizer = learn(kind, corpus, unknown=unknown)
    spaced = learn(kind, [f"  {text} " for text in TINY])
    assert sorted(tokenizer.tokens(range(len(tokenizer)))) == sorted(spaced.tokens(range(len(spaced))))
    text = f"{unknown} cat {unknown}\n{unknown} sat"
    ids = tokenizer.encode(text)
    assert ids.count(UNK) == 3
    assert ids[0] == UNK
    assert tokenizer.decode(ids) == (text.replace("\n", " ") if kind == "word" else text)
    if kind != "word":
        assert UNK not in tokenizer.encode(f"cat{unknown} {unknown}s"), "between blanks only"
    assert tokenizer.encode_many([text, "cat", ""]) == [ids, tokenizer.encode("cat"), []]


def test_the_case_of_an_unknown_word_counts_where_case_does() -> None:
    assert UNK in learn("char", lowercase=True, unknown="<unk>").encode("a <UNK>")
    assert UNK not in learn("char", unknown="<unk>").encode("a <UNK>")


def test_the_word_that_means_unknown_is_one_word() -> None:
    for wrong in ("", "a b", " "):
        with pytest.raises(ValidationError, match="is not one word without blanks"):
            TextConfig(unknown=wrong)


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


@pytest.mark.covers("T2")
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
@pytest.mark.parametrize("corpus", [[], ["", ""], ["<unk>", ""]])
def test_an_empty_corpus_is_an_error(kind: str, corpus: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn a vocabulary from"):
        learn(kind, corpus, unknown="<unk>")


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


@pytest.mark.parametrize("kind", EXACT)
def test_pieces_of_unseen_characters_are_bytes_and_then_the_character(kind: str) -> None:
    tokenizer = learn(kind, ["a cat"])
    assert tokenizer.pieces(tokenizer.encode("a é😀")) == [*"a▁", "<C3>", "é", "<F0>", "<9F>", "<98>", "😀"]
    euro = tokenizer.encode("€")
    assert tokenizer.pieces([*euro[:2], EOS, *euro[1:], *euro]) == [
        *("<E2>", "<82>", "<eos>", "<82>", "<AC>"),
        *("<E2>", "<82>", "€"),
    ]


@pytest.mark.parametrize("kind", EXACT)
@LAW
@given(text=TEXTS)
def test_pieces_without_bytes_are_the_text(kind: str, text: str) -> None:
    tokenizer = LEARNED[kind]
    pieces = tokenizer.pieces(tokenizer.encode(text))
    bare = "".join(re.sub(r"(<[0-9A-F]{2}>)+\Z", "", piece) for piece in pieces)
    assume(not re.search("<[0-9A-F]{2}>", text))
    assert bare == text.replace(" ", "▁")


def test_a_piece_shows_a_character_that_it_completes() -> None:
    assert read_bytes("caf\u00e9s".encode()[:4], b"") == ("caf<C3>", b"\xc3")
    assert read_bytes(b"\xa9s", b"\xc3") == ("és", b"")
    assert read_bytes(b"s", b"\xc3") == ("s", b"")
    assert read_bytes(b"\xff\xe2\x82", b"\xe2\x82") == ("<FF><E2><82>", b"\xe2\x82")


@given(st.text(), st.booleans())
def test_characters_are_looked_up_as_the_library_does(text: str, lowercase: bool) -> None:
    tokenizer = Tokenizer.learn(["The quick brown fox, Ärger, Σίσυφος"], TextConfig(kind="char", lowercase=lowercase))
    assert tokenizer.encode(text) == tokenizer._encode_by_library([text])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_few_texts_get_the_ids_that_they_get_among_many(kind: str) -> None:
    tokenizer, texts = LEARNED[kind], [*TINY, "", "é ü 👩\u200d👧", "<eos> \x00"]
    many = texts * (MAX_SERIAL_CHARACTERS // sum(map(len, texts)) + 1)
    assert sum(map(len, texts)) <= MAX_SERIAL_CHARACTERS < sum(map(len, many))
    assert tokenizer.encode_many(many)[: len(texts)] == tokenizer.encode_many(texts)


@pytest.mark.parametrize("count", [1, MAX_SERIAL_CHARACTERS])
def test_a_text_that_is_not_utf_8_is_refused_among_few_and_many(count: int) -> None:
    with pytest.raises(DataError, match="not UTF-8"):
        LEARNED["bpe"].encode_many(["ab"] * count + ["\udc80"])
