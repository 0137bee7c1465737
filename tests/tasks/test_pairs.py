"""What pairs get by default, by what their texts look like; what a person wrote stays."""

from __future__ import annotations

import pytest

from weft.config import fill, validate
from weft.data import Shape
from weft.models import TranslatorConfig
from weft.tasks import Codec, Facts, Translate, encode
from weft.tasks.pair_settings import PairData
from weft.text import TextConfig, Tokenizer

SENTENCE = Shape(characters=34, words=6, total=6000, distinct=1000, alphabet=80)
WORD = Shape(characters=14, words=1, total=1000, distinct=1000, alphabet=30)
PHRASE = Shape(characters=26, words=2, total=2000, distinct=1000, alphabet=53)
PHONES = Shape(characters=15, words=8, total=8000, distinct=50, alphabet=40)
ACTIONS = Shape(characters=118, words=12, total=12000, distinct=6, alphabet=19)
CHINESE = Shape(characters=12, words=1, total=1000, distinct=1000, alphabet=900)

ITEMS = ("word", "keep", 1)
LETTERS = ("char", "split", 1)
SUBWORDS = ("bpe", "split", 1)


def filled(source, target, **written):
    facts = Facts(1000, 1000 * source.characters, source=source, target=target)
    return fill({"task": "translate", "data": {"train": "x"}} | written, facts)


def tokens(config):
    sides = (config.text.side(config.text.source), config.text.side(config.text.target))
    return [(side.kind, side.punctuation, side.min_count) for side in sides]


@pytest.mark.parametrize(
    ("source", "target", "kinds", "metric"),
    [
        (SENTENCE, SENTENCE, [SUBWORDS, SUBWORDS], "bleu"),
        (PHRASE, WORD, [LETTERS, LETTERS], "exact"),
        (WORD, PHONES, [LETTERS, ITEMS], "exact"),
        (PHONES, WORD, [ITEMS, LETTERS], "exact"),
        (Shape(41, 7, 7000, 13, 21), ACTIONS, [ITEMS, ITEMS], "exact"),
        (SENTENCE, CHINESE, [SUBWORDS, LETTERS], "chrf"),
        (CHINESE, SENTENCE, [LETTERS, SUBWORDS], "bleu"),
    ],
)
def test_tokens_and_metric_follow_the_texts(source, target, kinds, metric):
    config = filled(source, target)
    assert tokens(config) == kinds
    assert config.train.metric == metric
    assert validate(config.tree()) == config, "a filled configuration says everything"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ({"kind": "bpe"}, [SUBWORDS, SUBWORDS]),
        ({"kind": "char"}, [LETTERS, LETTERS]),
        ({"source": {"kind": "unigram"}}, [("unigram", "split", 1), ITEMS]),
        ({"target": {"kind": "char"}}, [LETTERS, LETTERS]),
        ({"shared": True}, [LETTERS, LETTERS]),
        ({"min_count": 3}, [("char", "split", 3), ("word", "keep", 3)]),
    ],
)
def test_what_a_person_wrote_about_tokens_stays(text, kinds):
    assert tokens(filled(WORD, PHONES, text=text)) == kinds


def test_a_metric_that_a_person_wrote_stays():
    assert filled(WORD, PHONES, train={"metric": "wer"}).train.metric == "wer"


def test_items_come_back_as_they_were():
    """Blanks between all items, also before marks of punctuation, and upper case stays."""
    side = filled(WORD, PHONES).text
    texts = ["aː t . j ə", "( I_JUMP", "i I ˈ , ."]
    tokenizer = Tokenizer.learn(texts, TextConfig(**side.side(side.target).model_dump()))
    assert [tokenizer.decode(tokenizer.encode(text)) for text in texts] == texts


@pytest.mark.parametrize("task", ["translate", "classify", "tag", "lm"])
def test_a_few_lines_get_enough_updates_and_many_are_read_a_few_times(task):
    model = {} if task == "translate" else {"kind": "rnn"}

    def epochs(examples):
        tree = {"task": task, "data": {"train": "x"}, "model": model}
        return fill(tree, Facts(examples, examples * 40)).train.epochs

    counts = [20, 30, 50, 80, 150, 300, 600, 1200, 2500, 5000, 10_000, 20_000, 50_000, 100_000]
    found = [epochs(count) for count in counts]
    assert found[0] >= 300
    assert found[-1] <= 12
    for count, before, after in zip(counts[1:], found, found[1:], strict=False):
        assert after <= before, "more data is never read more often"
        assert after >= before / 3, f"no step at {count}"


def test_epochs_follow_the_batch_that_a_person_wrote():
    facts = Facts(100, 4000)
    small, large = (
        fill({"task": "translate", "data": {"train": "x"}, "train": {"batch_tokens": size}}, facts).train.epochs
        for size in (256, 1024)
    )
    assert small < large


@pytest.mark.parametrize(
    ("source", "target", "times"), [("word", "word", 6), ("bpe", "char", 5), ("bpe", "bpe", 2), ("char", "word", 2)]
)
def test_an_answer_may_be_as_much_longer_than_its_source_as_the_tokens_allow(source, target, times):
    """A command of a few words may stand for many actions, and a subword for several letters."""
    kinds = {"source": source, "target": target}
    sizes = {"embedding": 4, "hidden": 4}
    codec = Codec({side: Tokenizer.learn(["a b c d"], TextConfig(kind=kind)) for side, kind in kinds.items()})
    task, model = (
        Translate(codec, PairData(train="x")),
        Translate.build(TranslatorConfig(encoder=sizes, decoder=sizes), codec),
    )
    batch = task.collate(encode(task, [task.record("a b c d")]), [0])
    [limit] = task.question(model, batch, records=[]).limits
    assert limit >= times * int(batch.source_lengths[0]) + 20
