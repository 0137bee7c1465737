"""Export of tokenizers: other software gets the same ids for a text, and the same text for ids.

a source       text <eos>             a prompt of a language model       <sos> text             a target    text
a source that a decoder alone reads   text <eos> <sos>

Tokens that are removed from a decoded text must be special there, and special tokens are found in texts: <eos> in
"a <eos>". It is read as text with `split_special_tokens` of transformers, and with `encode_special_tokens = True` of
`tokenizers`, which cannot be stored in a file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import tokenizers
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers, processors

from weft.models import LanguageModel, PrefixTranslator
from weft.run import Run
from weft.run.folder.files import write_json
from weft.text import EOS, MASK, PAD, SOS, SPECIALS, UNK, FramedText, TextRules, Tokenizer
from weft.text.imported import with_plain_specials
from weft.text.pipeline import normalizer
from weft.text.vocabulary import entry_of

Frame = Literal["source", "prompt", "prefix", "target", "bert", "roberta"]

TEMPLATES: Final[dict[Frame, tuple[str, str] | None]] = {
    "source": ("$A {eos}", ""),
    "prompt": ("{sos} $A", ""),
    "prefix": ("$A {eos} {sos}", ""),
    "target": None,
    "bert": ("{sos} $A {eos}", "{sos} $A {eos} $B:1 {eos}:1"),
    "roberta": ("{sos} $A {eos}", "{sos} $A {eos} {eos} $B {eos}"),
}
"""The tokens around a text, and around two texts where a model reads two."""

BREAK: Final = "\ufdd0"
"""A code point that Unicode reserves for use inside programs."""

TARGET: Final = "target"
"""The folder of the target's tokenizer, where the two sides have different vocabularies."""


def framed(tokenizer: Tokenizer, frame: Frame) -> tokenizers.Tokenizer:
    """Return a tokenizer of the `tokenizers` library that adds the special tokens which the model expects."""
    imported = tokenizer.kind == "imported"
    found = tokenizers.Tokenizer.from_str(with_plain_specials(tokenizer.to_json()) if imported else tokenizer.to_json())
    if tokenizer.config.unknown is not None:
        _read_unknown(found, tokenizer.config, tokenizer.config.unknown)
    # Special tokens are removed from a decoded text; weft keeps the other two.
    names = special_entries(found)
    found.add_special_tokens([AddedToken(names[index], special=True, normalized=False) for index in (PAD, SOS, EOS)])
    template = TEMPLATES[frame]
    if template is not None:
        single, pair = (part.format(sos=names[SOS], eos=names[EOS]) for part in template)
        specials = [(names[index], index) for index in (SOS, EOS)]
        found.post_processor = processors.TemplateProcessing(single=single, pair=pair or None, special_tokens=specials)
    return found


def special_entries(tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Return the entries of the special tokens."""
    return [str(tokenizer.id_to_token(index)) for index in range(len(SPECIALS))]


def _read_unknown(found: tokenizers.Tokenizer, config: TextRules, unknown: str) -> None:
    """Encode the word that means unknown as the unknown token: it is replaced by <unk>, which is found in texts.

    Any other <unk> is broken by a character that no text has, and is split there into tokens of its parts.
    """
    between_blanks = config.kind == "word" and config.punctuation == "keep"
    word = normalizer(config)(unknown)
    steps = [normalizers.Replace(Regex(_alone(entry_of(word) if between_blanks else word)), SPECIALS[UNK])]
    if not between_blanks:
        # The library finds an entry by what the steps make of it alone, so a text that is nothing but <unk> stays.
        kept = _alone(SPECIALS[UNK]) if word == SPECIALS[UNK] else rf"\A{SPECIALS[UNK]}\z"
        steps.insert(
            0, normalizers.Replace(Regex(rf"(?!{kept}){SPECIALS[UNK]}"), SPECIALS[UNK].replace("<", f"<{BREAK}"))
        )
        cuts = [] if found.pre_tokenizer is None else [found.pre_tokenizer]
        found.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(BREAK, "removed"), *cuts])
        found.add_tokens([AddedToken(SPECIALS[UNK], special=False, normalized=True)])
    before = [] if found.normalizer is None else [found.normalizer]
    found.normalizer = normalizers.Sequence([*before, *steps])


def _alone(word: str) -> str:
    """Return the pattern of a word between blanks."""
    return rf"(?<!\S){re.escape(word)}(?!\S)"


def write_tokenizers(run: Run, folder: Path) -> None:
    """Write tokenizer.json and its configuration; a different tokenizer of the target has a folder of its own."""
    codec = run.task.codec.tokenizers
    if isinstance(run.model, LanguageModel):
        _write(framed(codec[""], "prompt"), folder, side="left")
    elif isinstance(run.model, PrefixTranslator):
        _write(framed(run.task.codec.side("source"), "prefix"), folder, side="left")
    elif "" in codec:
        _write(framed(codec[""], "source"), folder, side="right")
    else:
        _write(framed(codec["source"], "source"), folder, side="right")
        (folder / TARGET).mkdir()
        _write(framed(codec["target"], "target"), folder / TARGET, side="right")


def write_reader(run: Run, folder: Path) -> None:
    """Write the tokenizer of a model that reads whole texts, with the tokens around them of `text.frame`."""
    text = run.config.text
    assert isinstance(text, FramedText)
    assert text.frame != "end"
    (tokenizer,) = run.task.codec.tokenizers.values()
    _write(framed(tokenizer, text.frame), folder, side="right", reads=True)


def _write(tokenizer: tokenizers.Tokenizer, folder: Path, *, side: str, reads: bool = False) -> None:
    """Write one tokenizer; `side` is where rows are padded."""
    tokenizer.save(str(folder / "tokenizer.json"))
    names = special_entries(tokenizer)
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": names[PAD],
        **({"cls_token": names[SOS], "sep_token": names[EOS], "mask_token": names[MASK]} if reads else {}),
        **({} if reads else {"bos_token": names[SOS], "eos_token": names[EOS]}),
        "padding_side": side,
        "model_input_names": ["input_ids", *["token_type_ids"] * reads, "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
    }
    write_json(folder / "tokenizer_config.json", about)
