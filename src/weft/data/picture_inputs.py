"""Inputs of a captioner that are no table: a folder of pictures, one picture, or a list of paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from weft.data.captions import read_features
from weft.data.images import Picture, beside, is_picture_file, open_picture, pictures_in
from weft.data.input_file import Input
from weft.data.steps import Steps
from weft.data.texts import read_inputs


@dataclass
class PathInputs:
    """Pictures: a folder, one file, or a list with a path per line; an answer is its name, a tab and the caption, or of
    a list the caption alone. With `steps` the paths are those of `.npy` files."""

    name: str
    steps: bool = False
    plain: ClassVar = True

    def __iter__(self) -> Iterator[Input]:
        if not self.listed:
            for path in pictures_in(self.name) if Path(self.name).is_dir() else [self.name]:
                yield Input(path, open_picture(path), path)
            return
        for number, line in enumerate(read_inputs(self.name), start=1):
            place = f"{self.name}:{number}"
            yield Input(place, self._read(line.strip(), place) if line.strip() else None, line)

    @property
    def listed(self) -> bool:
        """Whether the file is a list of paths, and not itself a picture or a folder of them."""
        return not is_picture_file(self.name) and not Path(self.name).is_dir()

    def _read(self, line: str, place: str) -> Picture | Steps:
        if self.steps:
            return read_features(line, self.name, place)
        return open_picture(beside(self.name, line), name=line, place=place)

    def begin(self) -> str:
        return ""

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        return f"{line}\n" if self.listed else f"{item.place}\t{line}\n"

    def end(self) -> str:
        return ""
