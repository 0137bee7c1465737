"""Checkpoints with random weights, imported: the same tokens, numbers and texts as in transformers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import weft
from weft.decoding import DecodeConfig, search
from weft.export import export_run
from weft.text import EOS, MASK, PAD, SOS, UNK

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")

CLOSE = {"atol": 1e-4, "rtol": 1e-4}
TEXTS = ["the quick brown fox", "a warm stove, in winter!", "Ünïcode <eos> 猫"]


@torch.no_grad()
def test_gpt2_has_the_same_tokens_and_logits(gpt2, tmp_path) -> None:
    folder = gpt2()
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    end = theirs.config.eos_token_id
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        ours = run.task.tokenizer.encode(text)
        assert ours == [index + 5 for index in ids]
        assert run.task.tokenizer.decode(ours) == text
        expected = theirs(torch.tensor([[end, *ids]])).logits[0]
        hidden = run.model(torch.tensor([[SOS, *ours]]))
        assert_close(hidden[0], theirs.transformer(torch.tensor([[end, *ids]])).last_hidden_state[0], **CLOSE)
        logits = run.model.output(hidden)[0]
        assert_close(logits[:, 5:], expected[:, :end], **CLOSE)
        assert_close(logits[:, EOS], expected[:, end], **CLOSE)
        assert_close(logits.log_softmax(-1)[:, 5:], expected.log_softmax(-1)[:, :end], **CLOSE)
        assert logits[:, [PAD, UNK, SOS, MASK]].max() < -1e3


def generated(model: Any, inputs: Any, **settings: Any) -> list[list[int]]:
    settings |= {"early_stopping": True} if settings.get("num_beams", 1) > 1 else {}
    return model.generate(**inputs, do_sample=False, **settings).tolist()


@pytest.mark.parametrize("beam", [1, 4])
@torch.no_grad()
def test_gpt2_writes_the_same_texts(gpt2, tmp_path, beam) -> None:
    folder = gpt2()
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(folder)
    end = theirs.config.eos_token_id
    for text in TEXTS[:2]:
        ours = run.task.tokenizer.encode(text)
        prompt = torch.tensor([[end, *(index - 5 for index in ours)]])
        lengths = {"max_new_tokens": 8, "min_new_tokens": 8}
        inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
        (expected,) = generated(theirs, inputs, num_beams=beam, pad_token_id=end, **lengths)
        decode = DecodeConfig(beam=beam, max_length=8, min_length=8)
        ((found, *_),) = search(run.model, None, 1, decode, prefixes=[ours])
        assert [index - 5 for index in found.tokens] == expected[prompt.size(1) :]


@torch.no_grad()
def test_marian_has_the_same_tokens_logits_and_texts(marian, tmp_path) -> None:
    pytest.importorskip("sentencepiece", reason="the package sentencepiece is not installed")
    folder = marian()
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.MarianMTModel.from_pretrained(folder)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    size = theirs.config.vocab_size
    ours_of = {1: UNK, size - 1: SOS, 0: EOS} | {row: row + 3 for row in range(2, size - 1)}
    ours_order = torch.tensor([ours_of[row] for row in range(size)])
    for source, target in [("the cat", "le chat"), ("the  éx cats that", "le chat è"), ("<eos> catalogue", "k")]:
        ids = tokenizer(source)["input_ids"]
        found = run.task.source.encode(source)
        assert [*found, EOS] == [ours_of[index] for index in ids]
        labels = tokenizer(text_target=target)["input_ids"]
        wanted = run.task.target.encode(target)
        assert [*wanted, EOS] == [ours_of[index] for index in labels]
        assert run.task.target.decode(wanted) == target
        inputs = torch.tensor([ids])
        expected = theirs(inputs, decoder_input_ids=torch.tensor([[size - 1, *labels[:-1]]]))
        hidden = run.model(torch.tensor([[*found, EOS]]), torch.tensor([len(ids)]), torch.tensor([[SOS, *wanted]]))
        assert_close(run.model.output(hidden)[0][:, ours_order], expected.logits[0], **CLOSE)
        assert run.model.output(hidden)[0][:, [PAD, MASK]].max() < -1e3
        states = run.model.encode(torch.tensor([[*found, EOS]]), torch.tensor([len(ids)])).states[0]
        halves = torch.cat([states[:, 0::2], states[:, 1::2]], dim=1)
        assert_close(halves, expected.encoder_last_hidden_state[0], **CLOSE)
        for beam in (1, 3):
            lengths = {"max_new_tokens": 7, "min_new_tokens": 7, "bad_words_ids": [[size - 1]]}
            lengths |= {"forced_eos_token_id": None}
            (texts,) = generated(theirs, {"input_ids": inputs}, num_beams=beam, **lengths)
            decode = DecodeConfig(beam=beam, max_length=7, min_length=7, length_penalty=1.0)
            memory = run.model.encode(torch.tensor([[*found, EOS]]), torch.tensor([len(ids)]))
            ((best, *_),) = search(run.model, memory, 1, decode)
            assert list(best.tokens) == [ours_of[index] for index in texts[1:8]]


def test_the_code_of_a_language_is_its_token(marian, tmp_path) -> None:
    pytest.importorskip("sentencepiece", reason="the package sentencepiece is not installed")
    folder = marian(languages=[">>fra<<", ">>spa_Latn<<"])
    run = weft.import_run(folder, tmp_path / "run")
    theirs = transformers.MarianTokenizer.from_pretrained(folder)
    size = len(theirs.get_vocab())
    ours_of = {1: UNK, size - 1: SOS, 0: EOS} | {row: row + 3 for row in range(2, size - 1)}
    for source in (">>fra<< the cat", ">>spa_Latn<< at the", ">>fra<<", "the cat", "fra"):
        expected = [ours_of[index] for index in theirs(source)["input_ids"]]
        assert [*run.task.source.encode(source), EOS] == expected, source
    [first, *_] = run.task.source.encode(">>fra<< the cat")
    assert run.task.source.tokens([first]) == ["▁>>fra<<"]
    # A code that the vocabulary does not have is text, and no unknown token takes its place.
    assert run.task.source.encode(">>xyz<< the")[-1] == run.task.source.encode("the")[0]
    exported = tmp_path / "exported"
    export_run(run, to="huggingface", out=exported)
    again = transformers.AutoTokenizer.from_pretrained(exported)
    assert again(">>fra<< the cat")["input_ids"] == [*run.task.source.encode(">>fra<< the cat"), EOS]


def test_the_search_has_the_settings_of_the_checkpoint(marian, tmp_path) -> None:
    folder = marian()
    settings = {"num_beams": 3, "length_penalty": 0.5, "early_stopping": True, "max_length": 40}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    decode = weft.import_run(folder, tmp_path / "run").config.decode
    assert (decode.beam, decode.length_penalty, decode.stop) == (3, 0.5, "finished")
    assert decode.max_length == 39, "theirs counts the start token"
