// What `npm run serve` starts, under frames that workerd alone would read without limits: honest jobs go on, and the sockets that send them are closed.
import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import * as z from "zod";
import { type Coordinator, freePort } from "../../scripts/coordinator-process.ts";
import { CHANNEL_KEY_HEADER } from "../../src/coordinator/http/channel-messages.ts";
import { listenInFront } from "../../scripts/front.ts";
import { startBundled } from "../support/bundle.ts";
import { startHere } from "../support/coordinator-here.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { runtimeMemory } from "../support/process-tree.ts";
import { get, post } from "../support/rest.ts";
import { until } from "../support/until.ts";

const MASK = Buffer.alloc(4);
const PING = Buffer.concat([Buffer.from([0x89, 0x80]), MASK]);
const EMPTY_PART = Buffer.concat([Buffer.from([0x00, 0x80]), MASK]);
const BEGUN = Buffer.concat([Buffer.from([0x01, 0x81]), MASK, Buffer.from("x")]);
/** A part of 30 MiB that does not end its message. */
const HUGE = Buffer.concat([Buffer.from([0x01, 0xff, 0, 0, 0, 0, 0x01, 0xe0, 0, 0]), MASK]);
const upgrade = (headers = ""): string =>
  `GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`;

describe("the front of npm run serve", () => {
  let coordinator: Coordinator;
  let port = 0;
  /** How a socket ended whose client sent nothing, and when. */
  let silent: Promise<{ code: unknown; after: number }>;

  beforeAll(async () => {
    port = await freePort();
    coordinator = await startBundled({ instance: "evm", port, stateDir: temporaryFolder("front"), serves: true, settings: { TESTNET_MODE: "true" } });
    finallyDo(() => coordinator.stop());
    const socket = new WebSocket(coordinator.socketUrl);
    await once(socket, "message");
    const since = performance.now();
    const busy = setInterval(() => void get(`${coordinator.url}/v1/jobs/00000000-0000-4000-8000-000000000000`).catch(() => {}), 1_000);
    finallyDo(() => clearInterval(busy));
    silent = once(socket, "close").then(([code]) => ({ code, after: performance.now() - since }));
  });

  const open = async (): Promise<Socket> => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.on("error", () => {});
    finallyDo(() => socket.destroy());
    await once(socket, "connect");
    return socket;
  };
  /** All that a socket got, until it ended. */
  const collect = (socket: Socket): { bytes: () => Buffer; ended: Promise<unknown> } => {
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    return { bytes: () => Buffer.concat(chunks), ended: new Promise((resolve) => socket.once("close", resolve)) };
  };
  const memory = (): number => runtimeMemory(coordinator.pid);

  it.each([
    ["pings", PING, 1008],
    ["empty parts", EMPTY_PART, 1008],
    ["unfinished messages of 30 MiB", Buffer.concat([HUGE, Buffer.alloc(1_000)]), 1009],
  ])("[LM2] closes sockets that send %s as fast as they go, and answers others", async (_, flood, code) => {
    const before = memory();
    const closed: number[] = [];
    for (let n = 0; n < 8; n++) {
      const socket = await open();
      const got = collect(socket);
      socket.write(upgrade());
      await until("switch", () => got.bytes().includes("\r\n\r\n") || undefined);
      expect(got.bytes().toString("latin1")).toContain("HTTP/1.1 101 Switching Protocols\r\n");
      const many = Buffer.concat([flood === EMPTY_PART ? BEGUN : Buffer.alloc(0), ...Array.from({ length: 10_000 }, () => flood)]);
      socket.write(many);
      expect((await get(`${coordinator.url}/v1/health`)).status).toBe(200);
      await got.ended;
      const end = got.bytes();
      const at = end.lastIndexOf(0x88);
      closed.push(end.readUInt16BE(at + 2));
    }
    expect(new Set(closed)).toEqual(new Set([code]));
    expect(memory() - before).toBeLessThan(100);
  });

  it("frames that come with the head of their upgrade count too, whole or byte by byte", async () => {
    const socket = await open();
    const got = collect(socket);
    socket.write(Buffer.concat([Buffer.from(upgrade()), ...Array.from({ length: 5_000 }, () => PING)]));
    await got.ended;
    expect(got.bytes().toString("latin1")).toMatch(/^HTTP\/1\.1 101 .*too many frames/s);

    const slow = await open();
    const heard = collect(slow);
    slow.setNoDelay(true);
    for (const byte of Buffer.from(upgrade())) slow.write(Buffer.of(byte));
    await until("a challenge", () => heard.bytes().includes("challenge") || undefined);
    for (let n = 0; n < 300; n++) slow.write(PING);
    await heard.ended;
    expect(heard.bytes().toString("latin1")).toContain("too many frames");
  });

  it("an upgrade behind another request: its frames are counted, or the connection ends", async () => {
    const socket = await open();
    const got = collect(socket);
    // The front holds what follows the upgrade until there is an answer. If that is the first request's alone, nobody knows where frames begin.
    socket.write(`GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n${upgrade()}`);
    socket.write(PING);
    await until("an answer", () => got.bytes().includes("200 OK") || undefined);
    for (let n = 0; n < 300 && !socket.destroyed; n++) socket.write(PING);
    await got.ended;
    expect(socket.destroyed).toBe(true);
  });

  // workerd ends a head at an empty line that ends in LF too. What comes before the end that the front sees would be frames for workerd only.
  it.each([
    ["an empty line of LF alone", [upgrade().replace(/\r\n$/, "\n")]],
    ["a head of more than 32 KiB, and a second one", [upgrade(`X: ${"x".repeat(40_000)}\r\n`).slice(0, -2), "\r\n"]],
    ["lines that end in LF", [upgrade().replace("\r\nUpgrade", "\nUpgrade")]],
  ])("frames that are hidden behind %s are counted, or the connection ends", async (_, [head = "", end = ""]) => {
    const socket = await open();
    const got = collect(socket);
    // A ping of 125 bytes for workerd, whose payload is the rest of a head, and the head of a long message for a front that counts from there.
    const rest = `\r\nUpgrade: websocket\r\n\r\n`;
    const long = Buffer.concat([Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0x20, 0, 0]), MASK]);
    const hiding = Buffer.concat([Buffer.from([0x89, 0xfd]), MASK, Buffer.alloc(125 - rest.length - long.length, "x"), Buffer.from(rest)]);
    if (end === "") socket.write(Buffer.concat([Buffer.from(head), hiding]));
    else {
      socket.write(head);
      await until("the head to be passed on", () => socket.bytesWritten >= head.length || undefined);
      socket.write(Buffer.concat([Buffer.from(end), hiding]));
    }
    await until("a switch, or the end", () => got.bytes().includes("101 Switching") || socket.destroyed || undefined);
    if (!socket.destroyed) socket.write(Buffer.concat([long, ...Array.from({ length: 20_000 }, () => PING)]));
    await got.ended;
    expect(socket.destroyed).toBe(true);
  });

  it("a refused upgrade, requests one after the other and an upgrade may share a connection", async () => {
    const socket = await open();
    const got = collect(socket);
    const answers = (status: string, times: number): Promise<unknown> =>
      until(`${times} of ${status}`, () => got.bytes().toString("latin1").split(`HTTP/1.1 ${status}`).length > times || undefined);
    socket.write("GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    await answers("200", 1);
    socket.write(upgrade().replace("Host: 127.0.0.1", `Host: ${"a".repeat(2_000)}`));
    await answers("400", 1);
    socket.write("GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    await answers("200", 3);
    socket.write(upgrade());
    await answers("101", 1);
    await until("a challenge", () => got.bytes().includes("challenge") || undefined);
  });

  it.each([false, true])("[API9, JB13] a client that closes its connection (streaming: %s) cancels its job if nobody has started it", async (stream) => {
    const user = { user_id: `leaves-${stream}` };
    const headers = { "x-user-token": "a token" };
    await post(`${coordinator.url}/v1/trust/create`, user, headers);
    const jobs = async () =>
      z.array(z.looseObject({ id: z.string() })).parse((await get(`${coordinator.url}/v1/jobs?user_id=${user.user_id}`, headers)).body.jobs);
    const socket = await open();
    const body = JSON.stringify({ user: user.user_id, messages: [{ role: "user", content: "hello" }], stream });
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const { id } = await until("the job", async () => (await jobs())[0]);
    socket.destroy();
    const job = () => get(`${coordinator.url}/v1/jobs/${id}`);
    await until("the end of the job", async () => ((await job()).body.status === "failed" ? true : undefined));
    expect((await job()).body).toMatchObject({ result: { error: "cancelled" } });
  });

  describe("short requests, which go to the hub on one socket", () => {
    const ID = "019acd00-0000-7000-8000-0123456789ab";
    const BODY = JSON.stringify({ job_type: "TASK", user_id: "nobody", payload: { task_type: "classify", input: "x" } });
    const poll = `GET /v1/jobs/${ID} HTTP/1.1`;
    const commit = (path = "cheap") => `POST /v1/jobs/commit/${path} HTTP/1.1`;
    const written = (line: string, headers: string, body: string): string =>
      `${line}\r\nHost: 127.0.0.1:${port}\r\n${line.startsWith("POST") ? `Content-Length: ${Buffer.byteLength(body)}\r\n` : ""}${headers}\r\n${body}`;
    /** The answer to a request on a new connection without what differs each time, and the last line of its head. */
    async function answerTo(request: string): Promise<{ last: string | undefined; same: unknown }> {
      const socket = await open();
      const { bytes } = collect(socket);
      socket.write(request);
      const [head, body] = await until("a whole answer", () => {
        const [top = "", rest = ""] = bytes().toString().split("\r\n\r\n");
        const length = /content-length: (\d+)/i.exec(top)?.[1];
        return length !== undefined && Buffer.byteLength(rest) === Number(length) ? [top, rest] : undefined;
      });
      socket.destroy();
      const [line = "", ...lines] = head.split("\r\n");
      const headers = lines.map((text) => text.replace(/^(X-Request-Id|X-Cancel-Token): .*/, "$1"));
      return {
        last: lines.at(-1),
        same: [line, headers.toSorted(), body.replace(/[\da-f]{8}-[\da-f-]{27}/g, "ID").replace(/\d{4}-[\d-]{5}T[\d:.]+Z/g, "TIME")],
      };
    }

    it.each([
      ["a poll", poll, "", ""],
      ["a commit", commit(), "", BODY],
      ["a fast commit", commit("fast"), "Content-Type: text/plain\r\nAccept: */*\r\nUser-Agent: a\r\n", BODY],
      ["a commit that waits", commit(), "Prefer: wait=1\r\n", BODY],
      ["a commit with a byte order mark", commit(), "", `\ufeff${BODY}`],
      ["a body that is no JSON", commit(), "", "{"],
      ["an empty body", commit(), "", ""],
      ["a payload that is wrong", commit(), "", "[1]"],
      ["a compressed body", commit(), "Content-Encoding: gzip\r\n", BODY],
      ["a key that is too long", commit(), `Idempotency-Key: ${"k".repeat(300)}\r\n`, BODY],
      ["a page of another site", commit(), "Origin: https://evil.example\r\n", BODY],
      ["a PRIVATE job of an unknown user", commit(), "", BODY.replace("{", '{"privacy_class":"PRIVATE",')],
      ["a header that comes twice", poll, "Origin: a\r\nOrigin: b\r\n", ""],
    ])("%s is answered as it is without that socket", async (_, line, headers, body) => {
      const short = await answerTo(written(line, headers, body));
      // A request with a TE is passed on to workerd, which writes the length first. The front writes it last.
      const passed = await answerTo(written(line, `${headers}TE: trailers\r\n`, body));
      expect([short.last, passed.last].map((text) => text?.startsWith("Content-Length: "))).toEqual([true, false]);
      expect(short.same).toEqual(passed.same);
    });

    it("a stranger opens no such socket: with a wrong key it is that of a worker, which may send no requests", async () => {
      const socket = new WebSocket(coordinator.socketUrl, { headers: { [CHANNEL_KEY_HEADER]: "0".repeat(32) } });
      const [first] = await once(socket, "message");
      expect(JSON.parse(String(first))).toMatchObject({ type: "challenge" });
      const answers: string[] = [];
      socket.on("message", (data: Buffer) => answers.push(data.toString()));
      socket.send(JSON.stringify([[1, "GET", `${coordinator.url}/v1/health`, [], null]]));
      const [code] = await once(socket, "close");
      expect(code).toBeGreaterThan(1000);
      expect(answers.join()).not.toContain("workers_online");
    });
  });

  it("an honest socket pings, is answered, and closes", async () => {
    const socket = new WebSocket(coordinator.socketUrl);
    await once(socket, "message");
    for (let n = 0; n < 50; n++) {
      socket.ping();
      await once(socket, "pong");
    }
    socket.close();
    await once(socket, "close");
  });

  it("[WS2] a socket whose client sends nothing is gone 10 s after it was opened, also while the hub is busy", async () => {
    const { code, after } = await silent;
    expect(code).toBe(4008);
    // The client gives up waiting for the end of the connection after 30 s.
    expect(after).toBeLessThan(20_000);
  });
});

