"""TSV, CSV and JSONL: the header rules, quoting, and a message with the right line for everything malformed."""

import gzip
import lzma
from pathlib import Path

import pytest

from weft.data import BadLines, Labelled, read_labelled, read_pairs
from weft.errors import DataError

GOOD_AND_BAD = [("good film", "pos"), ("bad, film", "neg")]


def labelled(path: Path, bad: BadLines | None = None, **names: str) -> list[tuple[str, str | None]]:
    return [(record.text, record.label) for record in read_labelled(path, bad=bad or BadLines(), **names)]


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.covers("T3")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "good film\tpos\nbad, film\tneg\n"),
        ("a.txt", "good film\tpos\nbad, film\tneg"),
        ("a", "\ufeffgood film\tpos\r\nbad, film\tneg\r\n"),
        ("a.tsv", "\ngood film \t pos\n\nbad, film\tneg\n  \n"),
        ("a.tsv", "text\tlabel\ngood film\tpos\nbad, film\tneg\n"),
        ("a.tsv", "\ufeffid\tLabel\tText\n1\tpos\tgood film\n2\tneg\tbad, film\n"),
        ("a.csv", 'good film,pos\r\n"bad, film",neg\r\n'),
        ("a.CSV", 'label,stars,text\npos,5,"good film"\n\nneg,1,"bad, film"\n'),
        ("a.jsonl", '{"text": "good film", "label": "pos"}\n\n{"label": "neg", "id": [], "text": "bad, film"}\n'),
        ("a.ndjson", '{"text": " good film", "label": "pos"}\r\n{"label": "neg", "text": "bad, film"}'),
    ],
)
@pytest.mark.parametrize("pack", ["", ".gz", ".xz"])
def test_the_same_examples_in_every_format(tmp_path: Path, name: str, text: str, pack: str) -> None:
    path = tmp_path / f"{name}{pack}"
    data = text.encode()
    path.write_bytes({"": data, ".gz": gzip.compress(data), ".xz": lzma.compress(data)}[pack])
    assert labelled(path) == GOOD_AND_BAD


def test_settings_name_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "sentence\tlabel\ngood\t1\n")
    assert labelled(path, text="sentence") == [("good", "1")]
    path = write(tmp_path / "a.tsv", "en\tde\tfr\nyes\tja\toui\n")
    pairs = read_pairs(path, source="fr", target="en", bad=BadLines())
    assert [(pair.source, pair.target) for pair in pairs] == [("oui", "yes")]


def test_tsv_is_never_quoted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", '"he said\tno\n""\tquote\n')
    assert labelled(path) == [('"he said', "no"), ('""', "quote")]


