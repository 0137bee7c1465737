"""Exported folders: the same numbers and the same texts, loaded without any code of ours."""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from weft.errors import Fault
from weft.export import export, export_run
from weft.text import EOS, SOS, UNK

transformers = pytest.importorskip("transformers", reason="the package transformers is not installed")
pytest.importorskip("ctranslate2", reason="the package ctranslate2 is not installed")

SHARED, APART = {"shared": True}, {"shared": False}

TRANSLATORS = {
    "post, everything tied": {"norm": "post", "text": SHARED, "attention_bias": True},
    "post, nothing tied": {"norm": "post", "text": SHARED, "decoder": {"tie": False}},
    "post, two vocabularies": {"norm": "post", "text": APART, "activation": "gelu"},
    "post, two vocabularies, nothing tied": {"norm": "post", "text": APART, "decoder": {"tie": False}},
    "sides of other sizes": {"norm": "post", "encoder": {"layers": 1, "heads": 4, "feedforward": 24}},
    "pre": {"norm": "pre", "text": SHARED, "activation": "gelu"},
    "pre, untied": {"norm": "pre", "text": SHARED, "decoder": {"tie": False}},
    "pre, learned": {"norm": "pre", "positions": "learned", "text": SHARED},
    "an odd width": {"norm": "post", "width": 15, "heads": 3},
}
ONLY_CTRANSLATE2 = {
    "post, learned": {"norm": "post", "positions": "learned"},
    "pre, two vocabularies": {"norm": "pre", "text": APART},
    "other widths": {"norm": "pre", "encoder": {"width": 8}},
}
LANGUAGE_MODELS = {
    "pre": {"norm": "pre"},
    "post": {"norm": "post", "attention_bias": True},
    "learned, untied": {"norm": "pre", "positions": "learned", "tie": False, "activation": "gelu"},
    "post, learned": {"norm": "post", "positions": "learned"},
}


PREFIX_TRANSLATORS = {
    "pre": {"norm": "pre"},
    "as GPT-2": {"norm": "pre", "positions": "learned", "activation": "gelu_tanh"},
    "post, untied": {"norm": "post", "tie": False, "attention_bias": True},
}


def exact(agreement):
    return agreement.difference < 1e-4 and (agreement.greedy, agreement.beam) == (1.0, 1.0)


