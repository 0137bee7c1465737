"""What goes wrong on the way: each is one clear line, and nothing that was refused is left behind."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from tests.run.hub.stand_in import TOKEN

import weft as package
from weft import limits
from weft.errors import Fault, RunError, WeftError
from weft.run.hub.pull import pull_run
from weft.run.hub.push import push_run


def refused(kind=WeftError, address="me/words"):
    """The message of a pull that is refused; neither it nor a load by hf:// leaves anything."""
    with pytest.raises(kind) as error:
        pull_run(address, "runs/copy")
    said = str(error.value)
    assert len(said.splitlines()) == 1
    assert TOKEN not in said
    assert not Path("runs").exists() or not list(Path("runs").iterdir())
    with pytest.raises(kind):
        package.load(f"hf://{address}")
    assert not [path for path in Path("cache").rglob("*") if path.is_file()]
    return said


def signed(files, **changed):
    """The files with some changed, and a manifest that fits them."""
    files = files | changed
    manifest = json.loads(files["manifest.json"])
    manifest["sha256"] = {name: hashlib.sha256(files[name]).hexdigest() for name in manifest["sha256"] if name in files}
    return files | {"manifest.json": json.dumps(manifest).encode()}


def listing(files, name, digest="0" * 64):
    """The files with one more name in the manifest, which is there too."""
    manifest = json.loads(files["manifest.json"])
    manifest["sha256"][name] = hashlib.sha256(b"x").hexdigest() if digest is None else digest
    return files | {"manifest.json": json.dumps(manifest).encode(), name: b"x"}


def test_another_content_than_the_manifest_says(hub, contents):
    hub.repository("me/words", contents() | {"labels.json": b'["a", "b"]'})
    assert refused(RunError) == (
        "hf://me/words/labels.json: is damaged: its hash is not that of manifest.json (its owner must push it again)"
    )


def test_weights_of_which_a_part_is_missing(hub, contents):
    files = contents()
    hub.repository("me/words", files | {"model.safetensors": files["model.safetensors"][:-40]})
    assert "model.safetensors: is damaged" in refused(RunError)


def test_no_manifest(hub, contents):
    files = contents()
    del files["manifest.json"]
    hub.repository("me/words", files)
    assert "hf://me/words: has no manifest.json, so it is no run of weft" in refused(RunError)


def test_a_listed_file_that_is_not_there(hub, contents):
    files = contents()
    del files["tokenizer.json"]
    hub.repository("me/words", files)
    assert "lacks tokenizer.json, which its manifest.json lists" in refused(RunError)


