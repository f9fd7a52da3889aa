"""Reading an upload: to the disk as it comes, bounded in size and in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import BodyPartReader, web

from pipeline.errors import (
    BodyTooLargeError,
    InvalidRequestError,
    MalformedError,
    RequestTimedOutError,
    UnsupportedMediaError,
)
from pipeline.gateway.context import gateway_of, principal_of
from pipeline.gateway.openai.file_store import FileStore, StoredFile, new_file_id
from pipeline.gateway.openai.whole_file import settle
from pipeline.settings import GatewaySettings

_T = TypeVar("_T")
PURPOSE: Final = "batch"
_FIELDS: Final = ("purpose", "expires_after[anchor]", "expires_after[seconds]")
_LONGEST_FIELD, _LONGEST_FILENAME = 256, 255
_LEAST_TTL: Final = 3600
_CHUNK: Final = 64 * 1024


@dataclass(slots=True)
class _Form:
    """What came.

    Attributes:
        size: of the file; ``None`` before there was any.
    """

    fields: dict[str, str] = field(default_factory=dict[str, str])
    filename: str = "upload"
    size: int | None = None


async def uploaded(request: web.Request, files: FileStore) -> StoredFile:
    """The file of a multipart form, kept.

    Raises:
        UnsupportedMediaError, MalformedError: it is no such form.
        BodyTooLargeError, RequestTimedOutError: the file is too large, or does not come.
        InvalidRequestError: names the field.
    """
    settings, file_id = gateway_of(request).settings.gateway, new_file_id()
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UnsupportedMediaError("a file comes unpacked", field="Content-Encoding")
    if not request.content_type.startswith("multipart/"):
        raise UnsupportedMediaError("a file comes as multipart/form-data", field="Content-Type")
    try:
        form = await _form(request, files, file_id, settings)
        now = int(time.time())
        if form.size is None:
            raise InvalidRequestError("there is no file", field="file")
        if form.fields.get("purpose") != PURPOSE:
            raise InvalidRequestError(f"purpose can be {PURPOSE} only", field="purpose")
        tenant, ttl = principal_of(request).tenant, _ttl(form, settings)
        file = StoredFile(file_id, tenant, form.filename, PURPOSE, form.size, now, now + ttl)
        await asyncio.to_thread(files.keep, file)
        return file
    except BaseException:
        for path in (files.part(file_id), files.data(file_id)):
            await asyncio.to_thread(path.unlink, missing_ok=True)
        raise


async def _form(request: web.Request, files: FileStore, file_id: str, settings: GatewaySettings) -> _Form:
    form = _Form()
    try:
        reader = await request.multipart()
        while (part := await _in_time(reader.next(), settings)) is not None:
            if not isinstance(part, BodyPartReader):
                raise MalformedError("a form within the form", field="file")
            if part.name == "file" and form.size is None:
                form.filename = (part.filename or form.filename)[:_LONGEST_FILENAME]
                form.size = await _receive(part, files, file_id, settings)
            elif part.name in _FIELDS:
                form.fields[part.name] = await _text(part, settings)
            else:
                raise InvalidRequestError("there is no such field", field=(part.name or "body")[:64])
    except (ValueError, web.RequestPayloadError) as error:
        raise MalformedError(f"the form can not be read: {error}") from error
    return form


async def _receive(part: BodyPartReader, files: FileStore, file_id: str, settings: GatewaySettings) -> int:
    size, most = 0, settings.file_limit
    file = await asyncio.to_thread(files.part(file_id).open, "xb")
    try:
        while chunk := await _in_time(part.read_chunk(_CHUNK), settings):
            size += len(chunk)
            if size > most:
                raise BodyTooLargeError(f"a file has at most {most:,} bytes", field="file")
            await asyncio.to_thread(file.write, chunk)
        await asyncio.to_thread(settle, file)
    finally:
        await asyncio.to_thread(file.close)
    await asyncio.to_thread(files.part(file_id).replace, files.data(file_id))
    return size


async def _text(part: BodyPartReader, settings: GatewaySettings) -> str:
    text = b""
    while chunk := await _in_time(part.read_chunk(_LONGEST_FIELD), settings):
        text += chunk
        if len(text) > _LONGEST_FIELD:
            raise InvalidRequestError("is too long", field=part.name)
    return text.decode("utf-8", "replace")


async def _in_time(reading: Awaitable[_T], settings: GatewaySettings) -> _T:
    try:
        return await asyncio.wait_for(reading, settings.read_timeout)
    except TimeoutError:
        raise RequestTimedOutError(
            f"nothing more of the file came within {settings.read_timeout:g} s"
        ) from None


def _ttl(form: _Form, settings: GatewaySettings) -> int:
    """
    Raises:
        InvalidRequestError: names the field.
    """
    most = round(settings.file_ttl)
    seconds = form.fields.get("expires_after[seconds]")
    if seconds is None:
        return most
    if form.fields.get("expires_after[anchor]") != "created_at":
        raise InvalidRequestError("expires_after.anchor is created_at", field="expires_after.anchor")
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 10):
        raise InvalidRequestError("must be a number", field="expires_after.seconds")
    if not min(_LEAST_TTL, most) <= int(seconds) <= most:
        raise InvalidRequestError(f"must be {_LEAST_TTL} to {most}", field="expires_after.seconds")
    return int(seconds)
