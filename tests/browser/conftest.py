"""The studio in a real browser: runs that are trained once, a studio that serves them, a page that must stay silent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.driver import FLAGS, Address, find_browser, studio, train_runs

WIDTH, HEIGHT = 1440, 900
TEST_SECONDS = 1800
"""Time limit for a test, and for the runs that are trained before the first one."""

STEP_MILLISECONDS = 300_000
"""Time limit for one step of a test; a shared machine may be busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: make test-browser")
    found = find_browser()
    if found is None:
        pytest.skip("chromium is missing: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def runs(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs, trained once; where there is no browser nothing is trained."""
    return train_runs(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="session")
def address(runs: Path) -> Iterator[Address]:
    """The address of a studio over the runs."""
    with studio(runs) as found:
        yield found


@pytest.fixture
def said() -> list[str]:
    """What the page writes to the console, and its uncaught errors."""
    return []


@pytest.fixture
def page(browser: Any, said: list[str]) -> Iterator[Any]:
    """A page that may write nothing to the console. A test that provokes an error clears `said`."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(STEP_MILLISECONDS)
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    yield page
    context.close()
    assert not said