HOSTILE = [
    "../outside",
    "/etc/outside",
    "a/b",
    "..\\outside",
    "C:outside",
    "..",
    ".",
    "",
    "manifest.json",
    "a\x1b[31m",
    "a\0b",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(hub, contents, name, tmp_path):
    hub.repository("me/words", listing(contents(), name, None))
    said = refused(RunError)
    assert "manifest.json: is damaged" in said
    assert said.isprintable()
    assert not list(tmp_path.rglob("*outside*"))


@pytest.mark.parametrize("name", ["code.py", "pytorch_model.bin", ".bashrc", "sitecustomize.py", "tokenizer.json.py"])
def test_files_that_no_run_has_are_refused(hub, contents, name):
    hub.repository("me/words", listing(contents(), name, None))
    assert f"lists {name}, which is no part of a run" in refused(RunError)


def test_unlisted_files_stay_where_they_are(hub, contents):
    extra = {"code.py": b"import os", "pytorch_model.bin": b"x", "sub/dir.txt": b"x", ".gitattributes": b""}
    hub.repository("me/words", contents() | extra)
    folder = pull_run("me/words", "copy").folder
    assert {path.name for path in folder.iterdir()}.isdisjoint(extra)
    assert not [one for one in hub.asked if any(name in one.path for name in extra)]


def test_sizes_are_checked_before_a_file_is_fetched(hub, contents):
    hub.repository("me/words", contents())
    hub.faults.sizes["config.json"] = limits.SMALL_FILE_BYTES + 1
    assert "config.json: has 16,777,217 bytes, and 16,777,216 is the limit" in refused(RunError)
    assert not [one for one in hub.asked if one.path.endswith("config.json")]
    hub.faults.sizes = {"model.safetensors": 1 << 39}
    assert "are needed there" in refused(RunError)


@pytest.mark.parametrize("size", [-1, 1.5, "large", None])
def test_sizes_that_are_no_sizes(hub, contents, size):
    hub.repository("me/words", contents())
    hub.faults.sizes["config.json"] = size
    assert "gives an answer that is not that of a hub" in refused(Fault)


def test_a_server_that_does_not_stop_is_stopped(hub, contents):
    hub.repository("me/words", contents())
    hub.faults.endless.add("labels.json")
    with pytest.raises(Fault, match=r"the hub sends more than the [0-9]+ bytes of the file"):
        pull_run("me/words", "copy")
    assert not Path("copy").exists()
    hub.faults.endless.clear()
    pull_run("me/words", "copy")


def test_a_run_that_fits_its_manifest_and_cannot_be_loaded_is_refused(hub, contents):
    files = contents()
    config = json.loads(files["config.json"])
    config["model"]["hidden"] = 5
    hub.repository("me/words", signed(files, **{"config.json": json.dumps(config).encode()}))
    said = refused(RunError)
    assert said.startswith("hf://me/words/model.safetensors: has ")
    assert ".part" not in said


@pytest.fixture
def small_chunks(monkeypatch):
    """A download is written in chunks, and begins again at the end of the last one."""
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 100)


def test_an_interrupted_download_goes_on_where_it_ended(hub, contents, small_chunks):
    files = contents()
    hub.repository("me/words", files)
    hub.faults.cut["model.safetensors"] = [1000, 500]
    pull_run("me/words", "copy")
    assert [one.range for one in hub.stored] == [None, "bytes=1000-", "bytes=1500-"]
    assert Path("copy/model.safetensors").read_bytes() == files["model.safetensors"]


def test_a_later_pull_goes_on_with_what_an_earlier_one_left(hub, contents, small_chunks):
    files = contents()
    hub.repository("me/words", files)
    hub.faults.cut["model.safetensors"] = [700, *[0] * 20]
    with pytest.raises(Fault, match=r"the hub cannot be reached|came incomplete"):
        pull_run("me/words", "copy")
    assert not Path("copy").exists()
    (part,) = Path().glob(".copy.*.part")
    assert (part / "model.safetensors").stat().st_size == 700
    hub.faults.cut.clear()
    hub.stored.clear()
    pull_run("me/words", "copy")
    assert [one.range for one in hub.stored] == ["bytes=700-"]
    assert Path("copy/model.safetensors").read_bytes() == files["model.safetensors"]
    assert not list(Path().glob(".copy*"))


def test_an_old_part_of_another_content_is_fetched_again(hub, contents):
    repository = hub.repository("me/words", contents())
    commit, files = repository.files("main")
    part = Path(f".copy.{commit}.part")
    part.mkdir()
    (part / "model.safetensors").write_bytes(b"\0" * 300)
    (part / "strange").write_bytes(b"x")
    pull_run("me/words", "copy")
    assert Path("copy/model.safetensors").read_bytes() == files["model.safetensors"]
    assert not Path("copy/strange").exists()


def test_a_part_that_is_a_link_is_not_written_to(hub, contents, tmp_path):
    commit, _ = hub.repository("me/words", contents()).files("main")
    (tmp_path / "outside").mkdir()
    part = Path(f".copy.{commit}.part")
    part.mkdir()
    (part / "labels.json").symlink_to(tmp_path / "outside" / "written")
    with pytest.raises(Fault, match="is no folder of a download"):
        pull_run("me/words", "copy")
    assert not list((tmp_path / "outside").iterdir())


