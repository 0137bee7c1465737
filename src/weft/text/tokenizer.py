"""Text to token ids and back: learned from a stream of texts, kept in one tokenizer.json."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Final

import tokenizers
from tokenizers import models

from weft.disk import read_regular
from weft.errors import ConfigError, DataError, RunError
from weft.limits import TOKENIZER_FILE_BYTES, VOCABULARY
from weft.text.bpe import learn_bpe
from weft.text.characters import CharacterIds, learn_characters
from weft.text.file import parse_tokenizer
from weft.text.imported import entry_bytes, shown
from weft.text.pipeline import assemble, letters_to_bytes, no_panic, normalizer
from weft.text.rules import TextRules, check
from weft.text.unigram import learn_unigram
from weft.text.unknown import unknown_word
from weft.text.vocabulary import EOS, PAD, SOS, SPECIALS, UNK, entry_of
from weft.text.words import learn_split_words, learn_words

UNITS = {"char": "character", "word": "word", "bpe": "subword", "unigram": "subword", "imported": "subword"}

FILE_BYTES_PER_ENTRY = 128
"""Bytes that an entry of a few letters takes in a tokenizer's file, with its merge, at most."""

UNCHECKED_SHARE = 1 / 4
"""A learned vocabulary is checked as a file if its estimated size is above this share of `TOKENIZER_FILE_BYTES`."""

