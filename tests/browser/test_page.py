"""The page around the views: its address, its input, its keys, its errors."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.browser.driver import MARKS, Address, marks, studio, wait_for_chart, weft

from weft.ladder.summary import MeasuredRung, Summary

TEXT = "my red house falls"
LEARN_MILLISECONDS = 900_000
"""Time limit for a training in the page; on an idle core it takes a few seconds."""


def test_the_address_holds_run_view_input_and_options(page: Any, address: Address) -> None:
    page.goto(address(run="translator"))
    assert "token" not in page.url
    page.fill("#text", TEXT)
    page.keyboard.press("Enter")
    page.locator(".answer .text", has_text="maison").wait_for()
    page.locator("#views a", has_text="Tokens").click()
    wait_for_chart(page)
    page.select_option("#view .controls select", "probability")
    page.wait_for_function("() => location.hash.includes('o.colour=probability')")
    page.reload()
    wait_for_chart(page)
    assert page.input_value("#text") == TEXT
    assert page.locator("#view .controls select").input_value() == "probability"
    assert page.locator("#views a[aria-current]").inner_text() == "Tokens"
    page.go_back()
    page.locator(".answer .text", has_text="maison").wait_for()


def test_keys_open_the_input_the_views_and_the_help(page: Any, address: Address) -> None:
    page.goto(address(run="translator", text=TEXT))
    page.locator(".answer .text", has_text="maison").wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("m")
    wait_for_chart(page)
    assert page.locator("#views a[aria-current]").inner_text() == "Parameters"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_two_runs_answer_side_by_side(page: Any, address: Address) -> None:
    page.goto(address(run="translator", text=TEXT))
    page.get_by_label("beside").select_option("untrained")
    page.locator(".answer").nth(1).locator(".text").wait_for()
    assert page.locator(".answer h3").all_inner_texts() == ["translator", "untrained"]


def test_a_classifier_shows_the_probability_of_each_label(page: Any, address: Address) -> None:
    page.goto(address(run="reviews", text="a great film 7"))
    assert page.locator(".answer .text").inner_text() == "positive"
    assert set(page.locator(".bars .name").all_inner_texts()) == {"positive", "negative"}


def test_a_language_model_continues_its_prompt(page: Any, address: Address) -> None:
    page.goto(address(run="language", text="the red"))
    page.locator(".answer .links a").first.wait_for()
    assert page.locator(".answer .text").inner_text().startswith("the red")


@pytest.mark.parametrize(("name", "button"), [("svg", "SVG"), ("png", "PNG"), ("json", "data")])
def test_each_view_can_be_saved(page: Any, address: Address, tmp_path: Path, name: str, button: str) -> None:
    page.goto(address(run="translator", view="gradients", text=TEXT))
    wait_for_chart(page)
    with page.expect_download() as started:
        page.locator("#view .tools button", has_text=button).click()
    saved = tmp_path / started.value.suggested_filename
    started.value.save_as(saved)
    assert saved.suffix == f".{name}"
    begin = {"svg": b"<svg", "png": b"\x89PNG", "json": b"{"}[name]
    assert saved.read_bytes().startswith(begin)


def test_an_error_is_a_sentence_with_its_cure(page: Any, address: Address, said: list[str]) -> None:
    page.goto(address(run="translator", view="beam", text=TEXT, **{"o.beam": "0"}))
    page.locator("#view .failure").wait_for()
    assert "beam" in page.locator("#view .failure").inner_text()
    assert all("400" in line or "422" in line for line in said), said
    said.clear()


def test_a_run_that_is_not_there_is_named(page: Any, address: Address) -> None:
    page.goto(address(run="nowhere"))
    assert 'no run "nowhere"' in page.locator("#view .failure").inner_text()


def test_an_empty_folder_says_how_to_begin(page: Any, browser: Any, tmp_path: Path) -> None:
    with studio(tmp_path) as address:
        page.goto(address())
        assert page.locator("#view h1").inner_text() == "No runs yet"
        assert "weft train" in page.locator("#view pre").inner_text()
        page.goto("about:blank")  # the page would look for its studio after the end of it


def test_runs_are_compared_with_their_settings(page: Any, address: Address) -> None:
    page.goto(address(view="compare", **{"with": ["translator", "untrained"]}))
    page.locator("#view table").first.wait_for()
    assert "train.steps" in page.locator("#view").inner_text()
    wait_for_chart(page)
    page.wait_for_function("() => [...document.querySelectorAll('#view .chart')].at(-1).vegaView")


def test_an_error_leaves_nothing_of_the_comparison_before(page: Any, address: Address, said: list[str]) -> None:
    page.goto(address(view="compare", **{"with": ["translator", "untrained"]}))
    page.locator("#view table").first.wait_for()
    page.goto(address(view="compare", **{"with": ["translator", "reviews"]}))
    page.locator("#view .failure", has_text="different tasks").wait_for()
    assert page.locator("#view table").count() == page.locator("#view .chart").count() == 0
    assert not page.locator("#view .summary").inner_text()
    assert page.locator("#sources pre").count() == 0
    said.clear()  # the refused request


def test_a_ladder_is_shown_with_its_conclusion(page: Any, tmp_path: Path) -> None:
    rungs = [
        MeasuredRung("bag", 0.8, 0.7, 0.9, 0.1, 10, 1.0, 1000, 50.0),
        MeasuredRung("rnn", 0.9, 0.85, 0.95, 0.0, 100, 20.0, 2000, 5.0),
    ]
    (tmp_path / "steps").mkdir()
    ladder = Summary("classify", "accuracy", "test", 200, rungs, "rnn", "bag")
    (tmp_path / "steps/ladder.json").write_text(json.dumps(ladder.tree()), encoding="utf-8")
    with studio(tmp_path) as address:
        page.goto(address(view="ladder"))
        wait_for_chart(page)
        assert page.locator("#view tbody tr").count() == len(rungs)
        assert "rnn" in page.locator("#view .summary").inner_text()
        page.goto("about:blank")


def test_curves_of_a_training_grow(page: Any, runs: Path, tmp_path: Path) -> None:
    """A run whose folder is locked is in training: what its journal gets is drawn, and its end is noticed."""
    folder = tmp_path / "runs/live"
    shutil.copytree(runs / "translator", folder)
    with studio(folder.parent) as address:
        opened = os.open(folder, os.O_RDONLY)
        fcntl.flock(opened, fcntl.LOCK_EX)
        page.goto(address(run="live", view="curves"))
        page.locator("#runs .about", has_text="training").wait_for()
        assert last_update(page) < UPDATE
        with (folder / "metrics.jsonl").open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({"step": UPDATE, "loss": 0.1}) + "\n")
        page.wait_for_function(DRAWN_UPDATE, arg=UPDATE)
        os.close(opened)
        page.locator("#runs .dot.finished").wait_for()
        assert last_update(page) == UPDATE
        page.goto("about:blank")


UPDATE = 9000
DRAWN_UPDATE = f"""(update) => {{
  const chart = document.querySelector("#view .chart");
  return chart?.vegaView && ({MARKS})(chart).some(({{ datum }}) => datum?.step === update);
}}"""


def last_update(page: Any) -> int:
    return max(mark["datum"]["step"] for mark in marks(page, "line") if mark["datum"])


def test_a_toy_training_reaches_its_score(page: Any, address: Address) -> None:
    settings = {
        "o.toy": "recall",
        "o.size": "6",
        "o.steps": "150",
        "o.a.cell": "gru",
        "o.b.cell": "lstm",
        "o.a.hidden": "32",
        "o.b.hidden": "32",
    }
    page.goto(address(view="learn", **settings))
    page.get_by_role("button", name="Start").click()
    page.locator("#learned").wait_for(timeout=LEARN_MILLISECONDS)
    text = page.locator("#learned").inner_text()
    scores = [float(part.split(" %")[0].split()[-1]) for part in text.split(",")]
    assert max(scores) > 95
    for chart in ("loss", "accuracy", "gradients", "gates"):
        assert page.locator(f"#learn-{chart} canvas").count() == 1
    assert page.locator(".examples .right").count() > 0


def test_a_training_can_be_paused_stepped_and_stopped(page: Any, address: Address) -> None:
    page.goto(address(view="learn", **{"o.toy": "recall", "o.steps": "20000"}))
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="pause").click()
    page.get_by_role("button", name="one step").click()
    page.wait_for_function("() => document.querySelector('progress').value > 0")
    page.get_by_role("button", name="go on").wait_for()
    page.get_by_role("button", name="stop").click()
    page.locator("#learned").wait_for()
    assert page.locator("#learned").inner_text().startswith("Stopped.")


def test_a_training_of_another_page_can_be_replaced(page: Any, address: Address, said: list[str]) -> None:
    settings = {"o.toy": "recall", "o.size": "6", "o.steps": "20000"}
    other = page.context.new_page()
    other.set_default_timeout(LEARN_MILLISECONDS)
    other.goto(address(view="learn", **settings))
    other.get_by_role("button", name="Start").click()
    other.get_by_role("button", name="pause").wait_for()
    page.goto(address(view="learn", **settings | {"o.steps": "5"}))
    page.get_by_role("button", name="Start").click()
    page.get_by_role("button", name="stop it and start this one").click()
    page.locator("#learned").wait_for()
    other.locator("#learned").wait_for()
    assert all("409" in line for line in said), said
    said.clear()


def test_the_page_fits_a_telephone(page: Any, address: Address) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address(run="translator", view="attention", text=TEXT))
    wait_for_chart(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="runs").click()
    assert page.locator("#runs").is_visible()


@pytest.mark.parametrize("view", ["attention", "beam", "ranks", "states", "gates", "gradients"])
def test_two_thousand_tokens_stay_usable(page: Any, address: Address, view: str) -> None:
    """The picture is there after two seconds of computing, of the page and without those of the server; a busy machine
    takes longer by the clock."""
    text = " ".join(["the red house falls"] * 500)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address(run="translator", view=view, text="the red house falls"))
    wait_for_chart(page)
    page.goto("about:blank")
    page.goto(address(run="translator", view=view, text=text))
    wait_for_chart(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440, "a long picture scrolls in its place"
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    assert metrics["TaskDuration"] < 3, "seconds of a processor; two on an idle machine"


@pytest.mark.parametrize("view", ["attention", "gradients"])
def test_a_page_of_weft_inspect_draws_from_a_file(page: Any, runs: Path, tmp_path: Path, view: str) -> None:
    file = tmp_path / f"{view}.html"
    weft("inspect", view, runs / "translator", TEXT, "-o", file)
    page.context.set_offline(True)
    page.goto(file.as_uri())
    page.wait_for_selector(".chart canvas")


def test_exported_pages_open_from_disk(page: Any, runs: Path, tmp_path: Path) -> None:
    """The folder that `weft studio --export` writes: from the list of runs to a view and its chart, offline."""
    shutil.copytree(runs / "tiny", tmp_path / "runs/tiny")
    weft("studio", tmp_path / "runs", runs.parent / "data", "--export", tmp_path / "pages")
    page.context.set_offline(True)
    page.goto((tmp_path / "pages/index.html").as_uri())
    page.get_by_role("link", name="tiny").click()
    page.get_by_role("link", name="positions").click()
    page.wait_for_selector(".chart canvas")
    page.get_by_role("link", name="gates").click()
    page.get_by_text("There is nothing to show").wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "links are in several rows"
    page.get_by_role("link", name="all runs").click()
    cell = page.locator(".runs tbody tr td").last.bounding_box()
    assert cell["x"] + cell["width"] <= 390, "the score is on the screen"
