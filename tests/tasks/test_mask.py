"""Masked language models: the head, what they learn, the gaps they fill, the scores they give, and resumed training."""

from __future__ import annotations

import csv
import json
import math
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import weft
from weft.errors import ConfigError
from weft.models import MASKED_MODELS, MaskedLanguageModel
from weft.tasks import TASKS, encode
from weft.tasks.filling import Filled, Filler
from weft.text import EOS, MASK, SPECIALS, TextConfig, Tokenizer
from weft.text.gaps import GAP, fill_text

PLACES = {"paris": "france", "rome": "italy", "madrid": "spain", "berlin": "germany"}
RNN = {"kind": "rnn", "embedding": 24, "hidden": 24, "dropout": 0.0}
TRANSFORMER = {"kind": "transformer", "width": 16, "heads": 2, "layers": 1, "dropout": 0.0}


def write(path, count=120):
    draw = random.Random(0)
    towns = [draw.choice(list(PLACES)) for _ in range(count)]
    path.write_text("".join(f"{town} is in {PLACES[town]}\n" for town in towns), encoding="utf-8")
    return str(path)


def config(path, model=RNN, **more):
    return {"task": "mask", "data": {"train": path, "valid": path}, "text": {"kind": "word"}, "model": model, **more}


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    """A run that has learned which town is in which country."""
    folder = tmp_path_factory.mktemp("mask")
    settings = {"steps": 150, "rate": 0.02, "batch_tokens": 512, "evaluate_every": 50}
    return weft.train(config(write(folder / "towns.txt"), train=settings), out=folder / "run", quiet=True)


@pytest.mark.covers("M7")
def test_a_run_learns_to_fill_gaps(towns):
    assert towns.report["valid"]["accuracy"] > 0.4
    for town, country in PLACES.items():
        answer = towns.predict(f"{town} is in <mask>", n_best=3)
        [gap] = answer.gaps
        assert answer.filled == str(answer) == f"{town} is in {country}"
        assert next(found.token for found in gap) == country
        assert gap[0].probability > 0.5
        assert len(gap) == 3
    both = towns.predict("[MASK] is <mask> spain")
    assert both.filled == "madrid is in spain"
    assert [len(gap) for gap in both.gaps] == [5, 5]
    assert towns.predict("rome is in italy").line() == "rome is in italy"


def test_words_that_are_not_in_the_vocabulary_stay_in_the_text(towns):
    for text in ("מדריד is in <mask>", "東京、大阪 <mask> spain", "ROME!  is in [MASK] ?"):
        answer = towns.predict(text)
        assert answer.filled == GAP.sub(answer.gaps[0][0].token, text)
    assert towns.predict("Nowhere at all").filled == "Nowhere at all"


def test_a_gap_takes_the_blank_before_it_only_if_its_token_has_one():
    tokenizer = Tokenizer.learn(["the cats sleep well"] * 9, TextConfig(kind="bpe", size=300))
    assert tokenizer.pieces(tokenizer.encode("the cats"))[-1] == "▁cats"
    blank, plain = tokenizer.encode("the cats")[-1], tokenizer.encode("the")[0]
    assert fill_text(tokenizer, "<mask> 猫 <mask>, <mask>", [blank, blank, plain]) == "cats 猫 cats,the"


def test_candidates_are_tokens_of_texts_and_told_apart(towns):
    [gap] = towns.predict("rome is in <mask>", n_best=100).gaps
    assert len(gap) == len(towns.task.tokenizer) - len(SPECIALS)
    assert not {found.token for found in gap} & set(SPECIALS)
    alike = Filled("", "", ((Filler("the", 0.5, "▁the"), Filler("the", 0.3, "the"), Filler(",", 0.1, "▁,")),))
    assert alike.line() == "\t▁the  the  ,"
    assert alike.cells("filled")["candidates"] == [["▁the", "the", ","]]
    assert alike.record()["gaps"][0][0] == {"token": "the", "probability": 0.5, "entry": "▁the"}


def test_a_table_has_columns_of_answers(towns, weft, tmp_path):
    (tmp_path / "gaps.csv").write_text('text,n\n"rome, is in <mask>",1\n', encoding="utf-8")
    outcome = weft("predict", str(towns.folder), str(tmp_path / "gaps.csv"), "--n-best", "2")
    head, row = csv.reader(outcome.out.splitlines())
    assert head == ["text", "n", "filled", "candidates"]
    assert row[:2] == ["rome, is in <mask>", "1"]
    assert [len(gap) for gap in json.loads(row[3])] == [2]
    outcome = weft("predict", str(towns.folder), str(tmp_path / "gaps.csv"), "--n-best", "0")
    assert outcome.code == 2
    assert "n_best = 0" in outcome.err


def test_answers_on_the_command_line(towns, weft, tmp_path):
    (tmp_path / "in.txt").write_text("rome is in <mask>\nparis <mask> in france\n", encoding="utf-8")
    outcome = weft("predict", str(towns.folder), "in.txt", "--n-best", "2", "--probabilities")
    first, second = outcome.out.splitlines()
    assert first.startswith("rome is in italy\titaly 0.")
    assert first.count("  ") == 1
    assert second.startswith("paris is in france\tis ")
    scored = weft("score", str(towns.folder), "in.txt").out
    assert "pseudo perplexity" in scored
    refused = weft("predict", str(towns.folder), "in.txt", "--beam", "3")
    assert (refused.code, "beam: mask writes no text" in refused.err) == (2, True)