describe("the address of a client", () => {
  const peerHeader = "x-peer-of-this-test";
  let address = "";
  let port = 0;

  beforeAll(async () => {
    const to = await freePort();
    const settings = { TESTNET_MODE: "true", RATE_LIMITS: "on", COMMITS_PER_MINUTE: "2", TRUSTED_IP_HEADER: peerHeader };
    const coordinator = await startHere({ instance: "evm", port: to, stateDir: temporaryFolder("addresses"), settings });
    const options = {
      host: "127.0.0.1",
      port: 0,
      to: { host: "127.0.0.1", port: to },
      most: 100,
      limitsClients: true,
      trustedIpHeader: null,
      peerHeader,
      channel: null,
      messages: { perSecond: 50, burst: 200 },
    };
    const front = await listenInFront(options, { now: () => performance.now(), sweepMs: 5_000, mostStalled: 100, addressOf: () => address });
    port = z.object({ port: z.int() }).parse(front.address()).port;
    finallyDo(async () => {
      front.close();
      await coordinator.stop();
    });
  });

  const BODY = JSON.stringify({ job_type: "TASK", user_id: "nobody", payload: { task_type: "classify", input: "x" } });
  /** The statuses of commits that a client at this address sends on one connection, each with these header lines. */
  async function commits(from: string, count: number, headers: string, body = BODY): Promise<string[]> {
    address = from;
    const socket = connect({ host: "127.0.0.1", port });
    finallyDo(() => socket.destroy());
    socket.on("error", () => {});
    let got = "";
    socket.on("data", (chunk: Buffer) => (got += chunk.toString("latin1")));
    const statuses = (): string[] => [...got.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status = ""]) => status);
    for (let sent = 1; sent <= count; sent++) {
      socket.write(`POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n${body}`);
      await until(`${sent} answers`, () => statuses().length >= sent || socket.closed || undefined);
    }
    return statuses();
  }
  const LENGTH = `Content-Length: ${BODY.length}\r\n`;

  it("[LM2] counts its requests, also on one connection with chunked bodies, and not those of another address", async () => {
    expect(await commits("203.0.113.1", 3, LENGTH)).toEqual(["201", "201", "429"]);
    const body = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`;
    expect(await commits("203.0.113.2", 3, "Transfer-Encoding: chunked\r\n", body)).toEqual(["201", "201", "429"]);
    expect(await commits("::ffff:203.0.113.2", 1, LENGTH)).toEqual(["429"]);
    expect(await commits("2001:db8::1", 1, LENGTH)).toEqual(["201"]);
  });

  it("[LM2] cannot be told by a client, even one that knows the header, nor in a request that is hidden from the front", async () => {
    expect(await commits("203.0.113.3", 3, `${LENGTH}${peerHeader}: 198.51.100.1\r\n`)).toEqual(["201", "201", "429"]);
    const hidden = `POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: 127.0.0.1\r\n${LENGTH}\r\n${BODY}`;
    expect(await commits("203.0.113.3", 1, `Content-Length: 0\r\nContent-Length: ${hidden.length}\r\n`, hidden)).toEqual(["400"]);
  });

  it("of this machine is not told, because a proxy may have it", async () => {
    expect(await commits("127.0.0.1", 2, LENGTH)).toEqual(["201", "201"]);
    expect(await commits("::1", 1, LENGTH)).toEqual(["429"]);
  });
});

describe("without the front", () => {
  let coordinator: Coordinator;

  beforeAll(async () => {
    coordinator = await startBundled({
      ...{ instance: "evm", port: await freePort(), stateDir: temporaryFolder("no-front"), serves: true, guardsFrames: false, cronMs: 250 },
      settings: { TESTNET_MODE: "true", RETENTION_RESULT_DAYS: "0" },
    });
    finallyDo(() => coordinator.stop());
  });

  it("workerd itself listens, and answers pings without a limit", async () => {
    const socket = new WebSocket(coordinator.socketUrl);
    await once(socket, "message");
    const last = new Promise<void>((resolve) => socket.on("pong", (data) => data.toString() === "299" && resolve()));
    // It may answer only the last of several (RFC 6455, section 5.5.3).
    for (let n = 0; n < 300; n++) socket.ping(String(n));
    await last;
  });

  // As with the front, and as under npm run dev and npm start; here because it needs settings of its own.
  it("[LM3] fires the cron by itself: what is past its time is forgotten", async () => {
    const body = { job_type: "TASK", user_id: "nobody", privacy_class: "PRIVATE", payload: { task_type: "classify", input: "x" } };
    const refused = await post(`${coordinator.url}/v1/jobs/commit/cheap`, body);
    expect(refused.status).toBe(422);
    const job = () => get(`${coordinator.url}/v1/jobs/${String(refused.body.job_id)}`);
    await until("an emptied result", async () => ((await job()).body.result === null ? true : undefined));
    expect((await job()).body).toMatchObject({ status: "failed", result: null });
  });
});
