"""Run folders that somebody else has made or changed: each is refused in one line that names the file."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file

import weft as package
from weft.errors import RunError
from weft.run import load_config
from weft.run.curves import read_curve
from weft.run.folder.files import write_json
from weft.run.folder.manifest import RunFiles, hash_file, open_run, read_run, verify, write_manifest
from weft.run.report import read_report
from weft.training import Journal, Validated

CONFIG, WEIGHTS, TOKENIZER, LABELS = "config.json", "model.safetensors", "tokenizer.json", "labels.json"
POSIX = pytest.mark.skipif(os.name == "nt", reason="it has no pipes and devices with names")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier, trained once."""
    folder, draw = tmp_path_factory.mktemp("hostile"), random.Random(0)
    words = {"colour": ["red", "green", "blue"], "animal": ["cat", "dog", "cow"]}
    rows = [(f"the {draw.choice(words[label])} {number}", label) for number in range(40) for label in words]
    tree = {"task": "classify", "data": {"train": rows}, "model": {"embedding": 8, "hidden": 8}, "train": {"steps": 2}}
    tree["text"] = {"kind": "bpe", "size": 300}
    package.train(tree, out=folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def seal(folder: Path) -> None:
    """Have the manifest list the files as they are now: whoever can change a file can do that as well."""
    names = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["sha256"]
    write_manifest(folder, {name: hash_file(folder / name) for name in names})


def edit_json(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    value = json.loads((folder / name).read_text(encoding="utf-8"))
    changed = change(value)
    (folder / name).write_text(json.dumps(value if changed is None else changed), encoding="utf-8")


def refused(folder: Path) -> str:
    """The message of an error, which is one line."""
    with pytest.raises(RunError) as caught:
        package.load(folder, device="cpu")
    assert "\n" not in str(caught.value)
    return str(caught.value)


class Case(NamedTuple):
    """What is changed, in which file, and what is said of it."""

    name: str
    change: Callable[[Any], Any]
    said: str


def put(**values: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda tree: tree.update(values)


def hashes(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: change(manifest["sha256"])


HEX = "0" * 64
MANIFESTS = [
    Case("empty", put(sha256={}), "lacks|is not listed in manifest.json"),
    Case("no table", lambda tree: tree.pop("sha256") and None, "no table of hashes"),
    Case("a list", lambda tree: [], "no table of hashes"),
    Case("unlisted labels", hashes(lambda table: table.pop(LABELS) and None), "labels.json: is not listed"),
    Case("unlisted weights", hashes(lambda table: table.pop(WEIGHTS) and None), "model.safetensors: is not listed"),
    Case("a stranger", hashes(put(other=HEX)), "lists other, which is no part of it"),
    Case("a path", hashes(put(**{"../config.json": HEX})), r"is damaged at \.\./config\.json"),
    Case("no name", hashes(put(**{"": HEX})), "is damaged"),
    Case("itself", hashes(put(**{"manifest.json": HEX})), "is damaged at manifest.json"),
    Case("an escape", hashes(put(**{"a\x1b[31m": HEX})), r"is damaged at 'a\\x1b"),
    Case("other hash", hashes(put(**{WEIGHTS: HEX})), "model.safetensors: is damaged"),
    Case("no hash", hashes(put(**{WEIGHTS: "abc"})), "model.safetensors has no SHA-256"),
    Case("hash null", hashes(put(**{WEIGHTS: None})), "model.safetensors has no SHA-256"),
    Case("no hashes", hashes(put(**{WEIGHTS: []})), "is damaged at model.safetensors"),
    Case("three hashes", hashes(put(**{WEIGHTS: [HEX] * 3})), "is damaged at model.safetensors"),
    Case("newer", put(format_version=99), "newer weft"),
    Case("version true", put(format_version=True), "is damaged: format_version"),
    Case("version a text", put(format_version="1"), "is damaged: format_version"),
]


@pytest.mark.parametrize("case", MANIFESTS, ids=lambda case: case.name)
def test_a_manifest_that_does_not_list_what_is_loaded(run: Path, case: Case) -> None:
    edit_json(run, "manifest.json", case.change)
    with pytest.raises(RunError, match=case.said):
        package.load(run)


@pytest.mark.parametrize("name", ["manifest.json", CONFIG, TOKENIZER, LABELS])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"sha256": {}, "sha256": {}}', "'sha256' occurs twice"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"format_version": ' + b"9" * 5000 + b"}", "more than 40 digits"),
        (b'{"format_version": NaN}', "NaN is no number"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"", "Expecting value"),
    ],
)
def test_a_document_that_no_parser_should_see(run: Path, name: str, content: bytes, said: str) -> None:
    (run / name).write_bytes(content)
    if name != "manifest.json":
        seal(run)
    message = refused(run)
    assert name in message
    assert said in message


