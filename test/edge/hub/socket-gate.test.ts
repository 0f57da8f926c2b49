import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { LIMITS, MiB, RATES } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { readSettings } from "../../../src/coordinator/config.ts";
import { CLIENT_HEADER } from "../../../src/coordinator/hub/rpc.ts";
import { SocketGate } from "../../../src/coordinator/hub/socket-gate.ts";
import type { Registered } from "../../../src/coordinator/hub/attachment.ts";
import { type Conn, Sockets } from "../../../src/coordinator/hub/sockets.ts";
import { shareOwner } from "../../../src/coordinator/rates/network.ts";
import { commitInput, TestHub, until, withSettings } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";

withSettings({ RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });

/** Connects as a client with this address. */
function dial(hub: TestHub, address: string, headers: Record<string, string> = {}): Promise<Response> {
  return hub.fetch(new Request("http://hub.test/", { headers: { Upgrade: "websocket", "x-test-ip": address, ...headers } }));
}

const REGISTERED: Registered = {
  key: "00".repeat(32),
  id: "worker",
  authenticated: false,
  capabilities: ["TASK"],
  tier: "Open",
  tierDue: 0,
  acks: false,
  registeredAt: 0,
  context: 0,
  lastUsedAt: 0,
  draining: false,
  models: "",
  contexts: "",
  chats: false,
};

/** A platform that keeps no sockets. */
const PLATFORM = { acceptWebSocket: () => {}, getWebSockets: () => [], setWebSocketAutoResponse: () => {}, getWebSocketAutoResponseTimestamp: () => null };
const NO_DISPATCHER = { apply: () => {}, send: () => {}, close: () => {} };

type Stranger = { status: number; closed: () => number | null };

/** An unregistered socket that records how it was closed. */
async function stranger(hub: TestHub, address: string): Promise<Stranger> {
  const { status, webSocket } = await dial(hub, address);
  let code: number | null = null;
  webSocket?.addEventListener("close", (event) => {
    code = event.code;
    webSocket.close();
  });
  webSocket?.accept();
  return { status, closed: () => code };
}

/** Sends this frame many times in one turn of the hub, like a socket that floods. */
function flood(hub: TestHub, worker: TestWorker, count: number, frame: object = { type: "heartbeat", loud: true }): Promise<void> {
  return hub.together(...Array.from({ length: count }, () => ({ from: worker, frame })));
}

const heard = (worker: TestWorker, type: string) => worker.texts.filter((text) => JSON.parse(text).type === type).length;

describe("sockets in all", () => {
  test("[LM1] 5,000 are held, the next is refused", () => {
    const sockets = new Sockets(PLATFORM, () => null);
    const settings = { ...readSettings({ INSTANCE: "evm" }), rateLimits: false };
    const gate = new SocketGate({ settings, sockets, dispatcher: NO_DISPATCHER, clock: () => Date.now() });
    const dialling = new Request("http://hub.test/", { headers: { Upgrade: "websocket" } });
    const statuses = Array.from({ length: LIMITS.sockets + 1 }, () => {
      const { status } = gate.accept(dialling);
      for (const stranger of [...sockets.unregistered()]) sockets.identify(stranger, REGISTERED);
      return status;
    });
    expect(statuses.filter((status) => status === 101)).toHaveLength(LIMITS.sockets);
    expect(statuses.at(-1)).toBe(503);
  });
});

describe("sockets of one client", () => {
  test("[LM2] are accepted up to the limit, registered or not; the next is 429 with Retry-After, another client's is not", async () => {
    // That the limit is 256 is in conformance/instances/rates.
    Reflect.set(env, "SOCKETS_PER_IP", "4");
    onTestFinished(() => void Reflect.deleteProperty(env, "SOCKETS_PER_IP"));
    const hub = new TestHub();
    // However slow the machine is, none of them is silent for too long.
    hub.skip(0);
    for (let n = 0; n < 3; n++) {
      const worker = await hub.connect(undefined, undefined, { "x-test-ip": "192.0.2.1" });
      await worker.register();
    }
    expect((await stranger(hub, "192.0.2.1")).status).toBe(101);
    const refused = await dial(hub, "192.0.2.1");
    expect([refused.status, refused.headers.get("retry-after"), await refused.json()]).toEqual([429, "60", { error: "rate_limited" }]);
    expect((await dial(hub, "192.0.2.1", { [CLIENT_HEADER]: "192.0.2.9" })).status, "nobody says himself who he is").toBe(429);
    expect((await stranger(hub, "192.0.2.2")).status).toBe(101);
    // The hub counts the open sockets themselves. So the count survives a loss of memory, and a closed socket makes room.
    await hub.evict();
    expect((await dial(hub, "192.0.2.1")).status).toBe(429);
    await hub.evict("close");
    expect((await stranger(hub, "192.0.2.1")).status).toBe(101);
  });
});