STATUS = {
    401: "there is no such model, or it is private|the hub knows no valid token",
    403: r"the token does not allow it \(403\)",
    404: r"the token does not allow it \(404\)|no such model",
    429: r"the hub allows no more requests now \(429\)",
    500: r"the hub has an error \(500\)",
    503: r"the hub has an error \(503\)",
}


@pytest.mark.parametrize("status", STATUS)
@pytest.mark.parametrize("where", ["GET /api/models", "GET .*resolve.*/labels.json"])
def test_refusals_of_the_hub(hub, contents, status, where, monkeypatch):
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    hub.repository("me/words", contents())
    hub.faults.status[where] = status
    with pytest.raises(WeftError, match=STATUS[status]) as error:
        pull_run("me/words", "copy")
    assert len(str(error.value).splitlines()) == 1
    assert error.value.exit_code == (1 if status >= 429 else 2)
    assert not Path("copy").exists()


@pytest.mark.parametrize(
    ("status", "where"), [(401, "repos/create"), (403, "preupload"), (503, "/commit/"), (500, "batch")]
)
def test_refusals_of_a_push(hub, run, status, where, monkeypatch):
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    hub.faults.status[where] = status
    with pytest.raises(WeftError) as error:
        push_run(run, "me/words")
    assert len(str(error.value).splitlines()) == 1
    assert TOKEN not in str(error.value)
    assert error.value.exit_code == (1 if status >= 500 else 2)


@pytest.mark.parametrize("token", ["", "hf_wrong"])
def test_a_private_run_without_its_token(hub, contents, token, monkeypatch):
    hub.repository("me/words", contents(), private=True)
    monkeypatch.setenv("HF_TOKEN", token)
    assert "log in with `hf auth login`, or set HF_TOKEN" in refused(RunError)
    with pytest.raises(RunError, match="hf auth login"):
        push_run(package.load(pull_with(monkeypatch)).folder, "me/words")


def pull_with(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("HF_TOKEN", TOKEN)
        return pull_run("me/words", "copy").folder


def test_a_name_that_is_not_there(hub):
    assert "hf://me/absent: there is no such model, or it is private" in refused(RunError, "me/absent")


def test_no_cache(hub, contents, monkeypatch):
    hub.repository("me/words", contents())
    monkeypatch.setenv("WEFT_CACHE", "off")
    with pytest.raises(RunError, match=r"cannot be kept: the cache is off \(weft pull me/words --out DIR"):
        package.load("hf://me/words")


def test_a_run_with_a_cell_of_ones_own(hub, run, tmp_path, weft):
    (tmp_path / "cells.py").write_text(
        "import torch\nfrom weft.nn import Cell\n\n\nclass Mine(Cell):\n"
        "    def __init__(self, input_size, hidden_size):\n"
        "        super().__init__(input_size, hidden_size)\n"
        "        self.map = torch.nn.Linear(input_size + hidden_size, hidden_size)\n\n"
        "    def step(self, x, h):\n"
        "        h = torch.tanh(self.map(torch.cat([x, h], -1)))\n        return h, h\n",
        encoding="utf-8",
    )
    lines = [f"the {word} {n}\t{label}" for word, label in (("cat", "animal"), ("red", "colour")) for n in range(20)]
    (tmp_path / "words.tsv").write_text("\n".join(["text\tlabel", *lines]), encoding="utf-8")
    small = ("model.cell=Mine", "model.kind=rnn", "model.hidden=4", "model.embedding=4", "train.steps=2", "--quiet")
    own = ("--import", "cells.py:Mine")
    assert weft("train", "classify", "words.tsv", *small, *own, "--out", "mine").code == 0
    push_run("mine", "me/mine")
    pulled = weft("pull", "me/mine", "--out", "first")
    assert pulled.code == 2
    assert 'error hf://me/mine: has a cell of its own, "Mine" (give its class: --import' in pulled.err
    assert not Path("first").exists()
    assert weft("pull", "me/mine", "--out", "second", *own).code == 0
    Path("in.txt").write_text("the cat\n", encoding="utf-8")
    assert weft("predict", "hf://me/mine", "in.txt", *own).code == 0
