"""How long to wait before a call of the model server is repeated. Pure: the dice are passed in."""

from __future__ import annotations

from pipeline.settings import HttpEngineSettings

_MOST_DOUBLINGS = 30


def delay_before(
    failed: int, options: HttpEngineSettings, uniform: float, retry_after: float | None = None
) -> float:
    """Seconds to wait after so many failures before: doubling, with half of it left to chance.

    The server's Retry-After can only make the wait longer.

    Args:
        failed: failed attempts before the last one: 0 after the first.
        uniform: in [0, 1), so that samples that failed together come apart.
    """
    full = min(options.retry_delay * 2 ** min(failed, _MOST_DOUBLINGS), options.retry_delay_most)
    return max(full * (0.5 + 0.5 * uniform), retry_after or 0.0)
