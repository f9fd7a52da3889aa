"""From the images of a task to what a model is shown: read, checked, and cut by the prompt path."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from pipeline.errors import BadImageError

_MOST_PIXELS = 40_000_000
_LARGEST_FILE = 32 * 1024 * 1024
_BY_PATH = b"file:"


def read_images(images: Sequence[bytes], folder: Path | None) -> list[Image.Image]:
    """The images in RGB.

    Args:
        images: each an encoded file, or ``file:`` and a path below ``folder``.

    Raises:
        BadImageError: says which one and why.
    """
    return [_read(data, number, folder) for number, data in enumerate(images)]


def views(path: str, images: Sequence[Image.Image]) -> list[Image.Image]:
    """What a prompt path shows: each image whole, followed by its parts if the path has any.

    The centre is half as wide and high as the image; quarters overlap by nothing.
    """
    shown: list[Image.Image] = []
    for image in images:
        width, height = image.size
        middle, half = (max(1, width // 2), max(1, height // 2)), (width // 4, height // 4)
        shown.append(image)
        if path == "whole_and_centre":
            shown.append(image.crop((half[0], half[1], half[0] + middle[0], half[1] + middle[1])))
        elif path == "whole_and_quarters" and width > 1 and height > 1:
            across, down = (0, middle[0], width), (0, middle[1], height)
            shown += [
                image.crop((across[x], down[y], across[x + 1], down[y + 1])) for y in (0, 1) for x in (0, 1)
            ]
    return shown


def _read(data: bytes, number: int, folder: Path | None) -> Image.Image:
    if data.startswith(_BY_PATH):
        data = _from_folder(data.removeprefix(_BY_PATH), number, folder)
    try:
        image = Image.open(io.BytesIO(data))
        if image.width * image.height > _MOST_PIXELS:
            raise BadImageError(f"images[{number}] has more than {_MOST_PIXELS:,} pixels", field="images")
        return image.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BadImageError(f"images[{number}] can't be read: {error}", field="images") from error


def _from_folder(name: bytes, number: int, folder: Path | None) -> bytes:
    if folder is None:
        message = f"images[{number}] names a file, and TALLYSTREAM_ENGINE__IMAGE_FOLDER is not set"
        raise BadImageError(message, field="images")
    try:
        root = folder.resolve(strict=True)
        path = (root / name.decode()).resolve(strict=True)
        # After following every link: a link out of the folder is no way out.
        if path.is_relative_to(root) and path.is_file() and path.stat().st_size <= _LARGEST_FILE:
            return path.read_bytes()
    except (OSError, ValueError):
        pass
    # Whether a file outside exists is nobody's business, so all refusals sound alike.
    message = f"images[{number}] is no file of at most {_LARGEST_FILE:,} bytes below the folder of images"
    raise BadImageError(message, field="images")
