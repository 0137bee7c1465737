"""Scheduled sampling: the four decays by hand, and what a decoder then reads."""

from __future__ import annotations

import math

import pytest
import torch

from weft.config import validate
from weft.errors import ConfigError
from weft.models import LANGUAGE_MODELS, Translator, TranslatorConfig, build_language_model
from weft.models.forcing import mix
from weft.nn import Packing
from weft.tasks import TASKS, Codec, Loss
from weft.text import TextConfig, Tokenizer
from weft.training import FORCINGS, ScheduledSampling, TrainConfig, build_objective

VOCABULARY = 12
RNN = {"kind": "rnn", "embedding": 8, "hidden": 8, "dropout": 0.0}
TRANSFORMER = {"kind": "transformer", "width": 8, "heads": 2, "layers": 2, "dropout": 0.0}
CONV = {"kind": "conv", "embedding": 8, "width": 8, "layers": 2, "dropout": 0.0}


def language_model(table):
    torch.manual_seed(0)
    return build_language_model(LANGUAGE_MODELS[table["kind"]].model_validate(table), VOCABULARY)


def translator(decoder, encoder=RNN):
    torch.manual_seed(0)
    config = TranslatorConfig.model_validate({"encoder": encoder, "decoder": decoder})
    return Translator(config, VOCABULARY, VOCABULARY, shared=False)


def tokens(rows=3, length=6):
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.covers("L2")
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"kind": "constant", "p": 0.7}, {1: 0.7, 10_000: 0.7}),
        ({"kind": "linear", "k": 100, "epsilon": 0.2}, {1: 0.99, 50: 0.5, 80: 0.2, 5000: 0.2}),
        ({"kind": "linear", "k": 4}, {1: 0.75, 4: 0.0, 5: 0.0}),
        ({"kind": "exponential", "k": 0.5}, {1: 0.5, 3: 0.125, 5000: 0.0}),
        ({"kind": "inverse_sigmoid", "k": 10}, {10: 10 / (10 + math.e), 20: 10 / (10 + math.e**2), 100_000: 0.0}),
        ({"kind": "inverse_sigmoid", "k": 1}, {1: 1 / (1 + math.e)}),
    ],
)
def test_decays_by_hand(table, expected):
    forcing = FORCINGS[table["kind"]].model_validate(table, strict=False)
    assert {step: forcing(step) for step in expected} == pytest.approx(expected)


@pytest.mark.parametrize("kind", FORCINGS)
def test_a_decay_never_rises_and_is_a_probability(kind):
    options = {"constant": {}, "linear": {"k": 50.0}, "exponential": {"k": 0.99}, "inverse_sigmoid": {"k": 20.0}}
    forcing = FORCINGS[kind].model_validate(options[kind])
    values = [forcing(step) for step in range(1, 300)]
    assert values == sorted(values, reverse=True)
    assert 0 <= values[-1] <= values[0] <= 1


def test_the_setting_is_a_number_or_a_table():
    assert TrainConfig(teacher_forcing=0.9).teacher_forcing == 0.9
    assert TrainConfig.model_validate({"teacher_forcing": {"kind": "constant", "p": 0.9}}).teacher_forcing == 0.9
    assert TrainConfig().teacher_forcing == TrainConfig(teacher_forcing=1).teacher_forcing == 1.0
    config = TrainConfig.model_validate({"teacher_forcing": {"kind": "linear", "k": 10.0}})
    assert config.teacher_forcing(5) == 0.5
    assert TrainConfig.model_validate(config.model_dump()) == config, "as a run folder keeps it"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, r"train\.teacher_forcing.*less than or equal to 1"),
        ({"kind": "linaer", "k": 1.0}, r'train\.teacher_forcing\.kind = "linaer".*did you mean "linear"'),
        ({"kind": "linear"}, r"train\.teacher_forcing.*k.*is missing"),
        ({"kind": "exponential", "k": 1.0}, r"train\.teacher_forcing.*less than 1"),
        ({"kind": "linear", "k": 9.0, "epsilo": 0.1}, r"train\.teacher_forcing\.epsilo: no such.*epsilon"),
        ("often", r"train\.teacher_forcing: 'often' is neither a number nor a table"),
    ],
)
def test_a_wrong_setting_is_named(value, message):
    tree = {"task": "lm", "data": {"train": "text.txt"}, "train": {"teacher_forcing": value}}
    with pytest.raises(ConfigError, match=message):
        validate(tree)


def test_truncated_backpropagation_reads_the_text_as_it_is():
    with pytest.raises(ValueError, match=r"truncate = 8 .* teacher_forcing"):
        TrainConfig(truncate=8, teacher_forcing=0.5)


