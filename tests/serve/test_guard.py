"""Checks of every request: Host, Origin, body, rate, token; and the headers of every response."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.testclient import TestClient

from weft.errors import ConfigError, Fault
from weft.serve import HTTPError, Limits, Token, create_application, listen
from weft.serve.guard import RateLimit, read_body
from weft.serve.listening import check_loopback

LIMITS = Limits(body_bytes=1000)


class Body(BaseModel):
    number: int


@pytest.fixture(scope="module")
def client():
    router, token = APIRouter(), Token("secret")

    @router.get("/api/thing")
    async def thing() -> dict[str, int]:
        return {"number": 1}

    @router.post("/api/thing")
    async def send(body: Body) -> dict[str, int]:
        return {"number": body.number}

    @router.post("/api/write")
    async def write(request: Request) -> dict[str, str]:
        token.check(request)
        return {"wrote": "it"}

    @router.get("/api/fails/{how}")
    async def fails(how: str) -> None:
        raise {
            "mistake": ConfigError("is wrong", where="train.rate", cure="make it right"),
            "fault": Fault("the disk is full"),
            "bug": ZeroDivisionError("oh"),
        }[how]

    app = create_application("test", [router], limits=LIMITS)
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


def error(response):
    return response.json()["error"]


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "127.0.0.1", "LOCALHOST"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/api/thing", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "10.0.0.1:8000"])
def test_a_name_that_another_site_has_bound_to_this_machine_is_refused(client, host):
    response = client.get("/api/thing", headers={"host": host})
    assert response.status_code == 421
    assert "is not this service" in error(response)["message"]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_request_from_another_origin_is_refused(client, headers):
    assert client.post("/api/thing", json={"number": 1}, headers=headers).status_code == 403
    assert client.get("/api/thing", headers=headers).status_code == 403


def test_a_request_of_the_page_itself_is_answered(client):
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.post("/api/thing", json={"number": 1}, headers=headers).json() == {"number": 1}


def test_a_body_that_a_form_could_send_is_refused(client):
    response = client.post("/api/thing", content='{"number": 1}', headers={"content-type": "text/plain"})
    assert response.status_code == 415


def test_a_large_body_is_refused_with_and_without_its_length(client):
    assert client.post("/api/thing", json={"number": 1, "more": "x" * 2000}).status_code == 413
    parts = (b" " * 400 for _ in range(5))
    response = client.post("/api/thing", content=parts, headers={"content-type": "application/json"})
    assert response.status_code == 413


def test_a_body_that_does_not_arrive_is_given_up():
    async def never():
        await asyncio.Event().wait()

    scope = {"headers": [], "type": "http"}
    with pytest.raises(HTTPError, match="did not arrive") as raised:
        asyncio.run(read_body(scope, never, Limits(body_seconds=0.01)))
    assert raised.value.status == 408


def test_a_wrong_body_is_an_error_in_the_one_form(client):
    response = client.post("/api/thing", json={"number": "many"})
    assert response.status_code == 422
    assert error(response)["message"].startswith("number: ")


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        ("mistake", 400, "train.rate: is wrong"),
        ("fault", 500, "the disk is full"),
        ("bug", 500, "ZeroDivisionError: oh"),
    ],
)
def test_every_error_has_a_message_and_a_cure(client, how, status, message):
    response = client.get(f"/api/fails/{how}")
    assert response.status_code == status
    assert error(response)["message"] == message
    assert response.headers["content-security-policy"].startswith("default-src 'none'")


def test_what_is_not_there_is_an_error_in_the_one_form(client):
    assert client.get("/docs").status_code == client.get("/openapi.json").status_code == 404
    assert error(client.get("/nothing"))["message"]


def test_responses_carry_the_security_headers(client):
    headers = client.get("/api/thing").headers
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"


def test_writing_needs_the_token(client):
    assert client.post("/api/write", json={}).status_code == 403
    assert client.post("/api/write", json={}, headers={"x-weft-token": "secreT"}).status_code == 403
    assert client.post("/api/write", json={}, headers={"x-weft-token": "sécret".encode()}).status_code == 403
    assert client.post("/api/write", json={}, headers={"x-weft-token": "secret"}).json() == {"wrote": "it"}


def test_too_many_requests_are_refused_until_time_has_passed():
    now = [0.0]
    limit = RateLimit(2.0, 3, clock=lambda: now[0])
    for _ in range(3):
        limit.take()
    with pytest.raises(HTTPError) as raised:
        limit.take()
    assert raised.value.status == 429
    now[0] = 0.5
    limit.take()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.org", ""])
def test_only_the_loopback_address_is_listened_on(host):
    with pytest.raises(ConfigError, match="would let others"):
        check_loopback(host)


def test_a_port_that_is_taken_is_one_line():
    with listen().socket as taken, pytest.raises(Fault, match="cannot listen"):
        listen(port=taken.getsockname()[1])
