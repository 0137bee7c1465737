"""Pictures: read by Pillow, checked, and resized to arrays of bytes.

A record holds the path of a picture and what its header says. The pixels are decoded once, when examples are encoded;
a row of examples holds them as bytes, four in the place of a token. Pillow is imported only where pictures are read.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft import limits
from weft.data.sources import STDIN
from weft.errors import DataError, WeftError
from weft.extras import EXTRAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

Pixels: TypeAlias = NDArray[np.uint8]

FORMATS: Final = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
"""Formats that are read. Pillow knows more, but some of them start other programs."""

SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
"""The suffixes of pictures in a folder."""

GRAY_MODES: Final = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")
WHITE: Final = (255, 255, 255, 255)
"""The colour behind transparent pixels."""


class PixelShape(NamedTuple):
    """The pixels that a model reads of a picture: a square with this side, of 1 channel for gray or 3 for colours."""

    size: int
    channels: int


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: its name as it was given, its path, and from its header width, height and whether it has colours.

    `digest` is a hash of the file. A picture given in Python has no path but its pixels (H, W, C) as `content`.
    """

    name: str
    path: str
    width: int
    height: int
    colour: bool
    digest: str
    content: bytes | None = None

    @property
    def channels(self) -> int:
        return 3 if self.colour else 1

    @property
    def side(self) -> int:
        """The shorter side in pixels."""
        return min(self.width, self.height)

    def __str__(self) -> str:
        return f"{self.name} ({self.width} × {self.height} pixels, {'colour' if self.colour else 'gray'})"

    def tree(self) -> dict[str, Any]:
        """Plain JSON values, for `of_tree`."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return found | {"content": None if self.content is None else self.content.hex()}

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> Self:
        content = tree["content"]
        return cls(**{**tree, "content": None if content is None else bytes.fromhex(content)})


def is_picture_file(name: str) -> bool:
    """Whether the suffix is that of a picture."""
    return name.lower().endswith(SUFFIXES)


def pictures_in(folder: str) -> list[str]:
    """The pictures of a folder, in the order of their names; an error where there are none."""
    found = sorted(str(path) for path in Path(folder).iterdir() if is_picture_file(path.name) and path.is_file())
    if not found:
        cure = f"pictures end in {', '.join(SUFFIXES)}"
        raise DataError("no pictures in the folder", where=folder, cure=cure)
    return found


def beside(table: str, name: str) -> str:
    """The path of a file that a table names: relative to the table, or of standard input to the current folder."""
    return name if table == STDIN else str(Path(table).parent / name)


def open_picture(
    path: str, *, name: str | None = None, place: str = "", whole: bool = False, pixels: PixelShape | None = None
) -> Picture:
    """Read the header of a picture. With `pixels` they are decoded too and kept in the place of the file; with `whole`
    they are only decoded, to see that they can be."""
    content = _content(path, place)
    with _opened(content, path, place) as image:
        picture = Picture(name or path, path, *image.size, _has_colours(image), _digest(content))
        if pixels is not None:
            kept = _decoded(image, *pixels).tobytes()
            return replace(picture, width=pixels.size, height=pixels.size, colour=pixels.channels == 3, content=kept)
        if whole:
            _decoded(image, picture.side, picture.channels)
    return picture


def picture_of(value: Any, *, place: str, base: str = STDIN) -> Picture:
    """The picture of a value given in Python: a path, a Pillow image, or an array (H, W), (H, W, 3) or (H, W, 4)."""
    if isinstance(value, Picture):
        return value
    if isinstance(value, str | os.PathLike):
        name = os.fspath(value)
        if not name.strip():
            raise DataError("the path of a picture is empty", where=place or None, cure="name a file")
        return open_picture(beside(base, name), name=name, place=place)
    if hasattr(value, "getbands") and hasattr(value, "convert"):  # Pillow's own
        return _of_array(np.asarray(_eight_bits(value, colour=None)), place)
    if hasattr(value, "__array__") or isinstance(value, list):
        return _of_array(np.asarray(value), place)
    what = f"{type(value).__name__} is no picture"
    raise DataError(what, where=place or None, cure="give a path, a Pillow image, or an array (H, W) or (H, W, 3)")


def picture_from_bytes(content: bytes, *, place: str, most: int = limits.PICTURE_PIXELS) -> Picture:
    """The picture of at most `most` pixels in the content of a file, such as one that a page sent."""
    with _opened(content, "the picture", place) as image:
        pixels = image.size[0] * image.size[1]
        if pixels > most:
            raise DataError(f"{pixels:,} pixels, and {most:,} is the limit", where=place, cure="make it smaller")
        return _of_array(np.asarray(_eight_bits(image, colour=None)), place)


def read_pixels(picture: Picture, *, size: int, channels: int, place: str = "") -> Pixels:
    """Decode a picture and resize it to (size, size, channels), 1 channel for gray or 3 for colours."""
    if picture.content is not None:
        from PIL import Image

        shape = (picture.height, picture.width, picture.channels)
        array = np.frombuffer(picture.content, dtype=np.uint8).reshape(shape)
        return _resized(Image.fromarray(array if picture.colour else array[..., 0]), size, channels)
    content = _content(picture.path, place)
    if _digest(content) != picture.digest:
        what = f"{_named(picture.path, place)}has changed since it was opened"
        raise DataError(what, where=place or picture.path, cure="start again")
    with _opened(content, picture.path, place) as image:
        return _decoded(image, size, channels)


def pack_pixels(pixels: Pixels) -> NDArray[np.int32]:
    """The bytes of pixels, four in the place of a token; zeros fill up the last."""
    flat = pixels.reshape(-1)
    return np.pad(flat, (0, -len(flat) % 4)).view(np.int32)


def unpack_pixels(packed: NDArray[np.int32], count: int, *, size: int, channels: int) -> Pixels:
    """`count` packed pictures end to end -> (B, H, W, C)."""
    each = size * size * channels
    return packed.view(np.uint8).reshape(count, -1)[:, :each].reshape(count, size, size, channels)


def pillow() -> Any:
    """Pillow's module of images; a missing package is an error with the command that installs it."""
    try:
        from PIL import Image
    except ImportError:
        raise WeftError("reading pictures needs pillow", cure=EXTRAS["vision"].install) from None
    return Image


