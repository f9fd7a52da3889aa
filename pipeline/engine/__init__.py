"""Engines draw samples: the contract (``base``), a continuous batcher (``slots``), a scripted one."""
