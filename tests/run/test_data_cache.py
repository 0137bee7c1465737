"""Training data kept for the next run: the same as made anew, and made anew whenever something has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.catalog import TASKS
from weft.config import read_config
from weft.data import Corpus, RaggedBuilder
from weft.errors import DataError, Fault
from weft.run import data_cache
from weft.run import prepare as preparing
from weft.run.prepare import Prepared, prepare

FILES = {"translate": "pairs", "classify": "labelled", "tag": "tagged", "lm": "texts"}
NOTE = ("tokens are kept", "tokens from an earlier run")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own, for files of any size."""
    monkeypatch.setattr(data_cache, "MIN_CACHED_BYTES", 1)
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokens"


def file_of(task: str, request: pytest.FixtureRequest) -> str:
    """Made by the fixture of the task, long ago."""
    path = str(request.getfixturevalue(FILES[task]))
    os.utime(path, (1e9, 1e9))
    return path


def ready(task: str, path: str, **settings: Any) -> Prepared:
    return prepare(read_config({"task": task, "data": {"train": path}}, settings))


def content(prepared: Prepared) -> dict[str, Any]:
    """All of it that training sees."""
    found: dict[str, Any] = {"notes": [note for note in prepared.notes if not note.startswith(NOTE)]}
    for part in ("train", "valid"):
        examples = getattr(prepared, part)
        columns = {name: [row.tolist() for row in column] for name, column in examples.columns.items()}
        found[part] = (columns, examples.lengths.tolist(), examples.lengths.dtype, examples.records)
    codec = prepared.task.codec
    found["codec"] = codec.labels, {role: tokens._inner.to_str() for role, tokens in codec.tokenizers.items()}
    return found | {"config": prepared.config.tree()}


def never(*_: Any) -> Any:
    raise AssertionError("the file is read again")