def test_a_quoted_value_spans_lines_and_places_stay_right(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\r\n"two\r\nlines, ""quoted""",a\r\n\r\nnext,b\r\n')
    assert list(read_labelled(path, bad=BadLines())) == [
        Labelled('two\nlines, "quoted"', "a", f"{path}:2"),
        Labelled("next", "b", f"{path}:5"),
    ]


def test_a_line_separator_is_part_of_its_value(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.csv", "a.jsonl"):
        line = (
            '{"text": "a\u2028b", "label": "x"}'
            if name == "a.jsonl"
            else f"a\u2028b{',' if 'csv' in name else chr(9)}x"
        )
        assert labelled(write(tmp_path / name, f"{line}\n")) == [("a\u2028b", "x")]


def test_labels_in_json_may_be_numbers_and_truth_values(tmp_path: Path) -> None:
    lines = (f'{{"text": "a", "label": {label}}}\n' for label in ("1", "true", "-2.5", '"1"'))
    assert [label for _, label in labelled(write(tmp_path / "a.jsonl", "".join(lines)))] == ["1", "true", "-2.5", "1"]


MALFORMED = [
    ("a.tsv", "good\tpos\nbad\n", 2, "1 column where 2 are expected"),
    ("a.tsv", "good\tpos\n\nbad\tneg\textra\n", 3, "3 columns where 2 are expected"),
    ("a.tsv", "good,pos\n", 1, "1 column where 2 are expected"),
    ("a.tsv", "id\ttext\tlabel\n1\tgood\tpos\n2\tbad\n", 3, "2 columns where the header has 3"),
    ("a.tsv", "text\tlabel\na\ttab\tinside\n", 2, "3 columns where 2 are expected"),
    ("a.tsv", "text\tsentiment\ngood\tpos\n", 1, 'no column "label" in the header'),
    ("a.tsv", "text\tlabel\ttext\ngood\tpos\tx\n", 1, 'two columns "text" in the header'),
    ("a.tsv", "good\tpos\n\tneg\n", 2, "the text is empty"),
    ("a.tsv", "good\tpos\nbad\t \n", 2, "the label is empty"),
    ("a.csv", "text,label\n\nbad,\n", 3, "the label is empty"),
    ("a.csv", 'text,label\n"a\nb",x\n"c"d,y\n', 4, "not CSV"),
    ("a.csv", 'good,pos\n"never closed,neg\nmore,pos\n', 2, "not CSV: unexpected end of data"),
    ("a.csv", 'good,pos\n"' + "long\n" * 30_000, 2, "not CSV: field larger than field limit"),
    ("a.csv", "good,pos\na\rb,neg\n", 2, "not CSV"),
    ("a.jsonl", '{"text": "a", "label": "b"}\n{"text": "a", \n', 2, "not JSON"),
    ("a.jsonl", '["a", "b"]\n', 1, "not a JSON object"),
    ("a.jsonl", "[" * 100_000 + "\n", 1, "not JSON"),
    ("a.jsonl", '{"text": "a", "label": ' + "1" * 5000 + "}\n", 1, "not JSON"),
    ("a.jsonl", '{"text": "a", "labels": "b"}\n', 1, 'no "label" in the object'),
    ("a.jsonl", '{"text": "a", "label": null}\n', 1, '"label" is null, not a text'),
    ("a.jsonl", '{"text": ["a"], "label": "b"}\n', 1, '"text" is ["a"], not a text'),
    ("a.jsonl", '{"text": "\\ud83d", "label": "b"}\n', 1, '"text" has half of a surrogate pair'),
    ("a.jsonl", '{"text": "", "label": "b"}\n', 1, "the text is empty"),
    ("a.tsv", "", 0, "no examples in"),
    ("a.tsv", "text\tlabel\n", 0, "no examples in"),
]


@pytest.mark.parametrize(("name", "text", "line", "what"), MALFORMED, ids=lambda value: str(value)[:30])
def test_malformed_tables_name_the_line_and_the_cure(
    tmp_path: Path, name: str, text: str, line: int, what: str
) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(DataError) as caught:
        labelled(path)
    assert caught.value.where == (f"{path}:{line}" if line else None)
    assert what in caught.value.what
    assert caught.value.cure


def test_half_a_header_lists_the_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,sentiment,stars\ngood,pos,5\n")
    with pytest.raises(
        DataError,
        match=r'its columns are: text "good", sentiment "pos", stars "5"; choose with: data.label=sentiment\)',
    ):
        labelled(path)


def test_whoever_names_a_column_needs_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "review\tstars\ngood\t5\n")
    with pytest.raises(DataError, match='no column "sentence" in the header'):
        labelled(path, text="sentence", label="mark")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", "one\ta\nno label\ntwo\tb\n"),
        ("a.csv", 'one,a\n"x"y,b\n"two",b\n'),
        ("a.jsonl", '{"text": "one", "label": "a"}\n{\n{"text": "two", "label": "b"}\n'),
    ],
)
def test_skipping_goes_on_with_the_next_row(tmp_path: Path, name: str, text: str) -> None:
    bad = BadLines(skip=True)
    assert labelled(write(tmp_path / name, text), bad) == [("one", "a"), ("two", "b")]
    assert bad.count == 1
    assert bad.first is not None
    assert bad.first.where == f"{tmp_path / name}:2"


def test_a_line_that_is_not_text_leaves_later_csv_places_right(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"one,a\n\xff,b\ntwo,b\n")
    records = list(read_labelled(path, bad=BadLines(skip=True)))
    assert [record.place for record in records] == [f"{path}:1", f"{path}:3"]
