import { describe, expect, test } from "vitest";
import { LIMITS, RATES, TIMING } from "../../../src/protocol/limits.ts";
import { readSettings } from "../../../src/coordinator/config.ts";
import { CLIENT_HEADER } from "../../../src/coordinator/hub/rpc.ts";
import { SocketGate } from "../../../src/coordinator/hub/socket-gate.ts";
import { type Registered, Sockets } from "../../../src/coordinator/hub/sockets.ts";
import { TestHub, until, withSettings } from "../support/worker-hub.ts";
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
  mobile: false,
  capabilities: ["TASK"],
  tier: "Open",
  tierDue: 0,
  acks: false,
  registeredAt: 0,
  context: 0,
  lastUsedAt: 0,
  draining: false,
  models: "",
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
    const sockets = new Sockets(PLATFORM);
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
  test("[LM2] up to the limit are let in, registered or not; the next is 429 with Retry-After, another client's is not", async () => {
    const hub = new TestHub();
    for (let n = 0; n < RATES.socketsPerIp - 1; n++) {
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
    const sockets = new Sockets(PLATFORM);
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
    now += TIMING.minute - 1;
    expect(dials("192.0.2.1").status).toBe(429);
    now += Number(refused.headers.get("Retry-After")) * 1_000 - TIMING.minute + 1;
    expect(dials("192.0.2.1").status).toBe(101);
  });
});

describe("sockets that do not register", () => {
  test("[LM1] of one client fill the table; another's comes in all the same, in place of the oldest of them", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const idle: Stranger[] = [];
    for (let n = 0; n < LIMITS.unregisteredSockets - 1; n++) idle.push(await stranger(hub, `192.0.2.${n % 2}`));
    const honest = await stranger(hub, "198.51.100.1");
    expect(idle.every(({ status, closed }) => status === 101 && closed() === null)).toBe(true);
    const worker = await hub.connect(undefined, undefined, { "x-test-ip": "198.51.100.2" });
    await until(async () => idle[0]?.closed() === 4008, "closed");
    expect(idle.slice(1).every(({ closed }) => closed() === null)).toBe(true);
    expect(honest.closed()).toBeNull();
    expect((await worker.register()).status).toBe("ok");
  });

  test("[LM1] the one who has most makes room for himself only when his oldest had time to register", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const idle: Stranger[] = [];
    for (let n = 0; n < LIMITS.unregisteredSockets; n++) idle.push(await stranger(hub, `192.0.2.${n}`));
    const refused = await dial(hub, "198.51.100.1");
    expect([refused.status, await refused.json()]).toMatchObject([503, { error: "overloaded" }]);
    hub.skip(TIMING.strangerSafe);
    expect((await stranger(hub, "198.51.100.1")).status).toBe(101);
    await until(async () => idle[0]?.closed() === 4008, "closed");
    expect(idle.filter(({ closed }) => closed() !== null)).toHaveLength(1);
  });
});

describe("messages of one socket", () => {
  test("[LM2] a burst is read; past it frames are answered `error` rate_limited and not read, and room comes back with time", async () => {
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

  test("[LM2] bytes are counted too: past the burst a frame is not read, and room comes back with time", async () => {
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

  test("[LM2] the result of the job that a worker holds is read all the same", async () => {
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

  test("[LM2] of the results of that job only one is read so: those of another attempt end nothing, so there could be any number of them", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    hub.skip(1_000);
    await flood(hub, worker, 4 * RATES.messageBurst, worker.completion({ ...job, attempt: 9 }, "none", { receipt: null }));
    await until(async () => heard(worker, "error") === RATES.messageBurst, "errors");
    expect(heard(worker, "job_complete_ack")).toBeLessThan(3 * RATES.messageBurst);
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

  test("[LM2] progress past it is dropped without a word, and the job goes on", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    hub.skip(1_000);
    await flood(hub, worker, RATES.messageBurst + 50, { type: "job_progress", job_id: job.job_id, attempt: job.attempt, seq: 0, delta: "x" });
    hub.skip(1_000);
    expect((await worker.complete(job)).status).toBe("accepted");
    expect(heard(worker, "error")).toBe(0);
  });

  test("[LM2] past a second burst of refusals nothing more is said, and after 5 s of it the socket is closed 4008", async () => {
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
