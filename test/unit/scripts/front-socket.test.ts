// Workers' sockets that end at the front, with a hub that answers when a test wants it to.
import { once } from "node:events";
import type { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { STALLED_MS } from "../../../scripts/front-stalls.ts";
import { QUIET_MS } from "../../../scripts/front-socket.ts";
import { CONNECTIONS_PER_CLIENT } from "../../../scripts/front-clients.ts";
import { CLOSING_MS, SILENT_MS } from "../../../scripts/front-passage.ts";
import { MESSAGE_MS } from "../../../scripts/frame-guard.ts";
import { type ChannelAnswer, LONG } from "../../../src/coordinator/http/channel-messages.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { CLOSE, HEARTBEAT, HEARTBEAT_ACK } from "../../../src/protocol/worker-messages.ts";
import { finallyDo } from "../../support/finally.ts";
import { ADDRESS, frontWithChannel, portOf } from "../../support/front.ts";
import { until } from "../../support/until.ts";

type Front = Awaited<ReturnType<typeof frontWithChannel>>;

const MASK = Buffer.alloc(4);
const PING = Buffer.concat([Buffer.from([0x89, 0x80]), MASK]);
const BEGUN = Buffer.concat([Buffer.from([0x01, 0x81]), MASK, Buffer.from("x")]);
const upgrade = (headers = "", line = "GET / HTTP/1.1"): string =>
  `${line}\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`;

/** Dials as a worker. `messages` is what it has got, `ended` how it ended. */
async function dial(front: Front, headers: Record<string, string> = {}) {
  const asked = front.asked().length;
  const socket = new WebSocket(`ws://127.0.0.1:${portOf(front.front)}/`, { headers });
  finallyDo(() => socket.terminate());
  const messages: string[] = [];
  let ended: [code: number, reason: string] | undefined;
  socket.on("error", () => {});
  socket.on("message", (data: Buffer) => messages.push(data.toString()));
  socket.once("close", (code, reason) => (ended = [code, reason.toString()]));
  const request = (await front.askedFor(asked + 1))[asked] ?? expect.unreachable();
  return { socket, messages, ended: () => until("its end", () => ended), request, id: request[0] };
}

/** The same for one that the hub takes. */
async function open(front: Front, headers: Record<string, string> = {}) {
  const worker = await dial(front, headers);
  front.answer([worker.id, 101, [], ""]);
  await once(worker.socket, "open");
  return worker;
}

/** A worker that the hub takes, byte by byte. */
async function openRaw(front: Front): Promise<{ socket: Socket; got: () => string; id: number }> {
  const raw = await front.dial();
  const asked = front.asked().length;
  raw.socket.write(upgrade());
  const id = (await front.askedFor(asked + 1))[asked]?.[0] ?? expect.unreachable();
  front.answer([id, 101, [], ""]);
  await until("a switch", () => raw.got().includes("\r\n\r\n") || undefined);
  return { ...raw, id };
}

const told = (front: Front, count: number, timeoutMs?: number) =>
  until(`${count} messages`, () => (front.told().length >= count ? front.told() : undefined), undefined, timeoutMs);
const got = (worker: { messages: string[] }, count: number) => until(`${count} frames`, () => (worker.messages.length >= count ? worker.messages : undefined));

test("a worker is asked for at the hub, with its address last, and gets all frames in their order, those before the answer too", async () => {
  const front = await frontWithChannel();
  const worker = await dial(front, { "x-peer": "198.51.100.1", "user-agent": "a" });
  const [id, method, url, headers, body] = worker.request;
  expect([method, url, body]).toEqual(["GET", `http://127.0.0.1:${portOf(front.front)}/`, null]);
  expect(headers.filter(([name]) => ["upgrade", "x-peer", "user-agent", "connection"].includes(name))).toEqual([
    ["x-peer", "198.51.100.1"],
    ["user-agent", "a"],
    ["upgrade", "websocket"],
    ["x-peer", ADDRESS],
  ]);
  front.answer([id, "challenge"], [id, 101, [], ""], [id, "second"]);
  front.answer([id, "third"]);
  expect(await got(worker, 3)).toEqual(["challenge", "second", "third"]);
  worker.socket.send("first");
  worker.socket.send("zwö");
  worker.socket.send(Buffer.from("binary"));
  expect(await told(front, 3)).toEqual([
    [id, "first"],
    [id, "zwö"],
    [id, { binary: true }],
  ]);
  expect(front.passed).toEqual([]);
});

test("a long frame is a message of its own, and keeps its place in both directions", async () => {
  const front = await frontWithChannel();
  const worker = await open(front);
  const long = `é\n${"x\n".repeat(LONG)}`;
  for (const text of ["a", long, "b"]) worker.socket.send(text);
  expect(await told(front, 3)).toEqual([
    [worker.id, "a"],
    [worker.id, long],
    [worker.id, "b"],
  ]);
  front.answer([worker.id, "a"]);
  front.answerLong([worker.id, long]);
  front.answer([worker.id, "b"]);
  expect(await got(worker, 3)).toEqual(["a", long, "b"]);
});

test("frames of many workers go together, each to its own", async () => {
  const front = await frontWithChannel();
  const workers = [await open(front), await open(front), await open(front)];
  for (const worker of workers) worker.socket.send(`of ${worker.id}`);
  const frames = await told(front, 3);
  expect(new Set(frames.map(([id, text]) => text === `of ${id}`))).toEqual(new Set([true]));
  front.answer(...workers.map(({ id }): [number, string] => [id, `for ${id}`]));
  for (const worker of workers) expect(await got(worker, 1)).toEqual([`for ${worker.id}`]);
});

test("a worker that the hub refuses gets the answer, and may send another request on its connection", async () => {
  const front = await frontWithChannel();
  const { socket, got: answer } = await front.dial();
  socket.write(upgrade());
  const [[id] = [0]] = await front.askedFor(1);
  front.answer([id, 429, [["Retry-After", "7"]], '{"error":"rate_limited"}']);
  await until("the answer", () => answer().includes("rate_limited") || undefined);
  expect(answer()).toContain("Retry-After: 7\r\n");
  socket.write(upgrade());
  await front.askedFor(2);
});

test("an upgrade that is written in an unusual way is passed on", async () => {
  const front = await frontWithChannel();
  const lines = [
    upgrade("Sec-WebSocket-Protocol: a\r\n"),
    upgrade().replace("AAAAAAAAAAAAAAAAAAAAAA==", "short"),
    upgrade().replace("AAAAAAAAAAAAAAAAAAAAAA==", "_AAAAAAAAAAAAAAAAAAAAA=="),
    upgrade().replace("Version: 13", "Version: 8"),
    upgrade("Upgrade: h2c\r\n"),
    upgrade("Content-Length: 1\r\n"),
    upgrade("", "GET /other HTTP/1.1"),
    upgrade("", "POST / HTTP/1.1"),
    upgrade().replace("Connection: Upgrade", "Connection: close"),
    upgrade().slice(0, 40),
  ];
  for (const text of lines) (await front.dial()).socket.write(text);
  // At the server in workerd's place a request without an upgrade counts, and an upgrade is none.
  const plain = await front.dial();
  plain.socket.write("GET /last HTTP/1.1\r\nHost: a\r\n\r\n");
  await until("the last one", () => front.passed.includes("GET /last") || undefined);
  expect(front.asked()).toEqual([]);
});

describe("a worker's socket ends", () => {
  test("with the code of the worker, which the hub is told once", async () => {
    const front = await frontWithChannel();
    const worker = await open(front);
    worker.socket.close(1000, "done");
    expect(await told(front, 1)).toEqual([[worker.id, { closed: 1000 }]]);
    const broken = await open(front);
    broken.socket.terminate();
    expect((await told(front, 2))[1]).toEqual([broken.id, { closed: 1006 }]);
  });

  test("with the code of the hub: what the worker still sends does not count, and the hub is told when the connection has ended", async () => {
    const front = await frontWithChannel();
    const worker = await open(front);
    front.answer([worker.id, "last"], [worker.id, CLOSE.replaced, "replaced"]);
    expect(await worker.ended()).toEqual([CLOSE.replaced, "replaced"]);
    expect(worker.messages).toEqual(["last"]);
    expect(await told(front, 1)).toEqual([[worker.id, { closed: CLOSE.replaced }]]);
    const deaf = await openRaw(front);
    front.answer([deaf.id, CLOSE.silent, "late"]);
    await until("the close frame", () => deaf.got().includes("late") || undefined);
    deaf.socket.write(Buffer.concat([Buffer.from([0x81, 0x81]), MASK, Buffer.from("x")]));
    await front.set(CLOSING_MS + 1);
    // The WebSocket library itself waits for 30 s.
    expect((await told(front, 2, 10_000)).slice(1)).toEqual([[deaf.id, { closed: 1006 }]]);
  });

  test("[LM2] at once if the worker is told to close and sends more than it may", async () => {
    const front = await frontWithChannel();
    const deaf = await openRaw(front);
    front.answer([deaf.id, CLOSE.badMessage, "bad"]);
    await until("the close frame", () => deaf.got().includes("bad") || undefined);
    deaf.socket.write(Buffer.concat(Array.from({ length: 300 }, () => PING)));
    expect(await told(front, 1, 10_000)).toEqual([[deaf.id, { closed: 1006 }]]);
    await until("the end of the connection", () => deaf.socket.closed || undefined);
  });

  test("[WS4] with 1012 if the channel ends, and when the coordinator stops; the channel ends after the last one", async () => {
    const front = await frontWithChannel();
    const [one, other] = [await open(front), await dial(front)];
    front.channels[0]?.terminate();
    expect(await one.ended()).toEqual([CLOSE.restart, "the coordinator restarts"]);
    await until("the refusal of the other", () => other.socket.readyState === WebSocket.CLOSED || undefined);
    await until("a channel", () => front.channels.length === 2 || undefined);
    const last = await open(front);
    front.front.leave();
    last.socket.send("a result");
    expect(await told(front, 1)).toEqual([[last.id, "a result"]]);
    front.answer([last.id, "stored"]);
    await got(last, 1);
    expect(front.channels[1]?.readyState).toBe(WebSocket.OPEN);
    front.front.endSockets();
    expect(await last.ended()).toEqual([CLOSE.restart, "the coordinator restarts"]);
    await until("the end of the channel", () => front.channels[1]?.readyState === WebSocket.CLOSED || undefined);
  });

  test("before it is open: the hub is told", async () => {
    const front = await frontWithChannel();
    const { socket } = await front.dial();
    socket.write(upgrade());
    const [[id] = [0]] = await front.askedFor(1);
    socket.destroy();
    await front.set(1);
    front.answer([id, 101, [], ""]);
    expect(await told(front, 1)).toEqual([[id, { closed: 1006 }]]);
  });
});

describe("[WS6] a heartbeat", () => {
  test("is answered by the front; the hub is told with the next frame", async () => {
    const front = await frontWithChannel();
    const worker = await open(front);
    worker.socket.send(HEARTBEAT);
    worker.socket.send(HEARTBEAT);
    expect(await got(worker, 2)).toEqual([HEARTBEAT_ACK, HEARTBEAT_ACK]);
    expect(front.told()).toEqual([]);
    worker.socket.send("frame");
    worker.socket.send("frame");
    expect(await told(front, 3)).toEqual([
      [worker.id, { quiet: 0 }],
      [worker.id, "frame"],
      [worker.id, "frame"],
    ]);
  });

  test(`ends a silence of which the hub is told after ${QUIET_MS / 1_000} s, once; pings do not`, async () => {
    const front = await frontWithChannel();
    const worker = await open(front);
    await front.set(QUIET_MS - 1);
    worker.socket.ping();
    await once(worker.socket, "pong");
    expect(front.told()).toEqual([]);
    await front.set(QUIET_MS);
    await front.set(QUIET_MS + 500);
    expect(front.told()).toEqual([[worker.id, { quiet: QUIET_MS }]]);
    worker.socket.send(HEARTBEAT);
    expect((await told(front, 2))[1]).toEqual([worker.id, { quiet: 0 }]);
    await front.set(2 * QUIET_MS + 500);
    expect((await told(front, 3))[2]).toEqual([worker.id, { quiet: QUIET_MS }]);
    // A frame ends it too, and the hub sees that.
    worker.socket.send("frame");
    expect((await told(front, 4))[3]).toEqual([worker.id, "frame"]);
    await front.set(3 * QUIET_MS + 500);
    expect((await told(front, 5))[4]).toEqual([worker.id, { quiet: QUIET_MS }]);
  });
});

describe("[LM1, LM2] the front ends a worker's socket", () => {
  test("that sends too many frames, or too much at once: the worker is told why", async () => {
    const front = await frontWithChannel();
    const pings = await openRaw(front);
    pings.socket.write(Buffer.concat(Array.from({ length: 200 }, () => PING)));
    await until("the reason", () => pings.got().includes("too many frames") || undefined);
    expect(await told(front, 1)).toEqual([[pings.id, { closed: 1006 }]]);
    const large = await open(front);
    large.socket.send("x".repeat(2 * LIMITS.frameBytes + 1));
    expect((await large.ended())[0]).toBe(1009);
    const early = await front.dial();
    early.socket.write(Buffer.concat([Buffer.from(upgrade()), ...Array.from({ length: 200 }, () => PING)]));
    const id = (await front.askedFor(3))[2]?.[0] ?? expect.unreachable();
    front.answer([id, 101, [], ""]);
    await until("the reason", () => early.got().includes("too many frames") || undefined);
  });

  test(`that begins a message and does not end it for ${MESSAGE_MS / 1_000} s, or sends nothing for ${SILENT_MS / 1_000} s`, async () => {
    const front = await frontWithChannel();
    const [slow, silent] = [await openRaw(front), await open(front)];
    slow.socket.write(BEGUN);
    silent.socket.ping();
    await once(silent.socket, "pong");
    await front.set(MESSAGE_MS + 1);
    await until("the reason", () => slow.got().includes("does not end") || undefined);
    expect(silent.socket.readyState).toBe(WebSocket.OPEN);
    await front.set(SILENT_MS + 1);
    expect(await silent.ended()).toEqual([1006, ""]);
  });

  test(`whose worker reads nothing for ${STALLED_MS / 1_000} s`, async () => {
    const front = await frontWithChannel();
    const worker = await open(front);
    worker.socket.pause();
    for (let n = 0; n < 24; n++) front.answer([worker.id, "x".repeat(1024 * 1024)]);
    // Other answers do not wait for it.
    await open(front);
    await front.set(STALLED_MS);
    worker.socket.resume();
    await got(worker, 24);
    worker.socket.pause();
    for (let n = 0; n < 24; n++) front.answer([worker.id, "x".repeat(1024 * 1024)]);
    await open(front);
    await front.set(2 * STALLED_MS + 1);
    await until("its end", () => front.told().some(([id, note]) => id === worker.id && typeof note === "object" && "closed" in note) || undefined);
  });

  test("of a client that a proxy names and that has too many connections", async () => {
    const front = await frontWithChannel({ trustedIpHeader: "x-client" });
    const many = await Promise.all(Array.from({ length: CONNECTIONS_PER_CLIENT }, () => front.dial()));
    for (const { socket } of many) socket.write(upgrade("X-Client: 198.51.100.9\r\n"));
    const requests = await front.askedFor(CONNECTIONS_PER_CLIENT);
    front.answer(...requests.map(([id]): ChannelAnswer => [id, 101, [], ""]));
    await until("all of them", () => many.every(({ got: heard }) => heard().includes("101 Switching")) || undefined);
    const one = await dial(front, { "x-client": "198.51.100.9" });
    front.answer([one.id, 101, [], ""]);
    expect(await one.ended()).toEqual([1006, ""]);
    expect(front.told()).toEqual([[one.id, { closed: 1006 }]]);
    await open(front, { "x-client": "198.51.100.10" });
  });
});

test.each([
  ["long", LIMITS.frameBytes, 20],
  ["short", 15_000, 700],
])("while the hub reads nothing, workers with %s frames are not read, and requests are passed on; then all goes on", async (_, size, count) => {
  const front = await frontWithChannel();
  const workers = [await open(front), await open(front), await open(front), await open(front)];
  const channel = front.channels[0] ?? expect.unreachable();
  channel.pause();
  for (const { socket } of workers) for (let n = 0; n < count; n++) socket.send("x".repeat(size));
  const waiting = (): number => workers.reduce((sum, { socket }) => sum + socket.bufferedAmount, 0);
  const looks: number[] = [];
  await until("workers that wait", () => {
    looks.unshift(waiting());
    return (looks.length > 10 && looks[0] !== 0 && looks[0] === looks[10]) || undefined;
  });
  // What is held back is neither quiet nor late.
  await front.set(SILENT_MS + 1);
  expect(workers.map(({ socket }) => socket.readyState)).toEqual(workers.map(() => WebSocket.OPEN));
  if (size < LONG) {
    const seeker = await front.dial();
    seeker.socket.write("GET /v1/jobs/019acd00-0000-7000-8000-0123456789ab HTTP/1.1\r\nHost: a\r\n\r\n");
    await until("its answer", () => seeker.got().includes("passed on") || undefined);
  }
  channel.resume();
  await told(front, workers.length * count);
  expect(waiting()).toBe(0);
});

test("frames that come before the answer to the upgrade are read after it, also if they are many", async () => {
  const front = await frontWithChannel();
  const { socket, got: heard } = await front.dial();
  const text = "x".repeat(200_000);
  const head = Buffer.alloc(14);
  head.writeUInt16BE(0x81ff);
  head.writeBigUInt64BE(BigInt(text.length), 2);
  socket.write(Buffer.concat([Buffer.from(upgrade()), head, Buffer.from(text)]));
  const [[id] = [0]] = await front.askedFor(1);
  await front.set(1);
  front.answer([id, 101, [], ""]);
  await until("a switch", () => heard().includes("101 Switching") || undefined);
  expect(await told(front, 1)).toEqual([[id, text]]);
});