def usage(folder, text):
    """What the lines of the model card print for a text."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(lines.replace("PATH_TO_THIS_FOLDER", str(folder)).replace("…", text), {})
    return out.getvalue().strip()


@pytest.mark.parametrize("settings", TRANSLATORS.values(), ids=TRANSLATORS)
def test_translators_are_the_same_in_both_formats(translator, tmp_path, settings):
    run = translator(**settings)
    for to in ("huggingface", "ctranslate2"):
        assert exact(export_run(run, to=to, out=tmp_path / to).agreement)


@pytest.mark.parametrize("settings", ONLY_CTRANSLATE2.values(), ids=ONLY_CTRANSLATE2)
def test_ctranslate2_holds_more(translator, tmp_path, settings):
    assert exact(export_run(translator(**settings), to="ctranslate2", out=tmp_path / "out").agreement)


@pytest.mark.parametrize("settings", LANGUAGE_MODELS.values(), ids=LANGUAGE_MODELS)
def test_language_models_are_the_same_in_both_formats(language_model, tmp_path, settings):
    run = language_model(**settings)
    for to in ("huggingface", "ctranslate2"):
        assert exact(export_run(run, to=to, out=tmp_path / to).agreement)


@pytest.mark.parametrize("settings", PREFIX_TRANSLATORS.values(), ids=PREFIX_TRANSLATORS)
def test_one_decoder_over_source_and_target_is_a_language_model_there(prefix_translator, tmp_path, settings):
    run = prefix_translator(**settings)
    for to in ("huggingface", "ctranslate2"):
        assert exact(export_run(run, to=to, out=tmp_path / to).agreement)


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_the_card_of_one_decoder_translates_as_the_run_does(prefix_translator, tmp_path, to):
    run = prefix_translator(decode={"beam": 1, "min_length": 3, "max_length": 6})
    export_run(run, to=to, out=tmp_path / "out")
    said, expected = usage(tmp_path / "out", "one two"), run.predict(["one two"])[0].text
    assert expected
    assert said == (repr([expected]) if to == "huggingface" else expected)
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("one two")["input_ids"]
    assert tokens == [*run.task.source.encode("one two"), EOS, SOS]


@pytest.mark.parametrize("text", [SHARED, APART], ids=["shared", "apart"])
@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_the_card_translates_as_the_run_does(translator, tmp_path, to, text):
    run = translator(norm="post", text=text, decode={"beam": 1, "max_length": 12})
    export_run(run, to=to, out=tmp_path / "out")
    said, expected = usage(tmp_path / "out", "one two"), run.predict(["one two"])[0].text
    assert len(expected.split()) > 2
    assert said == (repr([expected]) if to == "huggingface" else expected)


def test_the_card_of_a_language_model_works(language_model, tmp_path):
    run = language_model()
    for to in ("huggingface", "ctranslate2"):
        export_run(run, to=to, out=tmp_path / to)
        assert "the cat" in usage(tmp_path / to, "the cat")


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_the_card_of_a_language_model_counts_what_comes_after_the_beginning(language_model, tmp_path, to):
    run = language_model(text={"kind": "word"}, decode={"beam": 1, "max_length": 5})
    export_run(run, to=to, out=tmp_path / "out")
    beginning = "the cat the dog the cat the dog the"  # of known words: others have no text in the other software
    (expected,) = run.predict([beginning])
    assert len(expected.candidates[0].log_probabilities) == 5
    assert usage(tmp_path / "out", beginning) == (repr([expected.text]) if to == "huggingface" else expected.text)


@pytest.mark.parametrize("kind", ["char", "word", "bpe", "unigram"])
def test_tokens_and_texts_are_ours(translator, tmp_path, kind):
    run = translator(norm="post", layers=1, text={"kind": kind, "size": 400})
    export_run(run, to="huggingface", out=tmp_path / "out")
    source = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    target = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", subfolder="target")
    text = "Two, <unk> zebras; trois <mask> <eos>! a<sos>"
    ours = run.task.source.encode(text)
    assert source(text)["input_ids"] == [*ours, EOS]
    assert source.decode([SOS, *ours, EOS], skip_special_tokens=True) == run.task.source.decode(ours)
    assert target(text)["input_ids"] == run.task.target.encode(text)
    assert source([text, "one"], padding=True)["attention_mask"][1][-1] == 0


@pytest.mark.parametrize("kind", ["char", "word", "bpe", "unigram"])
@pytest.mark.parametrize(("unknown", "punctuation"), [("<unk>", "keep"), ("[UNK]", "split")])
def test_a_word_that_means_unknown_does_so_there(translator, tmp_path, kind, unknown, punctuation):
    text = {"kind": kind, "size": 400, "unknown": unknown, "punctuation": punctuation, "lowercase": True}
    run = translator(norm="post", layers=1, text=text)
    export_run(run, to="huggingface", out=tmp_path / "out")
    source = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    line = f"one {unknown} two <eos> a<unk>b {unknown}"
    ours = run.task.source.encode(line)
    assert ours.count(UNK) >= 2
    assert source(line)["input_ids"] == [*ours, EOS]
    assert source.decode([*ours, EOS], skip_special_tokens=True) == run.task.source.decode(ours)


def test_a_run_decodes_there_as_it_is_set_to(translator, tmp_path):
    run = translator(norm="post", decode={"beam": 3, "length_penalty": 0.5, "min_length": 2, "max_length": 90})
    assert exact(export_run(run, to="huggingface", out=tmp_path / "out").agreement)
    found = json.loads((tmp_path / "out" / "generation_config.json").read_text(encoding="utf-8"))
    asked = {"num_beams": 3, "length_penalty": 0.5, "min_new_tokens": 2, "max_new_tokens": 90}
    asked |= {"decoder_start_token_id": SOS, "eos_token_id": EOS}
    assert {name: found[name] for name in asked} == asked
    settings = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert settings["max_position_embeddings"] == 91, "sinusoids go as far as the run may write"


def test_what_is_drawn_from_goes_along_and_what_is_lost_is_told(language_model, tmp_path):
    drawn = {"sample": True, "temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.1, "n_best": 2}
    run = language_model(decode=drawn)
    assert export_run(run, to="huggingface", out=tmp_path / "hf").left_out == ("n_best = 2",)
    found = json.loads((tmp_path / "hf" / "generation_config.json").read_text(encoding="utf-8"))
    asked = {"do_sample": True, "temperature": 0.7, "top_k": 9, "top_p": 0.9, "min_p": 0.1}
    assert {name: found[name] for name in asked} == asked
    assert export_run(run, to="ctranslate2", out=tmp_path / "ct2").left_out == ("min_p = 0.1", "n_best = 2")
    diverse = language_model(decode={"beam": 4, "groups": 2})
    assert export_run(diverse, to="huggingface", out=tmp_path / "diverse").left_out == ("groups = 2",)


def test_learned_positions_bound_what_is_written(translator, tmp_path):
    run = translator(norm="pre", positions="learned", text=SHARED, decode={"max_length": 90})
    export_run(run, to="huggingface", out=tmp_path / "out")
    found = json.loads((tmp_path / "out" / "generation_config.json").read_text(encoding="utf-8"))
    assert found["max_new_tokens"] == 63


def test_only_safe_files_are_written(translator, tmp_path):
    export_run(translator(norm="post"), to="huggingface", out=tmp_path / "out")
    names = {path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert names == {".json", ".safetensors", ".md"}


def test_a_quantized_model_is_smaller_and_says_how_near_it_is(translator, tmp_path):
    run = translator(norm="pre", width=64)
    before = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    whole = export_run(run, to="ctranslate2", out=tmp_path / "whole")
    small = export_run(run, to="ctranslate2", out=tmp_path / "small", quantization="int8")
    assert whole.quantized is None
    assert exact(small.agreement)
    assert small.agreement.difference < small.quantized.difference < 10
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, before[name]), "the run itself is not quantized"
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < 0.6 * sizes[1]
    assert "in int8 numbers within" in (tmp_path / "small" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2"])
def test_nothing_is_left_of_a_model_that_differs(translator, tmp_path, monkeypatch, to):
    run = translator(norm="post")
    read = export.read_weights

    def damaged(*arguments, **options):
        weights = read(*arguments, **options)
        return replace(weights, output=weights.output._replace(bias=weights.output.bias + 0.001 * torch.arange(11)))

    monkeypatch.setattr(export, "read_weights", damaged)
    with pytest.raises(Fault, match="differs in a number of the full pass"):
        export_run(run, to=to, out=tmp_path / "out")
    assert [path.name for path in Path(tmp_path).iterdir() if "out" in path.name] == []


def test_a_search_that_goes_another_way_is_found(translator, tmp_path, monkeypatch):
    """The full pass is right, but what a search writes is not what its tokens are worth."""
    from weft.export.exported import HuggingFaceModel

    write = HuggingFaceModel.write

    def astray(self, sources, decode):
        return [one._replace(tokens=(5, *one.tokens)) for one in write(self, sources, decode)]

    monkeypatch.setattr(HuggingFaceModel, "write", astray)
    with pytest.raises(Fault, match="differs in the text for tokens"):
        export_run(translator(norm="post"), to="huggingface", out=tmp_path / "out")
