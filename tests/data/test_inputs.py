"""Files of inputs come back in their own format, with the answer's columns added and everything else as it was."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from weft.data import LAYOUT, Columns, Labelled, Pair, Tagged, Text, open_inputs
from weft.errors import ConfigError, DataError

LABELLED = Columns(Labelled, "text", "label")
TAGGED = Columns(Tagged, "words", "tags")
NAMES = ["label", "probability"]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def answer(name, columns=LABELLED, *, names=NAMES, **options):
    """What is asked, and the file as it comes back where every answer is YES with 0.75."""
    file = open_inputs(name, columns, layout=LAYOUT, names=names, **options)
    text, asked = file.begin(), []
    for item in file:
        asked.append(item.source)
        cells = dict(zip(names, ("YES", 0.75), strict=False))
        if columns is TAGGED:
            cells = {"tags": ["T"] * len(item.source or ()), "probabilities": [0.5] * len(item.source or ())}
        text += file.write(item, "yes" if item.source else "", cells if item.source else {})
    return asked, text + file.end()


def write(name, text):
    Path(name).write_bytes(text.encode())
    return name


def test_plain_lines_are_one_line_each():
    assert answer(write("x.txt", "a\tb\r\n\n c ")) == (["a\tb", None, " c "], "yes\n\nyes\n")
    assert answer(write("x", "")) == ([], "")


def test_a_csv_keeps_cells_quotes_header_and_order():
    text = '\ufeffid,Text,note\r\n1,"a, ""b""",x\n2,,"p\nq"\n\n3,c,\n'
    asked, found = answer(write("x.csv", text))
    assert asked == ['a, "b"', None, "c"]
    assert found == 'id,Text,note,label,probability\n1,"a, ""b""",x,YES,0.75\n2,,"p\nq",,\n3,c,,YES,0.75\n'


def test_other_delimiters_stay():
    assert (
        answer(write("x.csv", "text;n\na,b;1\nc;2\n"))[1] == "text;n;label;probability\na,b;1;YES;0.75\nc;2;YES;0.75\n"
    )
    assert answer(write("x.tsv", 'text\tn\na "b\t1\n'))[1] == 'text\tn\tlabel\tprobability\na "b\t1\tYES\t0.75\n'


def test_without_a_header_the_cells_stand_at_the_end():
    assert answer(write("x.tsv", "a good one\tpos\na bad one\tneg\n")) == (
        ["a good one", "a bad one"],
        "a good one\tpos\tYES\t0.75\na bad one\tneg\tYES\t0.75\n",
    )
    pairs = Columns(Pair, "source", "target")
    assert answer(write("y.tsv", "one\ntwo\n"), pairs, names=["translation"]) == (
        ["one", "two"],
        "one\tYES\ntwo\tYES\n",
    )


def test_a_name_that_is_taken_becomes_another():
    assert answer(write("x.csv", "text,label,predicted_label\na,b,c\nd,e,f\n"))[1].split("\n")[0] == (
        "text,label,predicted_label,predicted_predicted_label,probability"
    )
    objects = [{"text": "a"}, {"text": "b", "label": 1}, {"text": "c"}]
    _, found = answer(write("x.jsonl", "\n".join(map(json.dumps, objects))))
    assert [json.loads(line) for line in found.splitlines()] == [
        {"text": "a", "label": "YES", "probability": 0.75},
        {"text": "b", "label": 1, "predicted_label": "YES", "probability": 0.75},
        {"text": "c", "predicted_label": "YES", "probability": 0.75},
    ]


def test_json_lines_and_arrays_stay_what_they_are():
    lines = '{"body": {"text": "é"}, "n": [1, null]}\n\n{"body": {"text": ""}, "n": 2}\n'
    asked, found = answer(write("x.jsonl", lines), column="body.text")
    assert asked == ["é", None]
    assert found == (
        '{"body": {"text": "é"}, "n": [1, null], "label": "YES", "probability": 0.75}\n'
        '{"body": {"text": ""}, "n": 2, "label": null, "probability": null}\n'
    )
    for array in ('[{"text": "a"},\n {"text": "b"}]', "[]"):
        _, found = answer(write("x.json", array))
        assert [{"text": row["text"]} for row in json.loads(found)] == json.loads(array)
    assert answer(write("y.json", '{"text": "a"}\n'))[1] == '{"text": "a", "label": "YES", "probability": 0.75}\n'


def test_the_columns_are_those_of_the_run_and_others_overrule():
    write("x.csv", "id,review,stars\n1,fine,5\n2,poor,1\n")
    own = Columns(Labelled, "review", "stars")
    assert answer("x.csv", own)[0] == ["fine", "poor"]
    assert answer("x.csv", column="review")[0] == ["fine", "poor"]
    assert answer("x.csv", own, column=["review", "id"])[0] == ["fine 1", "poor 2"]
    assert answer("x.csv", own, column=0)[0] == ["1", "2"]


def test_standard_input_has_plain_lines_unless_a_format_is_given(monkeypatch):
    def give(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))

    give("text,n\na,1\n")
    assert answer("-")[0] == ["text,n", "a,1"]
    give("text,n\na,1\n")
    assert answer("-", format="csv") == (["a"], "text,n,label,probability\na,1,YES,0.75\n")
    give('[{"text": "a"}]')
    assert json.loads(answer("-", format="json")[1]) == [{"text": "a", "label": "YES", "probability": 0.75}]


