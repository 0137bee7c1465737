"""The runs that pictures of the documentation show: small models of the phrasebook, trained once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.browser.driver import weft

DATA: Final = "data/phrasebook"
TABLES: Final = {
    task: [f"{DATA}/{task}/{part}.tsv" for part in ("train", "valid", "test")] for task in ("translate", "classify")
}
TEXTS: Final = [f"{DATA}/lm/{part}.txt" for part in ("train", "valid")]
SIDES: Final = ("encoder", "decoder")

RUNS: Final[dict[str, list[str]]] = {
    "demo": ["translate", *TABLES["translate"], *(f"model.{side}.dropout=0.0" for side in SIDES)],
    "transformer": [
        "translate",
        *TABLES["translate"],
        *(
            f"model.{side}.{setting}"
            for side in SIDES
            for setting in ("kind=transformer", "width=64", "heads=4", "layers=2", "feedforward=128")
        ),
        "train.steps=1500",
    ],
    "characters": ["lm", *TEXTS, "text.kind=char", "model.kind=rnn", "model.hidden=64", "train.steps=300"],
    "classifier": ["classify", *TABLES["classify"], "train.steps=150"],
    "untrained": ["translate", *TABLES["translate"], "train.steps=1"],
}
"""The arguments of `weft train`; the translator `demo` takes two minutes on an idle core, the others a few seconds
each."""


def train_showcase(folder: Path) -> Path:
    """Train those of the runs that are not there yet, in FOLDER/runs, from data in FOLDER/data."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / DATA).exists():
        weft("data", "make", "phrasebook", "--out", DATA, cwd=folder)
    for name, arguments in RUNS.items():
        if not (folder / "runs" / name / "report.json").exists():
            weft("train", *arguments, "--out", f"runs/{name}", "train.threads=1", "--resume", cwd=folder)
    return folder
