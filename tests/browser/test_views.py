"""What the views draw, read from the scene of their charts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.browser.driver import Address, marks, place_of_mark, wait_for_chart, weft

TEXT = "my red house falls"
VIEWS = ("attention", "beam", "ranks", "states", "gates", "gradients", "neighbours", "parameters", "curves")
"""All but `positions`, which a recurrent model does not have."""


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_draws_and_explains_itself(page: Any, address: Address, view: str) -> None:
    page.goto(address(run="translator", view=view, text=TEXT))
    wait_for_chart(page)
    assert page.locator("#view .question").inner_text().endswith("?")
    assert len(page.locator("#view .summary").first.inner_text()) > 30
    assert "weft.inspect" in page.locator("#sources").inner_text()
    if view != "parameters":  # whose numbers are unfolded
        page.locator("#view .numbers summary").click()
    page.locator("#view .numbers tbody tr").first.wait_for()


def test_the_alignment_crosses_where_adjective_and_noun_swap(page: Any, address: Address) -> None:
    page.goto(address(run="translator", view="attention", text=TEXT))
    cells = [mark["datum"] for mark in marks(page, "rect") if "w" in (mark["datum"] or {})]
    best = {row: max((cell for cell in cells if cell["r"] == row), key=lambda cell: cell["w"])["c"] for row in range(4)}
    assert best == {0: 0, 1: 2, 2: 1, 3: 3}  # my red house falls -> ma maison rouge tombe


def test_the_best_leaf_of_the_beam_is_the_answer(page: Any, address: Address) -> None:
    page.goto(address(run="translator", text=TEXT))
    answer = page.locator(".answer .text").inner_text()
    assert answer == "ma maison rouge tombe"
    page.locator(".answer .links a", has_text="beam").click()
    listed = [mark["datum"] for mark in marks(page, "text") if (mark["datum"] or {}).get("place") == "#1"]
    assert {row["text"] for row in listed} == {answer}


def test_the_slider_hides_later_steps_of_the_beam(page: Any, address: Address) -> None:
    page.goto(address(run="translator", view="beam", text=TEXT))
    whole = len(marks(page, "symbol"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("() => location.hash.includes('s.step=')")
    assert 0 < len(marks(page, "symbol")) < whole
    page.reload()
    assert 0 < len(marks(page, "symbol")) < whole


def test_ranks_agree_with_weft_score(page: Any, address: Address, runs: Path, tmp_path: Path) -> None:
    target = "ma rouge maison tombe"
    table = tmp_path / "pair.tsv"
    table.write_text(f"{TEXT}\t{target}\n", encoding="utf-8")
    scored = json.loads(weft("score", runs / "translator", table, "--json").splitlines()[0])
    page.goto(address(run="translator", view="ranks", text=TEXT, target=target))
    wait_for_chart(page)
    page.locator("#view .numbers summary").click()
    page.locator("#view .numbers tbody tr").first.wait_for()
    headings = page.locator("#view .numbers th").all_inner_texts()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#view .numbers tbody tr").all()]
    shown = [int(row[headings.index("rank")].replace(",", "")) for row in rows]
    assert shown == scored["ranks"]
    assert max(shown) > 1, "the wrong order of words surprises the model"


def test_the_pointer_shows_the_numbers_of_a_mark(page: Any, address: Address) -> None:
    page.goto(address(run="translator", view="attention", text=TEXT))
    wait_for_chart(page)
    box = page.locator("#view .chart canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector("#pointer dl dd")
    assert "house" in page.locator("#pointer").inner_text() or "red" in page.locator("#pointer").inner_text()


def test_positions_and_heads_of_a_transformer(page: Any, address: Address) -> None:
    page.goto(address(run="tiny", view="positions"))
    wait_for_chart(page)
    assert marks(page, "rect")
    page.goto(address(run="tiny", view="attention", text=TEXT))
    wait_for_chart(page)
    small = marks(page, "image")
    assert len(small) == 4, "two layers of two heads"
    page.goto(address(run="translator", view="positions"))
    page.locator("#view .empty").wait_for()
    assert page.locator("#view .empty").inner_text().startswith("There is nothing to show")


def test_units_are_found_by_dragging_over_tokens(page: Any, address: Address) -> None:
    page.goto(address(run="language", view="states", text=TEXT))
    wait_for_chart(page)
    chips = page.locator("#view button.chip")
    chips.last.scroll_into_view_if_needed()
    first, last = (chips.nth(number).bounding_box() for number in (2, 3))  # <sos> my red house falls
    page.mouse.move(first["x"] + 5, first["y"] + 5)
    page.mouse.down()
    page.mouse.move(last["x"] + 5, last["y"] + 5, steps=4)
    page.mouse.up()
    page.locator("#view .found-units tbody tr").first.wait_for()
    assert page.locator("#view .chip.chosen").all_inner_texts() == ["red", "house"]
    assert "your input alone, because the data of the run" in page.locator("#view .searched").inner_text()
    margins = [
        float(row.locator("td").nth(1).inner_text()) for row in page.locator("#view .found-units tbody tr").all()
    ]
    assert margins == sorted(margins, reverse=True)
    page.get_by_role("button", name="what each unit fires on").click()
    page.locator("#view th", has_text="explained by the token").wait_for()


def test_a_click_on_a_small_map_shows_that_head_above(page: Any, address: Address) -> None:
    page.goto(address(run="tiny", view="attention", text=TEXT))
    before = weights_above(page)
    page.mouse.click(**place_of_mark(page, "image", 1))
    page.wait_for_function(PICKED)
    assert weights_above(page) != before


PICKED = """() => {
  const { m } = document.querySelector("#view .chart").vegaView.signal("pick");
  return m?.[0] === 2;
}"""


def weights_above(page: Any) -> list[float]:
    return [mark["datum"]["w"] for mark in marks(page, "rect") if "w" in (mark["datum"] or {})]


def test_the_pointer_on_a_token_shows_its_likeliest_candidates(page: Any, address: Address) -> None:
    page.goto(address(run="language", view="ranks", text=TEXT))
    wait_for_chart(page)
    page.mouse.move(**place_of_mark(page, "rect", 1, field="c1"))
    page.locator("#pointer dt", has_text="10.").wait_for()
    assert page.locator("#pointer .tokenname, #pointer dd").first.inner_text().endswith("red")


def test_a_word_is_found_on_the_map_and_its_neighbours_are_listed(page: Any, address: Address) -> None:
    page.goto(address(run="translator", view="neighbours", text="red"))
    assert "red" in {mark["text"] for mark in marks(page, "text")}
    assert {"car", "house"} & {mark["text"] for mark in marks(page, "text")}, "other words of the source are on the map"
    page.get_by_placeholder("a word").fill("hous")
    page.wait_for_function("() => document.querySelector('#view .chart').vegaView.signal('search') === 'hous'")
    assert "house" in {mark["text"] for mark in marks(page, "text")}


def test_a_model_without_a_view_says_why(page: Any, address: Address) -> None:
    page.goto(address(run="reviews", view="gates", text="a great film"))
    assert page.locator("#view .empty").inner_text().startswith("There is nothing to show")


def test_the_lesson_on_fresh_cells_follows_its_sliders(page: Any, address: Address) -> None:
    page.goto(address(view="fresh"))
    wait_for_chart(page)
    first = gradient_at_the_start(page)
    assert first["elman"] < first["lstm"]
    slider = page.get_by_label("spectral radius")
    slider.evaluate("(box) => { box.value = 0.3; box.dispatchEvent(new Event('input')); }")
    page.wait_for_function("() => location.hash.includes('o.radius=0.3')")
    wait_for_chart(page)
    assert gradient_at_the_start(page)["elman"] < first["elman"]


def gradient_at_the_start(page: Any) -> dict[str, float]:
    """Return the norm at the first step of each cell."""
    data = [mark["datum"] for mark in marks(page, "line") if mark["datum"]]
    return {row["line"]: row["value"] for row in data if row["x"] == 1 and row["kind"] == "norm"}