describe("sockets of one client, one after the other", () => {
  test("[LM2] as many as the rate in a minute; the next is 429 until the first are a minute old, another client's is not", () => {
    const sockets = new Sockets(PLATFORM, () => null);
    const settings = { ...readSettings({ INSTANCE: "evm" }), rateLimits: true };
    let now = 1_000_000;
    const gate = new SocketGate({ settings, sockets, dispatcher: NO_DISPATCHER, clock: () => now });
    const dials = (client: string) => {
      const answer = gate.accept(new Request("http://hub.test/", { headers: { Upgrade: "websocket", [CLIENT_HEADER]: client } }));
      // Closed again at once.
      for (const conn of [...sockets.unregistered()]) sockets.forget(conn);
      return answer;
    };
    for (let n = 0; n < RATES.connectsPerMinute; n++) expect(dials("192.0.2.1").status).toBe(101);
    const refused = dials("192.0.2.1");
    expect(refused.status).toBe(429);
    expect(dials("192.0.2.2").status).toBe(101);
    now += TIMING.ratePeriod - 1;
    expect(dials("192.0.2.1").status).toBe(429);
    now += Number(refused.headers.get("Retry-After")) * 1_000 - TIMING.ratePeriod + 1;
    expect(dials("192.0.2.1").status).toBe(101);
  });
});

describe("sockets that do not register", () => {
  /** A gate with its own clock, and what it answers to the dial of a client. */
  function gated(rateLimits = true): { sockets: Sockets; dial: (client: string) => number; pass: (ms: number) => void; clients: () => string[] } {
    const sockets = new Sockets(PLATFORM, (client) => shareOwner(client, rateLimits));
    let now = 1_000_000;
    const gate = new SocketGate({
      settings: { ...readSettings({ INSTANCE: "evm" }), rateLimits },
      ...{ sockets, dispatcher: NO_DISPATCHER, clock: () => now },
    });
    return {
      sockets,
      dial: (client) => gate.accept(new Request("http://hub.test/", { headers: { Upgrade: "websocket", [CLIENT_HEADER]: client } })).status,
      pass: (ms) => (now += ms),
      clients: () => [...sockets.unregistered()].map(({ attachment }) => attachment.client),
    };
  }

  test("[LM1] one client has 16; one more takes the place of its oldest if that had time to register, and nobody else's", () => {
    const { dial: dials, pass, clients, sockets } = gated();
    expect(dials("198.51.100.1")).toBe(101);
    for (let n = 0; n < LIMITS.unregisteredSocketsPerClient; n++) expect(dials("192.0.2.1")).toBe(101);
    const oldest = [...sockets.unregistered()][1];
    expect(dials("192.0.2.1")).toBe(503);
    pass(TIMING.unregisteredSafe);
    expect(dials("192.0.2.1")).toBe(101);
    expect([...sockets.unregistered()].includes(oldest!)).toBe(false);
    expect(clients().filter((client) => client === "192.0.2.1")).toHaveLength(LIMITS.unregisteredSocketsPerClient);
    expect(clients()[0]).toBe("198.51.100.1");
    // A registered socket uses no place.
    const [, first] = [...sockets.unregistered()];
    sockets.identify(first!, REGISTERED);
    expect(dials("192.0.2.1")).toBe(101);
    for (const conn of [...sockets.unregistered()]) sockets.forget(conn);
    for (let n = 0; n < LIMITS.unregisteredSocketsPerClient; n++) expect(dials("192.0.2.1")).toBe(101);
  });

  test("[LM1] an IPv6 client is counted by its /48", () => {
    const { dial: dials } = gated();
    for (let n = 0; n < LIMITS.unregisteredSocketsPerClient; n++) expect(dials(`2001:db8:1:${n + 1}::/64`)).toBe(101);
    expect(dials("2001:db8:1:99::/64")).toBe(503);
    expect(dials("2001:db8:2:99::/64")).toBe(101);
  });

  test("[LM1] of many clients fill the table: a newcomer takes the place of the client with the most, never of one that has as few", () => {
    const { dial: dials, pass, clients } = gated();
    expect(dials("198.51.100.1")).toBe(101);
    for (let n = 1; n < LIMITS.unregisteredSockets; n++) expect(dials(`192.0.2.${n % 16}`)).toBe(101);
    pass(TIMING.unregisteredSafe);
    expect(dials("198.51.100.2")).toBe(101);
    expect(clients()).toHaveLength(LIMITS.unregisteredSockets);
    expect(clients()[0]).toBe("198.51.100.1");
    expect(clients().at(-1)).toBe("198.51.100.2");
  });

  test("[LM1] of as many clients as there are places: a newcomer takes the place of the oldest, if that had time to register", () => {
    const { dial: dials, pass, clients } = gated();
    for (let n = 0; n < LIMITS.unregisteredSockets; n++) expect(dials(`192.0.2.${n}`)).toBe(101);
    const before = clients();
    pass(TIMING.unregisteredSafe - 1);
    expect(dials("198.51.100.1")).toBe(503);
    expect(clients()).toEqual(before);
    pass(1);
    expect(dials("192.0.2.7")).toBe(101);
    expect(clients()).toEqual([...before.filter((client) => client !== "192.0.2.7"), "192.0.2.7"]);
    expect(dials("198.51.100.1")).toBe(101);
    expect(clients()).toEqual([...before.filter((client) => !["192.0.2.7", "192.0.2.0"].includes(client)), "192.0.2.7", "198.51.100.1"]);
  });

  test("[LM1] where rates are not limited, or without addresses, all are one client: its oldest is closed if it had time to register", () => {
    const { sockets, dial: dials, pass } = gated(false);
    for (let n = 0; n < LIMITS.unregisteredSockets; n++) expect(dials("local")).toBe(101);
    expect(dials("local")).toBe(503);
    pass(TIMING.unregisteredSafe);
    const [oldest] = sockets.unregistered();
    expect(dials("local")).toBe(101);
    expect([...sockets.unregistered()].includes(oldest!)).toBe(false);
  });

  test("[LM1] after a loss of memory they still count for their clients", async () => {
    const hub = new TestHub();
    hub.skip(0);
    for (let n = 0; n < LIMITS.unregisteredSocketsPerClient; n++) expect((await stranger(hub, "192.0.2.1")).status).toBe(101);
    await hub.evict();
    const refused = await dial(hub, "192.0.2.1");
    expect([refused.status, await refused.json()]).toMatchObject([503, { error: "overloaded" }]);
    expect((await stranger(hub, "192.0.2.2")).status).toBe(101);
  });
});