def test_the_score_is_that_of_each_token_hidden_in_turn(towns):
    [found] = towns.score(["rome is in italy"])
    ids = towns.task.tokenizer.encode("rome is in italy")
    for place, log in enumerate(found.log_probabilities):
        tokens = torch.tensor([[*ids, EOS]])
        tokens[0, place] = MASK
        logits = towns.model.output(towns.model(tokens, torch.tensor([5])))[0, place]
        assert log == pytest.approx(logits.log_softmax(-1)[ids[place]].item(), abs=1e-4)
    assert found.total == pytest.approx(math.fsum(found.log_probabilities))
    wrong = towns.score(["rome is in spain"])[0]
    assert wrong.total < found.total


def test_vectors_of_words_are_the_states_of_the_encoder(towns):
    [found] = towns.embed(["rome is in italy"], level="word")
    assert found.vectors.shape == (4, towns.model.encoder.output_size)
    ids = [*towns.task.tokenizer.encode("rome is in italy"), EOS]
    states = towns.model(torch.tensor([ids]), torch.tensor([5]))
    assert_close(torch.from_numpy(np.asarray(found.vectors)), states[0, :4].detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("model", [RNN | {"hidden": 10}, TRANSFORMER], ids=["rnn", "transformer"])
def test_the_head_is_that_of_bert(model, tie):
    torch.manual_seed(0)
    settings = MASKED_MODELS[model["kind"]](**model, tie=tie, transform_epsilon=1e-12)
    network = MaskedLanguageModel(settings, 30).eval()
    hidden, head = torch.randn(3, network.encoder.output_size), network.output
    dense, norm, scores = head.transform.dense, head.transform.norm, head.scores.scores
    vectors = F.gelu(F.linear(hidden, dense.weight, dense.bias))
    centred = vectors - vectors.mean(-1, keepdim=True)
    vectors = centred / (vectors.var(-1, unbiased=False, keepdim=True) + 1e-12).sqrt() * norm.weight + norm.bias
    assert (scores.weight is network.encoder.embedding.weight) == tie
    expected = vectors @ scores.weight.T + scores.bias
    assert_close(head(hidden), expected, atol=1e-5, rtol=1e-5)
    targets = torch.tensor([5, 9, 7])
    assert_close(head.loss(hidden, targets), F.cross_entropy(expected, targets, reduction="sum"), atol=1e-4, rtol=1e-5)
    plain = MaskedLanguageModel(MASKED_MODELS[model["kind"]](**model, transform=False), 30)
    assert plain.output.transform is None


@pytest.mark.parametrize("model", [RNN | {"dropout": 0.1}, TRANSFORMER | {"dropout": 0.1}], ids=["rnn", "transformer"])
@pytest.mark.parametrize("unit", ["line", "stream"])
def test_masks_are_the_same_in_a_resumed_run(model, unit, tmp_path):
    path = write(tmp_path / "towns.txt")
    data = {"train": path, "valid": path, "unit": unit, "max_length": 24}
    settings = {"batch_tokens": 128, "evaluate_every": 5, "checkpoint_every": 5, "schedule": "constant", "warmup": 1}

    def train(name, steps, *, resume=False):
        tree = config(path, model, train={**settings, "steps": steps}) | {"data": data}
        return weft.train(tree, out=tmp_path / name, resume=resume, quiet=True)

    whole = train("whole", 20)
    train("parts", 7)
    again = train("parts", 20, resume=True)
    assert again.report["valid"] == whole.report["valid"]
    for (name, one), other in zip(whole.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_a_packed_batch_of_a_capacity_always_has_the_same_shapes(tmp_path):
    from weft.data import PackedBatches
    from weft.training.gradients import shape_of

    kind = TASKS["mask"]
    records = list(kind.read(write(tmp_path / "towns.txt"), kind.sections.data(train="x"), None))
    settings = kind.sections.text(kind="word")
    data = kind.sections.data(train="x", mask={"share": 0.4})
    task = kind(kind.learn(records, settings), data)
    examples = encode(task, records)
    plan = PackedBatches(examples.lengths, batch_tokens=128)
    shapes, counts = set(), set()
    for epoch in range(3):
        for rows in plan.epoch(epoch):
            batch = task.collate(examples.epoch(epoch, seed=0), rows, packed=True, capacity=plan.capacity(rows))
            shapes.add(shape_of(batch))
            counts.add(batch.count)
            assert (batch.expected >= 0).sum() == batch.count
    assert len(shapes) == 1
    assert len(counts) > 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"train.truncate": 8}, "train.truncate = 8"),
        ({"data.mask.unit": "word"}, 'data.mask.unit = "word": is the same as "token" with text.kind = "word"'),
        ({"data.mask.share": 0.0}, "data.mask.share = 0.0"),
        ({"data.mask.random": 0.6, "data.mask.keep": 0.6}, "data.mask: random = 0.6 and keep = 0.6"),
        ({"model.transform": False, "model.transform_activation": "tanh"}, 'model.transform_activation = "tanh"'),
        ({"train.teacher_forcing": 0.5}, "teacher_forcing"),
        ({"model.kind": "conv"}, 'model.kind = "conv": is not one of rnn, transformer'),
    ],
)
def test_settings_that_do_not_fit_are_named(overrides, message, tmp_path):
    tree = config(write(tmp_path / "towns.txt"), {}, train={"steps": 1})
    with pytest.raises(ConfigError) as error:
        weft.train(tree, overrides=overrides, out=tmp_path / "run", quiet=True)
    assert message in str(error.value)
