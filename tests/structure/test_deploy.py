"""deploy/: its files agree with each other and with weft serve, and pass the linters that are installed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
UNIT = (DEPLOY / "weft-serve.service").read_text(encoding="utf-8")
MANIFESTS: dict[str, Any] = {
    found["kind"]: found for found in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
}
POD = MANIFESTS["Deployment"]["spec"]["template"]["spec"]
(SERVER,) = POD["containers"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each on one line."""
    code = "\n".join(line for line in CONTAINERFILE.splitlines() if not line.lstrip().startswith("#"))
    lines = re.sub(r"\\\n\s*", "", code).splitlines()
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def options_of_serve() -> set[str]:
    """The options of weft serve."""
    import typer

    from weft.cli.app import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if "serve" not in commands:
        pytest.skip("this weft has no command serve")
    return {name for parameter in commands["serve"].params for name in parameter.opts}


def unit(name: str) -> list[str]:
    """The values of a setting of the unit."""
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def tool(name: str) -> str:
    """The path of a linter: of make lint-deploy, or installed otherwise."""
    found = shutil.which(name, path=str(ROOT / ".venv-tools" / "bin")) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; make lint-deploy installs it")
    return found


def passes(*words: str) -> None:
    found = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


def test_all_three_pass_options_that_weft_serve_has():
    (command,) = (shlex.split(value) for value in unit("ExecStart"))
    words = [*command, *SERVER["args"], *re.findall(r'"(--[a-z-]+)"', CONTAINERFILE)]
    used = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert {"--host", "--port", "--keys", "--drain"} <= used
    assert used <= options_of_serve()


def test_the_image_has_no_rights_and_no_secrets():
    found = instructions()
    users = [value for name, value in found if name == "USER"]
    assert users[-1] == "10001:10001"
    assert found.index(("USER", users[-1])) > max(i for i, (name, _) in enumerate(found) if name in ("RUN", "COPY"))
    assert [value for name, value in found if name == "ENTRYPOINT"] == ['["weft", "serve"]']
    assert all("${PYTHON}" in value for name, value in found if name == "FROM")
    assert not re.search(r"^(ENV|ARG) .*(KEY|TOKEN|PASSWORD)", CONTAINERFILE, re.MULTILINE)
    assert "--require-hashes" in CONTAINERFILE
    assert "/healthz" in next(value for name, value in found if name == "HEALTHCHECK")


def test_what_is_copied_is_there_and_sent_to_the_builder():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[0] == "!"}
    for name, value in instructions():
        if name == "COPY" and "--from" not in value:
            *sources, _ = value.split()
            assert set(sources) <= kept
            assert all((ROOT / source).exists() for source in sources)
    for lock in re.findall(r"locks/[a-z]+\.txt", CONTAINERFILE):
        assert (ROOT / lock).exists()


def test_a_pod_has_the_user_of_the_image_and_no_rights():
    assert POD["securityContext"]["runAsUser"] == 10001
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = SERVER["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert POD["automountServiceAccountToken"] is False
    written = {mount["name"] for mount in SERVER["volumeMounts"] if not mount.get("readOnly")}
    assert written == {"tmp"}
    assert {mount["name"] for mount in SERVER["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}


def test_probes_and_times_of_a_pod_fit_the_server():
    assert SERVER["readinessProbe"]["httpGet"]["path"] == SERVER["startupProbe"]["httpGet"]["path"] == "/readyz"
    assert SERVER["livenessProbe"]["httpGet"]["path"] == "/healthz"
    (drain,) = (int(word.partition("=")[2]) for word in SERVER["args"] if word.startswith("--drain="))
    (pause,) = (int(word) for word in SERVER["lifecycle"]["preStop"]["exec"]["command"] if word.isdecimal())
    assert POD["terminationGracePeriodSeconds"] >= pause + drain + 5
    (port,) = SERVER["ports"]
    assert f"--port={port['containerPort']}" in SERVER["args"]
    keys = next(word.partition("=")[2] for word in SERVER["args"] if word.startswith("--keys="))
    assert Path(keys).parent == Path(
        next(mount["mountPath"] for mount in SERVER["volumeMounts"] if mount["name"] == "keys")
    )


def test_the_manifests_mean_the_same_pods():
    labels = MANIFESTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert MANIFESTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["Service"]["spec"]["selector"] == labels
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert MANIFESTS["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert MANIFESTS["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == "weft"
    assert MANIFESTS["HorizontalPodAutoscaler"]["spec"]["minReplicas"] == MANIFESTS["Deployment"]["spec"]["replicas"]
    assert MANIFESTS["PodDisruptionBudget"]["spec"]["minAvailable"] < MANIFESTS["Deployment"]["spec"]["replicas"]


def test_the_unit_gives_the_drain_its_time_and_the_server_nothing_else():
    (command,) = unit("ExecStart")
    drain = int(command.split("--drain ")[1].split()[0])
    assert int(unit("TimeoutStopSec")[0]) >= drain + 5
    for name, value in (("DynamicUser", "yes"), ("ProtectSystem", "strict"), ("NoNewPrivileges", "yes")):
        assert unit(name) == [value]
    assert unit("CapabilityBoundingSet") == [""]
    assert "%d/keys" in command
    assert unit("LoadCredential") == ["keys:/etc/weft/keys"]


def test_hadolint_finds_nothing():
    passes(tool("hadolint"), "deploy/Containerfile")


def test_yamllint_finds_nothing():
    passes(tool("yamllint"), "--strict", "--config-file", "deploy/yamllint.yaml", "deploy")


def test_the_manifests_have_the_fields_of_kubernetes():
    passes(tool("kubernetes-validate"), "--quiet", "--strict", "deploy/kubernetes.yaml")


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is of Linux")
def test_systemd_reads_the_unit(tmp_path):
    path = tmp_path / "weft-serve.service"
    path.write_text(UNIT.replace("/opt/weft/bin/weft", "/bin/true"), encoding="utf-8")
    passes(tool("systemd-analyze"), "verify", str(path))
    passes(tool("systemd-analyze"), "security", "--offline=yes", "--no-pager", "--threshold=15", str(path))
