"""A good file of every kind that weft reads."""

from __future__ import annotations

import json
from pathlib import Path

ROWS = [("the red", "colour"), ("the \u00e9t\u00e9, and more", "season"), ('a "dog"', "animal"), ("one\ttwo", "number")]

CONLLU = """# text = the cat sleeps
1\tthe\tthe\tDET\t_\tDefinite=Def\t2\tdet\t_\t_
2-3\tcatsleeps\t_\t_\t_\t_\t_\t_\t_\t_
2\tcat\tcat\tNOUN\t_\tNumber=Sing\t3\tnsubj\t_\t_
3\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_
3.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_

1\tit\tit\tPRON\t_\t_\t0\troot\t_\tSpaceAfter=No
"""

CONFIG = """# a comment
task = "classify"
seed = 3
name = "a \\u00e9 name"

[data]
train = "labelled.tsv"
max_length = 100

[model]
hidden = 16
embedding = 8
dropout = 0.1
cell = {kind = "lstm", forget_bias = 1.0}

[train]
steps = 10
rate = 3e-4
"""

TREE = {
    "task": "translate",
    "data": {"train": "pairs.tsv", "max_length": 50},
    "text": {"kind": "bpe", "size": 500},
    "model": {"encoder": {"hidden": 8, "embedding": 8}, "decoder": {"hidden": 8, "embedding": 8}},
    "decode": {"beam": 4, "length_penalty": 0.5},
}


def write_samples(folder: Path) -> None:
    """The files, by the names that the loaders know them by."""
    objects = [{"text": text, "label": label} for text, label in ROWS]
    quoted = "".join('"{}",{}\n'.format(text.replace('"', '""'), label) for text, label in ROWS)
    files = {
        "labelled.tsv": "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS[:3]),
        "labelled.csv": "text,label\n" + quoted,
        "labelled.json": json.dumps(objects, ensure_ascii=False, indent=1),
        "labelled.jsonl": "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in objects),
        "pairs.tsv": "one two\tun deux\nthree\ttrois\n\tempty\n",
        "tagged.conllu": CONLLU,
        "tagged.txt": "the DET\ncat NOUN\nsleeps VERB\n\na DET\ndog NOUN\n",
        "texts.txt": "the cat sleeps\n\nthe \u00e9t\u00e9\r\nand more\n",
        "1.txt": "the cat sleeps\nall day\n",
        "config.toml": CONFIG,
        "config.json": json.dumps(TREE, indent=2),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8", newline="")
