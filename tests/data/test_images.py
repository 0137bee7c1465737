"""Pictures of every mode are read as bytes, and bad ones are named with their file and line."""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from weft import limits
from weft.data import BadLines, Columns, Pair, as_values, from_values, read_captions
from weft.data.images import (
    Picture,
    open_picture,
    pack_pixels,
    picture_of,
    pictures_in,
    read_pixels,
    unpack_pixels,
)
from weft.errors import DataError

GRAY = np.array([[0, 50], [100, 255]], dtype=np.uint8)
COLUMNS = Columns(Pair, "image", "caption", many=True, pictures=True)


def pixels_of(image: Image.Image, path: Path, channels: int, **options: object) -> np.ndarray:
    image.save(path, **options)
    picture = open_picture(str(path))
    return read_pixels(picture, size=picture.side, channels=channels)


@pytest.mark.covers("T3")
def test_gray_pictures_of_every_mode(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    plain = Image.fromarray(GRAY)
    for image in (plain, plain.convert("LA"), plain.convert("P")):
        assert pixels_of(image, path, 1)[..., 0].tolist() == GRAY.tolist()
        assert not open_picture(str(path)).colour
    wide = Image.fromarray(GRAY.astype(np.uint16) * 257)
    assert wide.mode == "I;16"
    assert pixels_of(wide, path, 1)[..., 0].tolist() == GRAY.tolist()
    assert pixels_of(Image.fromarray(GRAY > 60), path, 1)[..., 0].tolist() == [[0, 0], [255, 255]]
    assert pixels_of(plain, path, 3).tolist() == [[[value] * 3 for value in row] for row in GRAY.tolist()]


def test_colours_transparency_and_palettes(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    red = Image.new("RGBA", (2, 2), (255, 0, 0, 255))
    red.putpixel((0, 0), (0, 0, 0, 0))
    expected = [[[255, 255, 255], [255, 0, 0]], [[255, 0, 0], [255, 0, 0]]]  # white shows through
    assert pixels_of(red, path, 3).tolist() == expected
    assert open_picture(str(path)).colour
    assert pixels_of(Image.new("RGB", (2, 2), (255, 0, 0)).convert("P"), path, 3).tolist() == [[[255, 0, 0]] * 2] * 2
    assert pixels_of(Image.new("CMYK", (2, 2), (0, 0, 0, 0)), tmp_path / "c.jpg", 3).min() > 250


def test_a_picture_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    turned = pixels_of(Image.fromarray(GRAY), tmp_path / "turned.png", 1, exif=exif)
    assert turned[..., 0].tolist() == np.rot90(GRAY, -1).tolist()


def test_pictures_are_resized_and_packed_without_loss() -> None:
    draw = np.random.default_rng(0)
    pictures = draw.integers(0, 256, (5, 3, 3, 1), dtype=np.uint8)  # 9 bytes fill two tokens and a quarter
    packed = np.concatenate([pack_pixels(one) for one in pictures])
    assert packed.dtype == np.int32
    assert len(packed) == 5 * 3
    assert unpack_pixels(packed, 5, size=3, channels=1).tolist() == pictures.tolist()
    halves = picture_of(np.repeat(np.repeat(GRAY, 8, 0), 8, 1), place="")
    assert read_pixels(halves, size=2, channels=1).shape == (2, 2, 1)
    wide = picture_of(np.tile(GRAY, (1, 8)), place="")
    assert read_pixels(wide, size=4, channels=3).shape == (4, 4, 3)


def test_arrays_and_pillow_images_are_pictures_too() -> None:
    found = [picture_of(value, place="") for value in (GRAY, GRAY / 255, Image.fromarray(GRAY), GRAY[..., None])]
    assert len({picture.digest for picture in found}) == 1
    assert picture_of(np.zeros((2, 3, 4), np.uint8), place="").colour
    assert (found[0].width, found[0].height, found[0].channels) == (2, 2, 1)
    for bad in (np.zeros((0, 3)), np.zeros(3), GRAY / 10, np.array([[np.nan]]), np.zeros((2, 2, 2), np.uint8), 7):
        with pytest.raises(DataError, match=r"data.train\[3\]"):
            picture_of(bad, place="data.train[3]")


def test_records_of_pictures_survive_plain_values() -> None:
    for picture in (Picture("a.png", "b/a.png", 2, 3, True, "12"), picture_of(GRAY, place="")):
        pair = Pair("", "a cat", "f:1", picture=picture)
        assert from_values(as_values(pair)) == pair
        assert pair.key == picture.digest


def png_of_size(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that its pixels do not have."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 9)) + chunk(b"IEND", b"")


def half_a_png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16), dtype=np.uint8)).save(file, "png")
    return file.getvalue()[: len(file.getvalue()) // 2]


def float_tiff() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), dtype=np.float32)).save(file, "tiff")
    return file.getvalue()


