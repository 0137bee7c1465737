"""How each kind of tokenizer cuts text and joins it again, as parts of the `tokenizers` library.

    text → normalise (lower case) → pre-tokenise → model → ids
    ids → tokens → decoder → text

| kind          | pre-tokenise                       | model                     | decoder                     |
|---------------|------------------------------------|---------------------------|-----------------------------|
| char          | nothing                            | BPE without merges        | bytes to characters         |
| bpe, unigram  | stretches of letters, digits, …,   | BPE, Unigram              | bytes to characters         |
|               | written as bytes                   |                           |                             |
| word          | words and punctuation, or blanks   | WordLevel                 | blanks, punctuation glued   |

Special tokens are entries of the vocabulary and not `added_tokens` of the library, which it would find in any text. No
text is cut into an entry such as "<eos>": characters and bytes are single, the stretches of bpe and unigram and the
words of punctuation = "split" have no "<" beside letters, and words between blanks get a backslash (`LIKE_SPECIAL`).

All of it is written to tokenizer.json, so the file works the same way when `tokenizers` reads it directly. The one
exception is `text.unknown`: the `Tokenizer` cuts texts at the word that means unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers

from weft.errors import WeftError
from weft.text.rules import TextRules
from weft.text.vocabulary import LIKE_SPECIAL, SPECIALS, UNK, number

_LETTERS = r"[\p{L}\p{M}\p{N}_]+"
# \x{200C} and \x{200D} join letters in Persian and in the scripts of India.
WORD = rf"{_LETTERS}(?:(?:['’\-\x{{200C}}\x{{200D}}]|(?<=\p{{N}})[.,](?=\p{{N}})){_LETTERS})*|\S"
"""A word is letters and digits, with single apostrophes and hyphens inside it (don't, well-known) and with points and
commas between digits (3.14); any other visible character is a token of its own."""

GLUED_LEFT = r" (?=[\p{Pe}\p{Pf}.,;:!?…%])"
GLUED_RIGHT = r"(?<=[\p{Ps}\p{Pi}¿¡]) "
"""Words are joined by blanks, except before closing brackets and quotes and . , ; : ! ? … %, and after opening
brackets and quotes and ¿ ¡. A straight quote (") may open or close, so it keeps its blanks."""


def byte_tokens() -> list[str]:
    """The 256 entries that stand for bytes where a character itself is not in a vocabulary of characters."""
    return [f"<0x{byte:02X}>" for byte in range(256)]


def byte_letters() -> list[str]:
    """The 256 printable characters by which the subword models write bytes."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def letter_bytes() -> dict[str, int]:
    """Byte letter -> byte: visible characters of Latin-1 stand for themselves, the others are moved up in order."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {chr(256 + place): byte for place, byte in enumerate(hidden)}


_LETTER_BYTES = letter_bytes()


def letters_to_bytes(entry: str) -> bytes:
    """The bytes of an entry in byte letters."""
    return bytes(map(_LETTER_BYTES.__getitem__, entry))


def byte_splitter() -> pre_tokenizers.PreTokenizer:
    """Cuts text into stretches of letters, digits or others, with the blank before them, written in byte letters."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def in_byte_letters(text: str) -> str:
    """A text as the subword models write it."""
    letters = {byte: letter for letter, byte in letter_bytes().items()}
    return "".join(letters[byte] for byte in text.encode("utf-8"))


def character_model(entries: Iterable[str]) -> models.BPE:
    return models.BPE(vocab=number(entries), merges=[], unk_token=SPECIALS[UNK], byte_fallback=True)


def word_model(entries: Iterable[str]) -> models.WordLevel:
    return models.WordLevel(vocab=number(entries), unk_token=SPECIALS[UNK])


def bpe_model(vocab: dict[str, int], merges: list[tuple[str, str]]) -> models.BPE:
    return models.BPE(vocab=vocab, merges=merges)


def unigram_model(pieces: Iterable[tuple[str, float]]) -> models.Unigram:
    return models.Unigram(vocab=[*((token, 0.0) for token in SPECIALS), *pieces], unk_id=UNK, byte_fallback=False)


def empty_model(kind: str) -> models.Model:
    """The model of a kind with only the special tokens in it, to be trained, or to compare a file with."""
    build: dict[str, Callable[[], models.Model]] = {
        "char": lambda: character_model([]),
        "word": lambda: word_model([]),
        "bpe": lambda: bpe_model(number([]), []),
        "unigram": lambda: unigram_model([]),
    }
    return build[kind]()


def assemble(model: models.Model, config: TextRules) -> tokenizers.Tokenizer:
    """The whole tokenizer around a model whose vocabulary begins with the special tokens."""
    tokenizer = tokenizers.Tokenizer(model)
    changes: list[normalizers.Normalizer] = [normalizers.Lowercase()] if config.lowercase else []
    if config.kind == "word" and config.punctuation == "keep":
        changes.append(normalizers.Replace(Regex(rf"(?<!\S)(?={LIKE_SPECIAL}(?!\S))"), "\\"))
    if changes:
        tokenizer.normalizer = changes[0] if len(changes) == 1 else normalizers.Sequence(changes)
    if config.kind == "word":
        split = config.punctuation == "split"
        tokenizer.pre_tokenizer = _word_splitter() if split else pre_tokenizers.WhitespaceSplit()
        steps = [decoders.Replace(Regex(rf"\A\\(?={LIKE_SPECIAL}\z)"), ""), *_word_joiner(glue=split)]
    elif config.kind == "char":
        steps = [decoders.ByteFallback(), decoders.Fuse()]
    else:
        tokenizer.pre_tokenizer = byte_splitter()
        steps = [decoders.ByteLevel()]
    if config.unknown is not None and config.unknown != SPECIALS[UNK]:
        # The decoder of bpe and unigram reads every token as byte letters.
        said = config.unknown if config.kind in ("char", "word") else in_byte_letters(config.unknown)
        steps.insert(0, decoders.Replace(Regex(rf"\A{SPECIALS[UNK]}\z"), said))
    tokenizer.decoder = steps[0] if len(steps) == 1 else decoders.Sequence(steps)
    return tokenizer


def normalizer(config: TextRules) -> Callable[[str], str]:
    """The function that normalises texts for the tokenizer. Python's `lower` treats a final Greek sigma differently."""
    return normalizers.Lowercase().normalize_str if config.lowercase else str


@contextmanager
def no_panic(make: Callable[[str], WeftError]) -> Iterator[None]:
    """Turn a panic of the Rust library, which is not an `Exception` and so not caught elsewhere, into an error."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise make(str(error)) from None


def _word_splitter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


def _word_joiner(*, glue: bool) -> list[decoders.Decoder]:
    steps: list[decoders.Decoder] = [
        decoders.Replace(Regex(r"\A"), " "),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    if glue:
        steps += [decoders.Replace(Regex(GLUED_LEFT), ""), decoders.Replace(Regex(GLUED_RIGHT), "")]
    return steps
