"""The page's scripts and styles, held in memory: nothing is looked up on disk by a name that came from outside."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from pipeline.errors import NotFoundError
from pipeline.gateway.access import public

_FOLDER = Path(__file__).parent / "static"
_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    content_type: str
    version: str


def _read() -> dict[str, _File]:
    return {
        path.relative_to(_FOLDER).as_posix(): _File(
            body := path.read_bytes(), _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:12]
        )
        for path in sorted(_FOLDER.rglob("*"))
        if path.suffix in _TYPES
    }


_FILES = _read()


def static_url(name: str) -> str:
    """Where a file is; the URL changes with its content, so that a browser may keep it for ever."""
    return f"/static/{name}?v={_FILES[name].version}"


@public
async def static_file(request: web.Request) -> web.Response:
    """One file; the sign-in page needs them, so anybody may have them."""
    file = _FILES.get(request.match_info["name"])
    if file is None:
        raise NotFoundError("there is no such file")
    headers = {"Cache-Control": _FOR_EVER} if request.query.get("v") == file.version else {}
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)
