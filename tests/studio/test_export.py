"""Static pages of runs: complete, linked to each other, without anything from a network."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urlparse

import pytest

from weft.charts import Figure, LinkedScript, page, rendering
from weft.errors import ConfigError
from weft.studio import export as exporting


class Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src")]


def addresses(path):
    parser = Addresses()
    parser.feed(path.read_text(encoding="utf-8"))
    return parser.found


@pytest.fixture
def pages(runs, data, tmp_path, extras, monkeypatch):
    monkeypatch.setattr(exporting, "javascript", lambda: "window.vegaEmbed = null;\n")
    return exporting.export([runs, data], tmp_path / "pages").parent


def test_pages_link_to_each_other_and_to_nothing_else(pages):
    written = sorted(path.relative_to(pages).as_posix() for path in pages.rglob("*.html"))
    assert "index.html" in written
    assert {"numbers/index.html", "numbers/gradients.html", "numbers/parameters.html"} <= set(written)
    for path in pages.rglob("*.html"):
        for address in addresses(path):
            assert not urlparse(address).scheme
            assert (path.parent / address).is_file(), address
    reached, waiting = set(), [pages / "index.html"]
    while waiting:
        path = waiting.pop().resolve()
        if path not in reached and path.suffix == ".html":
            reached.add(path)
            waiting += [path.parent / address for address in addresses(path)]
    assert len(reached) == len(written)


def test_a_page_has_the_views_of_some_inputs_and_the_script_is_shared(pages):
    text = (pages / "numbers" / "gradients.html").read_text(encoding="utf-8")
    assert text.count('<div class="chart"') == exporting.INPUTS
    assert len([path for path in pages.rglob("*") if path.name == "vega.js"]) == 1
    assert "window.vegaEmbed = null" not in text


def test_a_run_has_its_settings_and_its_answers_beside_the_references(pages):
    text = (pages / "numbers" / "index.html").read_text(encoding="utf-8")
    assert "<summary>the settings</summary>" in text
    assert "<td>train.steps</td><td>20</td>" in text
    assert "<th>input</th><th>reference</th><th>answer</th>" in text
    classifier = (pages / "words-first" / "index.html").read_text(encoding="utf-8")
    assert re.search(r"<td>the \w+ here</td><td>(colour|animal)</td>", classifier)
    assert re.search(r"<td>valid accuracy</td><td>\d+\.\d\d%</td>", classifier), "scores as in the terminal"
    assert re.search(r"<td>accuracy \d+\.\d\d%</td>", (pages / "index.html").read_text(encoding="utf-8"))


def test_a_view_that_a_model_has_nothing_for_is_named_where_there_are_no_inputs(runs, tmp_path, extras, monkeypatch):
    monkeypatch.setattr(exporting, "javascript", lambda: "window.vegaEmbed = null;\n")
    pages = exporting.export([runs / "words"], tmp_path / "pages").parent
    assert "has no attention" in (pages / "first" / "attention.html").read_text(encoding="utf-8")
    numbers = exporting.export([runs / "numbers"], tmp_path / "more").parent / "numbers" / "attention.html"
    assert "There is no input to show it for" in numbers.read_text(encoding="utf-8")


def test_a_run_that_cannot_be_read_is_listed_with_its_error(pages):
    text = (pages / "index.html").read_text(encoding="utf-8")
    assert ">cut<" in text
    assert "cannot be read" in text


def test_the_folder_must_be_new(runs, tmp_path, extras):
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty"):
        exporting.export([runs], tmp_path)
    with pytest.raises(ConfigError, match="there are no runs"):
        exporting.export([tmp_path], tmp_path / "pages")


def test_names_of_folders_are_plain_and_differ():
    assert exporting._folder_names(["a/b", "a b", "..", "été"]) == ["a-b", "a-b-2", "run", "t"]


def test_a_linked_script_is_allowed_by_its_place_and_an_inner_one_by_its_hash():
    figure = Figure("<b>", "words", None)
    linked, whole = (page("title", [figure], script) for script in (LinkedScript("../vega.js"), "draw()"))
    assert '<script src="../vega.js"></script>' in linked
    assert re.search(r"script-src 'self' file: 'sha256-[^']+'; style-src", linked)
    assert re.search(r"script-src 'sha256-[^']+' 'sha256-[^']+'; style-src", whole)
    assert "<h2>&lt;b&gt;</h2>" in linked


def test_pages_need_the_extra(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(rendering, "can_draw", lambda: False)
    with pytest.raises(Exception, match="pictures need altair"):
        exporting.export([runs], tmp_path / "pages")
