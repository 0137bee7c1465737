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


def test_tools_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="apt install clang"):
        find_tools()
