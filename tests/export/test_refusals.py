"""What no other software can hold is one line that names the setting and what would do."""

from __future__ import annotations

import pytest

import weft
from weft.errors import ConfigError, RunError
from weft.export import ctranslate2, export_run, transformers_models
from weft.extras import EXTRAS

REFUSED = {
    'model.encoder.norm = "rezero"': ({"norm": "rezero"}, 'train with "post" or "pre"'),
    'model.encoder.positions = "rotary"': ({"positions": "rotary"}, 'train with "sinusoid" or "learned"'),
    'model.encoder.activation = "swiglu"': (
        {"activation": "swiglu"},
        'train with "relu" or "gelu" or "gelu_tanh" or "silu"',
    ),
    "model.encoder.embedding = 8": ({"embedding": 8}, "train with vectors as wide as the rest: 16"),
    'model.decoder.positions = "joint"': ({"decoder": {"positions": "joint"}}, 'train with "sinusoid" or "learned"'),
}
REFUSED_BY_HUGGINGFACE = {
    'model.encoder.positions = "learned"': ({"norm": "post", "positions": "learned"}, "or export to ctranslate2"),
    "text.shared = false": ({"norm": "pre"}, "train with shared = true"),
    "model.decoder.width = 16": ({"encoder": {"width": 8}}, "train with that of the encoder, 8"),
    'model.decoder.norm = "pre"': ({"encoder": {"norm": "post"}}, "train with that of the encoder, post"),
}


def told(run, to, tmp_path):
    with pytest.raises(ConfigError) as error:
        export_run(run, to=to, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    return str(error.value)


@pytest.mark.parametrize("where", REFUSED)
def test_what_is_nowhere_else(translator, tmp_path, where):
    settings, cure = REFUSED[where]
    run = translator(layers=1, **settings)
    for to in ("huggingface", "ctranslate2"):
        message = told(run, to, tmp_path)
        assert message.startswith(f"{where}: has no counterpart in this format")
        assert cure in message


@pytest.mark.parametrize("where", REFUSED_BY_HUGGINGFACE)
def test_what_transformers_has_no_architecture_for(translator, tmp_path, where):
    pytest.importorskip("transformers", reason="the package transformers is not installed")
    settings, cure = REFUSED_BY_HUGGINGFACE[where]
    message = told(translator(layers=1, **settings), "huggingface", tmp_path)
    assert message.startswith(f"{where}: has no counterpart in this format")
    assert cure in message


def test_recurrent_nets_and_other_tasks(pairs, labelled, tmp_path):
    small = {"embedding": 8, "hidden": 8}
    models = {"translate": {"encoder": small, "decoder": small}, "classify": small}
    told_of = {}
    for task, data in (("translate", pairs), ("classify", labelled)):
        config = {"task": task, "data": {"train": data}, "model": models[task], "train": {"steps": 2}}
        told_of[task] = told(weft.train(config, out=tmp_path / task, quiet=True), "ctranslate2", tmp_path)
    assert told_of["translate"].startswith('model.encoder.kind = "rnn"')
    assert told_of["classify"].startswith(
        'model.kind = "rnn": has no counterpart in this format (with kind = "transformer"'
    )


@pytest.mark.parametrize(
    ("module", "to", "package", "extra"),
    [(transformers_models, "huggingface", "transformers", "hf"), (ctranslate2, "ctranslate2", "ctranslate2", "ct2")],
)
def test_a_missing_package_is_one_line(translator, tmp_path, monkeypatch, module, to, package, extra):
    def missing(name):
        raise ImportError(name)

    run = translator(norm="post", layers=1)
    monkeypatch.setattr(module, "import_module", missing)
    assert told(run, to, tmp_path) == f"--to {to}: needs the package {package} ({EXTRAS[extra].install})"


def test_formats_quantizations_and_folders_are_checked_first(translator, tmp_path):
    run = translator(layers=1)
    with pytest.raises(ConfigError, match=r'"hugginface" is not a format \(did you mean "huggingface"'):
        export_run(run, to="hugginface", out=tmp_path / "out")
    with pytest.raises(ConfigError, match="--quantization: does not act on huggingface"):
        export_run(run, to="huggingface", out=tmp_path / "out", quantization="int8")
    with pytest.raises(ConfigError, match='"int9" is not a type of numbers'):
        export_run(run, to="ctranslate2", out=tmp_path / "out", quantization="int9")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.txt").touch()
    with pytest.raises(RunError, match="is not empty"):
        export_run(run, to="ctranslate2", out=tmp_path / "out")
