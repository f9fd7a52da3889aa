"""Running programs that nobody trusts: `check_code` is the way in.

A program gets an interpreter of its own behind a boundary of the kernel: no network, no environment, a read-only file
system but a scratch folder, limits on everything it can use, and a filter over its system calls.
"""

from pipeline.sandbox.boundary import Way, available
from pipeline.sandbox.check import check_all, check_code

__all__ = ["Way", "available", "check_all", "check_code"]
