"""Turn Fashion-MNIST into pictures with captions: images/, train.tsv, valid.tsv and test.tsv.

    python recipes/fashion.py /usr/share/datasets/fashion-mnist --out data/fashion

The folder holds the four files *-ubyte.gz (MIT licence), as in Debian's package dataset-fashion-mnist. A grammar makes
two captions of each class; a picture for training has one of them by chance, and one for evaluation has both.

    caption → article noun detail | article adjective noun
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE, VALID = 28, 2000


class Class(NamedTuple):
    """The words of a class."""

    noun: str
    adjective: str
    detail: str

    def captions(self) -> tuple[str, str]:
        return with_article(f"{self.noun} {self.detail}"), with_article(f"{self.adjective} {self.noun}")


CLASSES = (
    Class("t-shirt", "short-sleeved", "with short sleeves"),
    Class("pair of trousers", "long", "with two legs"),
    Class("pullover", "warm", "with long sleeves"),
    Class("dress", "light", "in one piece"),
    Class("coat", "heavy", "with long sleeves and a zip"),
    Class("sandal", "open", "with straps"),
    Class("shirt", "buttoned", "with a collar"),
    Class("sneaker", "flat", "with laces"),
    Class("bag", "useful", "with a handle"),
    Class("ankle boot", "closed", "with a high shaft"),
)


def with_article(words: str) -> str:
    return f"{'an' if words[0] in 'aeio' else 'a'} {words}"


def read_part(folder: Path, name: str) -> Iterator[tuple[NDArray[np.uint8], Class]]:
    """The pictures of a part, (28, 28) bytes each, with their classes."""
    pictures = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes())[8:]
    for picture, label in zip(np.frombuffer(pictures, np.uint8).reshape(-1, SIDE, SIDE), labels, strict=True):
        yield picture, CLASSES[label]


def write(folder: Path, out: Path, *, most: int) -> dict[str, int]:
    """Write pictures and tables -> the number of pictures of each part."""
    draw = random.Random(0)
    rows: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    counts = dict.fromkeys(rows, 0)
    for name in ("train", "t10k"):
        (out / "images" / name).mkdir(parents=True, exist_ok=True)
        for number, (picture, kind) in enumerate(read_part(folder, name)):
            if number >= most:
                break
            path = f"images/{name}/{number:05d}.png"
            Image.fromarray(picture).save(out / path)
            part = "test" if name == "t10k" else "valid" if number < VALID else "train"
            captions = (draw.choice(kind.captions()),) if part == "train" else kind.captions()
            rows[part] += [f"{path}\t{caption}\n" for caption in captions]
            counts[part] += 1
    for part, lines in rows.items():
        (out / f"{part}.tsv").write_text("".join(["image\tcaption\n", *lines]), encoding="utf-8")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of the files *-ubyte.gz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most", type=int, default=60_000, help="pictures of each file")
    given = parser.parse_args()
    counts = write(given.folder, given.out, most=given.most)
    print(given.out, *(f"{part} {count:,}" for part, count in counts.items()))


if __name__ == "__main__":
    main()
