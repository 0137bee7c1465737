"""The page of `weft export --to html` in a browser, opened from disk: it answers as weft does, and loads nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.browser.driver import NOUNS, VERBS

import weft
from weft.errors import ConfigError
from weft.export import export_html
from weft.export.c.html import find_tools


@pytest.fixture(scope="module")
def html(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """A small translator that has learned its sentences, and its page."""
    try:
        find_tools()
    except ConfigError as reason:
        pytest.skip(str(reason))
    folder = tmp_path_factory.mktemp("html")
    rows = [(f"the {noun} {verb}", f"la {nom} {verbe}") for noun, nom in NOUNS.items() for verb, verbe in VERBS.items()]
    sizes = {"kind": "rnn", "cell": "gru", "hidden": 32, "embedding": 32, "dropout": 0.0}
    model = {"encoder": sizes, "decoder": sizes}
    config = {"task": "translate", "data": {"train": rows, "valid": rows}, "text": {"kind": "word"}, "model": model}
    run = weft.train({**config, "train": {"steps": 150, "threads": 1}}, out=folder / "run", quiet=True)
    return run, export_html(run, out=folder / "page.html").path


def test_ten_sentences_are_translated_as_weft_does(html: tuple[Any, Path], browser: Any) -> None:
    run, path = html
    sources = [f"the {noun} {verb}" for noun in NOUNS for verb in VERBS][:10]
    page, said = browser.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_function("document.getElementById('status').textContent === 'ready'")
    for source, answer in zip(sources, run.predict(sources), strict=True):
        page.fill("#text", source)
        page.click("#go")
        assert page.evaluate("document.querySelector('#answer .text').firstChild.textContent") == answer.text
    page.fill("#text", "<img src=x onerror=alert(1)> the car")
    page.click("#go")
    assert page.query_selector("#answer img") is None
    assert not said
    page.close()


def answered(browser: Any, path: Path, text: str, *, second: str | None = None, language: str | None = None) -> str:
    page = browser.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("document.getElementById('status').textContent === 'ready'")
    page.fill("#text", text)
    if second is not None:
        page.fill("#second", second)
    if language is not None:
        page.select_option("#language", language)
    page.click("#go")
    found = str(page.inner_text("#answer"))
    page.close()
    return found


def test_a_translator_of_several_languages_has_a_choice(html: tuple[Any, Path], browser: Any, tmp_path: Path) -> None:
    rows = [(noun, nom, "fr") for noun, nom in NOUNS.items()] + [(noun, noun[::-1], "back") for noun in NOUNS]
    sizes = {"kind": "rnn", "hidden": 32, "embedding": 32, "dropout": 0.0}
    config = {"task": "translate", "data": {"train": rows, "valid": rows, "language": "language"}}
    config |= {"model": {"encoder": sizes, "decoder": sizes}, "text": {"kind": "char"}, "decode": {"max_length": 12}}
    run = weft.train({**config, "train": {"steps": 60, "threads": 1}}, out=tmp_path / "run", quiet=True)
    path = export_html(run, out=tmp_path / "page.html").path
    for language in ("fr", "back"):
        (answer,) = run.predict(["car"], language=language)
        assert answered(browser, path, "car", language=language).startswith(answer.text)


def test_a_classifier_of_pairs_has_a_place_for_each(html: tuple[Any, Path], browser: Any, tmp_path: Path) -> None:
    rows = [(one, other, "same" if one == other else "other") for one in NOUNS for other in NOUNS]
    config = {"task": "classify", "data": {"train": rows, "valid": rows, "pair": 1, "text": 0, "label": 2}}
    model = {"kind": "rnn", "hidden": 8, "embedding": 8}
    run = weft.train({**config, "model": model, "train": {"steps": 5, "threads": 1}}, out=tmp_path / "run", quiet=True)
    path = export_html(run, out=tmp_path / "page.html").path
    found = answered(browser, path, "car\tx", second="house")
    assert found.startswith(run.predict([("car x", "house")])[0].label)


def test_tools_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="apt install clang"):
        find_tools()
