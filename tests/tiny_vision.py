"""A tiny random image-text model in the shape of LLaVA, and images to show it."""

from __future__ import annotations

import io
from pathlib import Path

import torch
from PIL import Image
from transformers import (
    CLIPImageProcessorPil,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from tests.tiny_model import tiny_llama, tiny_tokenizer

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
SIDE, PATCH = 16, 8


def build_tiny_vision(folder: Path, seed: int = 0) -> Path:
    """Write model and processor into ``folder``; an image is four tokens."""
    tokenizer = tiny_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    size = {"height": SIDE, "width": SIDE}
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=size),
        tokenizer=tokenizer,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        chat_template=CHAT_TEMPLATE,
        num_additional_image_tokens=1,
    )
    text = tiny_llama(vocabulary=len(tokenizer)).config
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=SIDE,
        patch_size=PATCH,
        initializer_range=1.0,
    )
    config = LlavaConfig(
        vision_config=vision, text_config=text, image_token_id=tokenizer.convert_tokens_to_ids("<image>")
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlavaForConditionalGeneration(config).eval()
    processor.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def picture(color: str = "red", *, side: int = 32, corner: str | None = None) -> bytes:
    """A PNG of one colour, with its lower right quarter in another if asked."""
    image = Image.new("RGB", (side, side), color)
    if corner is not None:
        image.paste(Image.new("RGB", (side // 2, side // 2), corner), (side // 2, side // 2))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
