"""What a model of transformers is like where that limits what the slot engine can promise for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pipeline.errors import ModelLoadError

_ROUTED: Final = ("expert", "router", "moe")
"""What parameters of layers are called that send each token another way."""
_LIMITS: Final = ("max_position_embeddings", "sliding_window")
_AT_FIRST: Final = "original_max_position_embeddings"


def limits(config: Any) -> Iterable[int]:
    """Tokens of prompt and answer beyond which rows of a model with this text configuration would go wrong.

    Longrope turns all keys of a forward by other angles as soon as one row is longer than the model was made for at
    first; what has been read before, and its neighbours, would have the wrong ones.
    """
    values: list[Any] = [getattr(config, name, None) for name in _LIMITS]
    rope: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    kinds: list[Any] = [rope, *rope.values()]  # one for all layers, or one for each kind of them
    for each in kinds:
        if _is_longrope(each):
            values.append(each.get(_AT_FIRST) or getattr(config, _AT_FIRST, None))
    return (value for value in values if isinstance(value, int) and value > 0)


def _is_longrope(rope: Any) -> bool:
    return hasattr(rope, "get") and "longrope" in (rope.get("rope_type"), rope.get("type"))


def caps_scores(model: Any) -> bool:
    """Whether it wants its attention's scores capped."""
    return getattr(model.config.get_text_config(), "attn_logit_softcapping", None) is not None


def require_same_bits(model: Any) -> None:
    """Check that a row's numbers can be the same whatever its neighbours are.

    Raises:
        ModelLoadError: says what of the model makes them differ.
    """
    why = ""
    if any(word in name.lower() for name, _ in model.named_parameters() for word in _ROUTED):
        why = "routes tokens to experts, whose sums depend on how many tokens each gets"
    elif caps_scores(model):
        why = "caps its attention's scores, for which there is no kernel whose sums keep their order"
    if why:
        message = f"This model {why}: set TALLYSTREAM_ENGINE__DETERMINISTIC=false"
        raise ModelLoadError(message, field="engine.deterministic")
