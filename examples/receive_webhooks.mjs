// Take callbacks: WEBHOOK_SECRET=whsec_… node receive_webhooks.mjs PORT SEEN.txt (nothing to install)

import { createHmac, timingSafeEqual } from "node:crypto";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";

const [port, file] = process.argv.slice(2);
const secret = Buffer.from(process.env.WEBHOOK_SECRET.replace(/^whsec_/, ""), "base64");
const tolerance = 300, largest = 8 * 1024 * 1024;
const seen = new Set(existsSync(file) ? readFileSync(file, "utf8").split("\n") : []);

/** Whether we were meant, lately: one of the signatures is that of these very bytes. */
function isOurs(headers, body) {
  const stamp = headers["webhook-timestamp"] ?? "";
  if (!/^\d+$/.test(stamp) || Math.abs(Date.now() / 1000 - Number(stamp)) > tolerance) return false;
  const hmac = createHmac("sha256", secret).update(`${headers["webhook-id"] ?? ""}.${stamp}.`).update(body);
  const right = Buffer.from("v1," + hmac.digest("base64"));
  return (headers["webhook-signature"] ?? "").split(" ").some((each) => {
    const given = Buffer.from(each);
    return given.length === right.length && timingSafeEqual(given, right);
  });
}

const server = createServer(async (request, response) => {
  const answer = (status) => response.writeHead(status, { "content-length": 0 }).end();
  if (Number(request.headers["content-length"] ?? 0) > largest) return answer(413);
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  const body = Buffer.concat(pieces);
  if (!isOurs(request.headers, body)) return answer(401);
  const id = request.headers["webhook-id"];
  if (!seen.has(id)) {
    // In a database the id and your own work belong into one transaction: both are done, or none.
    const event = JSON.parse(body);
    console.log(event.type, event.data.request_id, event.data.answer);
    appendFileSync(file, id + "\n");
    seen.add(id);
  }
  answer(204); // a repeat is answered as the first time, and done once
});
server.listen(Number(port), "127.0.0.1", () => console.log("listening on", server.address().port));
