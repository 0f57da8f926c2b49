// The front with another server in workerd's place: who is dropped when, by a clock that the test sets.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, Socket } from "node:net";
import { platform } from "node:os";
import { join } from "node:path";
import { pipeline, Readable } from "node:stream";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { createWebSocketStream, WebSocketServer } from "ws";
import { clientOptionsOf, CONNECTIONS_PER_CLIENT, NEW_CONNECTIONS } from "../../../scripts/front-clients.ts";
import { MESSAGE_MS } from "../../../scripts/frame-guard.ts";
import { reach, SILENT_MS } from "../../../scripts/front-passage.ts";
import { MOST_STALLED, STALLED_MS } from "../../../scripts/front-stalls.ts";
import { type Front, type FrontOptions, listenInFront } from "../../../scripts/front.ts";
import { variables } from "../../../scripts/variables.ts";
import { RATES } from "../../../src/protocol/limits.ts";
import { temporaryFolder } from "../../support/coordinator.ts";
import { finallyDo } from "../../support/finally.ts";
import { FrontClock, portOf } from "../../support/front.ts";
import { until } from "../../support/until.ts";

const MASK = Buffer.alloc(4);
const PING = Buffer.concat([Buffer.from([0x89, 0x80]), MASK]);
const MESSAGE = Buffer.concat([Buffer.from([0x81, 0x81]), MASK, Buffer.from("x")]);
/** The answer of a client to a close frame of 4008. */
const CLOSED = Buffer.concat([Buffer.from([0x88, 0x82]), MASK, Buffer.from([0x0f, 0xa8])]);
const BEGUN = Buffer.concat([Buffer.from([0x01, 0x81]), MASK, Buffer.from("x")]);
const PIECE = Buffer.alloc(64 * 1024);
const PIECES = 384;
const PAGE_BYTES = PIECES * PIECE.length;
/** A page that is written only as fast as it leaves, so `bytesWritten` of its connection stands still when the pipe is full. */
const page = (): Readable => Readable.from(Array.from({ length: PIECES }, () => PIECE));

/**
 * A front before a server that answers pings, answers `/page` with 24 MiB and `/wait` never, sends as much to a WebSocket that wants it, closes one that wants
 * that, and counts its connections.
 */
async function start(options: Partial<FrontOptions> = {}, mostStalled = MOST_STALLED) {
  const behind = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    if (request.url === "/page") pipeline(page(), response, () => {});
    else if (request.url !== "/wait") request.resume().once("end", () => response.end("ok"));
  });
  const sockets = new WebSocketServer({ server: behind, autoPong: false });
  sockets.on("connection", (socket, request) => {
    socket.on("error", () => {});
    if (request.headers["x-wants"] === "page") pipeline(page(), createWebSocketStream(socket), () => {});
    socket.on("message", () => socket.close(4008, "late"));
    socket.on("close", (code) => codes.push(code));
    if (request.headers["x-wants"] === "close") socket.close(4008, "late");
    // Its own pongs end a socket that sends many pings at once; workerd does not.
    socket.on("ping", () => socket.pong());
  });
  const codes: number[] = [];
  const reached = new Set<Socket>();
  const faults: (string | undefined)[] = [];
  behind.on("connection", (socket: Socket) => {
    reached.add(socket);
    socket.on("error", ({ code }: NodeJS.ErrnoException) => faults.push(code));
    socket.once("close", () => reached.delete(socket));
  });
  behind.listen(0, "127.0.0.1");
  await once(behind, "listening");
  const clock = new FrontClock();
  const front: Front = await listenInFront(
    {
      ...{
        host: "127.0.0.1",
        port: 0,
        to: { host: "127.0.0.1", port: portOf(behind) },
        most: 5_000,
        limitsClients: true,
        trustedIpHeader: null,
        peerHeader: null,
        channel: null,
        messages: { perSecond: 50, burst: 200 },
      },
      ...options,
    },
    { now: clock.now, sweepMs: 5, mostStalled, addressOf: ({ remoteAddress = "" }) => remoteAddress },
  );
  finallyDo(() => {
    front.close();
    sockets.close();
    behind.closeAllConnections();
    behind.close();
    for (const socket of reached) socket.destroy();
  });
  return {
    reached,
    /** How the WebSockets of the server ended: 1006 for one whose client did not answer the close frame. */
    codes,
    /** The errors of the connections that reached the server. */
    faults,
    /** How many connections of clients it has. */
    open: () => promisify(front.getConnections.bind(front))(),
    dial: async (): Promise<Socket> => {
      const socket = connect({ host: "127.0.0.1", port: portOf(front) });
      socket.on("error", () => {});
      finallyDo(() => socket.destroy());
      await once(socket, "connect");
      return socket;
    },
    endSockets: () => front.endSockets(),
    set: (at: number) => clock.set(at),
  };
}

