"""Take callbacks: WEBHOOK_SECRET=whsec_… python receive_webhooks.py PORT SEEN.db (nothing to install)."""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
TOLERANCE, LARGEST = 300, 8 * 1024 * 1024
seen = sqlite3.connect(sys.argv[2])
seen.execute("CREATE TABLE IF NOT EXISTS webhooks (id TEXT PRIMARY KEY)")


def is_ours(headers, body):
    """Whether we were meant, lately: one of the signatures is that of these very bytes."""
    stamp = headers.get("webhook-timestamp", "")
    if not stamp.isdecimal() or abs(time.time() - int(stamp)) > TOLERANCE:
        return False
    signed = f"{headers.get('webhook-id', '')}.{stamp}.".encode() + body
    right = b"v1," + base64.b64encode(hmac.digest(SECRET, signed, hashlib.sha256))
    given = headers.get("webhook-signature", "").encode().split()
    return any(hmac.compare_digest(each, right) for each in given)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        self.answer(self.taken())

    def taken(self):
        length = int(self.headers.get("content-length", 0))
        if length > LARGEST:
            return 413
        body = self.rfile.read(length)
        if not is_ours(self.headers, body):
            return 401
        with seen:  # your own work belongs into this transaction: both are done, or none
            new = seen.execute("INSERT OR IGNORE INTO webhooks VALUES (?)", [self.headers["webhook-id"]])
            if new.rowcount:
                event = json.loads(body)
                print(event["type"], event["data"]["request_id"], event["data"]["answer"], flush=True)
        return 204  # a repeat is answered as the first time, and done once

    def answer(self, status):
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver)
print("listening on", server.server_port, flush=True)
server.serve_forever()
