"""An image-text model of transformers: loading it, and turning messages and images into its inputs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from pipeline.engine.model import LoadedModel, end_tokens, require_packages, resolve
from pipeline.errors import BadImageError, BadMessagesError, EmptyPromptError, ModelLoadError
from pipeline.events import Message
from pipeline.settings import Settings, Weights


@dataclass(frozen=True, slots=True)
class VisionModel:
    """A model that is ready to run, and the processor that makes its inputs."""

    loaded: LoadedModel
    processor: Any

    def inputs(self, messages: Sequence[Message], images: Sequence[Image.Image]) -> dict[str, Any]:
        """The model's inputs for one prompt; the images stand before the text of the last user's turn.

        Raises:
            EmptyPromptError: there is nothing to answer.
            BadMessagesError: the chat template refuses the turns.
            BadImageError: the processor refuses the images.
        """
        if not any(turn.content.strip() for turn in messages if turn.role != "system"):
            raise EmptyPromptError("The prompt is empty")
        users = [index for index, turn in enumerate(messages) if turn.role == "user"]
        turns: list[dict[str, Any]] = []
        for index, turn in enumerate(messages):
            shown = len(images) if users and index == users[-1] else 0
            parts = [{"type": "image"}] * shown + [{"type": "text", "text": turn.content}]
            turns.append({"role": turn.role, "content": parts})
        try:
            text = self.processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        except Exception as error:
            raise BadMessagesError(f"The model's chat template refuses the messages: {error}") from error
        try:
            made = self.processor(
                text=text, images=list(images) or None, return_tensors="pt", add_special_tokens=False
            )
        except Exception as error:
            raise BadImageError(
                f"The model's processor refuses the images: {error}", field="images"
            ) from error
        return dict(made.to(self.loaded.model.device))


def load_vision_model(settings: Settings) -> VisionModel:
    """Load what ``settings.model`` names.

    Raises:
        ModelLoadError: no model is named, it is none that reads images, or weights are to be int8.
    """
    require_packages()
    if not settings.model:
        raise ModelLoadError("The engine vision has no default model: set TALLYSTREAM_MODEL", field="model")
    if settings.engine.weights is not Weights.FULL:
        message = "The engine vision has no int8 weights: set TALLYSTREAM_ENGINE__WEIGHTS=full"
        raise ModelLoadError(message, field="engine.weights")
    source = resolve(settings)
    transformers: Any = importlib.import_module("transformers")
    try:
        processor = transformers.AutoProcessor.from_pretrained(source)
        model = transformers.AutoModelForImageTextToText.from_pretrained(
            source, dtype=getattr(torch, settings.engine.dtype), attn_implementation="sdpa"
        )
    except Exception as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        message = f"The model {source} can't be loaded as one that reads images ({first})"
        raise ModelLoadError(message, field="model") from error
    model = model.to(settings.engine.device).eval()
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", settings.engine.context)
    context = min(settings.engine.context, limit)
    tokenizer = processor.tokenizer
    return VisionModel(LoadedModel(model, tokenizer, context, end_tokens(model, tokenizer)), processor)
