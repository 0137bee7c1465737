"""How much memory there is: the machine's, the control group's, the process's own limit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from weft import memory
from weft.memory import MachineMemory, machine_memory, show_bytes

GIB = 1 << 30
MEMINFO = """MemTotal:       16777216 kB
MemFree:         1048576 kB
MemAvailable:    8388608 kB
SwapTotal:       2097152 kB
SwapFree:        1048576 kB
HugePages_Total:       0
"""


@pytest.fixture(autouse=True)
def system(tmp_path, monkeypatch):
    """A machine with 16 GiB, 8 of them free, 2 GiB of swap with 1 free, and no control groups."""
    (tmp_path / "meminfo").write_text(MEMINFO, encoding="ascii")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory, "_own_limit", lambda: None)
    return tmp_path


def write(folder, **values):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n", encoding="ascii")


def test_the_whole_machine():
    assert machine_memory() == MachineMemory(18 * GIB, 9 * GIB)


def test_a_group_of_version_2_and_those_above_it(system):
    (system / "cgroup").write_text("0::/slice/own\n", encoding="utf-8")
    own = system / "groups" / "slice" / "own"
    write(own, memory__max="max", memory__current=5 * GIB)
    write(own.parent, memory__max=4 * GIB, memory__current=3 * GIB, memory__stat=f"anon 7\ninactive_file {GIB}")
    assert machine_memory() == MachineMemory(6 * GIB, 4 * GIB)  # 2 GiB of files can go, 2 GiB of swap can be had


def test_a_group_of_version_1_in_a_container_that_sees_only_the_top(system):
    (system / "cgroup").write_text("9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n", encoding="utf-8")
    top = system / "groups" / "memory"
    write(top, memory__limit_in_bytes=3 * GIB, memory__usage_in_bytes=GIB, memory__stat="total_inactive_file 0")
    assert machine_memory() == MachineMemory(5 * GIB, 4 * GIB)


def test_what_cannot_be_read_limits_nothing(system, monkeypatch):
    (system / "cgroup").write_text("0::/own\nnonsense\n", encoding="utf-8")
    write(system / "groups" / "own", memory__max="many", memory__current="")
    assert machine_memory() == MachineMemory(18 * GIB, 9 * GIB)
    (system / "meminfo").write_text("MemTotal: unknown\n", encoding="ascii")
    monkeypatch.setattr(memory, "_from_system", lambda: None)
    assert machine_memory() is None


def test_a_system_without_proc(system, monkeypatch):
    (system / "meminfo").unlink()
    sizes = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", sizes.__getitem__, raising=False)
    assert machine_memory() == MachineMemory(4_096_000, 4_096_000)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process so")
def test_the_limit_of_a_process():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, -1));"
        "from weft.memory import machine_memory; print(machine_memory().total)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(said) == GIB


def test_bytes_as_people_read_them():
    assert [show_bytes(count) for count in (GIB // 2, 3 * GIB, 1024 * GIB)] == ["0.5 GiB", "3.0 GiB", "1,024 GiB"]