@pytest.mark.parametrize("task", FILES)
def test_the_second_run_has_the_same_data_without_reading_it(
    task: str, cache: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_of(task, request)
    with monkeypatch.context() as patch:
        patch.setenv("WEFT_CACHE", "off")
        plain = ready(task, path)
    assert not cache.exists()
    first = ready(task, path)
    monkeypatch.setattr(TASKS[task], "read", never)
    monkeypatch.setattr(TASKS[task], "learn", never)
    second = ready(task, path)
    assert content(plain) == content(first) == content(second)
    assert [note.startswith(NOTE) for note in plain.notes].count(True) == 0
    assert first.notes[-1].startswith(f"{NOTE[0]} for the next run: {cache}")
    assert second.notes[-1].startswith(f"{NOTE[1]}: {cache}")


@pytest.mark.parametrize(
    "changed", [{"data.max_length": 3}, {"text.size": 300}, {"text.kind": "char"}, {"seed": 1}, {"data.unit": "stream"}]
)
def test_other_settings_have_their_own_tokens(
    changed: dict[str, Any], cache: Path, texts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Running text comes in blocks, of which one file of this size has a single one; validation needs another file.
    extra = {"data.valid": texts} if "data.unit" in changed else {}
    ready("lm", texts, **extra)
    found = content(ready("lm", texts, **changed, **extra))
    monkeypatch.setenv("WEFT_CACHE", "off")
    assert found == content(ready("lm", texts, **changed, **extra)) != content(ready("lm", texts, **extra))


def test_the_seed_does_not_matter_where_nothing_is_set_aside(cache: Path, texts: str) -> None:
    ready("lm", texts, **{"data.valid": texts})
    again = ready("lm", texts, **{"data.valid": texts, "seed": 1})
    assert again.notes[-1].startswith(NOTE[1])
    assert any("150 of 150 valid examples are also in the training data" in note for note in again.notes)


def test_a_changed_file_is_noticed_and_a_renamed_one_known(cache: Path, texts: str, tmp_path: Path) -> None:
    ready("lm", texts)
    moved = Path(texts).rename(tmp_path / "moved.txt")
    assert ready("lm", str(moved)).notes[-1].startswith(NOTE[1])
    moved.write_text(moved.read_text(encoding="utf-8").replace("cat", "cow"), encoding="utf-8")
    again = ready("lm", str(moved))
    assert again.notes[-1].startswith(NOTE[0])
    assert "cow" in again.task.codec.tokenizers[""].decode(again.train.columns["tokens"].flat(0, 100_000))


def flip(content: bytes) -> bytes:
    """The same with another bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


ENDINGS = [".values", ".lengths", "training.json", "tokenizer.json", "keys"]


@pytest.mark.parametrize("damage", [flip, lambda content: content[:-1], lambda content: content + content])
@pytest.mark.parametrize("ending", ENDINGS)
def test_damaged_files_are_made_anew(ending: str, damage: Callable[[bytes], bytes], cache: Path, texts: str) -> None:
    first = content(ready("lm", texts))
    damaged = [path for path in cache.glob("*/*") if path.name.endswith(ending)]
    assert damaged
    for path in damaged:
        path.write_bytes(damage(path.read_bytes()))
    again = ready("lm", texts)
    assert content(again) == first
    assert again.notes[-1].startswith(NOTE[1] if ending == "keys" else NOTE[0])


def forged(entry: Path) -> None:
    """Have the list of an entry agree with its files as they are now."""
    (entry / "entry.json").unlink()
    store = data_cache.Store(entry.parent)
    with store.make(f"{entry.name}.forged") as folder:
        for file in entry.iterdir():
            file.rename(folder / file.name)
    entry.rmdir()
    (entry.parent / f"{entry.name}.forged").rename(entry)


NESTED = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("ending", [*ENDINGS, "examples.json", "survey.json"])
@pytest.mark.parametrize("foreign", [b"", b"[]", b"{}", b"null", NESTED, b"\xff" * 16, b'{"columns": ["../tokens"]}'])
def test_a_forged_entry_is_made_anew(ending: str, foreign: bytes, cache: Path, texts: str) -> None:
    first = content(ready("lm", texts))
    for path in [path for path in cache.glob("*/*") if path.name.endswith(ending)]:
        path.write_bytes(foreign)
        forged(path.parent)
    assert content(ready("lm", texts)) == first


def test_fresh_makes_everything_anew_even_if_a_file_was_changed_behind_its_time(cache: Path, texts: str) -> None:
    os.utime(texts, (1e9, 1e9))
    ready("lm", texts)
    with Path(texts).open("r+", encoding="utf-8") as file:
        file.write("the cow")
    os.utime(texts, (1e9, 1e9))
    tree = read_config({"task": "lm", "data": {"train": texts}})
    assert prepare(tree).notes[-1].startswith(NOTE[1]), "deceived"
    again = prepare(tree, fresh=True)
    assert again.notes[-1].startswith(NOTE[0])
    assert "cow" in again.task.codec.tokenizers[""].decode(again.train.columns["tokens"].flat(0, 100_000))
    assert prepare(tree, fresh=True).notes[-1].startswith(NOTE[0]), "also what is there and right"
    assert prepare(tree).notes[-1].startswith(NOTE[1])


def test_it_is_told_how_far_each_pass_has_come(cache: Path, texts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "EXAMPLES_PER_MESSAGE", 100)
    monkeypatch.setattr(Corpus.survey.__func__, "__kwdefaults__", {"keep": 0})
    told: list[str] = []
    prepare(read_config({"task": "lm", "data": {"train": texts}}), progress=told.append)
    passes = ["reading", "learning the tokens of", "tokenising", "tokenising"]
    assert told == [f"{doing} {texts}: 100 examples" for doing in passes], "the last is what was set aside"


def test_bad_lines_are_told_of_again(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a {n}\tb {n}\n" for n in range(50)) + "no tab\n", encoding="utf-8")
    tree = read_config({"task": "translate", "data": {"train": str(path)}})
    notes = [prepare(tree, skip_bad_lines=True).notes for _ in range(2)]
    assert [any("skipped 1 bad line," in note for note in each) for each in notes] == [True, True]
    with pytest.raises(DataError, match=r"pairs\.tsv:51"):
        prepare(tree)


def test_small_files_leave_nothing_behind(cache: Path, texts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_cache, "MIN_CACHED_BYTES", 1_000_000)
    assert not any(note.startswith(NOTE) for note in ready("lm", texts).notes)
    assert list(cache.rglob("*")) in ([], [cache / "files"])


def test_a_file_that_changes_while_it_is_read_is_an_error(
    cache: Path, texts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = data_cache.write_examples

    def write_and_change(*arguments: Any) -> None:
        write(*arguments)
        with Path(texts).open("a", encoding="utf-8") as file:
            file.write("one more\n")

    monkeypatch.setattr(data_cache, "write_examples", write_and_change)
    with pytest.raises(DataError, match=r"texts\.txt: changed while it was read"):
        ready("lm", texts)
    assert not list(cache.glob("*/training.json"))


def test_a_full_disk_names_the_folder_and_the_cure(cache: Path, texts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(Fault, match=r"tokens: .*No space left on device \(free some space, .*WEFT_CACHE=off"):
        ready("lm", texts)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 128, 1000])
@pytest.mark.parametrize("longest", [1, 7])
def test_tokens_of_a_large_text_stay_in_their_file(tmp_path: Path, count: int, longest: int) -> None:
    rows = [list(range(number, number + 1 + number % longest)) for number in range(count)]
    builder = RaggedBuilder(path=tmp_path / "tokens.values")
    builder.extend(rows)
    column = builder.build()
    again = type(column).open(tmp_path / "tokens.values", column.lengths.astype(np.int32), memory=0)
    assert isinstance(column._values, np.ndarray)
    assert not isinstance(again._values, np.ndarray)
    order = np.random.default_rng(0).permutation(count)
    for one in (column, again):
        assert one.join(order).tolist() == [token for row in order for token in rows[row]]
        assert one.size == sum(map(len, rows))
        assert one.lengths.tolist() == [len(row) for row in rows]
