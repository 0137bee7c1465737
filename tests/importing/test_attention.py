"""The attention of imported models, every layer and head: the weights that transformers returns."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import weft
from weft.inspect import attention

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

CLOSE = {"atol": 1e-4, "rtol": 1e-4}


def assert_heads(run: weft.Run, text: str, part: str, expected: tuple[torch.Tensor, ...], **options: str) -> None:
    for layer, weights in enumerate(expected, 1):
        for head in range(weights.size(1)):
            found = attention(run, text, part=part, layer=layer, head=head + 1, **options)
            assert_close(torch.from_numpy(found.weights), weights[0, head], **CLOSE)


@pytest.mark.covers("I3")
@torch.no_grad()
def test_gpt2(gpt2, tmp_path) -> None:
    folder = gpt2()
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager")
    text = "the quick brown fox"
    ids = [theirs.config.eos_token_id, *(index - 5 for index in run.task.tokenizer.encode(text))]
    expected = theirs(torch.tensor([ids]), output_attentions=True).attentions
    rows = len(attention(run, text).rows)
    assert_heads(run, text, "decoder", tuple(layer[:, :, :rows, :rows] for layer in expected))


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "RobertaForMaskedLM", "DistilBertForMaskedLM"])
@torch.no_grad()
def test_encoders(encoder, tmp_path, architecture) -> None:
    folder = encoder(architecture)
    run = weft.import_run(folder, tmp_path / "run")
    theirs = getattr(transformers, architecture).from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = getattr(transformers, f"{architecture.partition('For')[0]}TokenizerFast").from_pretrained(folder)
    text = "the quick brown fox sleeps"
    expected = theirs(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions
    assert_heads(run, text, "encoder", expected)


@torch.no_grad()
def test_marian(marian, tmp_path) -> None:
    pytest.importorskip("sentencepiece", reason="the package sentencepiece is not installed")
    folder = marian()
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.MarianMTModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    source = tokenizer("the cat", return_tensors="pt")
    target = tokenizer(text_target="le chat", return_tensors="pt")["input_ids"]
    found = theirs(**source, labels=target, output_attentions=True)
    assert_heads(run, "the cat", "cross", found.cross_attentions, target="le chat")
    assert_heads(run, "the cat", "encoder", found.encoder_attentions, target="le chat")
    assert_heads(run, "the cat", "decoder", found.decoder_attentions, target="le chat")