describe("bytes that a worker has not read", () => {
  test("[LM1] a worker that works on its jobs is sent any number of them; one that only fails them is closed at 4 MiB", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    // Larger than a client can send: two of them are within the limit, three are not.
    const payload = JSON.stringify({ task_type: "summarize", input: "x".repeat(0.4 * LIMITS.unreadBytes) });
    const given = async () => {
      await hub.stub.commit(commitInput({ payload }));
      return worker.assigned({ acks: false });
    };
    for (let n = 0; n < 4; n++) expect((await worker.complete(await given())).status).toBe("accepted");
    for (let n = 0; n < 2; n++) {
      const { job_id, attempt } = await given();
      worker.send({ type: "job_failed", job_id, attempt, error: "no", retryable: false });
      await until(async () => (await hub.job(job_id)).status === "failed", "failed");
      // It is not its job any more, so this does not show that the worker has read it.
      worker.send({ type: "job_ack", job_id, attempt });
      await worker.next("job_cancel");
    }
    expect(await hub.workersOnline()).toBe(1);
    const last = commitInput({ payload });
    expect((await hub.stub.commit(last)).ok).toBe(true);
    expect(await worker.ended()).toBe(4008);
    expect(await hub.workersOnline()).toBe(0);
    const other = await hub.worker();
    await hub.pass(TIMING.grace);
    expect((await other.assigned()).job_id).toBe(last.id);
  });

  /** The sockets of a hub, and how to open one and to register it. */
  function table(): { sockets: Sockets; open: (client: string) => Conn } {
    const sockets = new Sockets(PLATFORM, (client) => shareOwner(client, true));
    const now = 1_000_000;
    const gate = new SocketGate({ settings: { ...readSettings({ INSTANCE: "evm" }), rateLimits: true }, sockets, dispatcher: NO_DISPATCHER, clock: () => now });
    const open = (client: string) => {
      expect(gate.accept(new Request("http://hub.test/", { headers: { Upgrade: "websocket", [CLIENT_HEADER]: client } })).status).toBe(101);
      const conn = [...sockets.unregistered()].at(-1)!;
      sockets.identify(conn, REGISTERED);
      return conn;
    };
    return { sockets, open };
  }

  test("[LM1] many small frames count with what the platform keeps beside each", () => {
    const { sockets, open } = table();
    const conn = open("192.0.2.1");
    let sent = 0;
    while (sockets.isHere(conn)) sockets.send(conn.id, `{"n":${++sent}}`);
    expect(sent).toBeGreaterThan(LIMITS.unreadBytes / LIMITS.unreadFrameBytes / 2);
    expect(sent).toBeLessThanOrEqual(LIMITS.unreadBytes / LIMITS.unreadFrameBytes);
  });

  test("[LM1] the sockets of one client, or of one IPv6 /48, have 64 MiB together; who reads makes room, and another client has its own", () => {
    const { sockets, open } = table();
    const text = "x".repeat(MiB);
    const each = Math.floor(LIMITS.unreadBytes / MiB) - 1;
    const count = Math.floor(LIMITS.unreadBytesPerClient / (each * MiB + 4 * LIMITS.unreadFrameBytes));
    const send = (conn: Conn, times: number) => {
      for (let n = 0; n < times; n++) sockets.send(conn.id, text);
      return sockets.isHere(conn);
    };
    const conns = Array.from({ length: count }, (_, n) => open(`2001:db8:1:${n + 1}::/64`));
    for (const conn of conns) expect(send(conn, each)).toBe(true);
    expect(send(open("2001:db8:1:ffff::/64"), each)).toBe(false);
    expect(send(open("2001:db8:2:1::/64"), each)).toBe(true);
    sockets.noteRead(conns[0]!);
    expect(send(open("2001:db8:1:ffff::/64"), each)).toBe(true);
    // A socket that is gone gives back what it had.
    sockets.forget(conns[1]!);
    expect(send(conns[0]!, each)).toBe(true);
  });
});

