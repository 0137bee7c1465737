"""One hostile folder read by one command: how it is made, and all that is wrong with what came of it."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

from tests.faults.forked import Ended, Forked
from tests.faults.hostile.row import Row

MOST_MEGABYTES, MOST_CPU_SECONDS, MOST_LETTERS = 1500, 5.0, 2000
MOST_WORKING = 30.0
"""Seconds of CPU where a command goes on to train or compile, which is no refusal."""
BUSY = 2.0
"""Times as many seconds are allowed to a command that starts Python: on a busy machine that takes longer."""
COMMANDS = "tests.faults.hostile.commands"
SECRET = "what stands outside of a run folder is nobody's business"
SMALL = ("model.embedding=8", "model.hidden=8")
WIDE = (
    "model.kind=transformer",
    "model.width=8",
    "model.heads=2",
    "model.layers=1",
    "model.positions=learned",
    "model.max_positions=300",
)
STEPS = ("train.steps=12", "train.batch_tokens=64", "train.evaluate_every=4", "train.checkpoint_every=3")
WRITING = {"resume": "run", "train with kept tokens": "out"}
"""Commands that train, and where they may write."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal acts on, and must never get from a folder."""


class Result(NamedTuple):
    """What an attempt took, and all that is wrong with it."""

    faults: tuple[str, ...]
    ended: Ended


class Battery:
    """The runs that are changed, each trained when it is first needed, and the answers that they give as they are."""

    def __init__(self, forked: Forked, base: Path) -> None:
        self.forked, self.base, self.number = forked, base, 0
        self.answers: dict[tuple[str, str], str] = {}
        self._write_data()
        self.training = ["train", "classify", str(base / "labelled.tsv"), *SMALL, *STEPS, "--out"]

    def run(self, name: str) -> Path:
        """A run as weft wrote it, or the cache that it left."""
        folder = self.base / name
        if not folder.exists():
            cache = {"WEFT_CACHE": str(folder)}
            match name:
                case "classify":
                    self._make("plainly", [*self.training, name])
                case "halfway":
                    self._make("killed_at", [*self.training, name], "/checkpoints/.9")
                case "lm":
                    self._make("plainly", ["train", "lm", "texts.txt", *WIDE, *STEPS, "--out", name])
                case "ngram":
                    order = ("model.order=3", "text.kind=word")
                    self._make("plainly", ["train", "lm", "texts.txt", "model.kind=ngram", *order, "--out", name])
                case "hmm":
                    self._make(
                        "plainly", ["train", "tag", "tagged.txt", "model.kind=hmm", "data.column=1", "--out", name]
                    )
                case "bag":
                    self._make("plainly", ["train", "classify", "labelled.tsv", "model.kind=bag", "--out", name])
                case "vectors":
                    small = ("model.embedding=4", "text.min_count=1", "train.epochs=1")
                    self._make("plainly", ["train", "embed", "texts.txt", *small, "--out", name])
                case "numbers":
                    small = ("model.kind=rnn", *SMALL, "train.steps=2")
                    self._make("plainly", ["train", "regress", "numbers.tsv", *small, "--out", name])
                case "tokens":
                    self._make("keeping_tokens", [*self.training, "kept"], variables=cache)
                case "compiled":
                    self._make("plainly", ["predict", str(self.run("classify")), "in.txt"], variables=cache)
        return folder

    def _write_data(self) -> None:
        draw = random.Random(0)
        kinds = {"colour": ["red", "green", "blue"], "animal": ["cat", "dog", "cow"]}
        rows = [(f"the {draw.choice(words)} and {n}", label) for n in range(40) for label, words in kinds.items()]
        lines = "".join(f"{text}\t{label}\n" for text, label in rows)
        (self.base / "labelled.tsv").write_text("text\tlabel\n" + lines, encoding="utf-8")
        (self.base / "texts.txt").write_text("".join(f"{text}\n" for text, _ in rows), encoding="utf-8")
        numbers = "".join(f"{text}\t{number / 7}\n" for number, (text, _) in enumerate(rows))
        (self.base / "numbers.tsv").write_text("text\tlabel\n" + numbers, encoding="utf-8")
        tagged = "".join("".join(f"{word} {word[0]}\n" for word in text.split()) + "\n" for text, _ in rows)
        (self.base / "tagged.txt").write_text(tagged, encoding="utf-8")
        (self.base / "in.txt").write_text("the red\nthe cat\n", encoding="utf-8")

    def _make(self, how: str, *arguments: object, variables: dict[str, str] | None = None) -> None:
        ended = self.forked.run(f"{COMMANDS}:{how}", *arguments, cwd=self.base, variables=variables)
        assert ended.code == (-signal.SIGKILL if how == "killed_at" else 0), ended.err

    def attempt(self, row: Row, *, really: bool = False) -> Result:
        """Change a copy of the run and let the command read it; `really` starts Python anew for it."""
        folder = self.folder(row.base)
        row.change(folder / "run")
        before = _tree(folder)
        ended, answer = self._read(row, folder, really=really)
        after = _tree(folder)
        touched = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        free = WRITING.get(row.command) or (row.base if row.base in ("tokens", "compiled") else "nothing")
        faults = judge(row, ended, really=really) + [
            f"touched {name}" for name in sorted(touched) if name.split("/")[0] not in (free, ".", *_caches(row))
        ]
        if row.expected.same and ended.code == 0 and answer != self._answer(row):
            faults.append(f"another answer than without the change: {answer[:80]!r}")
        shutil.rmtree(folder)
        return Result(tuple(faults), ended)

    def folder(self, base: str) -> Path:
        self.number += 1
        folder = self.base / "attempts" / str(self.number)
        (folder / "outside").mkdir(parents=True)
        (folder / "outside" / "secret").write_text(SECRET, encoding="utf-8")
        shutil.copytree(self.run(base), folder / "run")
        return folder

    def _answer(self, row: Row) -> str:
        """What the command says of the run without a change."""
        key = row.command, row.base
        if key not in self.answers:
            folder = self.folder(row.base)
            ended, self.answers[key] = self._read(row, folder)
            assert ended.code == 0, ended.err
            shutil.rmtree(folder)
        return self.answers[key]

    def _read(self, row: Row, folder: Path, *, really: bool = False) -> tuple[Ended, str]:
        """How the command ended, and its answer: what it wrote, or the weights that it trained."""
        how, words = self._command(row)
        how = "really" if really and how == "plainly" else how
        cache = {"WEFT_CACHE": str(folder / "run")} if _caches(row) else None
        limits = {"seconds": 30.0, "gigabytes": 6.0}
        ended = self.forked.run(f"{COMMANDS}:{how}", words, cwd=folder, variables=cache, **limits)
        trained = folder / WRITING.get(row.command, "nowhere") / "model.safetensors"
        return ended, hashlib.sha256(trained.read_bytes()).hexdigest() if trained.is_file() else ended.out

    def _command(self, row: Row) -> tuple[str, list[str]]:
        """Which function of commands.py runs it, and its words."""
        data = str(self.base / ("texts.txt" if row.base == "lm" else "labelled.tsv"))
        given, good = str(self.base / "in.txt"), str(self.run("classify"))
        return {
            "predict": ("plainly", ["predict", "run", given]),
            "predict as JSON": ("plainly", ["predict", "run", given, "--json"]),
            "predict on a terminal": ("on_terminal", ["predict", "run", given]),
            "evaluate": ("plainly", ["evaluate", "run", data]),
            "evaluate on a terminal": ("on_terminal", ["evaluate", "run", data]),
            "inspect": ("plainly", ["inspect", "parameters", "run"]),
            "compare": ("plainly", ["compare", good, "run"]),
            "export": ("plainly", ["export", "run", "--to", "huggingface", "--out", "exported"]),
            "resume": ("plainly", [*self.training, "run", "--resume"]),
            "train with kept tokens": ("keeping_tokens", [*self.training, "out"]),
            "predict with this cache": ("plainly", ["predict", good, given]),
        }[row.command]