def _named(path: str, place: str) -> str:
    """The path at the beginning of an error whose place is something else."""
    return f"{path}: " if place not in ("", path) else ""


def _content(path: str, place: str) -> bytes:
    where = place or path
    named = _named(path, place)
    try:
        size = Path(path).stat().st_size
        if not Path(path).is_file():
            raise DataError(f"{named}is no file", where=where, cure="name a picture")
        if size > limits.PICTURE_FILE_BYTES:
            what = f"{named}{size:,} bytes, more than {limits.PICTURE_FILE_BYTES:,}, the limit of a picture"
            raise DataError(what, where=where, cure="make it smaller")
        content = Path(path).read_bytes()
    except FileNotFoundError:
        cure = "check the path; in a file it is relative to that file's folder"
        cure = "download it first: weft reads files only" if ":/" in path else cure
        raise DataError(f"{named}no such picture", where=where, cure=cure) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{named}cannot be read: {reason}", where=where, cure="check the path") from None
    if not content:
        raise DataError(f"{named}is empty", where=where, cure="copy the picture again")
    return content


@contextmanager
def _opened(content: bytes, path: str, place: str) -> Iterator[Image.Image]:
    """Open a picture; anything that Pillow raises about it inside the block becomes a DataError with its place."""
    images, where = pillow(), place or path
    named = _named(path, place)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large pictures and odd headers
            with images.open(io.BytesIO(content), formats=FORMATS) as image:
                width, height = image.size
                if width * height > limits.PICTURE_PIXELS:
                    raise images.DecompressionBombError
                if image.mode == "F":
                    cure = "convert it to 8 or 16 bits"
                    raise DataError(f"{named}its pixels are real numbers", where=where, cure=cure)
                if width < 1 or height < 1:
                    raise _no_pixels(f"{named}{width} × {height} pixels", where)
                yield image
    except DataError:
        raise
    except images.DecompressionBombError:
        what = f"{named}more than {limits.PICTURE_PIXELS:,} pixels, the limit of a picture"
        raise DataError(what, where=where, cure="make it smaller") from None
    except images.UnidentifiedImageError:
        if (size := _size_of_header(content)) is not None and 0 in size:
            raise _no_pixels(f"{named}{size[0]} × {size[1]} pixels", where) from None
        cure = f"convert it to one of {', '.join(FORMATS)}"
        raise DataError(f"{named}is no picture of a known format", where=where, cure=cure) from None
    except Exception as error:  # each of Pillow's formats raises errors of its own types on damaged files
        raise DataError(f"{named}is damaged: {error}", where=where, cure="copy the picture again") from None


