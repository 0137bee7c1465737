"""Threads that wait for each other must not keep each other from running."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from weft.spinning import CHOICES


def variables_after_import(**given: str) -> dict[str, str]:
    """What the runtimes find when torch is imported through weft, in a process with only the given variables."""
    kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
    code = f"import json, os, weft; print(json.dumps({{n: os.environ[n] for n in {CHOICES!r} if n in os.environ}}))"
    shown = subprocess.run([sys.executable, "-c", code], env=kept | given, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(shown.stdout)
    return found


def test_spinning_is_bounded_before_torch_is_imported() -> None:
    assert variables_after_import() == {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "0"}


@pytest.mark.parametrize("given", [{"GOMP_SPINCOUNT": "7"}, {"KMP_BLOCKTIME": "200"}, {"OMP_WAIT_POLICY": "ACTIVE"}])
def test_a_users_choice_is_kept(given: dict[str, str]) -> None:
    assert variables_after_import(**given) == given