class TestMixing:
    @pytest.mark.parametrize("table", [RNN, TRANSFORMER, CONV], ids=["rnn", "transformer", "conv"])
    def test_the_truth_alone_costs_nothing(self, table):
        model, given = language_model(table), tokens()
        before = torch.get_rng_state()
        assert mix(model.decoder, model.output, given, None, truth=1.0) is given
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize("table", [RNN, CONV], ids=["rnn", "conv"])
    def test_without_any_truth_the_model_goes_on_from_the_first_token(self, table):
        model, given = language_model(table), tokens()
        read = mix(model.decoder, model.output, given, None, truth=0.0)
        assert torch.equal(read[:, 0], given[:, 0])
        assert torch.equal(read[:, 1:], model.output(model(read)).argmax(-1)[:, :-1])

    @pytest.mark.parametrize("context", ["first", "every", "attention", "after"])
    def test_every_recurrent_decoder_reads_what_it_writes(self, context):
        model, given = translator(RNN | {"context": context}), tokens()
        memory = model.encode(tokens(), torch.tensor([6, 4, 2]))
        read = mix(model.decoder, model.output, given, memory, truth=0.0)
        written = model.output(model.decoder(read, memory)).argmax(-1)
        assert torch.equal(read[:, 1:], written[:, :-1])

    def test_a_transformer_chooses_after_the_true_tokens(self):
        model, given = translator(TRANSFORMER), tokens()
        memory = model.encode(tokens(), torch.tensor([6, 4, 2]))
        read = mix(model.decoder, model.output, given, memory, truth=0.0)
        assert torch.equal(read[:, 0], given[:, 0])
        assert torch.equal(read[:, 1:], model.output(model.decoder(given, memory)).argmax(-1)[:, :-1])

    def test_packed_rows_are_mixed_like_padded_ones(self):
        model, given, lengths = language_model(TRANSFORMER), tokens(), torch.tensor([6, 2, 4])
        packing = Packing.of(lengths)
        padded = mix(model.decoder, model.output, given, None, lengths, truth=0.0)
        packed = mix(model.decoder, model.output, packing.unpad(given), None, packing, truth=0.0)
        assert torch.equal(packed, packing.unpad(padded))

    @pytest.mark.parametrize("table", [RNN, TRANSFORMER], ids=["rnn", "transformer"])
    def test_the_share_of_the_truth_is_as_asked(self, table):
        model, given = language_model(table), torch.full((40, 51), VOCABULARY)  # which the model never writes
        model.decoder.embedding.weight = torch.nn.Parameter(torch.randn(VOCABULARY + 1, 8))
        read = mix(model.decoder, model.output, given, None, truth=0.7)
        assert (read[:, 1:] == VOCABULARY).double().mean().item() == pytest.approx(0.7, abs=0.03)

    @pytest.mark.parametrize("table", [RNN, TRANSFORMER], ids=["rnn", "transformer"])
    def test_the_pass_that_learns_is_the_one_over_the_mixture(self, table):
        """In bf16 too, where what was cast for the choice must not be used again without its gradient."""
        model, given = translator(table, encoder=table), tokens()
        source, lengths = tokens(), torch.tensor([6, 4, 2])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(source, lengths, given, truth=0.0).float().square().sum().backward()
        gradients = {name: weight.grad for name, weight in model.named_parameters()}
        model.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            read = mix(model.decoder, model.output, given, model.encode(source, lengths), truth=0.0)
        with torch.autocast("cpu", dtype=torch.bfloat16):  # a new context has cast nothing yet
            model(source, lengths, read).float().square().sum().backward()
        for name, weight in model.named_parameters():
            assert (weight.grad is None) is (gradients[name] is None), name
            if weight.grad is not None:
                torch.testing.assert_close(gradients[name], weight.grad, msg=name)


def task_of(name):
    codec = Codec({"": Tokenizer.learn(["abc"], TextConfig(kind="char"))}, ("x", "y"))
    return TASKS[name](codec, TASKS[name].sections.data(train="file.tsv"))


def test_the_probability_goes_by_the_number_of_the_update(points, run_steps):
    seen = []

    class Writing:
        name = "writing"

        def forced_loss(self, model, batch, *, truth, label_smoothing=0.0):
            seen.append(truth)
            return Loss((model(batch.x) - batch.y).square().sum(), batch.count)

    forcing = FORCINGS["linear"].model_validate({"k": 10.0})
    _, loop = run_steps([points()] * 4, accumulate=2, start=4, objective=ScheduledSampling(Writing(), forcing))
    assert [step.number for step in loop] == [5, 6]
    assert seen == [0.5, 0.5, 0.4, 0.4]


def test_plain_teacher_forcing_is_the_task_itself():
    task = task_of("translate")
    assert build_objective(task, translator(RNN), TrainConfig()) is task
    assert isinstance(build_objective(task, translator(RNN), TrainConfig(teacher_forcing=0.5)), ScheduledSampling)


def test_a_task_that_writes_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"train\.teacher_forcing.*classify writes no tokens"):
        build_objective(task_of("classify"), torch.nn.Linear(1, 1), TrainConfig(teacher_forcing=0.5))
