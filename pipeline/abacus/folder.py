"""Where Abacus is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "abacus"
"""What ``TALLYSTREAM_MODEL`` says to use it."""
FOLDER: Final = Path(__file__).parent / "model"
