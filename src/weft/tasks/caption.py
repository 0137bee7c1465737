"""Caption: a picture to a text. Pictures with their captions in, captions out, BLEU and chrF over all references."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from weft import limits
from weft.data import (
    BadLines,
    Capacity,
    Columns,
    Examples,
    Limit,
    Pair,
    Picture,
    PixelShape,
    Ragged,
    Statistics,
    Steps,
    group_references,
    pack_pixels,
    pad_numbers,
    picture_of,
    pillow,
    read_captions,
    read_pixels,
    source_pair,
    unpack_pixels,
)
from weft.data.ragged import Ids
from weft.data.steps import read_steps
from weft.errors import DataError
from weft.models import DECODERS, PICTURE_ENCODERS, Captioner, CaptionerConfig
from weft.settings import Length, OneOf, TableError, Unread
from weft.tasks.features import FEATURES, learn_features, standardised
from weft.tasks.generation import Question
from weft.tasks.length import passes
from weft.tasks.pair_task import PairBatch, PairTask
from weft.tasks.pairs import choose_metric
from weft.tasks.sections import Facts, Sections, Tree, written
from weft.tasks.shift import predictions, shift
from weft.tasks.tables import ColumnSetting, TableData
from weft.tasks.task import Codec, Rows
from weft.text import EOS, SOS, TextConfig, Tokenizer, word_defaults

PIXELS = "pixels"
"""The column of pictures in examples, and the name of the statistics of their channels."""

SAMPLE = 256
"""Pictures whose pixels give the mean and scale of each channel."""

MAX_DEFAULT_SIDE = 64
"""The largest side of pictures by default."""

MIN_CACHED_PIXELS = 8_000_000
"""Pictures that have fewer pixels together are decoded quickly, and are not kept for the next run."""

PATCH = 4
"""A picture counts as one token for each square of so many pixels in the size of a batch."""

ONE_CHANNEL = Statistics((0.0,), (1.0,))
"""The statistics of a model that is only measured, before there is data."""


class CaptionData(TableData):
    """Pictures with captions: TSV, CSV or JSON with the path of a picture, relative to the file, and its caption."""

    image: ColumnSetting = "image"
    """The column of the picture's path: a name, a JSON path, or a number from 0."""
    caption: ColumnSetting = "caption"
    """The column of the caption, or several; in JSON also a list. A picture may be in several rows too."""
    features: ColumnSetting | None = None
    """Feature vectors in the place of pictures: a key of JSON with lists of numbers, or a column of .npy files."""
    size: Annotated[int, Field(ge=8, le=limits.PICTURE_SIDE)] = MAX_DEFAULT_SIDE
    """Pixels of the side to which pictures are resized; by default that of the training pictures, at most 64."""
    max_length: Length = 100
    """The greatest number of tokens of a training caption."""
    overlong: Literal["error", "truncate", "drop"] = "truncate"
    """The treatment of a longer training caption."""

    def unread(self) -> Iterator[Unread]:
        if self.features is not None:
            yield Unread("image", f"is not read beside features = {self.features!r}", "remove one of the two")
            yield Unread("size", f"resizes nothing: features = {self.features!r}", "remove it")


