"""Tallystream: several model samples, one vote, one durable answer."""

__version__ = "0.1.0"
