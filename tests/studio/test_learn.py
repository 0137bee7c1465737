"""The learning playground: toys that can be learned, commands, and a process that ends with the studio."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import torch
from pydantic import ValidationError
from tests.studio.conftest import TOKEN

from weft.errors import ConfigError
from weft.studio import learn
from weft.studio.learn import Order, Playground
from weft.studio.learning import Control, train
from weft.studio.pupil import Pupil, show_tokens
from weft.studio.toys import ASK, END, find_toy, toys

SMALL = {"kind": "rnn", "cell": "gru", "hidden": 24, "layers": 1, "rate": 0.02}
HEADERS = {"x-weft-token": TOKEN}


def solve(name: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The answer to an input of a toy, by another way than the toy's own."""
    text = "".join(given)
    if name == "add":
        first, second = (int(number[::-1], 2) for number in text.split("+"))
        return tuple(format(first + second, f"0{len(text.split('+')[0]) + 1}b")[::-1])
    if name == "parity":
        return ("odd" if text.count("1") % 2 else "even",)
    return {"copy": given, "reverse": tuple(reversed(given)), "recall": given[:1]}[name]


@pytest.mark.parametrize("name", [name for name in toys() if name != "phrasebook"])
def test_the_answers_of_a_toy_are_right(name):
    toy = find_toy(name)
    tests, draw = toy.split(toy.size.default, 3)
    for example in [*tests, *(draw() for _ in range(50))]:
        assert example.answer == solve(name, example.input)


@pytest.mark.parametrize("name", toys())
def test_examples_of_a_toy_have_one_length_and_tests_are_held_out(name):
    toy = find_toy(name)
    for size in {max(2, toy.size.low), toy.size.default}:
        tests, draw = toy.split(size, 0)
        drawn = [draw() for _ in range(300)]
        assert len({(len(one.input), len(one.answer)) for one in [*tests, *drawn]}) == 1
        assert not {one.input for one in tests} & {one.input for one in drawn}
        assert {token for one in [*tests, *drawn] for token in (*one.input, *one.answer)} <= set(toy.tokens())


def test_a_phrase_is_translated_with_its_adjective_in_its_place():
    tests, _ = find_toy("phrasebook").split(12, 0)
    pairs = {show_tokens(one.input): show_tokens(one.answer) for one in tests}
    swapped = [french for english, french in pairs.items() if english.endswith("red apple")]
    assert all(french.endswith("pomme rouge") for french in swapped)
    assert all(END not in french for french in pairs.values())


@pytest.mark.parametrize("size", [0, 21])
def test_the_size_of_a_toy_has_bounds(size):
    with pytest.raises(ConfigError, match="from 1 to 20"):
        Order(models=[{}], toy="copy", size=size).tree()


@pytest.mark.parametrize(
    "wrong",
    [{"models": []}, {"models": [{}] * 3}, {"steps": 10**9}, {"models": [{"hidden": 5000}]}, {"models": [{"code": 1}]}],
)
def test_orders_are_bounded(wrong):
    with pytest.raises(ValidationError):
        Order(**({"models": [{}], "toy": "copy"} | wrong))


@pytest.mark.parametrize("settings", [SMALL, SMALL | {"kind": "transformer"}])
def test_accuracy_is_that_of_the_greedy_answers_and_padding_plays_no_part(settings):
    toy = find_toy("copy")
    tests, draw = toy.split(2, 0)
    pupil = Pupil(toy, settings, {}, seed=0)
    for _ in range(15):
        pupil.learn([draw() for _ in range(32)])
    right = [answer == test.answer for answer, test in zip(pupil.answer(tests), tests, strict=True)]
    assert pupil.accuracy(tests) == pytest.approx(sum(right) / len(right))
    assert 0 < sum(right) < len(right) or settings["kind"] == "transformer"


