"""Tagged sentences from CoNLL-U and from columns."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from weft.data import BadLines, Tagged, read_tagged
from weft.errors import ConfigError, DataError

TOKENS = [
    "1-2|Zum|_|_|_|_|_|_|_|_",
    "1|zu|zu|ADP|APPR|_|3|case|_|_",
    "2|dem|der|DET|ART|Case=Dat|3|det|_|_",
    "3|New York|New York|PROPN|NE|_|0|root|_|SpaceAfter=No",
    "3.1|fehlt|fehlen|VERB|_|_|_|_|0:root|_",
]
SENTENCE = "\n".join(["# sent_id = 1", "# text = Zum New York", *TOKENS]).replace("|", "\t") + "\n"
SECOND = "1|Ja|ja|INTJ|ITJ|_|0|root|_|_\n".replace("|", "\t")


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.covers("T3")
@pytest.mark.parametrize("name", ["a.conllu", "a.conllu.gz", "a.txt", "a"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_words_are_neither_multiword_tokens_nor_empty_nodes(tmp_path: Path, name: str, end: str) -> None:
    path = tmp_path / name
    data = f"{SENTENCE}\n\n# only a comment\n\n{SECOND}".replace("\n", end).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert list(read_tagged(path, bad=BadLines())) == [
        Tagged(("zu", "dem", "New York"), ("ADP", "DET", "PROPN"), f"{path}:1"),
        Tagged(("Ja",), ("INTJ",), f"{path}:12"),
    ]


@pytest.mark.parametrize(
    ("setting", "tags"),
    [
        ({"field": "xpos"}, ("APPR", "ART", "NE")),
        ({"field": "feats"}, ("_", "Case=Dat", "_")),
        ({"field": "head"}, ("3", "3", "0")),
        ({"field": "misc"}, ("_", "_", "SpaceAfter=No")),
        ({"column": 7}, ("case", "det", "root")),
    ],
)
def test_any_column_of_conllu_can_be_the_tag(tmp_path: Path, setting: dict[str, Any], tags: tuple[str, ...]) -> None:
    path = write(tmp_path / "a.conllu", SENTENCE)
    (sentence,) = read_tagged(path, bad=BadLines(), **setting)
    assert sentence.tags == tags


def swap(old: str, new: str) -> str:
    assert old in SENTENCE
    return f"{SECOND}\n{SENTENCE.replace(old, new)}"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (swap("\tcase\t_\t_", ""), 6, "7 columns where CoNLL-U has 10"),
        (swap("\n2\tdem", "\n2 dem"), 7, "9 columns where CoNLL-U has 10"),
        (swap("\n2\tdem\tder", "\n2\tdem\t"), 7, "a column is empty"),
        (swap("\tNew York\tNew York", "\tNew  York\tNew York"), 8, "two blanks inside a column"),
        (swap("\n2\tdem", "\nx\tdem"), 5, "not CoNLL-U: Failed parsing field 'id'"),
        (swap("PROPN", "_"), 8, '"New York" has no upos'),
        ("# only comments\n", 0, "no examples in"),
        ("", 0, "no examples in"),
    ],
)
def test_faulty_conllu_names_the_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = write(tmp_path / "a.conllu", text)
    with pytest.raises(DataError) as caught:
        list(read_tagged(path, bad=BadLines()))
    assert caught.value.where == (f"{path}:{line}" if line else None)
    assert what in caught.value.what


@pytest.mark.covers("T3")
@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("#photo\tO\nin\tO\nNew York\tB-loc\n\t\n\nParis\tB-loc", {}),
        ("#photo\tO\r\nin\tO\r\nNew York\tB-loc\r\n\r\nParis\tB-loc\r\n", {}),
        ("\n\n#photo\tO\tx\nin\tO\tx\nNew York\tB-loc\tx\n\nParis\tB-loc\n", {"column": 1}),
    ],
)
def test_columns_separated_by_tabs(tmp_path: Path, text: str, setting: dict[str, Any]) -> None:
    sentences = list(read_tagged(write(tmp_path / "a.conll", text), bad=BadLines(), **setting))
    assert [(sentence.words, sentence.tags) for sentence in sentences] == [
        (("#photo", "in", "New York"), ("O", "O", "B-loc")),
        (("Paris",), ("B-loc",)),
    ]


def test_columns_separated_by_blanks(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "EU  NNP I-NP I-ORG\n10\u00a0000 CD I-NP O \n\nPeter NNP\tI-NP I-PER\n")
    assert list(read_tagged(path, bad=BadLines())) == [
        Tagged(("EU", "10\u00a0000"), ("I-ORG", "O"), f"{path}:1"),
        Tagged(("Peter",), ("I-PER",), f"{path}:4"),
    ]
    assert [one.tags for one in read_tagged(path, column=1, bad=BadLines())] == [("NNP", "CD"), ("NNP",)]


@pytest.mark.parametrize(
    ("text", "setting", "line", "what"),
    [
        ("a\tO\nb\n", {}, 2, "1 column where 2 are expected"),
        ("a\tO\nb O\n", {}, 2, "1 column where 2 are expected"),
        ("a O\n\nNew York O\n", {}, 3, "3 columns where 2 are expected"),
        ("alone\n", {}, 1, "1 column where 2 are expected"),
        ("a X O\nb Y\n", {"column": 2}, 2, "2 columns where at least 3 are expected"),
        ("a\tO\n\tO\n", {}, 2, "the word is empty"),
        ("a\tO\nb\t\n", {}, 2, "the tag is empty"),
        ("\n\n", {}, 0, "no examples in"),
    ],
)
def test_faulty_columns_name_the_line(tmp_path: Path, text: str, setting: dict[str, Any], line: int, what: str) -> None:
    path = write(tmp_path / "a.txt", text)
    with pytest.raises(DataError) as caught:
        list(read_tagged(path, bad=BadLines(), **setting))
    assert caught.value.where == (f"{path}:{line}" if line else None)
    assert what in caught.value.what


@pytest.mark.parametrize("data", [b"a O\n\nb O\n\xff O\n\nc O\n", b"a O\n\nb O\nc\n\nc O\n"])
def test_a_faulty_line_takes_its_sentence_along(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    bad = BadLines(skip=True)
    assert [sentence.words for sentence in read_tagged(path, bad=bad)] == [("a",), ("c",)]
    assert bad.count == 1
    assert bad.first is not None
    assert bad.first.where == f"{path}:4"


def test_the_first_line_may_be_the_faulty_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\tO\n\nNew York\tO\n")
    assert [sentence.words for sentence in read_tagged(path, bad=BadLines(skip=True))] == [("New York",)]
    with pytest.raises(DataError, match=r"a\.txt:1: not UTF-8"):
        list(read_tagged(path, bad=BadLines()))


def test_impossible_settings_name_themselves(tmp_path: Path) -> None:
    columns = write(tmp_path / "a.txt", "a O\n")
    conllu = write(tmp_path / "a.conllu", SECOND)
    with pytest.raises(ConfigError, match=r'data\.field: "upso" is no column of CoNLL-U \(did you mean "upos"'):
        list(read_tagged(conllu, field="upso", bad=BadLines()))
    with pytest.raises(ConfigError, match=r"data\.field: .* needs CoNLL-U, and .*set data\.column"):
        list(read_tagged(columns, field="xpos", bad=BadLines()))
    with pytest.raises(ConfigError, match=r"data\.column: 10 is no column of CoNLL-U"):
        list(read_tagged(conllu, column=10, bad=BadLines()))


def test_several_files_follow_one_another(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.conllu", SECOND), write(tmp_path / "b.txt", "b X\n")]
    assert [sentence.tags for sentence in read_tagged(paths, bad=BadLines())] == [("INTJ",), ("X",)]