class Caption(PairTask):
    """Pictures with captions to a captioner."""

    name = "caption"
    summary = "pictures with captions to a model that writes captions"
    metric = "bleu"
    sections = Sections(CaptionData, TextConfig, CaptionerConfig)
    data: CaptionData
    pipeline_tag = "image-to-text"
    reads_files = True
    caches = False
    prediction_hint = "name a picture or a folder of pictures after it"

    def __init__(self, codec: Codec, data: CaptionData) -> None:
        super().__init__(codec, data)
        self.features = codec.statistics.get(FEATURES)
        self.channels = len(codec.statistics.get(PIXELS, ONE_CHANNEL).mean)

    @staticmethod
    def reason(facts: Facts) -> str:
        return choose_metric(facts.target).reason

    @staticmethod
    def defaults(facts: Facts, tree: Mapping[str, Any]) -> Tree:
        features = written(tree, "data", "features") is not None
        side = written(tree, "data", "size") or max(8, min(facts.width or MAX_DEFAULT_SIDE, MAX_DEFAULT_SIDE))
        kind = OneOf(PICTURE_ENCODERS).kind_of(
            written(tree, "model", "encoder") or {"kind": "linear" if features else "conv"}
        )
        encoders: dict[str, Tree] = {
            "conv": {"kind": "conv", "channels": [32, 64] if side <= 32 else [32, 64, 128]},
            "linear": {"kind": "linear", "width": 256},
        }
        closed = facts.target is not None and facts.target.closed
        text = {"kind": "word", "min_count": 1} if closed else word_defaults(facts.characters)
        decoders: dict[str, Tree] = {
            "rnn": {"embedding": 128, "hidden": 128, "dropout": 0.1},
            "transformer": {"width": 128, "layers": 2, "dropout": 0.1},
        }
        decoder = OneOf(DECODERS).kind_of(written(tree, "model", "decoder"))
        tokens = max(16, (side // PATCH) ** 2) if not features else 64
        batch = 64 * tokens
        return {
            "data": {} if features else {"size": side},
            "text": text,
            "model": {"encoder": encoders.get(kind, {}), "decoder": decoders.get(decoder, {})},
            "train": {
                "metric": choose_metric(facts.target).metric,
                "epochs": passes(
                    tree, facts.examples * tokens, batch, epochs=250_000 / facts.examples, between=(4, 60), updates=600
                ),
                "batch_tokens": batch,
                "rate": 3e-3 if decoder == "rnn" else 1e-3,
                "label_smoothing": 0.0 if closed else 0.1,
            },
            "decode": {"beam": 4, "length_penalty": 1.0},
        }

    @staticmethod
    def read(path: str | list[str], data: CaptionData, bad: BadLines) -> Iterator[Pair]:
        return read_captions(path, Caption.columns(data), layout=data.layout, bad=bad)

    @staticmethod
    def columns(data: CaptionData) -> Columns:
        source, steps = (data.image, False) if data.features is None else (data.features, True)
        return Columns(Pair, source, data.caption, many=True, prediction="caption", pictures=True, steps=steps)

    @classmethod
    def conflicts(cls, config: Any) -> Iterator[TableError]:
        yield from super().conflicts(config)
        features, encoder = config.data.features is not None, config.model.encoder
        if features != encoder.reads_features:
            what = (
                "reads feature vectors, and the data has pictures"
                if not features
                else "reads pictures, and the data has feature vectors"
            )
            other = next(kind for kind, arm in PICTURE_ENCODERS.items() if arm.reads_features == features)  # type: ignore[attr-defined]
            where = f'model.encoder.kind = "{encoder.kind}"'
            yield TableError(what, where=where, cure=f'use "{other}"' + ("" if features else ", or set data.features"))

    @classmethod
    def statistic_sizes(cls, data: CaptionData) -> dict[str, int | None]:
        return {PIXELS if data.features is None else FEATURES: None}

    @staticmethod
    def learn(records: Iterable[Pair], text: TextConfig) -> Codec:
        tokenizer = Tokenizer.learn((pair.target or "" for pair in records), text)
        features = learn_features(records)
        statistics = {PIXELS: learn_channels(records)} if features is None else {FEATURES: features}
        return Codec({"": tokenizer}, (), statistics)

    @staticmethod
    def build(model: CaptionerConfig, codec: Codec) -> Captioner:
        source = next(iter(codec.statistics.values()), ONE_CHANNEL)
        return model.build(source, len(codec.side("target")))

    @staticmethod
    def gather(records: Iterable[Pair], data: CaptionData, *, origins: int | None = None) -> Iterable[Pair]:
        return group_references(records)

    @staticmethod
    def order(records: Iterable[Pair]) -> Iterable[Pair]:
        found: dict[str, list[Pair]] = {}
        for pair in records:
            found.setdefault(pair.key, []).append(pair)
        return chain.from_iterable(found.values())

    @staticmethod
    def content(records: Iterable[Pair], data: CaptionData) -> str | None:
        if data.features is not None:
            return None
        found, pictures = hashlib.sha256(pillow().__version__.encode()), set[str]()
        for pair in records:
            assert pair.picture is not None
            pictures.add(pair.picture.digest)
            about = [pair.picture.path, pair.picture.name, pair.picture.digest, pair.target, pair.place]
            found.update(json.dumps(about).encode())
        large = len(pictures) * data.size**2 >= MIN_CACHED_PIXELS
        return found.hexdigest() if large else None

    def input_columns(self) -> Columns:
        shape = None if self.features is not None else PixelShape(self.data.size, self.channels)
        return super().input_columns()._replace(pixels=shape)

    @property
    def column(self) -> str:
        """The column of sources in encoded examples."""
        return PIXELS if self.features is None else FEATURES

    def encode(self, records: Sequence[Pair], limit: Limit | None) -> dict[str, list[Ids]]:
        columns: dict[str, list[Ids]] = {self.column: [], "target": []}
        before = None
        targets = self.target.encode_many([pair.target or "" for pair in records])
        for pair, target in zip(records, targets, strict=True):
            cut = [target] if limit is None else limit.cut(target, pair.place)
            if not cut:
                continue
            # Captions of one picture follow each other in training: the first alone has its pixels (`windows`).
            again = limit is not None and pair.key == before and self.features is None
            columns[self.column].append([] if again else self._encode_source(pair))
            before = pair.key
            columns["target"].append([SOS, *cut[0], EOS])
        return columns

    def _encode_source(self, pair: Pair) -> Ids:
        if self.features is not None:
            return standardised(pair, self.features).reshape(-1)
        assert pair.picture is not None
        return pack_pixels(read_pixels(pair.picture, size=self.data.size, channels=self.channels, place=pair.place))

    def windows(self, columns: Mapping[str, Ragged]) -> Mapping[str, Ragged]:
        """A row of pixels for each caption, that of the last caption before it which has some."""
        if self.features is not None:
            return columns
        pixels = columns[PIXELS]
        own = np.maximum.accumulate(np.where(pixels.lengths > 0, np.arange(len(pixels)), 0))
        return {**columns, PIXELS: pixels.view(pixels.starts(own), pixels.lengths[own])}

    def cost(self, columns: Mapping[str, Any]) -> NDArray[np.int64]:
        targets = columns["target"].lengths - 1
        if self.features is not None:
            sources = columns[FEATURES].lengths // len(self.features.mean)
        else:
            sources = np.full_like(targets, (self.data.size // PATCH) ** 2)
        return np.stack([sources, targets], axis=1)

    def collate(
        self, examples: Examples, rows: Rows, *, packed: bool = False, capacity: Capacity | None = None
    ) -> PairBatch:
        target = shift(examples.columns["target"], rows, packed=False)
        column = examples.columns[self.column]
        if self.features is not None:
            source, lengths = pad_numbers(column, rows, len(self.features.mean))
        else:
            pixels = unpack_pixels(column.join(rows), len(rows), size=self.data.size, channels=self.channels)
            source, lengths = torch.from_numpy(pixels), torch.ones(len(rows), dtype=torch.int64)
        return PairBatch(predictions(examples.columns["target"], rows), source, lengths, *target)

    def question(self, model: Captioner, batch: PairBatch, *, records: Sequence[Pair]) -> Question:
        assert isinstance(batch.source_lengths, Tensor)
        memory, _ = model.read(batch.source, batch.source_lengths)
        return Question(self.target, memory, limits=[self.data.max_length] * len(records))

    def source_tokens(self, model: Captioner, batch: PairBatch) -> list[tuple[str, ...]]:
        """The row and column of each position of a picture, or the number of each feature vector."""
        assert isinstance(batch.source_lengths, Tensor)
        grid = self.source_grid(model)
        if grid is None:
            return [tuple(map(str, range(length))) for length in batch.source_lengths.tolist()]
        positions = tuple(f"{row},{column}" for row in range(grid[0]) for column in range(grid[1]))
        return [positions] * len(batch.source)

    def source_grid(self, model: Captioner) -> tuple[int, int] | None:
        return None if self.features is not None else model.encoder.grid(self.data.size)

    def is_one_input(self, inputs: Any) -> bool:
        image = hasattr(inputs, "getbands")
        array = getattr(inputs, "ndim", None) in ((1, 2, 3) if self.features is not None else (2, 3))
        return super().is_one_input(inputs) or isinstance(inputs, os.PathLike | Picture | Steps) or image or array

    def record(self, source: Any) -> Pair:
        if isinstance(source, Steps | Picture):
            return source_pair(source)
        if self.features is not None:
            raise DataError(f"{source!r:.40} is no list of feature vectors", cure="give a list of lists of numbers")
        return source_pair(picture_of(source, place=""))

    @staticmethod
    def read_to_score(path: str | list[str], data: CaptionData, bad: BadLines) -> Iterator[Pair]:
        return Caption.read(path, data, bad)

    def record_to_score(self, item: Any) -> Pair:
        if isinstance(item, Pair):
            return item
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[1], str):
            raise DataError(f"{item!r:.40} is not what a run of caption can score", cure="give (picture, caption)")
        source = item[0]
        if self.features is not None and not isinstance(source, Steps):
            source = read_steps(source, str(self.data.features), "")
        return source_pair(source if isinstance(source, Steps) else picture_of(source, place=""), item[1])


def learn_channels(records: Iterable[Pair]) -> Statistics:
    """The mean and scale of each channel over a sample of the pictures, as shares of 255; colours where any picture has
    some."""
    draw, chosen, colour, seen = random.Random(0), list[Pair](), False, set[str]()
    for pair in records:
        assert pair.picture is not None
        if pair.key in seen:
            continue
        number, colour = len(seen), colour or pair.picture.colour
        seen.add(pair.key)
        place = number if number < SAMPLE else draw.randrange(number + 1)
        if place < SAMPLE:
            chosen[place : place + 1] = [pair]
    channels = 3 if colour else 1
    return Statistics.of(_each_sampled(chosen, channels))


def _each_sampled(pairs: Sequence[Pair], channels: int) -> Iterator[NDArray[np.float64]]:
    for pair in pairs:
        assert pair.picture is not None
        size = min(pair.picture.side, MAX_DEFAULT_SIDE)
        yield read_pixels(pair.picture, size=size, channels=channels, place=pair.place).reshape(-1, channels) / 255