describe("sockets that the hub has closed and whose client stays connected", () => {
  /** The sockets of a hub, and how to open one. */
  function table(): { sockets: Sockets; dial: (client: string) => { status: number; conn: Conn | undefined } } {
    const sockets = new Sockets(PLATFORM, (client) => shareOwner(client, true));
    const gate = new SocketGate({
      settings: { ...readSettings({ INSTANCE: "evm" }), rateLimits: true },
      ...{ sockets, dispatcher: NO_DISPATCHER, clock: () => 1_000_000 },
    });
    const dialAs = (client: string) => {
      const { status } = gate.accept(new Request("http://hub.test/", { headers: { Upgrade: "websocket", [CLIENT_HEADER]: client } }));
      return { status, conn: status === 101 ? [...sockets.unregistered()].at(-1) : undefined };
    };
    return { sockets, dial: dialAs };
  }

  test("[LM2] one client has as many of them as open ones; the next is 429 until one has ended, another client's is not", () => {
    const { sockets, dial: dials } = table();
    const closed = Array.from({ length: RATES.socketsPerIp }, () => {
      const { conn } = dials("192.0.2.1");
      sockets.close(conn!.id, 4_008, "not registered in time");
      return conn!;
    });
    expect(sockets.countOf("192.0.2.1")).toBe(0);
    expect(dials("192.0.2.1").status).toBe(429);
    expect(dials("192.0.2.2").status).toBe(101);
    expect(sockets.ended(closed[0]!.ws), "the hub has closed it before").toBeUndefined();
    expect(dials("192.0.2.1").status).toBe(101);
  });

  test("[LM1] a hub has 5,000 of them; the next socket is 503 until one has ended", () => {
    const { sockets, dial: dials } = table();
    const closed = Array.from({ length: LIMITS.lingeringSockets }, (_, n) => {
      const { conn } = dials(`10.0.${n >> 8}.${n & 255}`);
      sockets.close(conn!.id, 4_008, "not registered in time");
      return conn!;
    });
    expect(dials("192.0.2.1").status).toBe(503);
    sockets.ended(closed[0]!.ws);
    expect(dials("192.0.2.1").status).toBe(101);
  });

  test("[LM1] what one of them has not read stays in its client's share until it has ended", () => {
    const { sockets, dial: dials } = table();
    const send = (conn: Conn) => {
      for (let n = 1; n < LIMITS.unreadBytes / MiB; n++) sockets.send(conn.id, "x".repeat(MiB));
      return sockets.isHere(conn);
    };
    const most = Math.floor(LIMITS.unreadBytesPerClient / LIMITS.unreadBytes);
    const worker = () => {
      const { conn } = dials("192.0.2.1");
      sockets.identify(conn!, REGISTERED);
      return conn!;
    };
    const all = Array.from({ length: 2 * most }, worker);
    const full = all.findIndex((conn) => !send(conn));
    expect(full).toBeGreaterThanOrEqual(most);
    for (const conn of all.slice(0, full)) sockets.close(conn.id, 4_008, "");
    expect(send(all.at(-1)!)).toBe(false);
    for (const conn of all.slice(0, full + 1)) sockets.ended(conn.ws);
    expect(send(worker())).toBe(true);
  });

  test("[LM2] they are counted again after a loss of memory", () => {
    const { sockets, dial: dials } = table();
    const { conn } = dials("192.0.2.1");
    const ws = conn!.ws as WebSocket;
    ws.accept();
    sockets.close(conn!.id, 4_008, "");
    expect(sockets.of(ws), "its frames are ignored").toBeUndefined();
    const again = new Sockets({ ...PLATFORM, getWebSockets: () => [ws] }, () => null);
    expect(again.reload(1_000_000)).toEqual([]);
    expect([again.countOf("192.0.2.1"), again.lingeringOf("192.0.2.1")]).toEqual([0, 1]);
    again.ended(ws);
    expect(again.lingeringOf("192.0.2.1")).toBe(0);
  });
});