def test_a_language_model_is_asked_by_lines_unless_a_format_is_given():
    write("x.csv", "text,n\na,1\n")
    model = Columns(Text, "text", lines=True)
    assert answer("x.csv", model)[0] == ["text,n", "a,1"]
    assert answer("x.csv", model, format="csv", names=["continuation"]) == (["a"], "text,n,continuation\na,1,YES\n")


CONLLU = """\
# sent_id = 1
1\tthe\tthe\t_\tX\t_\t_\t_\t_\t_
2-3\tcat's\t_\t_\t_\t_\t_\t_\t_\t_
2\tcat\tcat\tOLD\t_\t_\t_\t_\t_\tSpaceAfter=No
3\t's\tbe\t_\t_\t_\t_\t_\t_\t_
3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_


# nothing else

1\truns\trun\t_\t_\t_\t_\t_\t_\t_
"""


def test_conllu_gets_its_tags_and_keeps_everything_else():
    write("x.conllu", CONLLU)
    asked, found = answer("x.conllu", TAGGED)
    assert asked == [["the", "cat", "'s"], None, ["runs"]]
    expected = CONLLU.replace("the\tthe\t_\tX\t_\t_\t_\t_\t_", "the\tthe\tT\tX\t_\t_\t_\t_\tProbability=0.5")
    expected = expected.replace("OLD\t_\t_\t_\t_\t_\tSpaceAfter=No", "T\t_\t_\t_\t_\t_\tSpaceAfter=No|Probability=0.5")
    for word in ("'s\tbe", "runs\trun"):
        expected = expected.replace(f"{word}\t_\t_\t_\t_\t_\t_\t_", f"{word}\tT\t_\t_\t_\t_\t_\tProbability=0.5")
    assert found == expected
    assert "the\tthe\t_\tT" in answer("x.conllu", TAGGED, tag="xpos")[1]
    assert "the\tT\t_\tX" in answer("x.conllu", TAGGED, tag=2)[1]


def test_columns_get_a_last_one():
    write("x.txt", "the DET\n cat NOUN\n\na DET\n")
    assert answer("x.txt", TAGGED, format="columns") == (
        [["the", "cat"], ["a"]],
        "the DET T 0.5\n cat NOUN T 0.5\n\na DET T 0.5\n",
    )
    assert answer(write("x.tsv", "New York\tX\n"), TAGGED) == ([["New York"]], "New York\tX\tT\t0.5\n")


@pytest.mark.parametrize(
    ("name", "text", "columns", "options", "message"),
    [
        ("x.csv", "review,stars\nfine,5\npoor,1\n", LABELLED, {}, r'x\.csv:1: .*"text" .*review.*--column=review'),
        ("x.csv", "text,n\na,1\n", LABELLED, {"column": "nope"}, r'x\.csv:1: no column "nope"'),
        ("x.csv", "text,n\na,1\nb\n", LABELLED, {}, r"x\.csv:3: 1 column where"),
        ("x.csv", 'text,n\n"a,1\n', LABELLED, {}, r"x\.csv:2: not CSV"),
        ("x.jsonl", '{"text": "a"}\n{"x": 1}\n', LABELLED, {}, r'x\.jsonl:2: no "text" in the object'),
        ("x.jsonl", '{"text": "a"}\nnope\n', LABELLED, {}, r"x\.jsonl:2: not JSON"),
        ("x.txt", "caf\udce9", LABELLED, {}, r"x\.txt:1: not UTF-8"),
        ("x.conllu", "1\tthe\n", TAGGED, {}, r"x\.conllu:1: 2 columns where CoNLL-U has 10"),
        ("x.txt", "\tDET\n", TAGGED, {"format": "columns"}, r"x\.txt:1: the word is empty"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(name, text, columns, options, message):
    Path(name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=message) as caught:
        answer(name, columns, **options)
    assert "\n" not in str(caught.value)


def test_what_means_nothing_is_refused():
    write("x.csv", "text\na\n")
    for columns, options, message in (
        (LABELLED, {"format": "conllu"}, r'--format: "conllu" is not a format here \(choose from csv, json'),
        (TAGGED, {"format": "csv"}, r'--format: "csv" is not a format here \(choose from columns'),
        (LABELLED, {"format": "text", "column": "a"}, r"--column a: text has no columns to choose from"),
        (TAGGED, {"format": "conllu", "tag": "ner"}, r'data\.field = "ner": is no column of CoNLL-U'),
    ):
        with pytest.raises(ConfigError, match=message):
            answer("x.csv", columns, **options)


def test_a_large_file_is_answered_as_it_is_read():
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            line = (b"text,n\n" + b"a,1\n" * 10_000)[: len(buffer)]
            buffer[: len(line)] = line
            return len(line)

    stream = io.TextIOWrapper(io.BufferedReader(Endless(), 1 << 16), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", stream)
        file = open_inputs("-", LABELLED, format="csv", layout=LAYOUT, names=NAMES)
        first = next(iter(file))
    assert (first.place, first.source) == ("-:2", "a")
