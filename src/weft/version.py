"""The version of weft, read by the package build and by `weft --version`."""

__version__ = "0.1.0"
