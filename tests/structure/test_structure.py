"""The shape of the code: who imports whom, what is public, what must never be used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "weft"

ORDER = [
    "version",
    "errors",
    "arguments",
    "limits",
    "memory",
    "console",
    "metric_text",
    "extras",
    "spinning",
    "forking",
    "cache",
    "disk",
    "documents",
    "settings",
    "charts",
    "text",
    "data",
    "phrasebook",
    "nn",
    "models",
    "grammar",
    "metrics",
    "decoding",
    "tasks",
    "training",
    "evaluate",
    "catalog",
    "config",
    "run",
    "batch",
    "compare",
    "sweep",
    "ladder",
    "importing",
    "inspect",
    "export",
    "serve",
    "studio",
    "bench",
    "cli",
]
"""Each name may import only from those before it; `weft/__init__.py` and `__main__.py` are doors and stand outside."""

FILES = sorted(SOURCE.rglob("*.py"))
LONGEST_FILE = 350


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The layers of weft that a file imports from, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "weft" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("weft.")}
    return found


def test_every_layer_has_its_place_in_the_order():
    assert {layer(path) for path in FILES} - {"__init__", "__main__"} == set(ORDER)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_upwards_only(path):
    if layer(path) in ("__init__", "__main__"):
        return
    rank = ORDER.index(layer(path))
    below = {name for name in imported(path) if ORDER.index(name) > rank}
    assert not below, f"{path.relative_to(SOURCE)} imports from {sorted(below)}, which come after it"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_too_long_or_unexplained(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_FILE
    assert ast.get_docstring(ast.parse(text)), "every file begins with what it is for"


FORBIDDEN = {"pickle.load", "pickle.loads", "torch.load", "torch.save", "eval", "exec", "marshal.loads", "os.system"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_executes_or_unpickles_data(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not calls & FORBIDDEN
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert not modules & {"pickle", "shelve", "marshal", "dill", "cloudpickle"}


def packages() -> list[str]:
    return ["weft", *(f"weft.{path.parent.name}" for path in sorted(SOURCE.glob("*/__init__.py")))]


@pytest.mark.parametrize("name", packages())
def test_public_names_are_explicit_and_there(name):
    module = __import__(name, fromlist=["__all__"])
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_importing_weft_is_light():
    code = "import sys, weft; print(sorted({'torch', 'numpy', 'pydantic', 'tokenizers', 'rich'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_the_command_line_waits_with_heavy_imports():
    code = "import sys, weft.cli; print(sorted({'torch', 'numpy', 'tokenizers', 'sacrebleu'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_the_architecture_page_names_files_and_packages_that_exist() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|c))`", page))
    assert len(named) > 40
    assert not [name for name in named if not (SOURCE / name).exists()]
    packages = page[page.index("## The packages") : page.index("## What the parts promise")]
    assert not [name for name in ORDER if name != "version" and f"`{name}`" not in packages]
