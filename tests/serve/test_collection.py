"""Collections of garbage while the server answers leave out what lasts as long as it."""

from __future__ import annotations

import gc
import shutil

import pytest
from tests.serve.conftest import settings_of

from weft.serve.server import collect_lasting, create_server


@pytest.fixture(autouse=True)
def thaw():
    yield
    gc.unfreeze()


def test_what_is_there_is_left_out_and_later_garbage_is_not():
    collect_lasting()
    before = gc.get_freeze_count()
    assert before > len(gc.get_objects())
    ring = []
    ring.append(ring)
    del ring
    assert gc.collect() >= 1
    collect_lasting()
    assert gc.get_freeze_count() < 2 * before


def test_it_follows_every_load(runs, tmp_path):
    folder = shutil.copytree(runs["numbers"], tmp_path / "run")
    models, seen = create_server(settings_of({"run": folder}), load=False).state.service.models, []
    models.on_loaded = lambda: seen.append(sorted(models.served))
    models.load()
    assert seen == [["run"]]
