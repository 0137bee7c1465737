"""Marks that the tables of all benchmarks use."""

NOTHING = "-"
"""A cell of a table without a figure to show."""
