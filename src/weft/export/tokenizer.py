"""Export of tokenizers: other software gets the same ids for a text, and the same text for ids.

a source       text <eos>             a prompt of a language model       <sos> text             a target    text

Tokens that are removed from a decoded text must be special there, and special tokens are found in texts: <eos> in
"a <eos>". It is read as text with `split_special_tokens` of transformers, and with `encode_special_tokens = True` of
`tokenizers`, which cannot be stored in a file.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final, Literal

import tokenizers
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers, processors

from weft.models import LanguageModel
from weft.run import Run
from weft.run.folder.files import write_json
from weft.text import EOS, PAD, SOS, SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.pipeline import normalizer
from weft.text.vocabulary import entry_of

Frame = Literal["source", "prompt", "target"]

TEMPLATES: Final[dict[Frame, str | None]] = {
    "source": f"$A {SPECIALS[EOS]}",
    "prompt": f"{SPECIALS[SOS]} $A",
    "target": None,
}

BREAK: Final = "\ufdd0"
"""A code point that Unicode reserves for use inside programs."""

TARGET: Final = "target"
"""The folder of the target's tokenizer, where the two sides have different vocabularies."""


def framed(tokenizer: Tokenizer, frame: Frame) -> tokenizers.Tokenizer:
    """Return a tokenizer of the `tokenizers` library that adds the special tokens which the model expects."""
    with tempfile.TemporaryDirectory(prefix="weft-export-") as folder:
        path = Path(folder, "tokenizer.json")
        tokenizer.save(path)
        found = tokenizers.Tokenizer.from_file(str(path))
    if tokenizer.config.unknown is not None:
        _read_unknown(found, tokenizer.config, tokenizer.config.unknown)
    # Special tokens are removed from a decoded text; weft keeps the other two.
    found.add_special_tokens([AddedToken(SPECIALS[index], special=True, normalized=False) for index in (PAD, SOS, EOS)])
    template = TEMPLATES[frame]
    if template is not None:
        specials = [(SPECIALS[index], index) for index in (SOS, EOS)]
        found.post_processor = processors.TemplateProcessing(single=template, pair=None, special_tokens=specials)
    return found


def _read_unknown(found: tokenizers.Tokenizer, config: TextConfig, unknown: str) -> None:
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
    elif "" in codec:
        _write(framed(codec[""], "source"), folder, side="right")
    else:
        _write(framed(codec["source"], "source"), folder, side="right")
        (folder / TARGET).mkdir()
        _write(framed(codec["target"], "target"), folder / TARGET, side="right")


def _write(tokenizer: tokenizers.Tokenizer, folder: Path, *, side: str) -> None:
    """Write one tokenizer; `side` is where rows are padded."""
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": SPECIALS[PAD],
        "bos_token": SPECIALS[SOS],
        "eos_token": SPECIALS[EOS],
        "padding_side": side,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
    }
    write_json(folder / "tokenizer_config.json", about)
