"""A secret that a request must carry to write or to train."""

from __future__ import annotations

import secrets
from typing import Final

from fastapi import Request

from weft.serve.errors import HTTPError

HEADER: Final = "x-weft-token"


class Token:
    """Compares the header of a request with the secret, in a time that does not depend on where they differ."""

    def __init__(self, secret: str | None) -> None:
        self.secret = secret

    def check(self, request: Request) -> None:
        """Raise unless the request carries the secret; without a secret nothing may be written."""
        if self.secret is None:
            raise HTTPError(403, "this service changes nothing", cure="start it with a token")
        given = request.headers.get(HEADER, "")
        if not secrets.compare_digest(given.encode(), self.secret.encode()):
            raise HTTPError(403, "the token is missing or wrong", cure="open the address that was printed at the start")
