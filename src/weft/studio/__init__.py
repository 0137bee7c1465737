"""The studio: a local web application that shows runs, and what happens inside them."""

from weft.studio.app import create_app

__all__ = ["create_app"]
