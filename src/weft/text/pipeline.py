"""How each kind of tokenizer cuts text and joins it again, as parts of the `tokenizers` library.

    text → normalise (lower case) → split off special tokens → pre-tokenise → model → ids
    ids → tokens → decoder → text

| kind          | pre-tokenise                       | model                     | decoder                     |
|---------------|------------------------------------|---------------------------|-----------------------------|
| char          | nothing                            | BPE without merges        | bytes to characters         |
| bpe, unigram  | stretches of letters, digits, …,   | BPE, Unigram              | bytes to characters         |
|               | written as bytes                   |                           |                             |
| word          | words and punctuation, or blanks   | WordLevel                 | blanks, punctuation glued   |

All of it is written to tokenizer.json, so the file means the same to anybody who reads it with `tokenizers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers

from weft.errors import WeftError
from weft.text.config import TextConfig
from weft.text.vocabulary import SPECIALS, UNK, number

_LETTERS = r"[\p{L}\p{M}\p{N}_]+"
# \x{200C} and \x{200D} join letters in Persian and in the scripts of India.
WORD = rf"{_LETTERS}(?:(?:['’\-\x{{200C}}\x{{200D}}]|(?<=\p{{N}})[.,](?=\p{{N}})){_LETTERS})*|\S"
"""A word is letters and digits, with single apostrophes and hyphens inside it (don't, well-known) and with points and
commas between digits (3.14); any other visible character is a token of its own."""

GLUED_LEFT = r" (?=[\p{Pe}\p{Pf}.,;:!?…%])"
GLUED_RIGHT = r"(?<=[\p{Ps}\p{Pi}¿¡]) "
"""Words are joined by blanks, except before closing brackets and quotes and . , ; : ! ? … %, and after opening
brackets and quotes and ¿ ¡. A straight quote (") tells no side and keeps its blanks."""


def byte_tokens() -> list[str]:
    """The 256 entries that stand for bytes where a character itself is not in a vocabulary of characters."""
    return [f"<0x{byte:02X}>" for byte in range(256)]


def byte_letters() -> list[str]:
    """The 256 printable characters by which the subword models write bytes."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_splitter() -> pre_tokenizers.PreTokenizer:
    """Cuts text into stretches of letters, digits or others, with the blank before them, written in byte letters."""
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def character_model(entries: Iterable[str]) -> models.BPE:
    return models.BPE(vocab=number(entries), merges=[], unk_token=SPECIALS[UNK], byte_fallback=True)


def word_model(entries: Iterable[str]) -> models.WordLevel:
    return models.WordLevel(vocab=number(entries), unk_token=SPECIALS[UNK])


def bpe_model(vocab: dict[str, int], merges: list[tuple[str, str]]) -> models.BPE:
    return models.BPE(vocab=vocab, merges=merges)


def unigram_model(pieces: Iterable[tuple[str, float]]) -> models.Unigram:
    return models.Unigram(vocab=[*((token, 0.0) for token in SPECIALS), *pieces], unk_id=UNK, byte_fallback=False)


def empty_model(kind: str) -> models.Model:
    """The model of a kind with nothing but special tokens in it: what is trained, and what a file is compared with."""
    build: dict[str, Callable[[], models.Model]] = {
        "char": lambda: character_model([]),
        "word": lambda: word_model([]),
        "bpe": lambda: bpe_model(number([]), []),
        "unigram": lambda: unigram_model([]),
    }
    return build[kind]()


def assemble(model: models.Model, config: TextConfig) -> tokenizers.Tokenizer:
    """The whole tokenizer around a model whose vocabulary begins with the special tokens."""
    tokenizer = tokenizers.Tokenizer(model)
    if config.lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    if config.kind == "word":
        split = config.punctuation == "split"
        tokenizer.pre_tokenizer = _word_splitter() if split else pre_tokenizers.WhitespaceSplit()
        tokenizer.decoder = _word_joiner(glue=split)
    elif config.kind == "char":
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    else:
        tokenizer.pre_tokenizer = byte_splitter()
        tokenizer.decoder = decoders.ByteLevel()
    # normalized=True looks for the special tokens after lower-casing. Otherwise "<PAD>" would be passed over,
    # lower-cased, and then found in a vocabulary of words all the same.
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=True) for token in SPECIALS])
    return tokenizer


def normalizer(config: TextConfig) -> Callable[[str], str]:
    """The text as the tokenizer sees it. Python's `lower` differs from the library's at a final Greek sigma."""
    return normalizers.Lowercase().normalize_str if config.lowercase else str


@contextmanager
def no_panic(make: Callable[[str], WeftError]) -> Iterator[None]:
    """Turn a panic of the Rust library, which is no `Exception` and slips through every handler, into an error."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise make(str(error)) from None


def _word_splitter() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


def _word_joiner(*, glue: bool) -> decoders.Decoder:
    steps: list[decoders.Decoder] = [
        decoders.Replace(Regex(r"\A"), " "),
        decoders.Fuse(),
        decoders.Strip(" ", 1, 0),
    ]
    if glue:
        steps += [decoders.Replace(Regex(GLUED_LEFT), ""), decoders.Replace(Regex(GLUED_RIGHT), "")]
    return decoders.Sequence(steps)
