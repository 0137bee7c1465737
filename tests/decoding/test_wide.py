"""A search that memory cannot hold is made for fewer sentences at a time, and refused where one is too many."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch

from weft import evaluate
from weft.decoding import DecodeConfig, search
from weft.decoding.memory import check_memory, sentence_bytes
from weft.decoding.request import prepare
from weft.errors import ConfigError
from weft.models import LanguageModel, RecurrentLanguageConfig, TransformerDecoderConfig, build_language_model

CPU = torch.device("cpu")
searching = importlib.import_module("weft.decoding.search")


def model(kind: str = "rnn", vocabulary: int = 40) -> LanguageModel:
    torch.manual_seed(0)
    config = (
        RecurrentLanguageConfig(embedding=8, hidden=8)
        if kind == "rnn"
        else TransformerDecoderConfig(width=8, heads=2, layers=2, dropout=0.0)
    )
    return build_language_model(config, vocabulary).eval()


def needed(kind: str, config: DecodeConfig, vocabulary: int = 40) -> int:
    net = model(kind, vocabulary)
    request = prepare(net, 1, config, prefixes=None, limits=None, forbid=())
    return sentence_bytes(net, None, request, attention=False)


@pytest.mark.parametrize("kind", ["rnn", "transformer"])
def test_more_hypotheses_tokens_and_words_take_more(kind):
    base = needed(kind, DecodeConfig(beam=8, max_length=100))
    assert needed(kind, DecodeConfig(beam=16, max_length=100)) > 1.9 * base
    assert needed(kind, DecodeConfig(beam=8, max_length=200)) > 1.5 * base
    assert needed(kind, DecodeConfig(beam=8, max_length=100), 4000) > base
    assert needed(kind, DecodeConfig(sample=True, n_best=8, max_length=100)) > base


def test_a_transformer_remembers_every_position():
    """Keys and values of 2 layers, 8 numbers of 4 bytes each, and where they lie; the beams takes the rest."""
    longer, shorter = (needed("transformer", DecodeConfig(beam=8, max_length=size)) for size in (1001, 1))
    beams = needed("rnn", DecodeConfig(beam=8, max_length=1001)) - needed("rnn", DecodeConfig(beam=8, max_length=1))
    assert longer - shorter == beams + 8 * 1000 * (2 * 2 * 8 * 4 + 8)


def test_one_text_that_does_not_fit_is_refused_before_the_search(monkeypatch):
    monkeypatch.setattr("weft.decoding.memory.free_memory", lambda device: 1 << 20)
    monkeypatch.setattr(searching, "open_slots", lambda *_, **__: pytest.fail("the search began"))
    with pytest.raises(ConfigError, match=r"decode\.beam = 500: with max_length = 2000 one text takes .* are free"):
        search(model(), None, 3, DecodeConfig(beam=500, max_length=2000))
    with pytest.raises(ConfigError, match=r"decode\.n_best = 500: .*lower one of the two"):
        search(model(), None, 3, DecodeConfig(sample=True, n_best=500, max_length=2000))


def test_where_memory_is_little_sentences_wait_for_each_other(monkeypatch):
    config, at_once = DecodeConfig(beam=4, max_length=600), []
    free, open_slots = needed("rnn", config) * 5 // 2, searching.open_slots

    def opened(net, memory, request, sentences, **options):
        at_once.append(len(sentences))
        return open_slots(net, memory, request, sentences, **options)

    monkeypatch.setattr(searching, "open_slots", opened)
    whole = search(model(), None, 6, config, attention=False)
    monkeypatch.setattr(searching, "free_memory", lambda device: free)
    few = search(model(), None, 6, config, attention=False)
    assert at_once == [6, 2]
    assert [[one.tokens for one in found] for found in few] == [[one.tokens for one in found] for found in whole]


def test_a_common_search_is_not_looked_into(monkeypatch):
    monkeypatch.setattr(searching, "sentence_bytes", lambda *_, **__: pytest.fail("it takes as long as a step"))
    assert search(model(), None, 2, DecodeConfig(beam=4, max_length=256))


def test_what_nobody_knows_is_not_refused(monkeypatch):
    monkeypatch.setattr("weft.decoding.memory.machine_memory", lambda: None)
    check_memory(1 << 60, DecodeConfig(), CPU)


def test_few_texts_are_drawn_together_where_each_takes_many_numbers():
    assert evaluate._max_texts(DecodeConfig(beam=4)) is None
    assert evaluate._max_texts(DecodeConfig(sample=True, n_best=64, max_length=1 << 16)) == 4
    assert evaluate._max_texts(DecodeConfig(sample=True, n_best=4096, max_length=1 << 20)) == 1


def test_reading_many_hypotheses_copies_no_beam_state_for_each():
    """512 of 512, in a process of its own: backpointers of each would be 512 · 60 · 512 numbers, three times."""
    code = (
        "import resource, torch, weft.decoding as d, weft.models as m;"
        "net = m.build_language_model(m.RecurrentLanguageConfig(embedding=4, hidden=4), 12).eval();"
        "net.output.scores.bias.data[2] = -9;"
        "d.search(net, None, 1, d.DecodeConfig(beam=2, max_length=2));"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;"
        "before = peak();"
        "found = d.search(net, None, 1, d.DecodeConfig(beam=512, n_best=512, max_length=60), attention=False);"
        "print(len(found[0]), peak() - before)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    count, grown = map(int, said.split())
    unit = 1 if sys.platform == "darwin" else 1024
    assert count == 512
    assert grown * unit < 60 << 20