const upgrade = (headers = ""): string =>
  `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`;

/** What a socket has got so far. */
function received(socket: Socket): () => string {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  return () => Buffer.concat(chunks).toString("latin1");
}

/** A connection whose client sends this and reads nothing of the answer. The front knows that it does, because the pipe is full to its end. */
async function stalled(front: Awaited<ReturnType<typeof start>>, request: string): Promise<Socket> {
  const socket = await front.dial();
  socket.pause();
  socket.write(request);
  // Nothing more has left the server for a while.
  const looks: number[] = [];
  await until("a full pipe", () => {
    looks.unshift([...front.reached].at(-1)?.bytesWritten ?? 0);
    return (looks.length > 10 && looks[0] !== 0 && looks[0] === looks[10]) || undefined;
  });
  return socket;
}

async function open(front: Awaited<ReturnType<typeof start>>, headers = ""): Promise<{ socket: Socket; got: () => string }> {
  const socket = await front.dial();
  const got = received(socket);
  socket.write(upgrade(headers));
  while (!got().includes("\r\n\r\n") && !socket.closed) await Promise.race([once(socket, "data"), once(socket, "close")]);
  return { socket, got };
}

const closed = (socket: Socket): Promise<unknown> => until("the end of the connection", () => socket.closed || undefined);

