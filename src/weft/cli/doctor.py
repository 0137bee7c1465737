"""weft doctor"""

from __future__ import annotations

import platform
import shlex
import time
from pathlib import Path

from weft.cli.options import Json
from weft.errors import counted
from weft.extras import EXTRAS, Extra, version_of
from weft.spinning import describe_spinning
from weft.version import __version__

PACKAGES = ("torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "pydantic", "typer", "rich", "conllu")


def doctor(json: Json = False) -> None:
    """Show versions, extras, devices, compilers and the speed of a matrix product on this machine.

    Example:
    weft doctor
    """
    from weft.cli.output import print_json, print_table

    found = {
        "weft": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}",
        **{package: version_of(package) or "missing" for package in PACKAGES},
        "compiler": describe_compiler(),
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
    """The versions of its packages, or the command that installs them; and their use."""
    found = extra.found()
    if None in found.values():
        missing = ", ".join(name for name, version in found.items() if version is None)
        return f"missing: {missing}, for {extra.use}; {extra.install}"
    return f"{', '.join(f'{name} {version}' for name, version in found.items())}, for {extra.use}"


def describe_compiler() -> str:
    """The C compiler that kernels are compiled with."""
    from weft.nn.native.compiler import NoCompiler, find_compiler

    try:
        return " ".join(find_compiler())
    except NoCompiler as reason:
        return str(reason)


def token_cache() -> str:
    """The folder of the tokens of large files, its size, and the command that removes it."""
    from weft.data import Store

    folder, why = cache_or_reason("tokens")
    if folder is None:
        return why
    store = Store(folder)
    held = f"{store.size() / 1e9:.2f} GB in {counted(len(store), 'entry', 'entries')}"
    return f"{folder}, {held}; clear it with: rm -r {shlex.quote(str(folder))}"


def code_cache() -> str:
    """The folder of compiled code, or why there is none."""
    folder, why = cache_or_reason("compiled")
    return str(folder) if folder else why


def cache_or_reason(name: str) -> tuple[Path | None, str]:
    """A folder of the cache; or None, and why it is not used."""
    from weft.cache import cache_path, open_cache

    folder = cache_path(name)
    if folder is None:
        return None, "off: WEFT_CACHE is off, or you have no home folder"
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
        float((a @ a)[0, 0])  # reading a number blocks until the device is done
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best / 1e9
