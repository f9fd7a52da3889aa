"""How Abacus is trained."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.abacus.problems import NOISE


@dataclass(frozen=True, slots=True)
class Training:
    """How long and how fast; ``rate`` rises for ``warm`` steps, and falls to nothing over the last ``cooling`` ones."""

    steps: int = 966
    batch: int = 32
    rate: float = 3e-3
    warm: int = 50
    cooling: int = 250
    seed: int = 20_261
    noise: float = NOISE

    def rate_at(self, step: int) -> float:
        """Times ``rate``."""
        return min(1.0, (step + 1) / self.warm, (self.steps - step) / self.cooling)
