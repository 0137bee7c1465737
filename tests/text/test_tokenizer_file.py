"""The tokenizer.json: the same tokenizer comes back, other people read it, and a bad file is refused by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from weft.errors import ConfigError, DataError, RunError
from weft.text import EOS, SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.pipeline import no_panic

KINDS = ("char", "word", "bpe", "unigram")
TEXT = "The (big) cat <unk> sat\n on  the mät, 日本! <MASK> <eos><eos> \\<pad>"


def save(path: Path, **settings: object) -> Tokenizer:
    tokenizer = Tokenizer.learn(["The cat sat on the mat.", "Two!"], TextConfig.model_validate(settings))
    tokenizer.save(path)
    return tokenizer


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_comes_back(kind: str, lowercase: bool, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer = save(path, kind=kind, lowercase=lowercase)
    loaded = Tokenizer.load(path, tokenizer.config)
    assert loaded.tokens(range(len(loaded))) == tokenizer.tokens(range(len(tokenizer)))
    assert loaded.encode(TEXT) == tokenizer.encode(TEXT)
    assert loaded.decode(loaded.encode(TEXT)) == tokenizer.decode(tokenizer.encode(TEXT))
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_library_alone_encodes_and_decodes_alike(kind: str, tmp_path: Path) -> None:
    tokenizer = save(tmp_path / "tokenizer.json", kind=kind, lowercase=True)
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    ids = library.encode(TEXT).ids
    assert ids == tokenizer.encode(TEXT)
    assert library.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("unknown", ["<unk>", "[UNK]"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_word_that_means_unknown_comes_back(kind: str, unknown: str, lowercase: bool, tmp_path: Path) -> None:
    cut = {"punctuation": "keep"} if kind == "word" else {}
    tokenizer = save(tmp_path / "tokenizer.json", kind=kind, unknown=unknown, lowercase=lowercase, **cut)
    loaded = Tokenizer.load(tmp_path / "tokenizer.json", tokenizer.config)
    ids = loaded.encode(f"the {unknown} cat")
    assert ids == tokenizer.encode(f"the {unknown} cat")
    assert UNK in ids
    assert loaded.decode(ids) == f"the {unknown} cat"


def as_earlier_versions_wrote(path: Path) -> None:
    """Special tokens are also `added_tokens`, which the library finds in any text, and no word is escaped."""
    description = json.loads(path.read_text(encoding="utf-8"))
    how = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    description["added_tokens"] = [{"id": index, "content": token, **how} for index, token in enumerate(SPECIALS)]
    if description["model"]["type"] == "WordLevel":
        kept = [part for part in [description["normalizer"]] if part and part["type"] == "Lowercase"]
        description["normalizer"] = kept[0] if kept else None
        assert description["decoder"]["decoders"].pop(0)["type"] == "Replace"
    path.write_text(json.dumps(description), encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, given) for kind in KINDS for given in ({}, {"lowercase": True})), ("word", {"punctuation": "keep"})],
)
def test_a_file_of_an_earlier_version_is_read(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    today = save(path, kind=kind, **settings)
    as_earlier_versions_wrote(path)
    assert EOS in tokenizers.Tokenizer.from_file(str(path)).encode("the <eos>").ids
    loaded = Tokenizer.load(path, today.config)
    assert loaded.tokens(range(len(loaded))) == today.tokens(range(len(today)))
    assert loaded.encode("the cat <eos><pad>") == today.encode("the cat <eos><pad>")
    assert loaded.encode("<unk>") == [UNK], "models were trained with it as the unknown token"
    loaded.save(path)
    assert Tokenizer.load(path, loaded.config).encode("the <unk>") == loaded.encode("the <unk>")


def test_split_words_come_back(tmp_path: Path) -> None:
    tokenizer = Tokenizer.learn_words([["e. g.", "New York"]], TextConfig(kind="word"))
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json", tokenizer.config)
    assert loaded.encode_words(["New York", "e. g."]) == [5, 6]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"tokenizer\.json: there is no such file"):
        Tokenizer.load(tmp_path / "tokenizer.json", TextConfig())


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"model": {}}', b'{"version": "1.0"', b"\x00" * 9]
)
def test_a_damaged_file_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(RunError, match=re.escape(str(path))):
        Tokenizer.load(path, TextConfig())


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_a_cut_off_file_is_refused(keep: float, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    save(path, kind="bpe")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(RunError, match="is damaged"):
        Tokenizer.load(path, TextConfig())


def padded(description: dict[str, Any]) -> None:
    description["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<pad>",
    }


def endless(description: dict[str, Any]) -> None:
    description["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }


def growing(description: dict[str, Any]) -> None:
    description["normalizer"] = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10_000}


def random_merges(description: dict[str, Any]) -> None:
    description["model"]["dropout"] = 0.5


def gap(description: dict[str, Any]) -> None:
    description["model"]["vocab"]["a"] = 1_000_000


def found_in_texts(description: dict[str, Any]) -> None:
    how = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    description["added_tokens"] = [{"id": 3, "content": "<eos>", **how}]


def no_special(description: dict[str, Any]) -> None:
    vocab = description["model"]["vocab"]
    vocab["<pad>"], vocab["<unk>"] = 1, 0


def no_bytes(description: dict[str, Any]) -> None:
    vocab = description["model"]["vocab"]
    last = max(vocab, key=vocab.__getitem__)
    description["model"]["merges"] = [pair for pair in description["model"]["merges"] if "".join(pair) != last]
    vocab["stolen"] = vocab.pop("ÿ")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (padded, "padding differ"),
        (endless, "pre_tokenizer differ"),
        (growing, "normalizer differ"),
        (random_merges, "model differ"),
        (found_in_texts, "added_tokens differ"),
        (no_special, "does not begin with <pad>, <unk>"),
        (gap, "ids that are not 0, 1, 2"),
        (no_bytes, "lacks some of the 256 bytes"),
    ],
)
def test_a_foreign_file_is_refused(spoil: Callable[[dict[str, Any]], None], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    save(path, kind="bpe")
    description = json.loads(path.read_text(encoding="utf-8"))
    spoil(description)
    path.write_text(json.dumps(description), encoding="utf-8")
    with pytest.raises(RunError, match=reason):
        Tokenizer.load(path, TextConfig())


@pytest.mark.parametrize("settings", [{"kind": "bpe"}, {"lowercase": True}, {"punctuation": "keep"}])
def test_a_file_of_another_config_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    save(tmp_path / "tokenizer.json", kind="word")
    with pytest.raises(RunError, match="is not a tokenizer of kind"):
        Tokenizer.load(tmp_path / "tokenizer.json", TextConfig.model_validate({"kind": "word", **settings}))


@pytest.mark.usefixtures("capfd")
def test_a_panic_of_the_library_becomes_an_error() -> None:
    library = tokenizers.Tokenizer(tokenizers.models.BPE())
    library.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("(a+)+$"), "isolated")
    with (
        pytest.raises(DataError, match=r"cannot be encoded: .*retry-limit"),
        no_panic(lambda reason: DataError(f"cannot be encoded: {reason}")),
    ):
        library.encode("a" * 30 + "b")


def test_other_interrupts_pass() -> None:
    with pytest.raises(KeyboardInterrupt), no_panic(DataError):
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_that_could_not_be_loaded_is_not_learned(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better to hear of it now than after a training."""
    monkeypatch.setattr("weft.text.tokenizer.TOKENIZER_FILE_BYTES", 4000)
    with pytest.raises(ConfigError, match=r"text\.size = 8000: its file has [\d,]+ bytes, and 4,000 is the limit"):
        Tokenizer.learn([f"word{number}" for number in range(400)], TextConfig.model_validate({"kind": kind}))


def test_pieces_with_too_many_beginnings_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokenizer.json"
    config = save(path, kind="unigram").config
    pieces = [piece for piece, _ in json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]]
    beginnings = len({piece[:end] for piece in pieces for end in range(1, len(piece) + 1)})
    assert beginnings < sum(map(len, pieces))
    for most in (beginnings, sum(map(len, pieces))):
        monkeypatch.setattr("weft.text.file.PIECES", most)
        Tokenizer.load(path, config)
    monkeypatch.setattr("weft.text.file.PIECES", beginnings - 1)
    with pytest.raises(RunError, match="has pieces with more than"):
        Tokenizer.load(path, config)


def test_a_file_of_another_version_of_the_library_is_read(tmp_path: Path) -> None:
    """Parts that one version writes and another leaves out mean the same, as long as the library says so."""
    path = tmp_path / "tokenizer.json"
    tokenizer = save(path, kind="bpe")
    description = json.loads(path.read_text(encoding="utf-8"))
    for part in ("truncation", "padding", "post_processor"):
        assert description.pop(part) is None
    path.write_text(json.dumps(description), encoding="utf-8")
    assert Tokenizer.load(path, tokenizer.config).encode(TEXT) == tokenizer.encode(TEXT)