_LEARN = {"char": learn_characters, "word": learn_words, "bpe": learn_bpe, "unigram": learn_unigram}
_SILENT = frozenset({PAD, SOS, EOS})
EMPTY: Mapping[int, str] = MappingProxyType({})
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Characters by which Python represents bytes that are not UTF-8, for example on the command line."""

MAX_SERIAL_CHARACTERS: Final = 4096
"""Texts of no more characters together are encoded in the calling thread, in about a millisecond. For a batch the
library wakes threads of its own, which on a busy machine takes longer than that."""


class Tokenizer:
    """A vocabulary with the rules that cut text into its entries.

    For every kind but `word`, and any Unicode text s, `decode(encode(s)) == s`, or the lower-cased s with `lowercase`.
    Only ids are special: a text that contains "<eos>" is decoded unchanged. The one word that is read as the unknown
    token is `text.unknown` between blanks.
    """

    def __init__(self, inner: tokenizers.Tokenizer, config: TextRules) -> None:
        """Not called directly: use `learn`, `learn_words` or `load`."""
        self._inner = inner
        self._ids: dict[str, int] = inner.get_vocab()
        self._entry_bytes = _ENTRY_BYTES[config.kind]
        if config.kind == "imported":
            self._ids = {shown(entry): index for entry, index in self._ids.items()}
            self._entry_bytes = entry_bytes(inner)
        self._normalize = normalizer(config)
        self._unknown = unknown_word(config)
        self._characters = CharacterIds(self._ids, lowercase=config.lowercase) if config.kind == "char" else None
        self.config = config
        self.kind: str = config.kind
        self.unit: str = UNITS[config.kind]

    @classmethod
    def learn(cls, texts: Iterable[str], config: TextRules) -> Tokenizer:
        """Learn the vocabulary from a stream of texts, which is read once and not kept.

        The same texts give the same vocabulary. Subwords are learned from the first `SAMPLE_CHARACTERS`.
        """
        check(config)
        with no_panic(lambda reason: DataError(f"no vocabulary could be learned: {reason}")):
            return cls(assemble(_LEARN[config.kind](texts, config), config), config)._checked()

    @classmethod
    def learn_words(cls, sentences: Iterable[Sequence[str]], config: TextRules) -> Tokenizer:
        """Learn from sentences that are already split into words; `kind` must be "word"."""
        _check_words(config)
        check(config)
        return cls(assemble(learn_split_words(sentences, config), config), config)._checked()

    @classmethod
    def load(cls, path: str | Path, config: TextRules) -> Tokenizer:
        """Read what `save` wrote for the same config."""
        where = str(path)
        try:
            content = read_regular(Path(path), most=TOKENIZER_FILE_BYTES)
        except FileNotFoundError:
            raise RunError("there is no such file", where=where) from None
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror or error}", where=where) from None
        return cls.parse(content, config, where=where)

    @classmethod
    def parse(cls, content: bytes, config: TextRules, *, where: str, most: int = VOCABULARY) -> Tokenizer:
        """Read the content of a file that `save` wrote, with at most `most` entries; `where` names it in errors."""
        return cls(*parse_tokenizer(content, config, where, most=most))

    def with_settings(self, config: TextRules) -> Tokenizer:
        """Return the same vocabulary under settings of another task, which differ at most without effect."""
        inner = self._inner if config.kind == "imported" else assemble(self._inner.model, config)
        return Tokenizer(inner, config)

    def save(self, path: str | Path) -> None:
        """Write one JSON file that the `tokenizers` library reads as it is."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """The content of the file that `save` writes."""
        return self._inner.to_str(pretty=True)

    def _checked(self) -> Tokenizer:
        """The tokenizer itself; raises ConfigError before any training if `load` would reject its file."""
        letters = sum(map(len, self._ids))
        if max(letters, FILE_BYTES_PER_ENTRY * len(self)) > UNCHECKED_SHARE * TOKENIZER_FILE_BYTES:
            content = self._inner.to_str(pretty=True).encode("utf-8")
            try:
                if len(content) > TOKENIZER_FILE_BYTES:
                    raise RunError(f"its file has {len(content):,} bytes, and {TOKENIZER_FILE_BYTES:,} is the limit")
                parse_tokenizer(content, self.config, "the vocabulary")
            except RunError as error:
                raise ConfigError(error.what, where=f"text.size = {self.config.size}", cure="lower it") from None
        return self

    @property
    def drops_first_blank(self) -> bool:
        """Whether subwords have the blank before them, and the first one of a text loses it when it is decoded."""
        return self.kind == "imported" and not isinstance(self._inner.model, models.BPE)

    def encode(self, text: str) -> list[int]:
        """The ids of a text; no start or end token is added."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; many are computed on all cores."""
        if self._unknown is None:
            return self._encode(texts)
        parts = [self._unknown.split(text) for text in texts]
        found = iter(self._encode([part for own in parts for part in own]))
        encoded = []
        for own in parts:
            ids = next(found)
            for part in islice(found, len(own) - 1):
                ids.append(UNK)
                ids += part
            encoded.append(ids)
        return encoded

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        if self._characters is not None:
            found = [self._characters.encode(text) for text in texts]
            rest = iter(self._encode_by_library([text for text, ids in zip(texts, found, strict=True) if ids is None]))
            return [next(rest) if ids is None else ids for ids in found]
        return self._encode_by_library(texts)

    def _encode_by_library(self, texts: Sequence[str]) -> list[list[int]]:
        if not texts:
            return []
        with no_panic(lambda reason: DataError(f"a text cannot be encoded: {reason}")):
            try:
                if sum(map(len, texts)) <= MAX_SERIAL_CHARACTERS:
                    encodings = [self._inner.encode(text, add_special_tokens=False) for text in texts]
                else:
                    encodings = self._inner.encode_batch_fast(list(texts), add_special_tokens=False)
            except TypeError:
                broken = [text for text in texts if isinstance(text, str) and _SURROGATE.search(text)]
                if not broken:
                    raise
                what = f"a text has bytes that are not UTF-8: {broken[0]!a:.60}"
                raise DataError(what, cure="convert it to UTF-8") from None
        return [encoding.ids for encoding in encodings]

    def encode_words(self, words: Sequence[str]) -> list[int]:
        """One id for each word; a word may contain any character."""
        return self.encode_words_many([words])[0]

    def encode_words_many(self, sentences: Iterable[Sequence[str]]) -> list[list[int]]:
        """For each sentence, one id for each of its words."""
        _check_words(self.config)
        return [[self._word(word) for word in words] for words in sentences]

    def encode_split(self, words: Sequence[str]) -> list[list[int]]:
        """The ids of each word of a text that is split already, each with the blank before it where tokens have it."""
        blank = " " if isinstance(self._inner.model, models.BPE) else ""
        return [ids or [UNK] for ids in self.encode_many([blank + word for word in words])]

    def normalize(self, word: str) -> str:
        """A word as the vocabulary spells it: in lower case where the settings say so."""
        return self._normalize(word)

    def _word(self, word: str) -> int:
        if self._unknown is not None and self._unknown.fullmatch(word):
            return UNK
        return self._ids.get(entry_of(self._normalize(word)), UNK)

    def words(self, text: str) -> list[str]:
        """For each token of a text, the word that it belongs to as the text has it: in a vocabulary of words the token
        itself, else what stands between blanks. A token of blanks alone has an empty word."""
        return [text[first:last] for first, last in (self._word_at(text, *span) for span in self.spans(text))]

    def _word_at(self, text: str, first: int, last: int) -> tuple[int, int]:
        """The first character and the one after the last of the word around a token."""
        first += len(text[first:last]) - len(text[first:last].lstrip())
        if self.kind == "word" or first == last:
            return first, last
        while first > 0 and not text[first - 1].isspace():
            first -= 1
        while last < len(text) and not text[last].isspace():
            last += 1
        return first, last

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The first character of each token and the one after its last. Tokens that are bytes of one character have
        all of it."""
        spans: list[tuple[int, int]] = []
        begin = 0
        for found in () if self._unknown is None else self._unknown.finditer(text):
            spans += [*self._spans_in(text, begin, found.start()), found.span()]
            begin = found.end()
        return [*spans, *self._spans_in(text, begin, len(text))]

    def _spans_in(self, text: str, begin: int, end: int) -> list[tuple[int, int]]:
        offsets = self._inner.encode(text[begin:end], add_special_tokens=False).offsets
        return [(begin + first, begin + last) for first, last in offsets]

    def decode(self, ids: Iterable[int], *, copied: Mapping[int, str] = EMPTY) -> str:
        """The text of some ids. Padding, start and end are dropped, <mask> is kept, and the unknown token becomes
        `text.unknown` or else <unk>. In the places of `copied` stand other words."""
        if not copied:
            return self._inner.decode([index for index in ids if index not in _SILENT], skip_special_tokens=False)
        kept = [(place, index) for place, index in enumerate(ids) if index not in _SILENT]
        entries = [entry_of(copied[place]) if place in copied else self.token(index) for place, index in kept]
        return str(self._inner.decoder.decode(entries))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The vocabulary entry of each id; all entries differ. Subwords are written in byte letters; a word that is
        spelled like a special token has a backslash before it (\\<eos>)."""
        return [self.token(index) for index in ids]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The readable text of each id, with spaces as ▁ and special tokens by their names. If several ids spell a
        character in bytes, the last shows the character and the others their bytes, as in <C3> é."""
        pieces, pending = [], b""
        for index in ids:
            entry = self.token(index)
            if index < len(SPECIALS) or self.kind == "word":
                said, pending = entry, b""
            else:
                said, pending = read_bytes(self._bytes(entry), pending)
            pieces.append(said.replace(" ", "▁"))
        return pieces

    def contents(self) -> list[bytes]:
        """The UTF-8 bytes of each entry of a vocabulary of characters or subwords; special tokens have none."""
        entries = sorted(self._ids, key=self._ids.__getitem__)
        return [b"" if index < len(SPECIALS) else self._bytes(entry) for index, entry in enumerate(entries)]

    def _bytes(self, entry: str) -> bytes:
        """The UTF-8 bytes of an entry that is not a special token."""
        return self._entry_bytes(entry)

    def token(self, index: int) -> str:
        """The vocabulary entry of an id."""
        entry = self._inner.id_to_token(index)
        if entry is None:
            raise IndexError(f"token id {index} is not below the vocabulary size {len(self)}")
        return shown(entry) if self.kind == "imported" else entry

    def id(self, token: str) -> int:
        """The id of a vocabulary entry, or that of the unknown token if there is no such entry."""
        return self._ids.get(token, UNK)

    def __len__(self) -> int:
        """The number of entries, special tokens included."""
        return len(self._ids)


def _character_bytes(entry: str) -> bytes:
    return bytes([int(entry[3:5], 16)]) if len(entry) > 1 else entry.encode("utf-8")


_ENTRY_BYTES: Mapping[str, Callable[[str], bytes]] = defaultdict(lambda: letters_to_bytes, char=_character_bytes)
"""The bytes of an entry, by the kind of its vocabulary."""


def read_bytes(new: bytes, pending: bytes) -> tuple[str, bytes]:
    """Decode new bytes after pending ones, which begin a character; returns the text and the bytes still pending.

    The last byte of a character adds the character. Other bytes are written in hexadecimal digits, as <C3>.
    """
    said, data, seen = "", pending + new, len(pending)
    while data:
        try:
            return said + data.decode("utf-8"), b""
        except UnicodeDecodeError as error:
            said += data[: error.start].decode("utf-8")
            bare = data[error.start : error.end]
            said += "".join(f"<{byte:02X}>" for byte in bare[max(0, seen - error.start) :])
            if error.end == len(data) and error.reason == "unexpected end of data":
                return said, bare
            data, seen = data[error.end :], max(0, seen - error.end)
    return said, b""


def _check_words(config: TextRules) -> None:
    if config.kind != "word":
        raise ConfigError(
            f'"{config.kind}" does not give one token for each word', where="text.kind", cure='use "word" for tagging'
        )