describe("answers to heartbeats in another form", () => {
  test("[WS6] alone they close no socket: they end when half of what may be unread is, and there is one again when the worker has read", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const acks = () => heard(worker, "heartbeat_ack");
    // As many as an idle worker sends in a few hours, at the rate that is allowed.
    const most = LIMITS.unreadBytes / LIMITS.unreadFrameBytes;
    for (let sent = 0; sent < 1.2 * most; sent += RATES.messageBurst) {
      await flood(hub, worker, RATES.messageBurst);
      hub.skip(2_000);
      await flood(hub, worker, 1, { type: "heartbeat", n: sent });
    }
    expect(acks()).toBeGreaterThan(0.4 * most);
    expect(acks()).toBeLessThan(0.6 * most);
    expect(await hub.workersOnline()).toBe(1);
    const before = acks();
    await hub.stub.commit(commitInput());
    await until(async () => heard(worker, "job_assign") === 1, "a job");
    const { job_id, attempt } = JSON.parse(worker.texts.find((text) => text.includes("job_assign"))!);
    worker.send({ type: "job_ack", job_id, attempt });
    worker.send({ type: "heartbeat", again: true });
    await until(async () => acks() === before + 1, "an answer");
  });
});

describe("frames and bytes of one client", () => {
  /** A gate with its own clock, how to open a socket, and whether it may read a frame of so many bytes, and an update. */
  function gated(rateLimits = true): {
    sockets: Sockets;
    connect: (client: string) => Conn;
    reads: (conn: Conn, bytes?: number, awaited?: boolean) => boolean;
    updates: (conn: Conn) => boolean;
    pass: (ms: number) => void;
  } {
    const sockets = new Sockets(PLATFORM, () => null);
    let now = 1_000_000;
    const gate = new SocketGate({ settings: { ...readSettings({ INSTANCE: "evm" }), rateLimits }, sockets, dispatcher: NO_DISPATCHER, clock: () => now });
    const connect = (client: string) => {
      const before = new Set(sockets.unregistered());
      expect(gate.accept(new Request("http://hub.test/", { headers: { Upgrade: "websocket", [CLIENT_HEADER]: client } })).status).toBe(101);
      return [...sockets.unregistered()].find((conn) => !before.has(conn))!;
    };
    return {
      ...{ sockets, connect, reads: (conn, bytes = 30, awaited = false) => gate.mayRead(conn, "{}", bytes, () => awaited) },
      ...{ updates: (conn) => gate.mayUpdate(conn), pass: (ms) => (now += ms) },
    };
  }

  test("[LM2] updates have a rate of their own, for a socket and for all sockets of its client; where rates are off they have none", () => {
    const { connect, reads, updates, pass } = gated();
    const count = (conn: Conn, times: number) => Array.from({ length: times }, () => updates(conn)).filter(Boolean).length;
    const all = Array.from({ length: RATES.clientUpdateBurst / RATES.updateBurst }, () => connect("192.0.2.1"));
    for (const conn of all) expect(count(conn, RATES.updateBurst + 1)).toBe(RATES.updateBurst);
    expect(reads(all[0]!), "other frames go on").toBe(true);
    expect(count(connect("192.0.2.1"), 1)).toBe(0);
    expect(count(connect("198.51.100.1"), 100)).toBe(RATES.updateBurst);
    for (let n = 0; n < 20; n++) expect(count(connect("local"), 100)).toBe(RATES.updateBurst);
    pass(1_000);
    expect(count(all[0]!, 100)).toBe(RATES.updatesPerSecond);
    expect(all.map((conn) => count(conn, 1)).reduce((sum, one) => sum + one)).toBe(all.length - 1);
    const more = Array.from({ length: 20 }, () => count(connect("192.0.2.1"), 1));
    expect(all.length + more.reduce((sum, one) => sum + one)).toBe(RATES.clientUpdatesPerSecond);
    const free = gated(false);
    const one = free.connect("192.0.2.1");
    for (let n = 0; n < 2 * RATES.clientUpdateBurst; n++) expect(free.updates(one)).toBe(true);
  });

  test("[LM2] all its sockets share one budget; other clients and clients without an address have their own, and it fills again with time", () => {
    const { connect, reads, pass } = gated();
    const filled = Array.from({ length: RATES.clientByteBurst / RATES.byteBurst }, () => connect("192.0.2.1"));
    for (const conn of filled) expect(reads(conn, RATES.byteBurst)).toBe(true);
    const fresh = connect("192.0.2.1");
    expect(reads(fresh, 1_000)).toBe(false);
    expect(reads(fresh, 1_000, true), "the result of the job that it holds").toBe(true);
    expect(reads(connect("198.51.100.1"), RATES.byteBurst)).toBe(true);
    for (let n = 0; n < 2 * filled.length; n++) expect(reads(connect("local"), RATES.byteBurst)).toBe(true);
    pass(1_000);
    expect(reads(fresh, RATES.clientBytesPerSecond)).toBe(true);
    expect(reads(connect("192.0.2.1"), 1_000)).toBe(false);
  });

  test("[LM2] however many sockets it has, or opens one after the other, they may send no more frames than the client may", () => {
    const { sockets, connect, reads, pass } = gated();
    const other = connect("198.51.100.1");
    /** How many frames are read when enough sockets for the client's burst send theirs and go. */
    const all = (client: string) => {
      let read = 0;
      for (let sent = 0; sent < RATES.clientMessageBurst; sent += RATES.messageBurst) {
        const conn = connect(client);
        for (let n = 0; n < RATES.messageBurst; n++) if (reads(conn)) read++;
        sockets.forget(conn);
      }
      return read;
    };
    expect(all("2001:db8:1:1::/64")).toBe(RATES.clientMessageBurst);
    // Of an IPv6 client the /48 counts, as for all that it holds.
    expect(all("2001:db8:1:2::/64")).toBe(0);
    expect(reads(other)).toBe(true);
    pass(1_000);
    expect(all("2001:db8:1:3::/64")).toBe(RATES.clientMessagesPerSecond);
  });

  test("[LM2] after more clients than a hub has sockets, one that still has a socket has not got a new budget; one that has left is forgotten", () => {
    const { sockets, connect, reads } = gated();
    const spent = (client: string) => {
      const all = Array.from({ length: RATES.clientByteBurst / RATES.byteBurst }, () => connect(client));
      for (const conn of all) expect(reads(conn, RATES.byteBurst)).toBe(true);
      return all;
    };
    spent("192.0.2.1");
    for (const conn of spent("192.0.2.2")) sockets.forget(conn);
    for (let n = 0; n < LIMITS.sockets; n++) {
      const conn = connect(`198.51.${n >> 8}.${n & 255}`);
      reads(conn);
      sockets.forget(conn);
    }
    expect(reads(connect("192.0.2.1"), 1_000)).toBe(false);
    expect(reads(connect("192.0.2.2"), RATES.byteBurst)).toBe(true);
  });
});