def test_gradient_norms_are_those_of_finite_differences():
    toy = find_toy("recall")
    tests, _ = toy.split(3, 0)
    pupil = Pupil(toy, SMALL, {}, seed=0)
    pupil.model.double()
    (norm, *others) = pupil.gradient_norms(tests[:1])
    assert len(others) == len(tests[0].input) + len((ASK,)) - 1
    tokens, answers = pupil.rows(tests[:1])
    table = pupil.model.decoder.embedding.weight
    first, step, slopes = tokens[0, 0], 1e-6, []
    assert (tokens[0] == first).sum() == 1
    with torch.no_grad():
        for place in range(table.size(1)):
            table[first, place] += step
            above = pupil.loss(tokens, answers)
            table[first, place] -= 2 * step
            below = pupil.loss(tokens, answers)
            table[first, place] += step
            slopes.append((above - below) / (2 * step))
        scale = (pupil.model.decoder.embedding(tokens)[0, 0] / table[first]).mean()  # of a token's vector to its row
    assert norm == pytest.approx(float(torch.stack(slopes).norm() / scale), rel=1e-4)


def test_two_models_learn_parity_on_the_same_batches():
    sent = []
    control = Control(lambda event, data: sent.append((event, data)))
    models = [SMALL | {"hidden": 32, "rate": 0.01}, SMALL | {"hidden": 4, "rate": 1e-4}]
    train({"toy": "parity", "size": 6, "seed": 0, "steps": 400, "models": models}, control.send, control)
    last = {data["model"]: data for event, data in sent if event == "update"}
    assert last[0]["accuracy"] == 1.0, "a good model learns parity of six bits, and answers unseen ones"
    assert last[1]["accuracy"] < 0.9, "one of four units at a small rate does not"
    assert sent[-1] == ("done", {"reason": "finished", "message": "all updates are done", "step": 400})
    for update in last.values():
        assert len(update["gradients"]["norms"]) == len(update["gradients"]["tokens"]) == 7
        assert {"input", "expected", "answer", "right"} == update["examples"][0].keys()


def test_a_step_makes_one_update_and_stop_ends_a_pause():
    sent = []
    control = Control(lambda event, data: sent.append((event, data)))
    control.command("pause")
    control.command("step")
    order = {"toy": "copy", "size": 2, "seed": 0, "steps": 100, "models": [SMALL]}
    made = threading.Thread(target=train, args=(order, control.send, control))
    made.start()
    control.command("step")
    control.command("nonsense")
    while not any(data.get("step") == 2 for _, data in list(sent)):
        assert made.is_alive()
        made.join(0.01)
    control.command("stop")
    made.join(60)
    assert sent[-1] == ("done", {"reason": "stopped", "message": "it was stopped", "step": 2})
    states = [data["state"] for event, data in sent if event == "state"]
    assert set(states) == {"paused"}, "a pause that was requested before the start is not answered by running"


@pytest.fixture(scope="module")
def finished(client):
    """The events of a training that was started over HTTP."""
    order = {"models": [{"hidden": 8}], "toy": "copy", "size": 1, "steps": 5}
    id = client.post("/api/learn", json=order, headers=HEADERS).json()["id"]
    again = client.post("/api/learn", json=order, headers=HEADERS)
    text = client.get(f"/api/learn/{id}/events").text
    return id, again, text


def test_a_training_of_the_page_runs_in_a_process_of_its_own(client, finished):
    _, again, text = finished
    assert again.status_code == 409
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event: ")]
    assert names[:2] == ["state", "state"]
    assert names[-1] == "done"
    assert "update" in names
    assert client.app.state.studio.playground.training.process.pid != os.getpid()


def test_a_page_that_comes_back_continues_where_it_left_off(client, finished):
    id, _, text = finished
    numbers = [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]
    assert numbers == list(range(1, len(numbers) + 1))
    rest = client.get(f"/api/learn/{id}/events", headers={"last-event-id": str(numbers[-2])}).text
    assert rest.startswith(f"id: {numbers[-1]}\nevent: done")
    assert client.get("/api/learn/other/events").status_code == 404
    assert client.post(f"/api/learn/{id}/explode", json={}, headers=HEADERS).status_code == 422


