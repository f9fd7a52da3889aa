"""The fixtures of ``running``, by name."""

from tests.integration.running import asker, running

__all__ = ["asker", "running"]