describe("messages of one socket", () => {
  test("[LM2] a burst is read; above it frames get `error` rate_limited and are not read, and there is room again with time", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    hub.skip(1_000);
    await flood(hub, worker, RATES.messageBurst + 3);
    await until(async () => heard(worker, "error") === 3, "three errors");
    expect(heard(worker, "heartbeat_ack")).toBe(RATES.messageBurst);
    expect(worker.texts.filter((text) => text.includes('"error"')).every((text) => JSON.parse(text).code === "rate_limited")).toBe(true);
    hub.skip(100);
    await flood(hub, worker, RATES.messagesPerSecond / 10 + 1);
    await until(async () => heard(worker, "error") === 4, "one error more");
    expect(heard(worker, "heartbeat_ack")).toBe(RATES.messageBurst + RATES.messagesPerSecond / 10);
  });

  test("[LM2] bytes are counted too: above the burst a frame is not read, and there is room again with time", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    hub.skip(1_000);
    const loud = { type: "heartbeat", pad: "x".repeat(1024 * 1024 - 64) };
    const burst = RATES.byteBurst / (1024 * 1024);
    await flood(hub, worker, burst + 2, loud);
    await until(async () => heard(worker, "error") === 2, "two errors");
    expect(heard(worker, "heartbeat_ack")).toBe(burst);
    hub.skip(500);
    await flood(hub, worker, 1, loud);
    await until(async () => heard(worker, "heartbeat_ack") === burst + 1, "one more answer");
  });

  test("[LM2, WS3] an update above its rate is `rate_limited` and changes nothing, one after a pause is read, and 5 s of them close the socket", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const update = (capabilities: string[]) => ({ type: "register", provider_pubkey: worker.key.publicKey, provider_type: "DESKTOP", capabilities });
    await hub.together(...Array.from({ length: RATES.updateBurst }, () => ({ from: worker, frame: update(["TASK"]) })));
    for (let n = 0; n < RATES.updateBurst; n++) await worker.next("register_ack");
    await flood(hub, worker, 3, update([]));
    const message = "more updates than 1 a second; this frame was not read";
    for (let n = 0; n < 3; n++) expect(await worker.next("error")).toEqual({ type: "error", code: "rate_limited", message });
    await hub.commit();
    expect((await worker.complete(await worker.assigned())).status, "it still takes tasks").toBe("accepted");
    hub.skip(2 * TIMING.floodOver);
    await flood(hub, worker, 1, update(["TASK"]));
    await worker.next("register_ack");
    for (let half = 0; half <= TIMING.flood / 500; half++) {
      expect(await hub.workersOnline()).toBe(1);
      await flood(hub, worker, 2, update([]));
      hub.skip(500);
    }
    await flood(hub, worker, 2, update([]));
    expect(await hub.workersOnline()).toBe(0);
    expect(await worker.ended()).toBe(4008);
  });

  test("[LM2] the result of the job that a worker holds is always read", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    hub.skip(1_000);
    const loud: object[] = Array.from({ length: 2 * RATES.messageBurst }, () => ({ type: "heartbeat", loud: true }));
    const result = worker.completion(job, { summary: "s", word_count: 1 });
    await hub.together(...[...loud, result].map((frame) => ({ from: worker, frame })));
    await until(async () => worker.texts.some((text) => text.includes('"accepted"')), "an accepted result");
    expect((await hub.job(id)).status).toBe("completed");
  });

  test("[LM2] only one result per attempt is always read, because results of another attempt end nothing and could be any number", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    // The acknowledgement has arrived before the flood, which goes past the socket.
    await worker.quiet();
    hub.skip(1_000);
    await flood(hub, worker, 4 * RATES.messageBurst, worker.completion({ ...job, attempt: 9 }, { error: "none" }));
    await until(async () => heard(worker, "error") === RATES.messageBurst, "errors");
    expect(heard(worker, "job_complete_ack")).toBe(RATES.messageBurst + 1);
    expect((await hub.job(job.job_id)).status).toBe("running");
  });

  test("[LM2] results of jobs that its key never held close the socket, however small and of whatever job", async () => {
    const hub = new TestHub();
    const [worker, holder] = [await hub.worker({ capabilities: [] }), await hub.worker()];
    await hub.commit();
    const live = await holder.assigned();
    for (let n = 0; n < LIMITS.foreignResultsInARow - 1; n++) {
      const job_id = n % 2 === 0 ? crypto.randomUUID() : live.job_id;
      expect((await worker.complete({ job_id, attempt: 1 })).error).toBe(n % 2 === 0 ? "unknown_job" : "not_assigned");
      hub.skip(100);
    }
    expect((await worker.complete({ job_id: crypto.randomUUID(), attempt: 1 })).error).toBe("unknown_job");
    expect(await worker.ended()).toBe(4008);
    expect((await holder.complete(live)).status).toBe("accepted");
  });

  test("[LM2, WS10] a result that comes again is not one of those: after it their count starts again", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const result = worker.completion(await worker.assigned(), { summary: "short", word_count: 1 });
    for (const status of ["accepted", "duplicate"]) {
      worker.send(result);
      expect((await worker.next("job_complete_ack")).status).toBe(status);
      for (let n = 0; n < LIMITS.foreignResultsInARow - 1; n++) {
        expect((await worker.complete({ job_id: crypto.randomUUID(), attempt: 1 })).error).toBe("unknown_job");
        hub.skip(100);
      }
    }
    await worker.quiet();
  });

  test("[LM2, WS12] a large result of a job that its key never held is refused unread; one of a job that it held is read", async () => {
    const hub = new TestHub();
    const [worker, other] = [await hub.worker(), await hub.worker({ capabilities: [] })];
    await hub.commit();
    const job = await worker.assigned();
    const output = { summary: "x".repeat(100_000), word_count: 1 };
    // Cut off: if it were parsed it would be `bad_message`.
    const torn = (to: TestWorker) => JSON.stringify(to.completion(job, output)).slice(0, -1);
    other.send(torn(other));
    expect((await other.next("job_complete_ack")).error).toBe("not_assigned");
    worker.send(torn(worker));
    expect((await worker.next("error")).code).toBe("bad_message");
    const whole = worker.completion(job, output);
    for (const status of ["accepted", "duplicate"]) {
      worker.send(whole);
      expect((await worker.next("job_complete_ack")).status).toBe(status);
    }
    other.send(torn(other));
    expect((await other.next("job_complete_ack")).error).toBe("not_assigned");
  });

  test("[LM2] progress above it is dropped without an answer, and the job goes on", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    // The acknowledgement has arrived before the flood, which goes past the socket.
    await worker.quiet();
    hub.skip(1_000);
    await flood(hub, worker, RATES.messageBurst + 50, { type: "job_progress", job_id: job.job_id, attempt: job.attempt, seq: 0, delta: "x" });
    hub.skip(1_000);
    expect((await worker.complete(job)).status).toBe("accepted");
    expect(heard(worker, "error")).toBe(0);
  });

  test("[LM2] after a second burst of refusals there is no answer, and after 5 s the socket is closed with 4008", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    hub.skip(1_000);
    await flood(hub, worker, 4 * RATES.messageBurst);
    await until(async () => heard(worker, "error") === RATES.messageBurst, "errors");
    for (let second = 1; second < TIMING.flood / 1_000; second++) {
      hub.skip(1_000);
      await flood(hub, worker, 2 * RATES.messageBurst);
    }
    expect(heard(worker, "error")).toBe(RATES.messageBurst);
    expect(await hub.workersOnline()).toBe(1);
    hub.skip(1_000);
    await flood(hub, worker, 2 * RATES.messageBurst);
    expect(await hub.workersOnline()).toBe(0);
    expect(await worker.ended()).toBe(4008);
  });
});