def test_doubled_hashes_do_not_load_changed_weights(run: Path) -> None:
    text = (run / "manifest.json").read_text(encoding="utf-8")
    (run / WEIGHTS).write_bytes(b"\x00" * 100)
    (run / "manifest.json").write_text(text.replace('"sha256"', f'"sha256": {{"{WEIGHTS}": "{HEX}"}}, "sha256"'))
    assert "'sha256' occurs twice" in refused(run)


def linked(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name("elsewhere")))


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def huge(path: Path) -> None:
    """With more bytes than any disk has, of which none is stored."""
    os.truncate(path, 1 << 42)


@POSIX
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (linked, "is a link"),
        (endless, "is a link"),
        (dangling, "is a link"),
        (piped, "is no regular file"),
        (folder, "is no regular file|Is a directory"),
        (huge, "is the limit"),
    ],
)
@pytest.mark.parametrize("name", ["manifest.json", CONFIG, WEIGHTS, TOKENIZER, LABELS])
def test_only_regular_files_of_some_size_are_opened(
    run: Path, name: str, change: Callable[[Path], None], said: str
) -> None:
    change(run / name)
    with pytest.raises(RunError, match=rf"{name}: .*({said})"):
        package.load(run)


@POSIX
@pytest.mark.parametrize("change", [linked, endless, piped, folder, huge])
def test_reports_and_journals_are_regular_files_as_well(run: Path, change: Callable[[Path], None]) -> None:
    for name, read in (("report.json", read_report), ("metrics.jsonl", read_curve)):
        change(run / name)
        with pytest.raises(RunError, match=f"{name}: cannot be read: "):
            read(run)


@pytest.mark.parametrize("content", [b"[]", b"[" * 100_000, b'{"valid": 3}', b'{"valid": {"loss": "low"}}', b"\xff"])
def test_a_report_that_is_none(run: Path, content: bytes) -> None:
    (run / "report.json").write_bytes(content)
    with pytest.raises(RunError, match=r"report\.json: "):
        package.load(run).report  # noqa: B018


@pytest.mark.parametrize(
    "line", ["[]", "3", '{"valid": 3, "step": 1}', '{"loss": "low", "step": 1}', "[" * 100_000, "{"]
)
def test_a_journal_that_is_none(run: Path, line: str) -> None:
    (run / "metrics.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics\.jsonl:1: is not a line of a journal"):
        read_curve(run)


def test_the_folder_itself_may_be_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(run)
    assert package.load(tmp_path / "latest").predict("the cat").label


def test_a_name_too_long_for_a_folder_is_told_in_a_line() -> None:
    with pytest.raises(RunError, match=r"cannot be read: |is not a run folder"):
        package.load("x" * 5000)


