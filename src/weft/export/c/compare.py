"""Compiles an exported model and compares its answers with those of the run, for fixed texts made of the vocabulary."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.errors import ConfigError, Fault
from weft.export.c.samples import samples_of
from weft.models import NgramModel
from weft.nn.native.compiler import NoCompiler, find_compiler
from weft.run import Run
from weft.tasks import Prediction
from weft.tasks.filling import gap_text

OPTIONS: Final = ("-std=c99", "-O2", "-Wall", "-Werror")
MAX_LANGUAGES: Final = 4
MAX_NEW_TOKENS: Final = 24
TOLERANCE: Final = 1e-4
"""The most by which two probabilities, or two numbers of at most 10, may differ; larger ones in proportion."""

TIE: Final = 1e-3
"""The most by which the scores of two texts may differ that are taken for equally good."""

SAME: Final = 2e-6
"""The most by which the numbers of two candidates may differ that stand in either order."""

COMPILE_SECONDS: Final = 600

_QUANTILE: Final = re.compile(r"q0?\.\d+")
"""The head of the numbers of a quantile."""


class CAgreement(NamedTuple):
    """How many of the lines have the same answer, and the largest difference of a number; a task that writes answers
    each line greedily and with a beam."""

    lines: int
    equal: int
    difference: float

    def describe(self) -> str:
        return f"{self.equal} of {self.lines} answers equal, numbers within {self.difference:.1e}"


def compile_folder(folder: Path, *, compiler: Sequence[str] | None = None, options: Sequence[str] = OPTIONS) -> Path:
    """Compile the folder as its README says; return the program."""
    try:
        command = list(compiler or find_compiler())
    except NoCompiler as error:
        raise ConfigError(
            f"{error}", where="--to c", cure="the exported C is compiled and compared with the run before it is left"
        ) from None
    program = folder / "model"
    done = subprocess.run(
        [*command, *options, "-o", program.name, "model.c", "main.c", "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
        raise Fault(f"{command[0]} does not compile the exported model: {first}")
    return program


def answers_of(program: Path, lines: Sequence[str], *options: str) -> list[str]:
    """The lines that the program prints for some input lines."""
    done = subprocess.run(
        [str(program), str(program.parent / "weights.bin"), *options],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        timeout=COMPILE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise Fault(f"the exported program ends with {done.returncode}: {done.stderr[:200].decode(errors='replace')}")
    return done.stdout.decode("utf-8").split("\n")[:-1]


def compare_c(run: Run, program: Path, *, exact: bool = True) -> CAgreement:
    """Compare the answers of a compiled model with those of the run; with `exact` raise a Fault where one differs."""
    with tempfile.TemporaryDirectory(prefix="weft-c-") as folder:
        lines, given = map(list, zip(*samples_of(run, Path(folder)), strict=True))
        if not run.task.writes:
            return _compare(lines, run.predict(given), program, (), exact=exact)
        return _compare_texts(run, program, lines, given, exact=exact)


def _compare_texts(run: Run, program: Path, lines: list[str], given: list[Any], *, exact: bool) -> CAgreement:
    """Compare written texts, greedily and by beam; of counts drawn texts, and of several languages each."""
    total, decode = CAgreement(0, 0, 0.0), run.config.decode
    longest = min(MAX_NEW_TOKENS, decode.max_length)
    plain: dict[str, Any] = {"n_best": 1, "max_length": longest, "stop_at": [], "copy_unknown": False}
    beams = dict.fromkeys((1, 4 if decode.sample or decode.beam == 1 else decode.beam))
    # Many texts are equally likely by counts, and a search may find any of them; a drawn text depends on each number.
    drawn = isinstance(run.model, NgramModel)
    languages = getattr(getattr(run.task, "languages", None), "names", ()) or (None,)
    for beam, language in product((1,) if drawn else beams, languages[:MAX_LANGUAGES]):
        own = {"sample": True, "top_p": 1.0, "top_k": 0} if drawn else {"sample": False, "groups": 1, "beam": beam}
        own |= {} if language is None else {"language": language}
        ours = run.predict(given, **own, **plain)
        options: tuple[str, ...] = (
            "--n-best",
            "1",
            "--max-length",
            str(longest),
            "--beam",
            str(beam),
            "--sample" if drawn else "--no-sample",
        )
        options += ("--top-p", "1", "--top-k", "0") if drawn else ()
        options += () if language is None else ("--language", language)
        one = _compare(lines, ours, program, options, exact=exact)
        total = CAgreement(total.lines + one.lines, total.equal + one.equal, max(total.difference, one.difference))
    return total


def precise(answer: Prediction) -> str:
    """An answer as the program prints it with --precise."""
    found = answer.record()
    if "candidates" in vars(answer):
        return "\t".join(f"{one.text}\t{one.score:.9g}".replace("\n", " ") for one in vars(answer)["candidates"])
    if "tags" in found:
        parts = zip(found["words"], found["tags"], found["probabilities"], strict=True)
        return " ".join(f"{word}/{tag}/{share:.9g}" for word, tag, share in parts)
    if "gaps" in vars(answer):
        return "\t".join([str(answer), *(gap_text(gap, "{} {:.9g}") for gap in vars(answer)["gaps"])])
    if "neighbours" in found:
        return "\t".join(f"{word} {similarity:.9g}" for word, similarity in vars(answer)["neighbours"])
    if "quantiles" in vars(answer):
        levels = [[f"q{level:g}", *map("{:.9g}".format, row)] for level, row in vars(answer)["quantiles"].items()]
        return "\t".join([*map("{:.9g}".format, found["forecast"]), *(part for row in levels for part in row)])
    if isinstance(found.get("probabilities"), dict):
        return "\t".join(f"{label}\t{share:.9g}" for label, share in found["probabilities"].items())
    if "number" in found:
        return f"{found['number']:.9g}"
    return answer.line(probabilities=True)


def _compare(
    lines: Sequence[str], answers: Sequence[Prediction], program: Path, options: Sequence[str], *, exact: bool
) -> CAgreement:
    """Compare words and numbers; a model in int8 has other numbers, and its answers are counted without them."""
    ours, theirs = [precise(answer) for answer in answers], answers_of(program, lines, "--precise", *options)
    if len(ours) != len(theirs):
        raise Fault(f"the exported program answers {len(theirs)} of {len(ours)} lines")
    plain = [] if exact else answers_of(program, lines, *options)
    equal, most = 0, 0.0
    for line, own, other in zip(lines, ours, theirs, strict=True):
        difference = difference_of(own, other)
        if difference is not None:
            most = max(most, difference)
        same = difference is not None and difference <= TOLERANCE
        equal += same
        if exact and not same and not _tie(own, other):
            raise Fault(f"the exported model differs for {line!r}: {own!r} here and {other!r} there")
    if not exact:
        equal = sum(answer.line() == other for answer, other in zip(answers, plain, strict=True))
    return CAgreement(len(lines), equal, most)


def difference_of(own: str, other: str) -> float | None:
    """The largest difference of a number, where the words are the same."""
    pairs, their_pairs = _pairs(own), _pairs(other)
    if pairs is not None and their_pairs is not None:
        return _difference_of_pairs(pairs, their_pairs)
    ours, theirs = (list[str](re.split(r"[\t /]", text)) for text in (own, other))
    if len(ours) != len(theirs):
        return None
    most = 0.0
    for place, (one, two) in enumerate(zip(ours, theirs, strict=True)):
        if one == two:
            continue
        if _is_number(one) and _is_number(two):
            most = max(most, _distance(float(one), float(two)))
        elif not _swapped(ours, theirs, place):
            return None
    return most


def _distance(a: float, b: float) -> float:
    """The difference of two numbers, of large ones in proportion."""
    return abs(a - b) / max(1.0, abs(a) / 10)


def _pairs(text: str) -> list[tuple[str, float]] | None:
    """Labels or texts, each with its number; None for another answer."""
    pieces = text.split("\t")
    quantiles = any(_QUANTILE.fullmatch(piece) for piece in pieces)
    if len(pieces) % 2 or quantiles or not all(map(_is_number, pieces[1::2])):
        return None
    return list(zip(pieces[::2], map(float, pieces[1::2]), strict=True))


def _difference_of_pairs(own: list[tuple[str, float]], other: list[tuple[str, float]]) -> float | None:
    """The largest difference of the numbers of the same texts. Of equally likely ones each side may have another order,
    and other ones at the end."""
    if len(own) != len(other):
        return None
    theirs, most, left = list(other), 0.0, list[float]()
    for text, number in own:
        found = next((pair for pair in theirs if pair[0] == text), None)
        if found is None:
            left.append(number)
            continue
        theirs.remove(found)
        most = max(most, _distance(number, found[1]))
    last = min((number for _, number in own), default=0.0)
    ties = [abs(number - last) for number in (*left, *(number for _, number in theirs))]
    return most if all(one <= SAME for one in ties) else None


def _swapped(own: list[str], other: list[str], place: int) -> bool:
    """Whether a candidate stands at another place of the other list because several have the same number, or is left
    out there because it has that of the last one."""
    if place + 1 >= len(own) or not _is_number(own[place + 1]):
        return False
    mine = float(own[place + 1])
    found = [float(number) for name, number in pairwise(other) if name == own[place] and _is_number(number)]
    found += [float(own[-1])] if _is_number(own[-1]) else []
    return any(abs(mine - number) <= SAME for number in found)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _tie(own: str, other: str) -> bool:
    """Whether two texts are different and equally good."""
    scores = [text.rsplit("\t", 1)[-1] for text in (own, other)]
    try:
        one, two = map(float, scores)
    except ValueError:
        return False
    return abs(one - two) <= TIE * max(1.0, abs(one))
