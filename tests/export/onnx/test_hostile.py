"""A folder from elsewhere is refused with a line that names the file; nothing in it is executed."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.onnx.built import build_run, exported

from weft.errors import WeftError
from weft.export.onnx import files
from weft.export.onnx.files import write_manifest
from weft.export.onnx.runner import Runner

TEXT = "the small cat"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with a file of weights and with constants."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "MAX_INLINE_BYTES", 0)
        run = build_run(
            "tag", folder, model={"kind": "rnn", "embedding": 4, "hidden": 4, "crf": True}, text={"kind": "word"}
        )
        runner = exported(run, folder / "out")
    assert runner.predict(TEXT)["words"]
    return folder / "out"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def refused(folder: Path) -> str:
    with pytest.raises(WeftError) as caught:
        Runner(folder, threads=1).predict(TEXT)
    line = str(caught.value)
    assert line.isprintable()
    return line


def change(folder: Path, name: str, edit: Callable[[Any], Any]) -> None:
    """Change a JSON file, and the manifest with it."""
    tree = json.loads((folder / name).read_text())
    found = edit(tree)
    (folder / name).write_text(json.dumps(tree if found is None else found))
    write_manifest(folder)


def change_model(folder: Path, edit: Callable[[Any], None], name: str = "forward.onnx") -> None:
    import onnx

    model = onnx.load_model(folder / name, load_external_data=False)
    edit(model)
    (folder / name).write_bytes(model.SerializeToString())
    write_manifest(folder)


def test_the_whole_folder_is_answered(folder: Path) -> None:
    assert (folder / "weights.bin").stat().st_size
    assert Runner(folder).predict(TEXT)["tags"]


@pytest.mark.parametrize("name", ["forward.onnx", "weights.bin", "model.json", "labels.json", "tokenizer_words.json"])
def test_a_damaged_file(folder: Path, name: str) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:-1])
    assert name in refused(folder)
    (folder / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "its hash is not that" in refused(folder)
    (folder / name).write_bytes(content + b" ")
    assert "bytes" in refused(folder)
    (folder / name).unlink()
    assert "lacks" in refused(folder)


def test_a_link(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "forward.onnx", tmp_path / "elsewhere")
    (folder / "forward.onnx").symlink_to(tmp_path / "elsewhere")
    assert "forward.onnx" in refused(folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/b", "..", "", "a\\b", "C:x", "\x1b[2J"])
def test_names_outside_the_folder(folder: Path, name: str) -> None:
    path = folder / "manifest.json"
    tree = json.loads(path.read_text())
    tree["files"][name] = tree["files"]["model.json"]
    path.write_text(json.dumps(tree))
    assert "no file of this folder" in refused(folder)


def test_graphs_and_tokenizers_of_other_names(folder: Path) -> None:
    change(folder, "model.json", lambda tree: tree["graphs"].update({"../x": {}}))
    assert "lacks" in refused(folder)
    change(folder, "model.json", lambda tree: {**tree, "graphs": {"forward": {}}})
    change(folder, "model.json", lambda tree: tree["tokenizers"]["words"].update(file="../tokenizer.json"))
    assert "lacks" in refused(folder)


def test_operators_of_other_libraries(folder: Path) -> None:
    def edit(model: Any) -> None:
        node = model.graph.node[0]
        node.domain, node.op_type = "evil.ops", "Run"
        model.opset_import.add(domain="evil.ops", version=1)

    change_model(folder, edit)
    assert "evil.ops" in refused(folder)


def test_other_operators_of_onnxruntime_and_functions(folder: Path) -> None:
    import onnx

    def contrib(model: Any) -> None:
        model.graph.node[0].domain = "com.microsoft"

    def function(model: Any) -> None:
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        opsets = [onnx.helper.make_opsetid("", 20)]
        model.functions.append(onnx.helper.make_function("", "Mine", ["x"], ["y"], [node], opsets))

    before = (folder / "forward.onnx").read_bytes()
    change_model(folder, contrib)
    assert "has the operator" in refused(folder)
    (folder / "forward.onnx").write_bytes(before)
    change_model(folder, function)
    assert "functions" in refused(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("location", "../../../etc/passwd"),
        ("location", "/etc/passwd"),
        ("location", "model.json"),
        ("offset", "999999999"),
        ("offset", "-64"),
        ("length", "999999999999"),
        ("length", "3"),
    ],
)
def test_weights_outside_their_file(folder: Path, key: str, value: str) -> None:
    def edit(model: Any) -> None:
        weight = next(one for one in model.graph.initializer if one.external_data)
        next(entry for entry in weight.external_data if entry.key == key).value = value

    change_model(folder, edit)
    assert "weights.bin" in refused(folder)


def test_two_weights_of_one_name(folder: Path) -> None:
    def edit(model: Any) -> None:
        model.graph.initializer.append(next(one for one in model.graph.initializer if one.external_data))

    change_model(folder, edit)
    assert "forward.onnx" in refused(folder)


def test_weights_in_other_files_of_constants_and_bodies(folder: Path) -> None:
    import onnx

    def edit(model: Any) -> None:
        tensor = onnx.TensorProto(name="x", data_type=1, dims=[1], data_location=1)
        tensor.external_data.add(key="location", value="/etc/passwd")
        model.graph.node.append(onnx.helper.make_node("Constant", [], ["unused"], value=tensor))

    change_model(folder, edit)
    assert "another file" in refused(folder)


def test_arrays_are_never_objects(folder: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (print, ("executed",))

    np.save(folder / "constant_crf_start.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    write_manifest(folder)
    assert "damaged" in refused(folder)
    (folder / "constant_crf_start.npy").write_bytes(pickle.dumps(Evil()))
    write_manifest(folder)
    assert "damaged" in refused(folder)


@pytest.mark.parametrize(
    "edit",
    [
        lambda tree: tree.pop("graphs"),
        lambda tree: tree.update(task="evil"),
        lambda tree: tree.update(task=[]),
        lambda tree: tree.update(format_version=99),
        lambda tree: tree.update(state=3),
        lambda tree: tree.update(statistics={"features": {"mean": "x"}}),
        lambda tree: tree.update(constants=["../x"]),
        lambda tree: tree["tokenizers"]["words"].update(text={"kind": "bpe"}),
        lambda tree: tree["tokenizers"]["words"].update(text={"kind": "word", "evil": 1}),
    ],
)
def test_facts_that_are_wrong(folder: Path, edit: Callable[[Any], Any]) -> None:
    change(folder, "model.json", lambda tree: (edit(tree), None)[1])
    assert refused(folder)


def test_deep_and_huge_json(folder: Path) -> None:
    (folder / "model.json").write_text("[" * 100_000)
    write_manifest(folder)
    assert "model.json" in refused(folder)


@pytest.mark.parametrize(
    ("name", "times"),
    [("forward.onnx", 60), ("weights.bin", 6), ("constant_crf_start.npy", 30), ("tokenizer_words.json", 30)],
)
def test_random_changes_of_a_file(name: str, times: int, folder: Path) -> None:
    """A folder with a changed file is refused, or answers; it never ends in another error."""
    draw, content = random.Random(0), (folder / name).read_bytes()
    for _ in range(times):
        changed = bytearray(content[: draw.randrange(len(content))] if draw.random() < 0.3 else content)
        for _ in range(draw.randint(1, 4)):
            if changed:
                changed[draw.randrange(len(changed))] = draw.randrange(256)
        (folder / name).write_bytes(changed)
        tree = json.loads((folder / "manifest.json").read_text())
        digest = hashlib.sha256(changed).hexdigest()
        tree["files"][name] = {"bytes": len(changed), "sha256": digest}
        (folder / "manifest.json").write_text(json.dumps(tree))
        with suppress(WeftError):
            Runner(folder, threads=1).predict(TEXT)


def test_labels_that_do_not_fit_the_graph(folder: Path) -> None:
    change(folder, "labels.json", lambda labels: labels[:1])
    line = refused(folder)
    assert "an answer cannot be computed" in line
    assert "copy the whole folder again" in line


def test_onnxruntime_prints_nothing_of_a_folder(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    change_model(folder, lambda model: setattr(model.graph.node[0], "op_type", "\x1b[31mEvil"))
    assert "forward.onnx" in refused(folder)
    assert capfd.readouterr() == ("", "")


def test_onnxruntime_prints_nothing_of_a_name_that_is_no_text(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    content = (folder / "forward.onnx").read_bytes()
    (folder / "forward.onnx").write_bytes(content.replace(b"weight_", b"weight\x80", 1))
    write_manifest(folder)
    assert "forward.onnx" in refused(folder)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["history", "horizon"])
@pytest.mark.parametrize("value", [0, 10**9, True, 2.5])
def test_lengths_that_no_run_can_have(tmp_path: Path, name: str, value: Any) -> None:
    exported(build_run("forecast", tmp_path, model={"kind": "linear"}), tmp_path / "out")
    change(tmp_path / "out", "model.json", lambda tree: tree.update({name: value}))
    with pytest.raises(WeftError, match=f"{name} is no number of steps"):
        Runner(tmp_path / "out", threads=1)