def test_unknown_toys_and_cells_are_refused(client, finished):
    for change in ({"toy": "nothing"}, {"models": [{"cell": "nothing"}]}):
        order = {"models": [{}], "toy": "copy"} | change
        response = client.post("/api/learn", json=order, headers=HEADERS)
        assert response.status_code == 400
        assert response.json()["error"]["cure"]


def test_a_cell_of_the_users_own_is_imported_by_the_process(tmp_path):
    path = tmp_path / "cells.py"
    path.write_text(
        textwrap.dedent(
            """
            import torch
            from weft.nn import Cell

            class Leaky(Cell):
                def __init__(self, input_size, hidden_size):
                    super().__init__(input_size, hidden_size)
                    self.from_input = torch.nn.Linear(input_size, hidden_size)

                def step(self, x, h):
                    h = 0.5 * h + torch.tanh(self.from_input(x))
                    return h, h
            """
        )
    )
    sent = []
    control = Control(lambda event, data: sent.append((event, data)))
    order = {"toy": "copy", "size": 1, "seed": 0, "steps": 1, "imports": [f"{path}:Leaky"]}
    train(order | {"models": [SMALL | {"cell": "Leaky"}]}, control.send, control)
    assert sent[-1][1]["reason"] == "finished"


SERVER = """
import asyncio, time
from weft.studio.learn import Order, Playground
playground = Playground(lambda: ["lstm"])
playground.start(Order(models=[{"hidden": 8}], toy="copy", size=1, steps=20000))
async def wait():
    async for event in playground.training.feed.follow():
        if event.name == "update":
            return
asyncio.run(wait())
print(playground.training.process.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_process_ends_when_the_studio_is_killed():
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        pid = int(server.stdout.readline())
        handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        if handle is None:
            pytest.skip("the system cannot wait for a process that is no child")
        server.send_signal(signal.SIGKILL)
    import select

    ready, _, _ = select.select([handle], [], [], 60)
    os.close(handle)
    assert ready, "the training goes on without the studio"


def test_the_end_of_the_studio_ends_the_process():
    playground = Playground(lambda: ["lstm"])
    playground.start(Order(models=[{"hidden": 8}], toy="copy", size=1))
    training = playground.training
    playground.end()
    assert training.process.poll() is not None
    assert training.feed.closed
    assert json.loads(json.dumps(training.feed.kept[-1].data))["reason"] == "stopped"


def test_a_training_that_no_page_follows_is_stopped(monkeypatch):
    playground = Playground(lambda: ["lstm"])
    playground.start(Order(models=[{"hidden": 8}], toy="copy", size=1, steps=20_000))
    training = playground.training

    async def look_and_leave():
        events, updates = training.follow(), 0
        async for event in events:
            updates += event.name == "update"
            if updates == 1:
                monkeypatch.setattr(learn, "UNWATCHED_SECONDS", 0.0)
                training._stop_unless_followed()
            if updates == 5:  # it goes on while a page follows it
                break
        assert updates == 5
        await events.aclose()

    asyncio.run(look_and_leave())
    training.process.wait(60)
    training.reader.join(60)
    assert training.feed.kept[-1].data["reason"] == "stopped"


def test_a_training_can_be_replaced(client):
    order = {"models": [{"hidden": 8}], "toy": "copy", "size": 1, "steps": 20_000}
    first = client.post("/api/learn", json=order, headers=HEADERS).json()["id"]
    process = client.app.state.studio.playground.training.process
    again = client.post("/api/learn", json=order | {"steps": 1, "replace": True}, headers=HEADERS)
    assert again.status_code == 200
    assert process.poll() is not None, "the first one has ended"
    assert client.get(f"/api/learn/{first}/events").status_code == 404
    assert "event: done" in client.get(f"/api/learn/{again.json()['id']}/events").text
