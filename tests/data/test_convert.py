"""Public files become tables that weft reads, and bad lines of them are named."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.data import BadLines, read_pairs, read_tagged
from weft.data.convert import CONVERTERS, convert
from weft.data.convert.conll import to_iob2
from weft.errors import ConfigError, DataError, WeftError


def converted(kind: str, files: list[str], out: Path) -> dict[str, list[str]]:
    """The lines of each part, without a header."""
    found = {}
    for path in convert(CONVERTERS[kind], files, out):
        lines = path.read_text(encoding="utf-8").splitlines()
        header = CONVERTERS[kind].header.splitlines()
        assert lines[: len(header)] == header
        found[path.stem] = lines[len(header) :]
    return found


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_pronunciations_lose_stress_comments_and_numbers_of_variants(tmp_path: Path) -> None:
    path = tmp_path / "cmudict.dict.xz"
    with lzma.open(path, "wt", encoding="utf-8") as file:
        file.write(
            ";;; a comment\neither IY1 DH ER0\neither(2) AY1 DH ER0\naalborg(2) AO1 L B AO0 R G # place, danish\n"
        )
    found = converted("cmudict", [str(path)], tmp_path / "out")
    every = {line for lines in found.values() for line in lines}
    assert every == {"either\tIY DH ER", "either\tAY DH ER", "aalborg\tAO L B AO R G"}
    assert sum(any("either" in line for line in lines) for lines in found.values()) == 1, "variants are in one part"


def test_commands_and_actions(tmp_path: Path) -> None:
    train = write(tmp_path / "train.txt", "IN: jump twice OUT: I_JUMP I_JUMP\n")
    test = write(tmp_path / "test.txt", "IN: walk OUT: I_WALK\n")
    found = converted("scan", [train, test], tmp_path / "out")
    assert found["test"] == ["walk\tI_WALK"]
    assert [pair.target for pair in read_pairs(str(tmp_path / "out" / "test.tsv"), bad=BadLines())] == ["I_WALK"]
    with pytest.raises(ConfigError, match="1 file where 2 are expected"):
        converted("scan", [train], tmp_path / "out")


def test_names_by_language(tmp_path: Path) -> None:
    write(tmp_path / "Irish.txt", "Adam\nAhearn\nAdam\n")
    found = converted("names", [str(tmp_path)], tmp_path / "out")
    assert sorted(line for lines in found.values() for line in lines) == ["Irish\tAdam", "Irish\tAhearn"]


IOB1 = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\nBonn NNP I-NP B-MISC\n\n"
CONLL_X = "1\tThe\tthe\tDT\tDT\t_\t2\tdet\t_\t_\n2\tcat\tcat\tNN\tNN\t_\t0\troot\t_\t_\n"
CONLL_2009 = "1\tThe\tthe\tthe\tDT\tDT\t_\t_\t2\t2\tdet\tdet\t_\t_\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (IOB1, ["EU B-ORG", "rejects O", "German B-MISC", "Bonn B-MISC", ""]),
        (CONLL_X, ["The DT", "cat NN", ""]),
        (CONLL_2009, ["The DT", ""]),
        ("# text = a b\na X\n# A\nb Y", ["a X", "b Y", ""]),
        ("# # B-NP\n5 CD I-NP\n# # B-NP\n", ["# B-NP", "5 I-NP", "# B-NP", ""]),
        ("a NN X\n# # Y\n", ["a X", "# Y", ""]),
    ],
    ids=["2003", "X", "2009", "comments", "2000", "pounds"],
)
def test_conll_files_become_words_with_tags(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert converted("conll", [write(tmp_path / "in", text)], tmp_path)["train"] == lines
    (sentence,) = read_tagged(str(tmp_path / "train.conll"), bad=BadLines())
    assert [f"{word} {tag}" for word, tag in zip(sentence.words, sentence.tags or (), strict=True)] == lines[:-1]


def test_entities_begin_with_b() -> None:
    assert to_iob2(["I-A", "I-A", "B-A", "O", "I-B", "I-A"]) == ["B-A", "I-A", "B-A", "O", "B-B", "B-A"]
    assert to_iob2(["NN", "I-A"]) == ["NN", "I-A"]


SOURCE = """<srcset setid="t" srclang="en">
<doc docid="d1">
<p>
<seg id="1"> Tom &amp; I </seg>
<seg id="2">No</seg></p></doc></srcset>"""
REFERENCE = '<refset><doc docid="d1"><seg id="1">Tom\nund ich</seg><seg id="2">Nein</seg></doc></refset>'
XML = """<dataset><doc id="d1"><src lang="en"><p><seg id="1">No</seg></p></src>
<ref lang="de" translator="A"><p><seg id="1">Nein</seg></p></ref><ref translator="B"><p><seg id="1">Nee</seg></p></ref>
<hyp system="x"><p><seg id="1">Nain</seg></p></hyp></doc></dataset>"""
BOMB = """<!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>
<srcset><doc docid="d"><seg id="1">&b; &c;</seg></doc></srcset>
<refset><doc docid="d"><seg id="1">x</seg></doc></refset>"""


def test_test_sets_of_wmt(tmp_path: Path) -> None:
    files = [write(tmp_path / "src.sgm", SOURCE), write(tmp_path / "ref.sgm", REFERENCE)]
    assert converted("wmt", files, tmp_path / "out") == {"test": ["Tom & I\tTom und ich", "No\tNein"]}
    xml = write(tmp_path / "set.xml", XML)
    assert converted("wmt", [xml], tmp_path / "xml") == {"test": ["No\tNein", "No\tNee"]}
    bomb = write(tmp_path / "bomb.xml", BOMB)
    assert converted("wmt", [bomb], tmp_path / "bomb") == {"test": ["&b; &c;\tx"]}, "nothing is expanded"


BAD = {
    "a word without phones": ("cmudict", ["cat K AE1 T\ndog\n"], "1.txt:2"),
    "no command": ("scan", ["IN: a OUT: b\n", "IN: a\n"], "2.txt:1"),
    "one column": ("conll", ["a X\nb\n"], "1.txt:2"),
    "a column less": ("conll", ["a NN B-NP\n\nb NN\n"], "1.txt:3"),
    "no reference": ("wmt", [SOURCE], "1.txt"),
    "no source of it": ("wmt", [SOURCE, REFERENCE.replace("d1", "d2")], "2.txt:1"),
    "a segment without an id": ("wmt", ["<src>\n<seg>a</seg>"], "1.txt:2"),
    "a segment without an end": ("wmt", ['<src>\n<seg id="1">a'], "1.txt:2"),
    "twice": ("wmt", [SOURCE, SOURCE], "2.txt:4"),
    "binary": ("cmudict", ["a\0b"], "1.txt:1"),
    "nothing": ("cmudict", [""], "1.txt"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_line_is_named_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    kind, texts, place = BAD[name]
    files = [write(tmp_path / f"{number}.txt", text) for number, text in enumerate(texts, start=1)]
    with pytest.raises(DataError) as caught:
        converted(kind, files, tmp_path / "out")
    assert str(caught.value.where).endswith(place)
    assert caught.value.cure
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["scan", "conll"])
def test_each_file_has_examples(kind: str, tmp_path: Path) -> None:
    text = {"scan": "IN: a OUT: b\n", "conll": "a X\n"}[kind]
    for texts in (["\n", text], [text, ""]):
        files = [write(tmp_path / f"{number}.txt", content) for number, content in enumerate(texts)]
        with pytest.raises(DataError, match=rf"no examples in .*{texts.index(min(texts, key=len))}\.txt"):
            converted(kind, files, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_no_file_is_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "train.conll", "a NN B-NP\n")
    with pytest.raises(ConfigError, match=r"train\.conll: is there already \(choose another --out\)"):
        converted("conll", [source], tmp_path)
    assert Path(source).read_text(encoding="utf-8") == "a NN B-NP\n"


def test_a_blank_of_unicode_stands_inside_a_word(tmp_path: Path) -> None:
    source = write(tmp_path / "x", "10\u00a0000 NN B-NP\n")
    assert converted("conll", [source], tmp_path / "out") == {"train": ["10_000 B-NP", ""]}


def test_the_command(weft: Callable[..., Any], tmp_path: Path) -> None:
    source = write(tmp_path / "cmu", "cat K AE1 T\n")
    done = weft("data", "convert", "cmudict", source, "--out", "out")
    assert done.code == 0, done.err
    assert "1 example" in done.err
    for words, message in (
        (("cmudct", source), "cmudict"),
        (("cmudict", str(tmp_path / "none")), "no such file"),
        (("cmudict", source, "--download"), "reads files only"),
    ):
        bad = weft("data", "convert", *words, "--out", "out")
        assert bad.code == 2
        assert message in bad.err


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pyarrow", "pyarrow.parquet", "datasets"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    for kind in ("parquet", "huggingface"):
        with pytest.raises(WeftError, match="pip install"):
            converted(kind, [write(tmp_path / "x.parquet", "")], tmp_path / "out")


def test_parquet_is_read_as_it_is_and_converted(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "pairs.parquet"
    parquet.write_table(pyarrow.table({"source": ["one", "two"], "target": ["un", "deux"], "size": [1.5, None]}), path)
    assert [(pair.source, pair.target, pair.place) for pair in read_pairs(str(path), bad=BadLines())] == [
        ("one", "un", f"{path}:1"),
        ("two", "deux", f"{path}:2"),
    ]
    rows = [json.loads(line) for line in converted("parquet", [str(path)], tmp_path / "out")["train"]]
    assert rows[1] == {"source": "two", "target": "deux", "size": None}
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="no Parquet file, or damaged"):
        list(read_pairs(str(path), bad=BadLines()))