BAD = {
    "missing.png": (None, "no such picture"),
    "empty.png": (b"", "is empty"),
    "text.png": (b"hello", "no picture of a known format"),
    "zero.png": (png_of_size(0, 0), "0 × 0 pixels, so there is nothing to see"),
    "flat.png": (png_of_size(9, 0), "9 × 0 pixels, so there is nothing to see"),
    "zero.gif": (b"GIF89a" + bytes(7) + b";", "0 × 0 pixels, so there is nothing to see"),
    "float.tiff": (float_tiff(), "its pixels are real numbers"),
    "bomb.png": (png_of_size(200_000, 200_000), "more than 100,000,000 pixels"),
    "short.png": (half_a_png(), "damaged"),
    "code.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "known format"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.covers("M5")
def test_a_bad_picture_is_named_with_file_and_line(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    Image.fromarray(GRAY).save(tmp_path / "good.png")
    table = tmp_path / "captions.tsv"
    table.write_text(f"image\tcaption\ngood.png\ta cat\n{name}\ta dog\n", encoding="utf-8")

    def encoded(bad: BadLines) -> list[Pair]:
        pairs = list(read_captions(str(table), COLUMNS, bad=bad))
        for pair in pairs:
            assert pair.picture is not None
            read_pixels(pair.picture, size=8, channels=1, place=pair.place)
        return pairs

    with pytest.raises(DataError, match=message) as caught:
        encoded(BadLines())
    assert caught.value.where == f"{table}:3"
    assert name in caught.value.what
    bad = BadLines(skip=True)
    assert [pair.target for pair in encoded(bad)] == ["a cat"]
    assert bad.count == 1


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(GRAY).save(tmp_path / "large.png")
    monkeypatch.setattr(limits, "PICTURE_FILE_BYTES", 10)
    with pytest.raises(DataError, match="more than 10"):
        open_picture(str(tmp_path / "large.png"))
    with pytest.raises(DataError, match="is no file"):
        open_picture(str(tmp_path))


def test_captions_of_a_row_and_of_repeated_rows(tmp_path: Path) -> None:
    for name in ("a", "b"):
        Image.fromarray(GRAY).save(tmp_path / f"{name}.png")
    table = tmp_path / "captions.jsonl"
    rows = (
        '{"image": "a.png", "caption": ["a cat", "one cat"]}',
        '{"image": "b.png", "caption": "a dog"}',
        '{"image": "a.png", "caption": "the cat"}',
    )
    table.write_text("\n".join(rows), encoding="utf-8")
    found = list(read_captions(str(table), COLUMNS, bad=BadLines()))
    assert [(pair.title, pair.target) for pair in found] == [
        ("a.png", "a cat"),
        ("a.png", "one cat"),
        ("b.png", "a dog"),
        ("a.png", "the cat"),
    ]
    assert found[0].key == found[2].key  # equal pictures are one, whatever their names
    assert pictures_in(str(tmp_path)) == [str(tmp_path / "a.png"), str(tmp_path / "b.png")]


@pytest.mark.parametrize(
    ("array", "steps", "width"),
    [(np.ones(4), 1, 4), (np.ones((3, 4)), 3, 4), (np.ones((2, 3, 4)), 6, 4)],
    ids=["one vector", "a vector per position", "a grid"],
)
def test_feature_vectors_come_from_npy_files(tmp_path: Path, array: np.ndarray, steps: int, width: int) -> None:
    np.save(tmp_path / "a.npy", array)
    np.save(tmp_path / "code.npy", np.array([{}], dtype=object), allow_pickle=True)
    table = tmp_path / "captions.tsv"
    table.write_text("features\tcaption\na.npy\ta cat\n", encoding="utf-8")
    columns = COLUMNS._replace(input="features", steps=True)
    (found,) = read_captions(str(table), columns, bad=BadLines())
    assert found.steps is not None
    assert (len(found.steps), found.steps.width) == (steps, width)
    table.write_text("features\tcaption\ncode.npy\ta cat\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"captions.tsv:2.*no .npy file of numbers"):
        list(read_captions(str(table), columns, bad=BadLines()))


def test_a_damaged_header_of_an_npy_file_is_an_error_of_the_data(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    content = (tmp_path / "a.npy").read_bytes()
    table = tmp_path / "captions.tsv"
    table.write_text("features\tcaption\na.npy\ta cat\n", encoding="utf-8")
    for place in range(10, content.index(b"\n")):
        (tmp_path / "a.npy").write_bytes(content[:place] + b"\x14" + content[place + 1 :])
        with suppress(DataError):
            list(read_captions(str(table), COLUMNS._replace(input="features", steps=True), bad=BadLines()))
