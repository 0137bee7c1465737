"""weft doctor"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer

from weft.errors import counted
from weft.extras import EXTRAS, Extra, version_of
from weft.spinning import describe_spinning
from weft.version import __version__

PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "pydantic", "typer", "rich", "conllu")


def doctor(json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Show versions, extras, devices, compilers and the speed of a matrix product on this machine.

    Example: weft doctor
    """
    from weft.cli.output import print_json, print_table

    found = {
        "weft": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{package: version_of(package) or "missing" for package in PACKAGES},
        "compiler": shutil.which(os.environ.get("CXX", "c++")) or "none found",
        **{f"extra {name}": describe_extra(extra) for name, extra in EXTRAS.items()},
        "waiting threads": describe_spinning(),
        "token cache": token_cache(),
        "compiled code": code_cache(),
        **devices(),
    }
    if json:
        print_json(found)
    else:
        print_table(["what", "found"], [[name, value] for name, value in found.items()])


def describe_extra(extra: Extra) -> str:
    """The versions of its packages, or the line that installs them; and what they are for."""
    found = extra.found()
    if None in found.values():
        missing = ", ".join(name for name, version in found.items() if version is None)
        return f"missing: {missing}, for {extra.use}; {extra.install}"
    return f"{', '.join(f'{name} {version}' for name, version in found.items())}, for {extra.use}"


def token_cache() -> str:
    """Where the tokens of large files are kept, how many bytes, and how to be rid of them."""
    from weft.data import Store

    folder, why = cache_or_reason("tokens")
    if folder is None:
        return why
    store = Store(folder)
    held = f"{store.size() / 1e9:.2f} GB in {counted(len(store), 'entry', 'entries')}"
    return f"{folder}, {held}; clear it with: rm -r {shlex.quote(str(folder))}"


def code_cache() -> str:
    """Where compiled code is kept."""
    folder, why = cache_or_reason("compiled")
    return str(folder) if folder else why


def cache_or_reason(name: str) -> tuple[Path | None, str]:
    """A folder of the cache, or why nothing is kept there."""
    from weft.cache import cache_path, open_cache

    folder = cache_path(name)
    if folder is None:
        return None, "off: WEFT_CACHE says so, or you have no home folder"
    try:
        with open_cache(name):
            return folder, ""
    except OSError as error:
        return None, f"off: {error.strerror or error}"


def devices() -> dict[str, str]:
    import torch

    from weft.training import set_threads

    set_threads(0)
    threads = counted(torch.get_num_threads(), "thread")
    found = {"processor": f"{threads}, {speed(torch.device('cpu')):,.0f} GFLOP/s in float32"}
    for number in range(torch.cuda.device_count()):
        device = torch.device("cuda", number)
        name = torch.cuda.get_device_name(number)
        found[str(device)] = f"{name}, {speed(device, size=8192):,.0f} GFLOP/s in float32"
    if torch.backends.mps.is_available():
        found["mps"] = f"{speed(torch.device('mps')):,.0f} GFLOP/s in float32"
    return found


def speed(device: object, *, size: int = 1024) -> float:
    """GFLOP/s of a square matrix product, the best of five."""
    import torch

    a = torch.randn(size, size, device=device)  # type: ignore[call-overload]
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        float((a @ a)[0, 0])  # reading a number waits for the device
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best / 1e9