def _no_pixels(what: str, where: str) -> DataError:
    return DataError(f"{what}, so there is nothing to see", where=where, cure="replace the picture, or remove the line")


def _size_of_header(content: bytes) -> tuple[int, int] | None:
    """The width and height of a PNG or GIF; Pillow opens none without pixels, and does not say why."""
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")
    if content.startswith((b"GIF87a", b"GIF89a")) and len(content) >= 10:
        return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
    return None


def _decoded(image: Image.Image, size: int, channels: int) -> Pixels:
    image.draft(None, (2 * size, 2 * size))  # a JPEG is decoded at a smaller size where that is enough
    return _resized(_eight_bits(image, colour=channels == 3), size, channels)


def _has_colours(image: Image.Image) -> bool:
    """Whether a picture, or its palette, has other colours than grays."""
    if image.mode != "P":
        return image.mode not in GRAY_MODES
    palette = np.array(image.getpalette("RGB"), dtype=np.uint8).reshape(-1, 3)
    return bool((palette != palette[:, :1]).any())


def _eight_bits(image: Image.Image, *, colour: bool | None) -> Image.Image:
    """The picture upright, without transparency, as 8-bit gray or colours; `colour` None keeps what it has."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image) or image
    gray = image.mode in GRAY_MODES if colour is None else not colour
    if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255 instead of scaling
        wide = np.asarray(image).astype(np.int64)
        return _kept(Image.fromarray((wide.clip(0, 65535) >> 8).astype(np.uint8)), gray)
    if image.has_transparency_data:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, WHITE), clear)
    return _kept(image, gray)


def _kept(image: Image.Image, gray: bool) -> Image.Image:
    mode = "L" if gray else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _resized(image: Image.Image, size: int, channels: int) -> Pixels:
    from PIL import Image

    image = _kept(image, channels == 1)
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(image).reshape(size, size, channels)


def _of_array(array: NDArray[Any], place: str) -> Picture:
    """The picture of an array of bytes, or of real numbers from 0 to 1."""
    cure = "give bytes from 0 to 255, or numbers from 0 to 1, as (H, W), (H, W, 3) or (H, W, 4)"
    array = array[..., None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise DataError(f"an array of shape {array.shape} is no picture", where=place or None, cure=cure)
    if array.shape[0] * array.shape[1] > limits.PICTURE_PIXELS:
        what = f"more than {limits.PICTURE_PIXELS:,} pixels, the limit of a picture"
        raise DataError(what, where=place or None, cure="make it smaller")
    if array.dtype.kind not in "uif" or not np.isfinite(array).all():
        raise DataError(f"an array of {array.dtype} is no picture", where=place or None, cure=cure)
    most = 1.0 if array.dtype.kind == "f" else 255
    if array.min() < 0 or array.max() > most:
        what = f"numbers from {array.min()} to {array.max()} are no pixels"
        raise DataError(what, where=place or None, cure=cure)
    pixels = (array * 255).round().astype(np.uint8) if array.dtype.kind == "f" else array.astype(np.uint8)
    if pixels.shape[2] == 4:
        pixels = np.asarray(_eight_bits(pillow().fromarray(pixels), colour=True))
    height, width, channels = pixels.shape
    content = np.ascontiguousarray(pixels).tobytes()
    return Picture("array", "", width, height, channels == 3, _digest(content), content)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
