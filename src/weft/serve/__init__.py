"""The parts of an HTTP service that the studio and the server share: application, checks, limits, event streams."""

__all__: list[str] = []
