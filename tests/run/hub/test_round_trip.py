"""weft push, weft pull and hf:// against the stand-in of the hub: what arrives is what was sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.run.hub.stand_in import TOKEN

import weft as package
from weft.errors import ConfigError, RunError
from weft.run.folder.manifest import verify
from weft.run.hub.pull import pull_run
from weft.run.hub.push import push_run

TEXTS = ["the cat is here", "the red is here", "something else"]


def answers(run):
    return [(one.label, one.probabilities) for one in run.predict(TEXTS)]


def test_a_pushed_run_is_pulled_and_answers_the_same(hub, run, trained):
    sent = push_run(run, "me/words")
    assert sent.files
    assert "checkpoints" not in " ".join(sent.files)
    stored = hub.repositories["me/words"].files("main")
    assert stored is not None
    names = {"config.json", "model.safetensors", "tokenizer.json", "labels.json", "manifest.json", "README.md"}
    assert set(stored[1]) == names | {"report.json", ".gitattributes"}
    assert sent.commit == stored[0]
    found = pull_run("me/words", "copy")
    assert (found.commit, found.folder) == (sent.commit, Path("copy"))
    assert {path.name for path in Path("copy").iterdir()} == names | {"report.json"}
    verify(Path("copy"))
    assert answers(package.load("copy")) == answers(trained)
    assert package.load("copy").report["valid"] == trained.report["valid"]


def test_no_folder_of_this_machine_is_sent(hub, run, trained):
    sent = push_run(run, "me/words")
    assert sent.cut == ("data.train",)
    for name, content in hub.repositories["me/words"].files("main")[1].items():
        assert str(trained.folder.parent).encode() not in content, name
    assert json.loads(hub.repositories["me/words"].files("main")[1]["config.json"])["data"]["train"] == "words.tsv"
    assert package.load("hf://me/words").config.data.train == "words.tsv"


def test_large_files_go_to_the_storage_and_no_token_does(hub, run):
    push_run(run, "me/words", private=True)
    pull_run("me/words", "copy")
    assert [one.method for one in hub.stored] == ["PUT", "GET"]
    assert all(one.token is None for one in hub.stored if one.method == "GET")
    assert all(one.token == f"Bearer {TOKEN}" for one in hub.asked)


def test_a_second_push_replaces_the_first_and_removes_what_is_no_part_of_it(hub, run):
    push_run(run, "me/words")
    first = hub.repositories["me/words"].files("main")
    hub.repositories["me/words"].commit(first[1] | {"tokenizer_source.json": b"{}", "notes.txt": b"mine"})
    sent = push_run(run, "me/words")
    now = hub.repositories["me/words"].files("main")
    assert now[0] == sent.commit
    assert set(now[1]) == set(first[1]) | {"notes.txt"}, "files of others stay"


def test_branches_and_commits(hub, run, trained):
    first = push_run(run, "me/words")
    push_run(run, "me/words", revision="other")
    assert set(hub.repositories["me/words"].branches) == {"main", "other"}
    for revision in ("other", first.commit):
        assert answers(package.load(f"hf://me/words@{revision}")) == answers(trained)
    with pytest.raises(RunError, match="has no revision absent"):
        package.load("hf://me/words@absent")
    with pytest.raises(RunError, match="names a branch already"):
        push_run(run, "me/words@other", revision="third")


def test_an_address_is_downloaded_once(hub, run, trained):
    commit = push_run(run, "me/words").commit
    before = package.load("hf://me/words")
    hub.asked.clear()
    assert answers(package.load("hf://me/words")) == answers(before) == answers(trained)
    assert [one.path.split("?")[0] for one in hub.asked] == ["/api/models/me/words/revision/main"]
    hub.asked.clear()
    package.load(f"hf://me/words@{commit}")
    assert hub.asked == [], "a commit never changes, so nothing is looked up"


def test_without_a_network_the_last_copy_is_used(hub, run, trained, monkeypatch, capsys):
    push_run(run, "me/words")
    package.load("hf://me/words")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert answers(package.load("hf://me/words")) == answers(trained)
    assert "cannot be reached" in capsys.readouterr().err
    with pytest.raises(
        package.WeftError, match=r"hf://me/other: the hub cannot be reached at http://127.0.0.1:9"
    ) as error:
        package.load("hf://me/other")
    assert error.value.exit_code == 1


def test_a_private_name_that_is_public_is_refused_before_anything_is_sent(hub, run):
    hub.repository("me/words", {})
    with pytest.raises(RunError, match="is public, and --private was given; nothing was sent"):
        push_run(run, "me/words", private=True)
    assert hub.repositories["me/words"].files("main")[1] == {}


def test_a_damaged_run_is_not_sent(hub, run):
    (run / "labels.json").write_text('["a", "b"]', encoding="utf-8")
    with pytest.raises(RunError, match=r"labels\.json: is damaged"):
        push_run(run, "me/words")
    assert not hub.asked


@pytest.mark.parametrize(
    "name", ["me", "me/", "/me", "me/a/b", "me/..", "../me", "me/a b", "me/x@", "me/x@a..b", "me\n/x"]
)
def test_names_that_are_none(name, run):
    for use in (pull_run, lambda name: push_run(run, name), lambda name: package.load(f"hf://{name}")):
        with pytest.raises(ConfigError, match=r"is not the name of a model|has no revision after @"):
            use(name)


def test_commands(weft, hub, run):
    outcome = weft("push", "run", "me/words", "--private")
    assert outcome.code == 0, outcome.err
    first, second, third = outcome.err.splitlines()
    assert first == "sent without the folders of this machine: data.train"
    assert second.startswith(f"sent: {hub.url}/me/words, 7 files in commit ")
    assert third == 'load it by weft.load("hf://me/words"), or: weft pull me/words'
    assert hub.repositories["me/words"].private
    outcome = weft("pull", "me/words")
    assert (outcome.code, outcome.out) == (0, "")
    assert outcome.err.startswith("written: runs/words, ")
    Path("in.txt").write_text("the cat is here\n", encoding="utf-8")
    for command in (("predict", "in.txt"), ("evaluate", str(run.parent / "words.tsv")), ("inspect", "parameters")):
        words = (*command, "hf://me/words") if command[0] == "inspect" else (command[0], "hf://me/words", command[1])
        if command[0] == "evaluate":
            Path("words.tsv").write_text(
                "text\tlabel\nthe cat is here\tanimal\nthe red is here\tcolour\n", encoding="utf-8"
            )
        outcome = weft(*words)
        assert outcome.code == 0, outcome.err
        assert outcome.out
    outcome = weft(
        "train", "classify", "words.tsv", "words.tsv", "--from", "hf://me/words", "train.steps=1", "--out", "more"
    )
    assert outcome.code == 0, outcome.err
    again = weft("pull", "me/words")
    assert (again.code, again.err) == (2, "error runs/words: is not empty (choose another --out)\n")
    assert TOKEN not in outcome.err + again.err
