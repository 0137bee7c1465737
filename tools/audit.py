"""Known vulnerabilities of the packages of a Python environment, by pip-audit, which has to be installed beside this.

    python tools/audit.py PATH/TO/ENVIRONMENT/bin/python

Leaves with 0 where every package was looked up and none is known to be vulnerable, with 1 where some are, and with 3
where the database could not be reached: then nothing is known. pip-audit alone leaves with 0 there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CLEAN, VULNERABLE, NOT_REACHED = 0, 1, 3
OWN = "weft"


def installed(python: str) -> list[str]:
    """NAME==VERSION of each package, as the index has it: a build of torch such as 2.13.0+cpu is its 2.13.0."""
    command = [python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [f"{one['name']}=={one['version'].partition('+')[0]}" for one in found if one["name"] != OWN]


def look_up(packages: list[str]) -> dict[str, Any] | None:
    """The findings of pip-audit; None if the database could not be reached."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        wanted.write_text("\n".join(packages), encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(wanted), "--no-deps", "--disable-pip"]
        command += ["--format=json", "--progress-spinner=off"]
        said = subprocess.run(command, capture_output=True, text=True).stdout
    return json.loads(said) if said.strip() else None


def judge(found: dict[str, Any] | None) -> tuple[list[str], int]:
    """Lines to print, and the exit code."""
    packages = found["dependencies"] if found else []
    asked = [one for one in packages if "skip_reason" not in one]
    if not asked:
        return ["audit: the database of vulnerabilities could not be reached, so nothing is known"], NOT_REACHED
    bad = [
        f"{one['name']} {one['version']}: {flaw['id']} (mended in {', '.join(flaw['fix_versions']) or 'no version'})"
        for one in asked
        for flaw in one["vulns"]
    ]
    lines = [f"audit: {len(asked)} packages looked up, {len(bad)} known vulnerabilities", *bad]
    if skipped := [one["name"] for one in packages if "skip_reason" in one]:
        lines.append(f"audit: not in the database, and so not looked up: {', '.join(skipped)}")
    return lines, VULNERABLE if bad else NOT_REACHED if skipped else CLEAN


def main() -> None:
    lines, code = judge(look_up(installed(sys.argv[1])))
    print("\n".join(lines))
    sys.exit(code)


if __name__ == "__main__":
    main()
