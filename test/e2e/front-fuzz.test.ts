// The front before a real workerd, under requests that are made to be read in two ways: none may reach workerd without the address of its client.
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { expect, it } from "vitest";
import * as z from "zod";
import { freePort } from "../../scripts/coordinator-process.ts";
import { listenInFront } from "../../scripts/front.ts";
import { Random } from "../simulation/random.ts";
import { finallyDo } from "../support/finally.ts";

const ADDRESS = "203.0.113.7";
const CONNECTIONS = 3_000;
const AT_ONCE = 16;
/** How long a connection is left open for answers, ms. Most are ended before by the front or by workerd. */
const OPEN_MS = 60;

/** Counts the requests, and tells those whose last address is another one. */
const COUNTER = `let seen = 0, wrong = [];
export default { async fetch(request) {
  if (request.url.endsWith("/counts")) return Response.json({ seen, wrong });
  seen++;
  const address = request.headers.get("x-peer")?.split(",").at(-1).trim();
  if (address !== "${ADDRESS}") wrong.push(request.method + " " + request.url + " " + address);
  await request.arrayBuffer().catch(() => {});
  return new Response("ok");
} };`;
const Counts = z.object({ seen: z.int(), wrong: z.array(z.string()) });

const HIDDEN = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
const NEWLINES = ["\r\n", "\n", "\r", "\n\r\n", "\r\r\n", "\r\n "];
const CODINGS = ["Chunked", "chunked ", "\tchunked", "chunked, chunked", "gzip, chunked", "identity", "xchunked", "chunked\x0b"];
const LENGTH_NAMES = ["content-length", "Content-Length ", " Content-Length", "Content_Length", "X: y\rContent-Length"];
const CODING_NAMES = ["transfer-encoding", "Transfer-Encoding ", " Transfer-Encoding", "X: y\nTransfer-Encoding", "X: y\rTransfer-Encoding"];
const OTHER_LINES = ["Upgrade: websocket", "X: \0", "X: a\r\n b", ": x", "NoColon", "Expect: 100-continue", "x-peer: 1.2.3.4", "Content-Length: 3"];
const LAST_CHUNKS = ["00\r\n\r\n", "0\n\n", "0\r\nX: a\r\n\r\n", `0\r\n${HIDDEN}`, "0;x\r\n\r\n"];

/** A request in which each part is now and then another one than the usual. */
function request(random: Random): string {
  const isClean = random.chance(0.6);
  const usually = (usual: string, others: readonly string[]): string => (isClean || random.chance(0.7) ? usual : random.pick(others));
  const text = random.pick(["", "abc", HIDDEN, `\r\n\r\n${HIDDEN}`, `0\r\n\r\n${HIDDEN}`]);
  const size = text.length.toString(16);
  const chunk = `${usually(size, [`0${size}`, ` ${size}`, `${size};a=b`, `0x${size}`, "ffffffff", ""])}\r\n${text}${usually("\r\n", NEWLINES)}`;
  const isChunked = random.chance(0.5);
  const body = isChunked ? `${text === "" ? "" : chunk}${usually("0\r\n\r\n", LAST_CHUNKS)}` : text;
  const length = usually(String(text.length), [`0${text.length}`, `+${text.length}`, `${text.length}, 3`, "0", String(text.length + 1), ""]);
  const line = isChunked
    ? `${usually("Transfer-Encoding", CODING_NAMES)}: ${usually("chunked", CODINGS)}`
    : `${usually("Content-Length", LENGTH_NAMES)}: ${length}`;
  const newline = usually("\r\n", NEWLINES);
  const lines = [usually("POST / HTTP/1.1", ["GET / HTTP/1.1", "HEAD / HTTP/1.1", "POST / HTTP/1.0", "OPTIONS * HTTP/1.1"]), "Host: a", line];
  const other = usually("", OTHER_LINES);
  return [...lines, ...(other === "" ? [] : [other]), "", body].join(newline);
}

it("[LM2] no request reaches workerd without the address of its client, however its head and its body are written", async () => {
  const to = await freePort();
  const worker = { name: "counter", compatibilityDate: "2026-09-01", modules: [{ type: "ESModule" as const, path: "main.js", contents: COUNTER }] };
  const sockets = { unsafeDirectSockets: [{ host: "127.0.0.1", port: to }] };
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({ host: "127.0.0.1", port: 0, cf: false, telemetry: { enabled: false }, workers: [{ ...worker, ...sockets }] }),
  );
  finallyDo(() => miniflare.dispose());
  await miniflare.ready;
  const options = {
    host: "127.0.0.1",
    port: 0,
    to: { host: "127.0.0.1", port: to },
    most: 100,
    limitsClients: false,
    trustedIpHeader: null,
    peerHeader: "x-peer",
    channel: null,
  };
  const tuning = { now: () => performance.now(), sweepMs: 5_000, mostStalled: 100, addressOf: () => ADDRESS };
  const front = await listenInFront({ ...options, messages: { perSecond: 50, burst: 200 } }, tuning);
  finallyDo(() => void front.close());
  const { port } = z.object({ port: z.int() }).parse(front.address());

  const random = new Random(1);
  let opened = 0;
  const client = async (): Promise<void> => {
    while (opened++ < CONNECTIONS) {
      const socket = connect({ host: "127.0.0.1", port });
      const ended = once(socket, "close").catch(() => {});
      socket.on("error", () => {}).resume();
      const bytes = Buffer.from(`${Array.from({ length: random.between(1, 3) }, () => request(random)).join("")}${HIDDEN}`, "latin1");
      const pieces = random.chance(0.3) ? random.between(1, 40) : bytes.length;
      for (let from = 0; from < bytes.length; from += pieces) socket.write(bytes.subarray(from, from + pieces));
      await Promise.race([ended, delay(OPEN_MS)]);
      socket.destroy();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  const { seen, wrong } = Counts.parse(await (await fetch(`http://127.0.0.1:${to}/counts`)).json());
  expect(wrong).toEqual([]);
  expect(seen).toBeGreaterThan(CONNECTIONS / 2);
});