test("[WS4] before the coordinator stops, each WebSocket is closed with 1012, and a request goes on", async () => {
  const front = await start();
  const { socket, got } = await open(front);
  const waits = await front.dial();
  waits.write("GET /wait HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  await until("both connections", () => (front.reached.size === 2 && [...front.reached].every(({ bytesRead }) => bytesRead > 0)) || undefined);
  front.endSockets();
  await once(socket, "end");
  expect(got().split("\r\n\r\n")[1]).toBe("\x88\x1a\x03\xf4the coordinator restarts");
  await until("one connection", () => front.reached.size === 1 || undefined);
  expect(waits.closed).toBe(false);
});

describe("who is dropped", () => {
  test(`[LM1] a client that reads nothing of a page for ${STALLED_MS / 1_000} s, not before, and not one that reads`, async () => {
    const front = await start();
    const reads = await front.dial();
    const got: number[] = [];
    reads.on("data", (chunk: Buffer) => got.push(chunk.length));
    reads.write("GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    await until("the page", () => got.reduce((sum, bytes) => sum + bytes, 0) > PAGE_BYTES || undefined);
    const never = await stalled(front, "GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    await front.set(STALLED_MS);
    expect(front.reached.size).toBe(2);
    await front.set(STALLED_MS + 1);
    await until("one connection", () => front.reached.size === 1 || undefined);
    never.resume();
    await closed(never);
    reads.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    const before = got.length;
    await until("an answer", () => got.length > before || undefined);
  });

  test("who asks for a tunnel gets 405, and workerd hears nothing of it: it would write a line into the log each time", async () => {
    const front = await start();
    const socket = await front.dial();
    const got = received(socket);
    socket.write("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
    await once(socket, "end");
    expect(got()).toBe("HTTP/1.1 405 Method Not Allowed\r\nAllow:\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    expect([...front.reached].map(({ bytesRead }) => bytesRead).filter((bytes) => bytes > 0)).toEqual([]);
  });

  test("[LM1] the client that has read nothing for longest, if one more reads nothing; one that reads again is not among them", async () => {
    const front = await start({}, 2);
    const stall = (): Promise<Socket> => stalled(front, "GET /page HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    const resumed = await stall();
    const got = received(resumed);
    resumed.resume();
    await until("the page", () => got().length > PAGE_BYTES || undefined);
    const first = await stall();
    const others = [await stall()];
    await front.set(1);
    expect(front.reached.size).toBe(3);
    others.push(await stall());
    await until("three connections", () => front.reached.size === 3 || undefined);
    first.resume();
    await closed(first);
    for (const socket of [resumed, ...others]) expect(socket.closed).toBe(false);
  });

  test("[LM1] of the clients that read nothing, the one with the most connections loses one first: another's is older, and stays", async () => {
    const front = await start({ trustedIpHeader: "x-real-ip" }, 3);
    const stall = (address: string): Promise<Socket> => stalled(front, upgrade(`X-Wants: page\r\nX-Real-IP: ${address}\r\n`));
    const other = await stall("192.0.2.1");
    const [first, ...more] = [await stall("192.0.2.2"), await stall("192.0.2.2"), await stall("192.0.2.2")];
    await until("three connections", () => front.reached.size === 3 || undefined);
    first.resume();
    await closed(first);
    for (const socket of [other, ...more]) expect(socket.closed).toBe(false);
  });

  test(`a WebSocket on which its client sends nothing for ${SILENT_MS / 1_000} s; one that pings stays, and so does a connection without a WebSocket`, async () => {
    const front = await start();
    const silent = await open(front);
    const pings = await open(front);
    const http = await front.dial();
    await front.set(SILENT_MS);
    pings.socket.write(PING);
    await until("a pong", () => pings.got().endsWith("\x8a\x00") || undefined);
    await front.set(SILENT_MS + 1);
    await closed(silent.socket);
    const got = received(http);
    http.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    await until("an answer", () => got().includes("200 OK") || undefined);
    expect(pings.socket.closed).toBe(false);
  });

  test(`[LM1] a message that is not complete after ${MESSAGE_MS / 1_000} s, although its socket pings`, async () => {
    const front = await start();
    const { socket, got } = await open(front);
    socket.write(Buffer.concat([BEGUN, PING]));
    await until("a pong", () => got().endsWith("\x8a\x00") || undefined);
    await front.set(MESSAGE_MS);
    socket.write(PING);
    await until("another pong", () => got().endsWith("\x8a\x00\x8a\x00") || undefined);
    await front.set(MESSAGE_MS + 1);
    await closed(socket);
    expect(got()).toContain("a message that does not end");
  });
});

describe("clients behind a proxy", () => {
  const from = (address: string): string => `X-Real-IP: ${address}\r\n`;

  test("[LM2] all sockets of one named client have one budget, on however many connections; others have theirs", async () => {
    const front = await start({ trustedIpHeader: "X-Real-IP" });
    const flood = Buffer.concat(Array.from({ length: 100 }, () => PING));
    const sockets = await Promise.all(Array.from({ length: 17 }, () => open(front, from("203.0.113.7"))));
    // Each may send 100 at once, all together 1,600.
    for (const { socket } of sockets) socket.write(flood);
    await until("the end of one", () => sockets.some(({ socket }) => socket.closed) || undefined);
    const other = await open(front, from("203.0.113.8"));
    other.socket.write(flood);
    await until("pongs", () => other.got().includes("\x8a\x00") || undefined);
    expect(other.socket.closed).toBe(false);
    // A new socket of the first client has no new budget.
    for (const { socket } of sockets) socket.destroy();
    const again = await open(front, from("203.0.113.7"));
    again.socket.write(PING);
    await closed(again.socket);
    expect(again.got()).toContain("too many frames");
  });

  test(`[LM2] one named client opens ${NEW_CONNECTIONS.burst} sockets at once and no more, others do`, async () => {
    const front = await start({ trustedIpHeader: "X-Real-IP" });
    for (let n = 0; n < CONNECTIONS_PER_CLIENT; n++) {
      const { socket } = await open(front, from("203.0.113.7"));
      socket.destroy();
    }
    const one = await open(front, from("203.0.113.7"));
    await closed(one.socket);
    expect(one.got()).toBe("");
    expect((await open(front, from("203.0.113.8"))).got()).toContain("101 Switching Protocols");
  });
});

describe("bytes that are no frames", () => {
  test("a request with Expect: 100-continue is told to continue, and answered", async () => {
    const front = await start();
    const socket = await front.dial();
    const got = received(socket);
    socket.write("POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    await until("100", () => got().includes("100 Continue") || undefined);
    socket.write("hello");
    await until("200", () => got().includes("200 OK") || undefined);
  });

  test("a client that speaks TLS is refused at once: somebody wrote https:// for http://", async () => {
    const front = await start();
    const socket = await front.dial();
    const got = received(socket);
    // How a ClientHello begins.
    socket.write(Buffer.from("160301020001", "hex"));
    await closed(socket);
    expect(got()).toMatch(/^HTTP\/1\.1 400 /);
  });

  test.each(["end", "destroy", "resetAndDestroy"] as const)(
    "[API9] a client that leaves before its answer (%s) breaks the connection behind the front",
    async (leave) => {
      const front = await start();
      const socket = await front.dial();
      socket.write("GET /wait HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
      await until("the request", () => [...front.reached].some(({ bytesRead }) => bytesRead > 0) || undefined);
      socket[leave]();
      await until("the end", () => front.reached.size === 0 || undefined);
      expect(front.faults).toEqual(["ECONNRESET"]);
    },
  );

  test("one connection more than it can hold is closed, and there is room again when another one ends", async () => {
    const front = await start({ most: 2 });
    const first = await open(front);
    const second = await open(front);
    const third = await front.dial();
    await closed(third);
    first.socket.destroy();
    await until("room", () => front.reached.size === 1 || undefined);
    expect((await open(front)).got()).toContain("101 Switching Protocols");
    expect(second.socket.closed).toBe(false);
  });
});

test("an empty setting is none for the front too, as for the coordinator: otherwise it would let no frame pass, and limit nobody", () => {
  const given = (settings: Record<string, string>) => clientOptionsOf(variables({ instance: "evm", settings }));
  const names = ["TESTNET_MODE", "RATE_LIMITS", "TRUSTED_IP_HEADER", "MESSAGES_PER_SECOND", "MESSAGE_BURST"];
  const messages = { perSecond: RATES.messagesPerSecond, burst: RATES.messageBurst };
  expect(given(Object.fromEntries(names.map((name) => [name, ""])))).toEqual({ limitsClients: true, trustedIpHeader: null, messages });
  expect(given({ TESTNET_MODE: "true", TRUSTED_IP_HEADER: "X-Real-IP", MESSAGE_BURST: "7" })).toEqual({
    ...{ limitsClients: false, trustedIpHeader: "X-Real-IP" },
    messages: { ...messages, burst: 7 },
  });
  expect(() => given({ STAKE_SOURCE: "evm" })).toThrow("EVM_RPC_URL: is needed by STAKE_SOURCE=evm");
});

test.runIf(platform() === "linux")("more connections than wait at a Unix socket are tried again, until the server takes them", async () => {
  const path = join(temporaryFolder("front"), "s");
  const served = `require("node:http").createServer((_, answer) => answer.end("ok")).listen({ path: ${JSON.stringify(path)}, backlog: 1 }, () => console.log("up"))`;
  const server = spawn(process.execPath, ["-e", served], { stdio: ["ignore", "pipe", "inherit"] });
  finallyDo(() => void server.kill("SIGKILL"));
  await once(server.stdout, "data");
  const front = await start({ to: { path } });
  // It accepts none of them, and the system keeps two.
  server.kill("SIGSTOP");
  const clients = await Promise.all(Array.from({ length: 8 }, () => front.dial()));
  const answers = clients.map(received);
  for (const client of clients) client.write("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  await until("all connections", async () => ((await front.open()) === clients.length ? true : undefined));
  server.kill("SIGCONT");
  await until("an answer for each", () => answers.every((got) => got().includes("200 OK")) || undefined);
});

test.runIf(platform() === "linux")("a connection that must be tried again is not, if its client has left", async () => {
  const path = join(temporaryFolder("front"), "s");
  const server = createServer().listen({ path, backlog: 1 });
  finallyDo(() => void server.close());
  await once(server, "listening");
  // It accepts none of them in this turn, and the system keeps two.
  for (let n = 0; n < 2; n++) {
    const other = connect(path);
    finallyDo(() => other.destroy());
  }
  const reached: string[] = [];
  const reachFor = (name: string): Socket => {
    const client = new Socket();
    const note = (workerd: Socket): void => {
      reached.push(name);
      workerd.destroy();
    };
    reach({ path }, client, () => true, note);
    return client;
  };
  reachFor("one that leaves").destroy();
  reachFor("one that stays");
  await until("the second one", () => reached.includes("one that stays") || undefined);
  expect(reached).toEqual(["one that stays"]);
});

describe("a WebSocket that the server closes", () => {
  const CLOSE = "\x88\x06\x0f\xa8late";

  test("[WS2] ends at once if its client has never sent a message, and the client's answer does not reach the server", async () => {
    const front = await start();
    const { socket, got } = await open(front, "X-Wants: close\r\n");
    socket.write(PING);
    await until("a close frame", () => got().endsWith(CLOSE) || undefined);
    socket.write(CLOSED);
    await closed(socket);
    await until("the end at the server", () => front.codes[0]);
    expect(front.codes).toEqual([1006]);
  });

  test("gets the answer of a client that has sent one", async () => {
    const front = await start();
    const { socket, got } = await open(front);
    socket.write(MESSAGE);
    await until("a close frame", () => got().endsWith(CLOSE) || undefined);
    socket.write(CLOSED);
    await closed(socket);
    await until("the end at the server", () => front.codes[0]);
    expect(front.codes).toEqual([4008]);
  });
});
