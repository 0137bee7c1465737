"""CUDA C, compiled at run time by NVRTC, which comes with a CUDA build of torch, and called through the driver."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final, NamedTuple

import torch

from weft.errors import Fault
from weft.nn.native.compiler import load_compiled, name_of

MAX_DYNAMIC_SHARED: Final = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""

OPTIONS: Final = ("--use_fast_math", "--std=c++17")

FREE_SHARED_BYTES: Final = 48 * 1024
"""Shared memory that a kernel may have without asking the driver first."""


class NoNVRTC(Exception):
    """NVRTC or the driver is missing, or cannot compile; the message is the reason."""


class Function(NamedTuple):
    """A kernel in a device's memory."""

    handle: ctypes.c_void_p
    shared_bytes: int


def load_function(text: str, name: str, device: torch.device, *, shared_bytes: int) -> Function:
    """Compile a text, or take what was compiled of it before, and load a kernel of it; raises NoNVRTC."""
    return _load(text, name, _number(device), shared_bytes)


def launch_cooperative(
    function: Function, grid: tuple[int, int, int], threads: int, argument: ctypes.Structure, device: torch.device
) -> None:
    """Queue a kernel with one structure as its argument on the current stream. All its blocks run at the same time, so
    that they may wait for each other; more than fit on the device is an error of the driver."""
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
    given = function.handle, *grid, threads, 1, 1, function.shared_bytes, stream, pointers
    if _number(device) == torch.cuda.current_device():
        _check(_driver().cuLaunchCooperativeKernel(*given))
        return
    with torch.cuda.device(device):
        _check(_driver().cuLaunchCooperativeKernel(*given))


def _number(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


@cache
def _load(text: str, name: str, device: int, shared_bytes: int) -> Function:
    image = compile_text(text, architecture_of(torch.device("cuda", device)))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.device(device):
        torch.cuda.current_stream().synchronize()  # loading may wait for the device anyway
        _check(_driver().cuModuleLoadData(ctypes.byref(module), image))
        _check(_driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        if shared_bytes > FREE_SHARED_BYTES:
            _check(_driver().cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared_bytes))
    return Function(function, shared_bytes)


def architecture_of(device: torch.device) -> str:
    """The name that a compiler has for the processor of a device, such as sm_90."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@cache
def compile_text(text: str, architecture: str) -> bytes:
    """The machine code of a text for an architecture such as sm_90, from the cache or compiled now; raises NoNVRTC.

    Threads may compile several texts at once.
    """
    options = [f"--gpu-architecture={architecture}", *OPTIONS]
    name = name_of(text, *options, _version())
    return load_compiled(name, lambda: _compile(text, options), bytes)


def _compile(text: str, options: list[str]) -> bytes:
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"weft.cu", 0, None, None):
        raise NoNVRTC("NVRTC makes no program")
    try:
        failed = nvrtc.nvrtcCompileProgram(program, len(options), _texts(options))
        if failed:
            raise NoNVRTC(f"NVRTC does not compile the kernel: {_log(nvrtc, program)}")
        size = ctypes.c_size_t()
        if nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) or not size.value:
            raise NoNVRTC(f"NVRTC makes no code for {options[0]}")
        image = ctypes.create_string_buffer(size.value)
        if nvrtc.nvrtcGetCUBIN(program, image):
            raise NoNVRTC(f"NVRTC makes no code for {options[0]}")
        return image.raw
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _texts(words: list[str]) -> Any:
    return (ctypes.c_char_p * len(words))(*(word.encode() for word in words))


def _version() -> str:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"NVRTC {major.value}.{minor.value}"


def _log(nvrtc: Any, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.value.decode(errors="replace").strip()


@cache
def _nvrtc() -> Any:
    major = (torch.version.cuda or "").partition(".")[0]
    for name in (f"libnvrtc.so.{major}", "libnvrtc.so") if major else ():
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoNVRTC("NVRTC, which comes with CUDA builds of torch, cannot be loaded")


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoNVRTC("the CUDA driver cannot be loaded") from None


def _check(result: int) -> None:
    if not result:
        return
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(result, ctypes.byref(text))
    said = text.value.decode() if text.value else f"error {result}"
    raise Fault(f"the CUDA driver says: {said}", where="a kernel of weft")
