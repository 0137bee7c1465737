"""Vocabularies of all kinds and settings, learned from a few hard texts, and some as other software has them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from weft.importing.tokenizers import BYTE_LEVEL, MODEL_OPTIONS
from weft.importing.vocabulary import Pieces, arrange, build_tokenizer
from weft.text import EOS, SOS, SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.imported import HIDDEN

TEXTS = [
    "¿Qué (tal), señor? “Bien” … 3.5% [yes] y «no».",
    "naïve café\tin two lines\nof text ΑΣ ΣΑΣ Σ. İstanbul I'm we'll don't",
    "日本語 and \\<eos> too <eos> x 😀 👩\u200d👩 می\u200cخواهم שָׁלוֹם e\u0301 ½ ٣٫١٤ 1,000.5",
    "the quick brown fox, the quicker fox, the quickest foxes; quickly, quickness",
] * 3

KINDS: list[dict[str, Any]] = [
    {"kind": "char", "size": 300},
    {"kind": "word"},
    {"kind": "word", "punctuation": "keep"},
    {"kind": "bpe", "size": 400},
    {"kind": "bpe", "size": 261},
    {"kind": "unigram", "size": 400},
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"lowercase": True},
    {"unknown": "(tal),"},
    {"unknown": "<unk>"},
    {"unknown": "Straße", "lowercase": True},
    {"unknown": "\\<eos>"},
    {"unknown": "<0x41>"},
    {"unknown": "KſK", "lowercase": True},
]
CONFIGS = [TextConfig(**kind, **more) for kind in KINDS for more in SETTINGS]


@cache
def learned(config: int) -> Tokenizer:
    return Tokenizer.learn(TEXTS, CONFIGS[config])


def imported(**rules: Any) -> Tokenizer:
    """A byte-level BPE as GPT-2 has it, with <|endoftext|> as its only special token, which is in no text. Some of its
    entries are whole words that no merges lead to."""
    model = json.loads(learned(24).to_json())["model"]
    entries = [entry for entry in model["vocab"] if entry not in SPECIALS]
    cut = {**BYTE_LEVEL, "add_prefix_space": rules.pop("add_prefix_space", False)}
    pieces = Pieces(
        [*entries, "<|endoftext|>"],
        frozenset({len(entries)}),
        {
            "normalizer": rules.pop("normalizer", []),
            "pre_tokenizer": cut,
            "decoder": [BYTE_LEVEL],
            "model": {"type": "BPE", **MODEL_OPTIONS["BPE"], **rules},
        },
        merges=[(left, right) for left, right in model["merges"][::2] if len(left + right) < 4],
    )
    roles = {SOS: len(entries), EOS: len(entries)}
    return build_tokenizer(pieces, arrange(len(pieces.entries) + 2, roles), "here")


def wordpiece(**rules: Any) -> Tokenizer:
    """A WordPiece as BERT has it."""
    words = "the The quick un a b c e i x é ss s ' , . ! # ( ) [ ] 中 日 本 한 ᄒ α σ я 1 do not n't 's"
    inside = "s ing known a b c e i \u0301 é ss ß 1 ᅡ ᆫ 本"
    entries = ["[UNK]", "[CLS]", *words.split(), *(f"##{end}" for end in inside.split())]
    normal = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **rules}
    model = {"type": "WordPiece", "unk_token": HIDDEN + SPECIALS[UNK], "max_input_chars_per_word": 20}
    pieces = Pieces(
        entries,
        frozenset({0, 1}),
        {
            "normalizer": [{"type": "BertNormalizer", **normal}],
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": [{"type": "WordPiece", "prefix": "##", "cleanup": True}],
            "model": {**model, "continuing_subword_prefix": "##"},
        },
    )
    return build_tokenizer(pieces, arrange(len(entries) + 1, {UNK: 0, SOS: 1}), "here")
