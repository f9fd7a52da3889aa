"""The ways to confine a program that work on this machine; each test runs with all of them."""

from __future__ import annotations

import sys

import pytest

from pipeline.sandbox.boundary import Way, failure

WHY = {way: failure(way) for way in Way} if sys.platform == "linux" else dict.fromkeys(Way, "needs Linux")
WORKING = [way for way in Way if WHY[way] is None]
NOTHING = pytest.mark.skip(reason=f"no program can be confined here: {WHY}")
WAYS = WORKING or [pytest.param(None, marks=NOTHING)]
needs_sandbox = pytest.mark.skipif(not WORKING, reason=f"no program can be confined here: {WHY}")
