"""Files that were once answered with something else than a result or an error of weft's; each stays mended."""

from __future__ import annotations

REGRESSIONS: list[tuple[str, bytes]] = [
    ("config.json", b"[" * 100_000),
    ("config.toml", b"x = " + b"[" * 100_000 + b"]" * 100_000),
    ("config.toml", b"seed = " + b"9" * 5000),
    ("config.json", b'{"seed": ' + b"9" * 5000 + b"}"),
    ("config of a run", b'{"task": ["classify"]}'),
    ("labels", b"[" * 100_000),
    ("manifest", b'{"format_version": "1", "sha256": {}}'),
    ("labelled.json", b"[" * 100_000),
    ("labelled.jsonl", b'{"text": ' + b"[" * 100_000),
]
