"""Device, threads, precision, seed."""

from __future__ import annotations

import ctypes
import os
import random
import warnings
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch

from weft.errors import ConfigError
from weft.forking import was_forked


def choose_device(name: str, *, where: str = "train.device") -> torch.device:
    """Return the device of that name; `auto` is CUDA if there is one, else the CPU. Errors name the setting `where`."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it holds no numbers")
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]
        unknown = reason.startswith(("Expected one of", "Invalid device string"))
        what = f'"{name}" ' + ("is not a device" if unknown else f"cannot be used: {reason}")
        raise ConfigError(what, where=where, cure="try cpu, cuda or auto" if unknown else "try cpu or auto") from None
    return device


def device_type(name: str) -> str:
    """Return cpu, cuda or mps: the type of the device of that name, which need not exist here."""
    if name == "auto":
        return choose_device(name).type
    return name.partition(":")[0]


def set_threads(threads: int) -> None:
    """Use that many processor threads; 0 means OMP_NUM_THREADS if it is set, else every core this process may use.

    A forked process always has one.
    """
    if was_forked():
        torch.set_num_threads(1)
        if threads > 1:
            what = f"train.threads = {threads}: a forked process computes with one thread"
            warnings.warn(f'{what} (multiprocessing.get_context("spawn") gives it its own)', stacklevel=2)
        return
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    torch.set_num_threads(threads or (int(asked) if asked.isdigit() and asked != "0" else cores))


def synchronize(device: torch.device) -> None:
    """Block until the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def keep_memory() -> None:
    """Make glibc keep freed memory for the next update instead of returning it to the system.

    Otherwise most tensors are mapped anew, page by page, at every update. Those of more than 32 MiB still are: to keep
    them would fragment the memory and make the process twice as large. Without glibc this does nothing.
    """
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    trim_threshold, mmap_threshold = -1, -3
    mallopt(mmap_threshold, 32 << 20)
    mallopt(trim_threshold, 2**31 - 1)


def set_seed(seed: int) -> None:
    """Seed the random numbers of Python, NumPy and torch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def precise(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """The autocast context of a precision, in which a model computes."""
    if precision == "fp16":
        if device.type != "cuda":
            raise ConfigError(
                f"is for CUDA, and this is {device.type}",
                where='train.precision = "fp16"',
                cure='use "bf16" or "float32", or leave it at "auto"',
            )
        return torch.autocast(device.type, dtype=torch.float16)
    if precision == "bf16" or (precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
