"""Inputs of a captioner that are no table: a folder of pictures, one picture, or a list of paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from weft.data.captions import read_features
from weft.data.images import Picture, PixelShape, beside, is_picture_file, open_picture, pictures_in
from weft.data.input_file import Input
from weft.data.steps import Steps
from weft.data.texts import read_inputs
from weft.errors import DataError


def read_input(place: str, row: Any, read: Callable[[], Picture | Steps]) -> Input:
    """The input of a row, with the error of one that cannot be read."""
    try:
        return Input(place, read(), row)
    except DataError as error:
        return Input(place, None, row, error=error.with_traceback(None))


@dataclass
class PathInputs:
    """Pictures: a folder, one file, or a list with a path per line; an answer is its name, a tab and the caption, or of
    a list the caption alone. With `steps` the paths are those of `.npy` files; `pixels` is the shape of the pixels."""

    name: str
    steps: bool = False
    pixels: PixelShape | None = None
    plain: ClassVar = True

    def __iter__(self) -> Iterator[Input]:
        """One picture after the other; a bad one of a folder or a list does not stop the others."""
        if is_picture_file(self.name) and not Path(self.name).is_dir():
            yield Input(self.name, open_picture(self.name, pixels=self.pixels), self.name)
        elif not self.listed:
            for path in pictures_in(self.name):
                yield read_input(path, path, partial(open_picture, path, pixels=self.pixels))
        else:
            for number, line in enumerate(read_inputs(self.name), start=1):
                place = f"{self.name}:{number}"
                read = partial(self._read, line.strip(), place)
                yield read_input(place, line, read) if line.strip() else Input(place, None, line)

    @property
    def listed(self) -> bool:
        """Whether the file is a list of paths, and not itself a picture or a folder of them."""
        return not is_picture_file(self.name) and not Path(self.name).is_dir()

    def _read(self, line: str, place: str) -> Picture | Steps:
        if self.steps:
            return read_features(line, self.name, place)
        return open_picture(beside(self.name, line), name=line, place=place, pixels=self.pixels)

    def begin(self) -> str:
        return ""

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        return f"{line}\n" if self.listed else f"{item.place}\t{line}\n"

    def end(self) -> str:
        return ""
