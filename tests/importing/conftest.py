"""Small checkpoints with random weights, written by transformers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

TEXT = "the quick brown fox jumps over the lazy dog while the small cat sleeps near a warm stove in winter"

Write = Callable[..., Path]


def jittered(model: Any) -> Any:
    """Biases and norms start at zeros and ones, where a mix-up would not be seen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn_like(parameter) + (0.5 if parameter.dim() == 1 else 0.0))
    return model.eval()


def save(model: Any, folder: Path) -> Path:
    jittered(model).save_pretrained(folder)
    return folder


def write_byte_pairs(folder: Path, *, specials: dict[str, int] | None = None, size: int = 320) -> Any:
    """A byte-level BPE tokenizer.json, as GPT-2 has it; the last entry is <|endoftext|>."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size - 1, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def sentencepiece(scores: dict[str, float], *, kind: int = 1) -> bytes:
    """A model of SentencePiece with these pieces after <unk>, without a table of characters."""
    pieces = field(1, field(1, b"<unk>") + varint(3 << 3) + varint(2))
    for piece, score in scores.items():
        pieces += field(1, field(1, piece.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score))
    return pieces + field(2, varint(3 << 3) + varint(kind)) + field(3, field(1, b"identity"))


@pytest.fixture
def gpt2(tmp_path: Path) -> Write:
    """gpt2(**settings) -> a folder."""
    transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

    def write(name: str = "gpt2", **settings: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        size = write_byte_pairs(folder).get_vocab_size()
        ids = {"bos_token_id": size - 1, "eos_token_id": size - 1}
        sizes = {"n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 40, "vocab_size": size}
        return save(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | ids | settings)), folder)

    return write


SOURCE = {
    "▁": -4.0,
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyz", -6.0),
    "▁the": -1.0,
    "▁cat": -2.0,
    "at": -3.0,
}
TARGET = {"▁": -4.0, **dict.fromkeys("abcdefghijklmnopqrstuvwxyzéè", -6.0), "▁le": -1.0, "▁chat": -2.0}


@pytest.fixture
def marian(tmp_path: Path) -> Write:
    """marian(**settings) -> a folder."""
    transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

    def write(name: str = "marian", languages: Sequence[str] = (), **settings: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        entries = ["</s>", "<unk>", *dict.fromkeys([*SOURCE, *TARGET, *languages]), "<pad>"]
        (folder / "vocab.json").write_text(json.dumps({entry: index for index, entry in enumerate(entries)}))
        (folder / "source.spm").write_bytes(sentencepiece(SOURCE))
        (folder / "target.spm").write_bytes(sentencepiece(TARGET))
        (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "fr"}))
        last = len(entries) - 1
        ids = {"pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0, "vocab_size": last + 1}
        sizes: dict[str, Any] = {"d_model": 32, "max_position_embeddings": 64, "scale_embedding": True}
        for side in ("encoder", "decoder"):
            sizes |= {f"{side}_layers": 2, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
        config = transformers.MarianConfig(**sizes | ids | {"activation_function": "swish"} | settings)
        model = transformers.MarianMTModel(config)
        jittered(model)
        model.final_logits_bias.normal_()
        model.save_pretrained(folder)
        return folder

    return write


WORDS = ["the", "quick", "brown", "fox", "cat", "sleeps", "jump", "##s", "##ing", "a", ",", ".", "!", "un", "##known"]


def write_wordpiece(folder: Path) -> int:
    """A vocab.txt, as BERT has it, with special tokens in the order of BERT; returns its size."""
    entries = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"bcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.txt").write_text("\n".join(entries) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    return len(entries)


def write_roberta(folder: Path) -> int:
    """vocab.json and merges.txt, as RoBERTa has them; returns the size."""
    write_byte_pairs(folder)
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "tokenizer.json").unlink()
    entries = ["<s>", "<pad>", "</s>", "<unk>", *model["vocab"], "<mask>"]
    (folder / "vocab.json").write_text(json.dumps({entry: index for index, entry in enumerate(entries)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(map(" ".join, model["merges"])) + "\n")
    return len(entries)


@pytest.fixture
def encoder(tmp_path: Path) -> Write:
    """encoder("BertForMaskedLM", **settings) -> a folder."""
    transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

    def write(architecture: str, **settings: Any) -> Path:
        folder = tmp_path / architecture
        folder.mkdir()
        family = architecture.partition("For")[0]
        size = (write_roberta if family == "Roberta" else write_wordpiece)(folder)
        if family == "DistilBert":
            sizes: dict[str, Any] = {"dim": 32, "n_heads": 2, "n_layers": 2, "hidden_dim": 48}
        else:
            sizes = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48}
        sizes |= {"vocab_size": size, "max_position_embeddings": 60}
        if family == "Roberta":
            sizes |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
        config = getattr(transformers, f"{family}Config")(**sizes | settings)
        return save(getattr(transformers, architecture)(config), folder)

    return write
