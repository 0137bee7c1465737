"""The subjects of reviews: topics, their aspects, and the words that praise or blame them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Aspect:
    """A part that can be praised or blamed on its own, such as the room of a hotel."""

    noun: str
    plural: bool
    good: tuple[str, ...]
    bad: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    """A thing that is reviewed; `experienced` completes `I have never …`, `again` completes `I will … again`."""

    noun: str
    experienced: str
    again: str
    aspects: tuple[Aspect, ...]


_TOPICS = """
hotel | stayed in | stay in this hotel
    room    | clean quiet comfortable bright spacious | dirty noisy uncomfortable dark cramped
    staff s | friendly helpful polite                 | rude unfriendly impatient
    breakfast | delicious fresh generous              | cold stale tasteless
    bed     | soft comfortable clean                  | hard uncomfortable dirty
restaurant | eaten in | eat in this restaurant
    food    | delicious fresh tasty                   | bland cold stale
    service | quick friendly attentive                | slow rude careless
    dessert | delicious light fresh                   | dry bland heavy
    waiters s | polite attentive friendly             | rude slow impatient
film | seen | watch this film
    story   | gripping moving original                | boring predictable confusing
    acting  | convincing brilliant natural            | wooden weak unconvincing
    ending  | satisfying clever moving                | silly disappointing confusing
    music   | beautiful powerful charming             | annoying loud dull
book | read | read this book
    plot    | gripping clever original                | boring predictable confusing
    style   | elegant clear lively                    | clumsy dull heavy
    characters s | believable charming funny          | flat unconvincing annoying
    ending  | satisfying clever moving                | silly disappointing rushed
phone | owned | buy this phone
    screen  | sharp bright clear                      | dim blurry fragile
    battery | reliable strong excellent               | weak unreliable useless
    camera  | sharp quick reliable                    | slow blurry useless
    buttons s | solid comfortable well-placed         | loose fragile awkward
tour | been on | book this tour
    guide   | patient funny helpful                   | rude impatient boring
    bus     | comfortable clean modern                | crowded dirty noisy
    walks s | pleasant varied interesting             | tiring dull endless
    lunch   | generous tasty fresh                    | cold bland tiny
concert | heard | listen to this band
    singer  | brilliant lively charming               | weak bored dull
    sound   | clear powerful balanced                 | loud muddy painful
    songs s | moving lively original                  | boring repetitive forgettable
    seats s | comfortable spacious clean              | hard cramped dirty
"""

GOOD = ("good", "great", "excellent", "wonderful", "fantastic")
BAD = ("bad", "awful", "terrible", "horrible", "poor")
LOVED = ("loved", "enjoyed", "really liked", "adored")
HATED = ("hated", "disliked", "really disliked", "could not stand")
STRENGTH = ("very", "really", "extremely", "quite")
OTHERS = ("my friends", "my parents", "the critics", "most people", "my colleagues", "the other guests")


def _read() -> tuple[Topic, ...]:
    topics: list[Topic] = []
    for line in _TOPICS.strip().splitlines():
        fields = [field.strip() for field in line.split("|")]
        if not line.startswith(" "):
            topics.append(Topic(fields[0], fields[1], fields[2], ()))
            continue
        noun, *mark = fields[0].split()
        aspect = Aspect(noun, bool(mark), tuple(fields[1].split()), tuple(fields[2].split()))
        last = topics[-1]
        topics[-1] = Topic(last.noun, last.experienced, last.again, (*last.aspects, aspect))
    return tuple(topics)


TOPICS = _read()