describe("results that come too late, while D1 does not answer", () => {
  test("[LM1] [WS10] all sockets of one client have so many bytes of them in memory; the rest gets no answer, until it is sent again; another client has its own", async () => {
    const hub = new TestHub();
    const worker = async (address: string) => {
      const socket = await hub.connect(undefined, undefined, { "x-test-ip": address });
      await socket.register();
      return socket;
    };
    const [one, two, other] = [await worker("203.0.113.7"), await worker("203.0.113.7"), await worker("203.0.113.8")];
    const answer = Promise.withResolvers<void>();
    await hub.breakD1({ read: () => answer.promise });
    // A character may take two bytes in memory.
    const late = { type: "job_complete", job_id: crypto.randomUUID(), output: "x".repeat(LIMITS.lookupBytesPerClient / 4), receipt: null };
    for (const from of [one, two, other]) {
      from.send(late);
      await from.quiet();
    }
    answer.resolve();
    for (const from of [one, other]) expect(await from.next("job_complete_ack")).toMatchObject({ error: "unknown_job" });
    await two.quiet();
    two.send(late);
    expect(await two.next("job_complete_ack")).toMatchObject({ error: "unknown_job" });
  });
});

test("[LM1] [WS10] a small frame about a job that has ended does not make D1 read the large result of that job", async () => {
  const hub = new TestHub();
  const worker = await hub.worker();
  const id = await hub.commit();
  const job = await worker.assigned();
  const output = { summary: "s".repeat(100_000), word_count: 1 };
  const accepted = worker.completion(job, output);
  worker.send(accepted);
  await worker.next("job_complete_ack");
  await hub.recorded(id, "completed");
  await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "copied to D1");
  const statements: D1PreparedStatement = Object.getPrototypeOf(env.DB.prepare("SELECT 1"));
  const reading = vi.spyOn(statements, "first");
  worker.send({ type: "job_complete", job_id: id, output: "" });
  expect((await worker.next("job_complete_ack")).error).toBe("already_terminal");
  worker.send(accepted);
  expect((await worker.next("job_complete_ack")).status).toBe("duplicate");
  const read = JSON.stringify(await Promise.all(reading.mock.results.map(({ value }) => value)));
  reading.mockRestore();
  expect(read).toContain(worker.key.publicKey);
  expect(read.length).toBeLessThan(2_000);
});
