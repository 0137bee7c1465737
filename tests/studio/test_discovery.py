"""Finding runs: nested ones, half-written ones with their error, none through a link, and those in training."""

from __future__ import annotations

import os
import shutil

import pytest

from weft.catalog import TASKS
from weft.run.folder import files
from weft.run.folder.lock import lock_folder
from weft.serve import HTTPError
from weft.studio import discovery
from weft.studio.curves import follow_curve, read_new_points
from weft.studio.discovery import Library, metric_of, short_names


def listed(library: Library) -> dict[str, dict]:
    return {row["id"]: row for row in library.describe_runs()}


def test_runs_are_found_in_any_depth_and_named_by_their_place(runs):
    found = listed(Library([runs]))
    assert set(found) == {"numbers", "words/first", "words/second", "cut", "begun"}
    first = found["words/first"]
    assert (first["task"], first["kind"], first["state"], first["metric"]) == (
        "classify",
        "bag",
        "finished",
        "accuracy",
    )
    assert 0 <= first["value"] <= 1
    assert found["numbers"]["kind"] == "rnn"


def test_the_newest_run_is_the_first(runs):
    times = [row["updated"] for row in Library([runs]).describe_runs()]
    assert times == sorted(times, reverse=True)


def test_folders_that_cannot_be_used_have_their_error(runs):
    found = listed(Library([runs]))
    assert found["cut"]["state"] == "broken"
    assert found["cut"]["error"].startswith("config.json: cannot be read")
    assert "never saved a model" in found["begun"]["error"]


def test_a_link_is_not_followed(runs):
    library = Library([runs])
    assert "link" not in listed(library)
    with pytest.raises(HTTPError):
        library.run("link")


@pytest.mark.parametrize("id", ["../outside", "words/../numbers", "/etc", "", ".", "numbers/", "numbers/checkpoints"])
def test_an_id_is_looked_up_and_never_joined_to_a_path(runs, id):
    with pytest.raises(HTTPError, match="there is no run"):
        Library([runs]).run(id)


def test_a_run_itself_and_several_folders_may_be_given(runs, data):
    assert set(listed(Library([runs / "numbers"]))) == {"numbers"}
    assert set(listed(Library([runs / "words", runs / "words", data]))) == {"words/first", "words/second"}


def test_folders_inside_each_other_list_a_run_once_by_its_shorter_id(runs, data):
    alone, both = Library([runs]), Library([runs, runs.parent])
    for library in (alone, both):
        library.refresh()
    assert set(both.runs) == {f"{runs.name}/{id}" for id in alone.runs} | {f"{runs.parent.name}/outside"}
    assert len({found.folder.resolve() for found in both.runs.values()}) == len(both.runs)
    assert both.list_files() == [f"{runs.parent.name}/data/{name}" for name in ("labels.tsv", "pairs.tsv")]


def test_data_files_are_those_below_the_folders(runs, data):
    library = Library([runs, data])
    assert library.file("data/pairs.tsv") == str(data / "pairs.tsv")
    for name in ("data/../data/pairs.tsv", str(data / "pairs.tsv"), "runs/numbers/config.json", "/etc/passwd"):
        with pytest.raises(HTTPError, match="there is no file"):
            library.file(name)


def test_names_leave_out_the_folders_that_all_runs_lie_in():
    assert short_names(["runs/demo", "runs/big"]) == ["demo", "big"]
    assert short_names(["runs/words/first", "runs/numbers"]) == ["words/first", "numbers"]
    assert short_names(["runs/words/first", "run/numbers"]) == ["runs/words/first", "run/numbers"]
    assert short_names(["demo"]) == ["demo"]
    assert short_names([]) == []


def test_a_folder_that_is_not_there_has_no_runs(tmp_path):
    assert Library([tmp_path / "runs"]).describe_runs() == []


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has locks of folders")
def test_a_training_in_progress_is_recognised_by_its_lock(runs):
    folder = runs / "begun"
    with lock_folder(folder):
        assert listed(Library([runs]))["begun"]["state"] == "training"
    assert discovery.state_of(folder) == "broken"


def test_a_run_without_report_was_stopped_or_imported(runs, tmp_path):
    shutil.copytree(runs / "numbers", tmp_path / "run")
    (tmp_path / "run/report.json").unlink()
    assert discovery.state_of(tmp_path / "run") == "stopped"
    (tmp_path / "run/metrics.jsonl").unlink()
    assert discovery.state_of(tmp_path / "run") == "finished", "an imported run has no journal"


def test_the_files_have_the_names_that_training_gives_them():
    for name in ("CONFIG", "REPORT", "JOURNAL", "MANIFEST", "CARD"):
        assert getattr(discovery, name) == getattr(files, name)


@pytest.mark.parametrize("name", list(TASKS))
def test_the_metric_of_the_list_is_that_of_the_task(name):
    task = TASKS[name]
    measured = dict.fromkeys(task.metrics, 0.5)
    assert metric_of({"task": name}, {"valid": measured}) == task.own_metric(measured)
    assert metric_of({"task": name, "train": {"metric": "loss"}}, {"valid": measured}) == "loss"


def test_new_lines_of_a_journal_are_read_once_and_only_when_they_are_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "valid": {"bleu": 3.0}}\nno json\n{"step": 3, "lo')
    points, offset = read_new_points(path, 0)
    assert points == {"train": [[1, 2.5]], "valid": [[2, {"bleu": 3.0}]]}
    with path.open("a") as file:
        file.write('ss": null}\n')
    assert read_new_points(path, offset)[0]["train"] == [[3, None]]
    path.write_text("")
    assert read_new_points(path, offset) == ({"train": [], "valid": []}, 0)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX has locks of folders")
def test_a_live_curve_has_the_new_points_and_ends_with_the_training(tmp_path):
    import asyncio

    folder = tmp_path / "run"
    folder.mkdir()
    journal = folder / "metrics.jsonl"
    journal.write_text('{"step": 1, "loss": 3.0}\n')

    async def follow():
        with lock_folder(folder):
            events = follow_curve(discovery.Found("run", folder), poll=0)
            coming = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.05)
            with journal.open("a") as file:
                file.write('{"step": 11, "loss": 2.0}\n')
            first = await coming
        return [(event.name, event.data) for event in [first, *[event async for event in events]]]

    assert asyncio.run(follow()) == [
        ("curve", {"train": [[11, 2.0]], "valid": []}),
        ("state", {"state": "broken"}),
    ]
