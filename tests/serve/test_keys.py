"""API keys: where they come from, what they open, and where a server needs them."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.serve.conftest import ADDRESS, settings_of

from weft.errors import ConfigError
from weft.serve.keys import VARIABLE, read_keys
from weft.serve.server import create_server
from weft.serve.settings import name_runs

KEY, OTHER = "a-key-of-these-tests", "another-key-of-them"


def test_keys_come_from_a_file_and_the_environment(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"# ours\n{KEY}  # the first\n\n")
    assert read_keys(file, {VARIABLE: f"{OTHER}, {KEY}"}) == (OTHER, KEY)
    assert read_keys(None, {}) == ()


@pytest.mark.parametrize("content", ["", "# none\n", "short\n", "two words are no key\n", "schlüssel-mit-umlaut\n"])
def test_a_file_without_good_keys_is_one_line(tmp_path, content):
    file = tmp_path / "keys"
    file.write_text(content)
    with pytest.raises(ConfigError, match="key"):
        read_keys(file, {})


def test_a_request_needs_a_key_but_a_probe_does_not(runs):
    app = create_server(settings_of(runs, "kinds", keys=(KEY, OTHER)))
    with TestClient(app, base_url="http://models.example") as client:
        body = {"inputs": ["the red here"]}
        for given in (None, "", "Bearer", f"Bearer {KEY}x", f"Basic {KEY}", KEY, f"Bearer {KEY} {OTHER}"):
            headers = {} if given is None else {"authorization": given}
            for response in (
                client.post("/v1/predict", json=body, headers=headers),
                client.get("/metrics", headers=headers),
            ):
                assert response.status_code == 401
                assert response.headers["www-authenticate"] == "Bearer"
                assert response.json()["error"]["type"] == "authentication_error"
                assert KEY not in response.text
        for key in (KEY, OTHER):
            assert client.post("/v1/predict", json=body, headers={"authorization": f"bearer {key}"}).status_code == 200
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "models.example"])
def test_another_address_needs_keys(runs, host):
    with pytest.raises(ConfigError, match="without API keys everybody"):
        create_server(settings_of(runs, "kinds", host=host))


def test_the_command_refuses_in_one_line(weft, runs, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    found = weft("serve", str(runs["kinds"]), "--host", "0.0.0.0")
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert "--keys FILE or WEFT_API_KEYS" in found.err


def test_models_have_names(runs, tmp_path):
    folder = runs["kinds"]
    assert name_runs([str(folder)])[0].name == "kinds"
    assert name_runs([f"my-model={folder}"])[0] == ("my-model", folder)
    with pytest.raises(ConfigError, match="the name of two models"):
        name_runs([str(folder), f"kinds={folder}"])
    assert ADDRESS


def test_a_run_that_is_not_there_is_one_line(weft):
    found = weft("serve", "a=nothing", "--port", "0")
    assert found.code == 2
    assert "nothing: " in found.err
    assert found.err.count("\n") == 1
