"""Short opinions with a sentiment that is clear to a reader and hidden from a bag of words.

Every pattern gives either verdict with the same words in another arrangement: negation (not boring at all), contrast
(the room was dark, but I loved the hotel: the verdict decides), comparison (I have never read a better book), the
opinions of others (my friends hated it, but …).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from weft.phrasebook.draw import Draw
from weft.phrasebook.english import article
from weft.phrasebook.opinions import BAD, GOOD, HATED, LOVED, OTHERS, STRENGTH, TOPICS, Aspect, Topic

LABELS = ("negative", "positive")


@dataclass(frozen=True, slots=True)
class Review:
    """A text and its label, `positive` or `negative`."""

    text: str
    label: str


def review(random: Random) -> Review:
    """One opinion; either label is as likely as the other."""
    draw = Draw(random)
    good = draw.chance(0.5)
    text = draw.pick(_PATTERNS)(draw, draw.pick(TOPICS), good)
    return Review(text[0].upper() + text[1:] + draw.pick((".", ".", ".", "!")), LABELS[good])


def _be(aspect: Aspect) -> str:
    return "were" if aspect.plural else "was"


def _adjective(draw: Draw, aspect: Aspect, good: bool) -> str:
    return draw.pick(aspect.good if good else aspect.bad)


def _remark(draw: Draw, topic: Topic, good: bool) -> str:
    """the room was very clean; the room was not dirty at all."""
    aspect = draw.pick(topic.aspects)
    if draw.chance(0.35):
        unlike = _adjective(draw, aspect, not good)
        return f"the {aspect.noun} {_be(aspect)} {f'not {unlike} at all' if good else f'not {unlike}'}"
    strength = f"{draw.pick(STRENGTH)} " if draw.chance(0.5) else ""
    return f"the {aspect.noun} {_be(aspect)} {strength}{_adjective(draw, aspect, good)}"


def _verdict(draw: Draw, topic: Topic, good: bool) -> str:
    """The sentence that decides: I loved this film; I would not recommend the hotel."""
    it = draw.pick((f"this {topic.noun}", f"the {topic.noun}"))
    who = draw.pick(("I", "we"))
    choices = (
        f"{who} {draw.pick(LOVED if good else HATED)} {it}",
        f"{who} would {'' if good else 'not '}recommend {it}",
        f"{who} {'enjoyed' if good else 'did not enjoy'} {it}",
        f"{who} {'did not regret' if good else 'regretted'} choosing {it}",
        f"{who} will {draw.pick(('certainly', 'gladly')) if good else 'never'} {topic.again} again",
    )
    return draw.pick(choices)


def _plain(draw: Draw, topic: Topic, good: bool) -> str:
    return _remark(draw, topic, good) if draw.chance(0.6) else _verdict(draw, topic, good)


def _double(draw: Draw, topic: Topic, good: bool) -> str:
    """Two aspects: both good, or neither."""
    first, second = draw.pick(topic.aspects), draw.pick(topic.aspects)
    if first != second:
        ending = f"the {second.noun} {_be(second)} {_adjective(draw, second, good)}"
        return f"the {first.noun} {_be(first)} {_adjective(draw, first, good)} and {ending}"
    *some, last = first.bad if good else first.good
    return f"the {first.noun} {_be(first)} neither {draw.pick(some)} nor {last}"


def _contrast(draw: Draw, topic: Topic, good: bool) -> str:
    """The room was dark, but I loved the hotel."""
    link = draw.pick(("but", "but overall", "but in the end"))
    return f"{_remark(draw, topic, not good)}, {link} {_verdict(draw, topic, good)}"


def _although(draw: Draw, topic: Topic, good: bool) -> str:
    concession, verdict = _remark(draw, topic, not good), _verdict(draw, topic, good)
    return f"although {concession}, {verdict}" if draw.chance(0.6) else f"{verdict}, although {concession}"


def _expected(draw: Draw, topic: Topic, good: bool) -> str:
    """I expected an awful film, but it was wonderful."""
    before, after = draw.pick(BAD if good else GOOD), draw.pick(GOOD if good else BAD)
    who = draw.pick(("I", "we"))
    opening = draw.pick(
        (
            f"{who} expected {article(before)} {before} {topic.noun}",
            f"{who} thought that this {topic.noun} would be {before}",
            f"{who} had heard that this {topic.noun} was {before}",
        )
    )
    return f"{opening}, but it was {draw.pick(('', 'really ', 'truly '))}{after}"


def _compared(draw: Draw, topic: Topic, good: bool) -> str:
    """I have never read a better book; I have read better books."""
    who = draw.pick(("I", "we"))
    aspect = draw.pick(topic.aspects)
    better, worse = ("better", "worse") if good else ("worse", "better")
    much = draw.pick(("", "much ", "far "))
    choices = [
        f"{who} have never {topic.experienced} a {better} {topic.noun}",
        f"the {aspect.noun} {_be(aspect)} {much}{better} than {who} expected",
        f"this {topic.noun} is {much}{better} than the last one",
        f"the last {topic.noun} was {much}{worse} than this one",
        f"the {aspect.noun} could not have been {better}",
        f"no {topic.noun} has ever been {better} than this one",
    ]
    if not good:
        choices += [
            f"{who} have {topic.experienced} many better {topic.noun}s",
            f"the {aspect.noun} {_be(aspect)} not as {draw.pick(aspect.good)} as {who} expected",
        ]
    return draw.pick(choices)


def _nothing(draw: Draw, topic: Topic, good: bool) -> str:
    """There was nothing boring about this film; nothing about it was interesting."""
    aspect = draw.pick(topic.aspects)
    unlike, alike = _adjective(draw, aspect, not good), _adjective(draw, aspect, good)
    choices = (
        f"there was nothing {unlike} about the {aspect.noun}",
        f"the {aspect.noun} {_be(aspect)} anything but {unlike}",
        f"the {aspect.noun} {_be(aspect)} far from {unlike}",
        f"the {aspect.noun} {_be(aspect)} never {unlike}, only {alike}",
        f"nobody could call the {aspect.noun} {unlike}",
        f"I would never call the {aspect.noun} {unlike}",
    )
    return draw.pick(choices)


def _others(draw: Draw, topic: Topic, good: bool) -> str:
    """My friends hated this film, but I loved it: the speaker decides."""
    they = draw.pick(OTHERS[:-1] if topic.noun != "hotel" else OTHERS)
    theirs = draw.pick(HATED[:2] if good else LOVED[:2])
    mine = draw.pick(LOVED if good else HATED)
    if draw.chance(0.5):
        return f"{they} {theirs} this {topic.noun}, but I {mine} it"
    return f"I {mine} this {topic.noun}, whatever {they} may say about the {draw.pick(topic.aspects).noun}"


_PATTERNS: tuple[Callable[[Draw, Topic, bool], str], ...] = (
    _plain,
    _double,
    _contrast,
    _contrast,
    _although,
    _although,
    _expected,
    _compared,
    _nothing,
    _others,
)
