"""A receiver of callbacks in a container of its own: a line of JSON for each, which the container's log keeps."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = {"id": self.headers["webhook-id"], "task": body["data"]["request_id"], "type": body["type"]}
        sys.stdout.write(json.dumps(told) + "\n")  # in one piece: several come at once
        sys.stdout.flush()
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