def _caches(row: Row) -> tuple[str, ...]:
    """Where the command keeps things, of a row about that."""
    return ("run",) if row.base in ("tokens", "compiled") else ()


def judge(row: Row, ended: Ended, *, really: bool) -> list[str]:
    """What is wrong with how a command ended, what it said and what it took."""
    said = ended.err + (ended.out if "terminal" in row.command else "")
    lines = [line for line in said.splitlines() if line.startswith(("error", "fault"))]
    told = said.splitlines() if row.command not in WRITING else lines
    working = row.base == "compiled" or (row.command in WRITING and ended.code == 0)
    most_seconds = MOST_WORKING if working else MOST_CPU_SECONDS * (BUSY if really else 1)
    checks = {
        f"exit code {ended.code}": ended.code in row.expected.codes,
        "a traceback": "Traceback" not in said,
        "called a mistake in weft": "mistake in weft" not in said,
        f"{len(told)} lines instead of one": ended.code == 0 or len(told) == len(lines) == 1,
        "a line that is too long": all(len(line) <= MOST_LETTERS for line in lines),
        "raw control characters": not CONTROL.search(said.replace("\r\n", "\n")),
        "a secret of another file": SECRET not in ended.out + ended.err,
        "NaN or Infinity in JSON": "JSON" not in row.command or not re.search(r"\b(NaN|Infinity)\b", ended.out),
        f"{ended.megabytes:.0f} MB": ended.megabytes < MOST_MEGABYTES,
        f"{ended.cpu_seconds:.1f} s of CPU": ended.cpu_seconds < most_seconds,
        **{f"no word of {word}": bool(re.search(word, said)) for word in row.expected.words},
    }
    found = [fault for fault, fine in checks.items() if not fine]
    return [*found, f"said {said[-300:]!r}"] if found else []


def _tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Everything below a folder: its mode, size and the time of its last change."""
    found = {}
    for path in folder.rglob("*"):
        info = path.lstat()
        found[str(path.relative_to(folder))] = (info.st_mode, info.st_size, info.st_mtime_ns)
    return found
