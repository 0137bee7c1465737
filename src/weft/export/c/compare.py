"""Compiles an exported model and compares its answers with those of the run, for fixed texts made of the vocabulary."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.errors import ConfigError, Fault
from weft.models import NgramModel
from weft.nn.native.compiler import NoCompiler, find_compiler
from weft.run import Run
from weft.tasks import Prediction
from weft.text import SPECIALS, Tokenizer

OPTIONS: Final = ("-std=c99", "-O2", "-Wall", "-Werror")
LINES: Final = 24
MAX_WORDS: Final = 20
MAX_NEW_TOKENS: Final = 24
TOLERANCE: Final = 1e-4
"""The most by which two probabilities, or two numbers of at most 10, may differ; larger ones in proportion."""

TIE: Final = 1e-3
"""The most by which the scores of two texts may differ that are taken for equally good."""

COMPILE_SECONDS: Final = 600


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
    lines = sample_lines(run)
    if not run.task.writes:
        return _compare(lines, run.predict(lines), program, (), exact=exact)
    total, decode = CAgreement(0, 0, 0.0), run.config.decode
    longest = min(MAX_NEW_TOKENS, decode.max_length)
    plain: dict[str, Any] = {"n_best": 1, "max_length": longest, "stop_at": [], "copy_unknown": False}
    beams = dict.fromkeys((1, 4 if decode.sample or decode.beam == 1 else decode.beam))
    # Many texts are equally likely by counts, and a search may find any of them; a drawn text depends on each number.
    drawn = isinstance(run.model, NgramModel)
    for beam in (1,) if drawn else beams:
        own = {"sample": True, "top_p": 1.0, "top_k": 0} if drawn else {"sample": False, "groups": 1, "beam": beam}
        ours = run.predict(lines, **own, **plain)
        options: tuple[str, ...] = (
            "--n-best",
            "1",
            "--max-length",
            str(longest),
            "--beam",
            str(beam),
            "--sample",
            str(int(drawn)),
        )
        options += ("--top-p", "1", "--top-k", "0") if drawn else ()
        one = _compare(lines, ours, program, options, exact=exact)
        total = CAgreement(total.lines + one.lines, total.equal + one.equal, max(total.difference, one.difference))
    return total


def sample_lines(run: Run) -> list[str]:
    """Lines of words from the vocabulary, of different lengths, the same ones on every call."""
    draw, tokenizers = random.Random(0), run.task.codec.tokenizers
    tokenizer = tokenizers.get("source") or tokenizers.get("words") or tokenizers[""]
    pair = getattr(run.task.data, "pair", None) is not None
    found = []
    for number in range(LINES):
        texts = [_text(tokenizer, draw, 1 + number % MAX_WORDS) for _ in range(1 + pair)]
        found.append("\t".join(text or "a" for text in texts))
    return found


def _text(tokenizer: Tokenizer, draw: random.Random, count: int) -> str:
    ids = [draw.randrange(len(SPECIALS), max(len(SPECIALS) + 1, len(tokenizer))) for _ in range(count)]
    text = tokenizer.decode([index for index in ids if index < len(tokenizer)])
    return " ".join(re.sub(r"[\s\ufffd]+|<mask>|\[MASK\]", " ", text).split())


def precise(answer: Prediction) -> str:
    """An answer as the program prints it with --precise."""
    found = answer.record()
    if "candidates" in vars(answer):
        return "\t".join(f"{one.text}\t{one.score:.9g}".replace("\n", " ") for one in vars(answer)["candidates"])
    if "tags" in found:
        parts = zip(found["words"], found["tags"], found["probabilities"], strict=True)
        return " ".join(f"{word}/{tag}/{share:.9g}" for word, tag, share in parts)
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
    sides = []
    for text in (own, other):
        pieces = re.split(r"[\t /]", text)
        sides.append(pieces if "\t" not in text else _sorted_pairs(text.split("\t")))
    if len(sides[0]) != len(sides[1]):
        return None
    most = 0.0
    for one, two in zip(*sides, strict=True):
        if one == two:
            continue
        try:
            a, b = float(one), float(two)
        except ValueError:
            return None
        most = max(most, abs(a - b) / max(1.0, abs(a) / 10))
    return most


def _sorted_pairs(pieces: list[str]) -> list[str]:
    """Labels and numbers by label: two that are equally likely may stand in either order."""
    if len(pieces) % 2:
        return pieces
    return [part for pair in sorted(zip(pieces[::2], pieces[1::2], strict=True)) for part in pair]


def _tie(own: str, other: str) -> bool:
    """Whether two texts are different and equally good."""
    scores = [text.rsplit("\t", 1)[-1] for text in (own, other)]
    try:
        one, two = map(float, scores)
    except ValueError:
        return False
    return abs(one - two) <= TIE * max(1.0, abs(one))