def test_scores_too_large_to_hold_are_null_in_the_files_and_infinite_in_python(run: Path) -> None:
    scores = {"loss": 800.0, "perplexity": float("inf")}
    write_json(run / "report.json", {"valid": scores})
    assert json.loads((run / "report.json").read_text(), parse_constant=pytest.fail)["valid"]["perplexity"] is None
    assert read_report(run) == {"valid": scores}
    (run / "metrics.jsonl").unlink()
    with Journal(run / "metrics.jsonl") as journal:
        journal.validation(Validated(3, scores, True, ()))
    line = json.loads((run / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert line["valid"] == {"loss": 800.0, "perplexity": None}
    ((step, read),) = read_curve(run).valid
    assert (step, read["loss"]) == (3, 800.0)
    assert not math.isfinite(read["perplexity"])


SETTINGS = [
    Case("newer", put(format_version=99), "config.json: was written by a newer weft"),
    Case("version", put(format_version=-1), "config.json: is damaged: format_version"),
    Case("other task", put(task="translate"), r"config\.json: "),
    Case("no table", lambda tree: [tree], "is not a table of settings"),
    Case("large", lambda tree: tree["model"].update(hidden=100_000), "mixes files of two runs"),
]


@pytest.mark.parametrize("case", SETTINGS, ids=lambda case: case.name)
def test_settings_that_are_refused(run: Path, case: Case) -> None:
    edit_json(run, CONFIG, case.change)
    seal(run)
    with pytest.raises(RunError, match=case.said):
        package.load(run)


def vocab(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda tokenizer: change(tokenizer["model"]["vocab"]) and None


IDS = "has ids that are not 0, 1, 2"
TOKENIZERS = [
    Case("id of 2^31", vocab(put(zz=2**31)), IDS),
    Case("id of 2^64", vocab(put(zz=2**64)), IDS),
    Case("negative id", vocab(put(zz=-1)), IDS),
    Case("doubled id", vocab(put(zz=0)), IDS),
    Case("true id", vocab(put(**{"<unk>": True})), IDS),
    Case("id with a fraction", vocab(put(**{"<unk>": 1.0})), IDS),
    Case("id a text", vocab(put(**{"<unk>": "1"})), IDS),
    Case("no table", lambda tokenizer: tokenizer["model"].update(vocab=[]), "has no table"),
    Case("no vocabulary", lambda tokenizer: tokenizer["model"].pop("vocab") and None, "has no table"),
    Case("no model", lambda tokenizer: tokenizer.pop("model") and None, "not a tokenizer"),
    Case("no merges", lambda tokenizer: tokenizer["model"].update(merges=None), "has merges"),
    Case("a merge of 3", lambda tokenizer: tokenizer["model"].update(merges=[["a", "b", "c"]]), "not pairs of pieces"),
    Case("a merge of none", lambda tokenizer: tokenizer["model"].update(merges=[["qq", "qq"]]), "is damaged"),
    Case("merges", lambda tokenizer: tokenizer["model"].update(merges=[["a", "b"]] * 10_000), "has merges"),
    Case(
        "letters that are no bytes",
        lambda tokenizer: tokenizer["model"]["vocab"].update({"日": len(tokenizer["model"]["vocab"])}),
        "neither characters nor bytes",
    ),
    Case(
        "a pattern",
        put(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed", "invert": False}),
        "pre_tokenizer differ",
    ),
    Case(
        "many rules",
        put(normalizer={"type": "Sequence", "normalizers": [{"type": "Lowercase"}] * 100_000}),
        "normalizer differ",
    ),
]


@pytest.mark.parametrize("case", TOKENIZERS, ids=lambda case: case.name)
def test_tokenizers_that_are_refused(run: Path, case: Case) -> None:
    edit_json(run, TOKENIZER, case.change)
    seal(run)
    with pytest.raises(RunError, match=rf"tokenizer\.json: .*{case.said}"):
        package.load(run)


def test_a_vocabulary_for_which_there_are_no_weights_is_refused_before_it_is_built(run: Path) -> None:
    edit_json(run, TOKENIZER, vocab(lambda table: table.update({f"a{n}": n for n in range(len(table), 70_000)})))
    seal(run)
    assert "tokenizer.json: has 70,000 entries, and 65,536 is the limit" in refused(run)


@pytest.mark.parametrize("labels", [{"a": 1}, ["a", 1], "ab", ["animal", "animal"], ["animal"]])
def test_labels_that_are_refused(run: Path, labels: Any) -> None:
    (run / LABELS).write_text(json.dumps(labels), encoding="utf-8")
    seal(run)
    refused(run)


NAME = "encoder.embedding.weight"


def tensors(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    """The file written anew with other tensors."""

    def write(path: Path) -> None:
        found = {name: tensor.clone() for name, tensor in load_file(path).items()}
        change(found)
        save_file(found, path)

    return write


def head(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """The file with another head before the same numbers."""

    def write(path: Path) -> None:
        content = path.read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        value = json.loads(content[8 : 8 + length])
        changed = change(value)
        text = changed if isinstance(changed, bytes) else json.dumps(value).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])

    return write


def first(value: dict[str, Any]) -> dict[str, Any]:
    return min(
        (entry for name, entry in value.items() if name != "__metadata__"), key=lambda entry: entry["data_offsets"]
    )


def spoil(number: float) -> Callable[[dict[str, torch.Tensor]], Any]:
    return lambda found: found[min(found)].view(-1)[-1:].fill_(number)


def raw(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


FILES = [
    Case("NaN", tensors(spoil(float("nan"))), "has numbers in .* that are not finite"),
    Case("infinite", tensors(spoil(float("-inf"))), "has numbers in .* that are not finite"),
    Case("halves", tensors(lambda found: found.update({min(found): found[min(found)].half()})), "of float16, where"),
    Case("whole", tensors(lambda found: found.update({min(found): found[min(found)].int()})), "of int32, where"),
    Case("missing", tensors(lambda found: found.pop(min(found))), "lacks the tensor "),
    Case("extra", tensors(lambda found: found.update(other=torch.zeros(2))), "other .*asks for no such tensor"),
    Case("escape", tensors(lambda found: found.update({"a\x1b[3m": torch.zeros(2)})), r"'a\\x1b\[3m'"),
    Case(
        "turned", tensors(lambda found: found.update({min(found): found[min(found)][None]})), "where the configuration"
    ),
    Case("none", tensors(lambda found: found.clear()), "lacks the tensor "),
    Case("overlap", head(lambda value: first(value).update(data_offsets=[4, 8], shape=[1])), "does not begin|bytes"),
    Case(
        "beyond", head(lambda value: value.update(z={"dtype": "F32", "shape": [0], "data_offsets": [9**9, 9**9]})), "z"
    ),
    Case("shape", head(lambda value: first(value).update(shape=[2**62, 2**62])), "not as many bytes"),
    Case("negative", head(lambda value: first(value).update(shape=[-1])), "a shape or offsets that are none"),
    Case("dimensions", head(lambda value: first(value).update(shape=[1] * 1000)), "a shape or offsets"),
    Case("fraction", head(lambda value: first(value).update(shape=[1.5])), "a shape or offsets that are none"),
    Case("type", head(lambda value: first(value).update(dtype="O")), "of the type 'O'"),
    Case("type table", head(lambda value: first(value).update(dtype={})), "of the type {}"),
    Case("entry", head(lambda value: value.update(a=3)), "a has no dtype, shape and data_offsets"),
    Case("about", head(lambda value: value.update(__metadata__={"a": 1})), "no table of texts"),
    Case("list", head(lambda value: b"[]"), "its header is no table"),
    Case("nested", head(lambda value: b"[" * 999), "nested deeper"),
    Case("doubled", head(lambda value: b'{"a": 1, "a": 2}'), "'a' occurs twice"),
    Case("more", lambda path: path.write_bytes(path.read_bytes() + b"1234") and None, "and the file has"),
    Case("cut", lambda path: path.write_bytes(path.read_bytes()[:-4]) and None, "and the file has"),
    Case("empty", raw(b""), "it has no header"),
    Case("short", raw(b"\x01\x00"), "it has no header"),
    Case("long head", raw(b"\xff" * 64), "it has no header"),
    Case("large head", raw(struct.pack("<Q", 1 << 14) + b" " * (1 << 14)), "has a header of 16,384 bytes"),
]


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
def test_weights_that_are_refused(run: Path, case: Case) -> None:
    case.change(run / WEIGHTS)
    seal(run)
    with pytest.raises(RunError, match=rf"model\.safetensors: .*{case.said}"):
        package.load(run)


def test_of_tied_tensors_one_is_enough_and_both_are_too_many(tmp_path: Path) -> None:
    rows = [f"the {word} {number}" for word in ("cat", "dog") for number in range(20)]
    tree = {"task": "lm", "data": {"train": rows}, "model": {"embedding": 8, "hidden": 8}, "train": {"steps": 1}}
    run = package.train(tree, out=tmp_path / "run", quiet=True).folder
    one, other = "decoder.embedding.weight", "output.scores.weight"
    stored = load_file(run / WEIGHTS)
    (kept,) = {one, other} & stored.keys()
    renamed = stored | {one: stored[kept], other: stored[kept]}
    del renamed[kept]
    save_file(renamed, run / WEIGHTS)
    seal(run)
    assert torch.equal(package.load(run).model.state_dict()[kept], stored[kept])
    save_file(stored | {one: stored[kept], other: stored[kept].clone()}, run / WEIGHTS)
    seal(run)
    assert "which are one tensor" in refused(run)


def test_either_of_two_hashes_is_good_while_a_file_is_replaced(run: Path) -> None:
    table = {name: found[0] for name, found in open_run(run).hashes.items()}
    for both in ([HEX, table[WEIGHTS]], [table[WEIGHTS], HEX]):
        write_manifest(run, table | {WEIGHTS: both})
        assert package.load(run).predict("the cat").label
        verify(run)


@pytest.mark.parametrize("times", [1, 3])
def test_a_reader_starts_over_where_files_were_replaced(run: Path, times: int) -> None:
    seen = []

    def read(files: RunFiles) -> bytes:
        seen.append(len(seen))
        if len(seen) <= times:  # the writer comes between the manifest and the file
            (run / LABELS).write_text(json.dumps(["animal", "colour", str(len(seen))]), encoding="utf-8")
            seal(run)
        return files.read(LABELS)

    assert json.loads(read_run(run, read))[-1] == str(times)
    assert len(seen) == times + 1


def test_a_reader_gives_up_where_files_are_replaced_for_ever(run: Path) -> None:
    def read(files: RunFiles) -> bytes:
        with (run / LABELS).open("a", encoding="utf-8") as file:
            file.write(" ")
        seal(run)
        return files.read(LABELS)

    with pytest.raises(RunError, match="is written all the time"):
        read_run(run, read)


def test_a_changed_file_is_no_replaced_one(run: Path) -> None:
    (run / LABELS).write_text('["animal", "color"]', encoding="utf-8")
    assert "labels.json: is damaged: its hash is not that of the manifest" in refused(run)


def test_settings_alone_are_checked_too(run: Path) -> None:
    edit_json(run, CONFIG, put(seed=1))
    with pytest.raises(RunError, match=r"config\.json: is damaged"):
        load_config(run)


def test_probabilities_are_no_number_or_null(run: Path, weft: Callable[..., Any]) -> None:
    tensors(lambda found: [tensor.fill_(1e38) for tensor in found.values()])(run / WEIGHTS)
    seal(run)
    Path("in.txt").write_text("the cat\nthe dog\n", encoding="utf-8")
    outcome = weft("predict", str(run), "in.txt", "--json")
    assert outcome.code == 0, outcome.err
    for line in outcome.out.splitlines():
        json.loads(line, parse_constant=pytest.fail)
