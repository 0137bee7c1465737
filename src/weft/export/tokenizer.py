"""Tokenizers as other software reads them: the same ids for a text, the same text for ids.

a source       text <eos>             a prompt of a language model       <sos> text             a target    text
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final, Literal

import tokenizers
from tokenizers import AddedToken, processors

from weft.run import Run
from weft.run.folder import write_json
from weft.text import EOS, MASK, PAD, SOS, SPECIALS, UNK, Tokenizer

Frame = Literal["source", "prompt", "target"]

TEMPLATES: Final[dict[Frame, str | None]] = {
    "source": f"$A {SPECIALS[EOS]}",
    "prompt": f"{SPECIALS[SOS]} $A",
    "target": None,
}

TARGET: Final = "target"
"""The folder of the target's tokenizer, where the two sides have vocabularies of their own."""


def framed(tokenizer: Tokenizer, frame: Frame) -> tokenizers.Tokenizer:
    """A tokenizer of the `tokenizers` library that adds what the model expects around a text."""
    with tempfile.TemporaryDirectory(prefix="weft-export-") as folder:
        path = Path(folder, "tokenizer.json")
        tokenizer.save(path)
        found = tokenizers.Tokenizer.from_file(str(path))
    # What is special is left out of a decoded text; weft writes these two.
    found.add_tokens([AddedToken(SPECIALS[index], special=False, normalized=True) for index in (UNK, MASK)])
    template = TEMPLATES[frame]
    if template is not None:
        specials = [(SPECIALS[index], index) for index in (SOS, EOS)]
        found.post_processor = processors.TemplateProcessing(single=template, pair=None, special_tokens=specials)
    return found


def write_tokenizers(run: Run, folder: Path) -> None:
    """tokenizer.json and what transformers wants to know of it; the target's, if it differs, in a folder of its own."""
    codec, config = run.task.codec.tokenizers, run.config
    if config.task == "lm":
        _write(framed(codec[""], "prompt"), folder, side="left")
    elif "" in codec:
        _write(framed(codec[""], "source"), folder, side="right")
    else:
        _write(framed(codec["source"], "source"), folder, side="right")
        (folder / TARGET).mkdir()
        _write(framed(codec["target"], "target"), folder / TARGET, side="right")


def _write(tokenizer: tokenizers.Tokenizer, folder: Path, *, side: str) -> None:
    """`side` is where rows are padded."""
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": SPECIALS[PAD],
        "bos_token": SPECIALS[SOS],
        "eos_token": SPECIALS[EOS],
        "padding_side": side,
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
    }
    write_json(folder / "tokenizer_config.json", about)
