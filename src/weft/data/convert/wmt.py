"""Test sets of WMT: SGML files of the source and of references, or one XML file with both, become a table of pairs.

Only the elements srcset, refset, src, ref, doc and seg are read, by a scan of the text: no document type is read and no
entity is expanded but the characters that HTML names, so that no file can grow when it is read.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from weft.data.badlines import BadLines
from weft.data.convert.contract import Converted, Converter, pair_line
from weft.data.sources import lines
from weft.errors import DataError

TAG = re.compile(r"<(/?)([A-Za-z]+)([^<>]*)>")
ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
SIDES = {"srcset": "source", "src": "source", "refset": "reference", "ref": "reference", "tstset": "", "hyp": ""}
"""The side of the segments inside an element; outputs of systems are left out."""


class Segment(NamedTuple):
    """A sentence of a document: the place of both, its side and its text."""

    document: str
    number: str
    side: str
    text: str
    place: str


def read(files: list[str]) -> Iterator[Converted]:
    sources: dict[tuple[str, str], Segment] = {}
    references: list[Segment] = []
    for name in files:
        for segment in segments(name):
            key = segment.document, segment.number
            if segment.side == "reference":
                references.append(segment)
            elif key in sources:
                what = f"segment {segment.number} of {segment.document} is there twice"
                raise DataError(what, where=segment.place, cure=f"the first is {sources[key].place}")
            else:
                sources[key] = segment
    if not sources or not references:
        missing = "references" if sources else "sources"
        raise DataError(f"no {missing}", where=", ".join(files), cure="give the files of source and reference together")
    for segment in references:
        source = sources.get((segment.document, segment.number))
        if source is None:
            what = f"segment {segment.number} of {segment.document} has no source"
            raise DataError(what, where=segment.place, cure="give the source file of the same test set")
        yield pair_line("test", source.text, segment.text, segment.place)


def segments(name: str) -> Iterator[Segment]:
    """The segments of a file, of sources and references."""
    side = document = ""
    text, begins, number = "", "", None
    for line_number, line in lines(name, BadLines()):
        place, position = f"{name}:{line_number}", 0
        for tag in TAG.finditer(line):
            if number is not None:
                text += line[position : tag.start()]
            position = tag.end()
            closing, element = bool(tag[1]), tag[2].lower()
            if element in SIDES:
                side = "" if closing else SIDES[element]
            elif element == "doc" and not closing:
                document = _attributes(tag[3]).get("docid") or _attributes(tag[3]).get("id", "")
            elif element == "seg" and closing:
                if number is None:
                    raise DataError("a segment ends that has not begun", where=place, cure="check the file")
                if side:
                    yield Segment(document, number, side, " ".join(html.unescape(text).split()), begins)
                number = None
            elif element == "seg":
                if number is not None:
                    raise DataError(f"the segment of {begins} has no end", where=place, cure="add </seg>")
                text, begins, number = "", place, _attributes(tag[3]).get("id")
                if number is None:
                    raise DataError("a segment has no id", where=place, cure='write <seg id="1">')
        if number is not None:
            text += line[position:] + " "
    if number is not None:
        raise DataError("the last segment has no end", where=begins, cure="the file may be cut short; copy it again")


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): double or single for name, double, single in ATTRIBUTE.findall(text)}


WMT = Converter("the SGML files of source and references of a WMT test set, or its XML file", read)
