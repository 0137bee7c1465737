"""Closed-loop load: each client sends its next request when the last one is answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from weft.bench.serve.client import Client, NotAccepted, percentile

LEAVING: Final = 0.05
RETURNING: Final = 0.25
"""Seconds after which a client that leaves does so, and after which it comes again."""


@dataclass
class Load:
    """Answers, errors and latencies that the clients have counted."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Moments in seconds from the start, and the bytes of the server's processes at each."""
    repeated: int = 0
    """Requests that were sent again because no process had accepted them."""

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def latency(self, share: float) -> float:
        """The seconds within which this share of the answers came."""
        return percentile(self.latencies, share) if self.latencies else float("nan")

    def growth(self, *, after: float = 1 / 3) -> float:
        """How much memory grew after the first part of the time, as a share: the last third beside the middle one."""
        late = [bytes for moment, bytes in self.memory if moment >= after * self.seconds]
        half = len(late) // 2
        if half < 1:
            return float("nan")
        return (sum(late[half:]) / (len(late) - half)) / (sum(late[:half]) / half) - 1


async def run_load(
    url: str,
    bodies: Sequence[dict[str, Any]],
    *,
    path: str = "/v1/predict",
    clients: int,
    seconds: float,
    memory: Callable[[], int] | None = None,
    leaving: int = 0,
    again: bool = False,
) -> Load:
    """Send requests with so many clients. `leaving` clients more close their connections in the middle of a stream. A
    request that no process has accepted is sent `again`, or is an error."""
    found, began = Load(), time.monotonic()
    ends = began + seconds

    async def ask(number: int) -> None:
        client, step = Client(url), number
        while time.monotonic() < ends:
            body = bodies[step % len(bodies)]
            try:
                reply = await client.post(path, body)
            except NotAccepted:
                found.repeated += 1
                if not again:
                    found.errors.append("not accepted")
                await asyncio.sleep(0.02)
                continue
            except (OSError, asyncio.IncompleteReadError, ValueError, IndexError) as error:
                found.errors.append(type(error).__name__)
                client.close()
                continue
            if again and reply.status == 503:
                found.repeated += 1
                await asyncio.sleep(0.02)
                continue
            step += clients
            if reply.status == 200:
                found.latencies.append(reply.seconds)
            else:
                found.errors.append(f"{reply.status} {_message(reply.body)}")
        client.close()

    async def leave(number: int) -> None:
        while time.monotonic() < ends:
            body = {"input": bodies[number % len(bodies)]["inputs"][0]}
            with suppress(NotAccepted, OSError):
                await Client(url).leave("/v1/stream", body, after=LEAVING)
            await asyncio.sleep(RETURNING)

    async def watch() -> None:
        while memory is not None and time.monotonic() < ends:
            found.memory.append((time.monotonic() - began, memory()))
            await asyncio.sleep(max(0.2, seconds / 60))

    await asyncio.gather(watch(), *map(ask, range(clients)), *map(leave, range(leaving)))
    found.seconds = time.monotonic() - began
    return found


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])[:200]
    except (ValueError, KeyError, TypeError):
        return body[:100].decode("utf-8", "replace")
