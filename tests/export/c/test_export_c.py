"""The folder of `weft export --to c`: complete and compared, or absent; hostile weights and lines are refused."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import numpy as np
import pytest
from tests.export.c.models import RNN_, lines, make_run
from tests.export.c.trained import trained

from weft.errors import ConfigError, Fault
from weft.export import export_html, export_run
from weft.export.c import compare
from weft.export.c import export as c_export
from weft.export.c.compare import answers_of, compile_folder
from weft.export.c.export import sources_of, write_files
from weft.nn.native.compiler import NoCompiler, find_compiler

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = RNN_ | {"cell": "lstm", "hidden": 24, "embedding": 40}
SANITIZED = ("-std=c99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run("classify", tmp_path_factory.mktemp("run"), MODEL, text={"kind": "word"})


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    return export_run(run, to="c", out=tmp_path_factory.mktemp("c") / "model", quantization="int8")


def test_the_folder_is_complete_and_compared(exported):
    assert {path.name for path in exported.folder.iterdir()} == {
        "README.md",
        "main.c",
        "model.c",
        "model.h",
        "weights.bin",
    }
    assert exported.agreement.equal == exported.agreement.lines
    assert exported.agreement.difference < 1e-4
    assert exported.quantized.difference < 0.1
    assert "malloc" not in (exported.folder / "model.c").read_text()


def test_a_model_that_differs_leaves_no_folder(run, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "precise", lambda answer: "other\t1")
    with pytest.raises(Fault, match="differs"):
        export_run(run, to="c", out=tmp_path / "model")
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_without_a_compiler_nothing_is_written(run, tmp_path, monkeypatch):
    def none():
        raise NoCompiler("no C compiler was found (install gcc, or set CC)")

    monkeypatch.setattr(compare, "find_compiler", none)
    with pytest.raises(ConfigError, match="install gcc"):
        export_run(run, to="c", out=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_has_no_c_is_refused_in_a_line(run, tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="int8"):
        export_run(run, to="c", out=tmp_path / "model", quantization="int3")
    with monkeypatch.context() as patch:
        patch.setitem(c_export.COUNTED, type(run.model), None)
        with pytest.raises(ConfigError, match="this model is one of counts"):
            export_run(run, to="c", out=tmp_path / "model", quantization="int8")
    monkeypatch.setattr(c_export, "TASKS", {})
    with pytest.raises(ConfigError, match="is not written in C"):
        export_run(run, to="c", out=tmp_path / "model")


def test_a_captioner_of_pictures_has_no_page(tmp_path):
    model = {"encoder": {"kind": "conv", "channels": [4]}, "decoder": MODEL}
    with pytest.raises(ConfigError, match="has no page"):
        export_html(trained("caption", tmp_path, model), out=tmp_path / "page.html")


@pytest.fixture(scope="module")
def attacked(exported, tmp_path_factory) -> Path:
    """The program under AddressSanitizer and UBSan."""
    folder = tmp_path_factory.mktemp("attacked")
    for path in exported.folder.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "none.c").write_text("int main(void) { return 0; }")
    command = [*find_compiler(), *SANITIZED, "-o", "none", "none.c"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("the compiler has no sanitizers")
    return compile_folder(folder, options=SANITIZED)


def _run(program: Path, weights: Path, text: bytes) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # a program that ends gives its memory back
    command = [program, weights]
    return subprocess.run(command, input=text, capture_output=True, check=False, timeout=120, env=environment)


def _check_quiet(said: bytes) -> None:
    assert b"Sanitizer" not in said, said[:2000]
    assert b"runtime error" not in said, said[:2000]


def test_hostile_weights_are_refused_in_a_line(attacked, tmp_path):
    whole = (attacked.parent / "weights.bin").read_bytes()
    cases = [whole[:size] for size in (0, 1, 63, 64, 127, 128, 192, len(whole) // 2, len(whole) - 64, len(whole) - 1)]
    cases += [whole + bytes(64), b"\xff" * len(whole), whole[:8] + b"\x09" + whole[9:]]
    for offset in (12, 16, 24, 64, 72, 80):  # sizes and counts that lie, with a right checksum
        for value in (0, 1, 2**31, 2**63, 2**64 - 1):
            wrong = bytearray(whole)
            wrong[offset : offset + 8] = struct.pack("<Q", value)
            wrong[32:40] = struct.pack("<Q", zlib.crc32(bytes(wrong[64:])))
            cases.append(bytes(wrong))
    for number, case in enumerate(cases):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(case)
        done = _run(attacked, path, b"the cat\n")
        if case != whole:
            assert done.returncode == 2, (number, done.stderr)
            assert done.stderr.count(b"\n") == 1
            assert b"Sanitizer" not in done.stderr, done.stderr


def test_tables_that_lie_behind_a_right_checksum_read_nothing_outside(attacked, tmp_path):
    whole, rng = (attacked.parent / "weights.bin").read_bytes(), random.Random(1)
    first = struct.unpack_from("<Q", whole, 64)[0]
    tables = 128 + -(-first // 64) * 64
    for number in range(40):
        wrong = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(tables, len(wrong)) if number % 4 else rng.randrange(128, tables)
            wrong[at] = rng.choice([0, 255, 127, 128, rng.randrange(256)])
        wrong[32:40] = struct.pack("<Q", zlib.crc32(bytes(wrong[64:])))
        path = tmp_path / "wrong.bin"
        path.write_bytes(wrong)
        done = _run(attacked, path, "the cat\nzürich don't\n".encode())
        assert done.returncode in (0, 2), done.stderr
        _check_quiet(done.stderr)


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("mask", RNN_ | {"cell": "gru"}),
        ("embed", {"kind": "skipgram", "embedding": 8}),
        ("forecast", RNN_ | {"cell": "gru"}),
        ("lm", {"kind": "ngram", "order": 3}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_whole_numbers_that_lie_behind_a_right_checksum_are_refused(task, model, tmp_path):
    write_files(sources_of(trained(task, tmp_path, model)), tmp_path)
    program, text = compile_folder(tmp_path, options=("-std=c99", "-O0")), (tmp_path / "model.c").read_text()
    weights = (tmp_path / "weights.bin").read_bytes()
    arrays = dict(re.findall(r"#define (W\d+)\(m\) \(\(const int32_t \*\)\(\(m\)->weights \+ (\d+)\)", text))
    starts = re.findall(r"#define \w+_AT\(m\) (W\d+)\(m\)", text)
    assert set(starts) <= set(arrays) != set()
    changes = [(arrays[name], (value,)) for name in arrays for value in (-(2**31), 2**31 - 1)]
    changes += [(arrays[name], (1, 0)) for name in starts]  # the first text ends before it begins
    assert _run(program, tmp_path / "weights.bin", b"the <mask> cat\n").returncode in (0, 2)
    for offset, numbers in changes:
        wrong = bytearray(weights)
        struct.pack_into(f"<{len(numbers)}i", wrong, 128 + int(offset), *numbers)
        wrong[32:40] = struct.pack("<Q", zlib.crc32(bytes(wrong[64:])))
        (tmp_path / "wrong.bin").write_bytes(wrong)
        done = _run(program, tmp_path / "wrong.bin", b"the <mask> cat\n")
        assert done.returncode == 2, (offset, numbers)
        assert b"the weights are damaged" in done.stderr


def test_lines_of_any_bytes_are_answered_or_refused(attacked):
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, 256, int(size)).astype(np.uint8).tobytes() for size in rng.integers(0, 300, 60)]
    texts += [b"", b"\x00", b"\xff\xfe", b"a" * 70_000, b"a " * 20_000, "é".encode() * 300, b"\xc3", b"\r", b" \t "]
    text = b"\n".join(one.replace(b"\n", b"?") for one in texts) + b"\n"
    done = _run(attacked, attacked.parent / "weights.bin", text)
    assert done.stdout.count(b"\n") == len(texts)
    _check_quiet(done.stderr)


def test_clang_compiles_it_too(exported, tmp_path):
    if (clang := shutil.which("clang")) is None:
        pytest.skip("clang is missing: apt install clang")
    for path in exported.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    options = ("-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror")
    program = compile_folder(tmp_path, compiler=[clang], options=options)
    assert len(answers_of(program, lines(20))) == 20
