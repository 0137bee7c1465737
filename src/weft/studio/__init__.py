"""The studio: a local web application that shows runs, and what happens inside them."""

__all__: list[str] = []
