// One client, or jobs that nobody can run, that try to hold everything: what is left for the others [LM1, API5, API6].
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { KiB, LIMITS, MiB } from "../../../src/protocol/limits.ts";
import { type Answer, llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { RawHttp } from "../support/raw-http.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { within } from "../support/wait.ts";
import { fullWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
/** The input of a large job. */
const LARGE = "x".repeat(256 * KiB - 2_000);
/** The job that is one too many for a worker that reads nothing. */
const MOST_UNREAD = LIMITS.unreadBytes / (256 * KiB) + 1;

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });
});

let last = 0;
/** The headers of a new client. */
const from = (): Record<string, string> => ({ "x-test-ip": `10.8.${Math.floor(++last / 250)}.${(last % 250) + 1}` });

/** Makes `count` requests, 20 at a time. */
async function many<T>(count: number, ask: () => Promise<T>): Promise<T[]> {
  const answers: T[] = [];
  let left = count;
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      while (left-- > 0) answers.push(await ask());
    }),
  );
  return answers;
}

const counted = (answers: readonly { status: number }[], status: number) => answers.filter((answer) => answer.status === status).length;

test("[API6, LM1] one client opens 500 streams: it has fifty, and another client's stream opens", { timeout: 120_000 }, async () => {
  const id = await evm.api.commit(llm(newUser()), "fast", from());
  const one = from();
  const readers: ReadableStreamDefaultReader<Uint8Array>[] = [];
  const open = async (headers: Record<string, string>): Promise<number> => {
    const response = await fetch(`${evm.url}/v1/jobs/${id}/events`, { headers });
    const reader = response.body?.getReader();
    if (response.status === 200 && reader !== undefined) {
      expect((await reader.read()).done).toBe(false);
      readers.push(reader);
    } else await reader?.cancel();
    return response.status;
  };
  const statuses = await many(150, async () => ({ status: await open(one) }));
  expect(counted(statuses, 200)).toBe(LIMITS.streamsPerClient);
  expect(counted(statuses, 503)).toBe(100);
  expect(await open(from())).toBe(200);
  for (const reader of readers) await reader.cancel();
});

test("[API6, LM1] one client holds waits: it has two hundred, the next is answered at once, and another client's is held", { timeout: 120_000 }, async () => {
  const worker = await fullWorker(evm.socketUrl, { capabilities: ["LLM_INFER"] });
  const id = await evm.api.commit(llm(newUser()), "fast", from());
  worker.ack(await worker.assigned(id));
  await worker.settled();
  const answers = { one: 0, other: 0 };
  const wait = async (who: "one" | "other", headers: Record<string, string>) => {
    const answer = await evm.api.get(`/v1/jobs/${id}?wait=25`, headers);
    answers[who]++;
    return answer;
  };
  // Two addresses of one IPv6 /48: by their rates they are two clients, by their shares one.
  const share = [{ "x-test-ip": "2001:db8:77:1::1" }, { "x-test-ip": "2001:db8:77:2::1" }];
  const waits = Array.from({ length: LIMITS.waitsPerClient + 20 }, (_, n) => wait("one", share[n % 2] ?? {}));
  await within(
    20_000,
    () => (answers.one >= 20 ? true : undefined),
    () => `20 answers; got ${answers.one}`,
  );
  const other = wait("other", from());
  expect((await wait("one", share[0] ?? {})).body).toMatchObject({ id, status: "running" });
  expect(answers).toEqual({ one: 21, other: 0 });
  expect((await worker.complete(id, "done")).status).toBe("accepted");
  expect((await other).body).toMatchObject({ id, status: "completed" });
  expect((await Promise.all(waits)).filter(({ body }) => body.status === "completed")).toHaveLength(LIMITS.waitsPerClient);
});

test(
  "[API5, LM1] a hundred commits with one idempotency key want to wait for its job: eight do, the others get its present state",
  { timeout: 60_000 },
  async () => {
    const [body, headers] = [llm(newUser(), LARGE), { "idempotency-key": "one for all", prefer: "wait=25" }];
    const id = await evm.api.commit(body, "fast", { ...from(), "idempotency-key": "one for all" });
    let answered = 0;
    const waits = Array.from({ length: 100 }, () =>
      evm.api.tryCommit(body, "fast", { ...from(), ...headers }).then((answer) => {
        answered++;
        return answer;
      }),
    );
    await within(
      20_000,
      () => (answered >= 92 ? true : undefined),
      () => `92 answers; got ${answered}`,
    );
    await delay(500);
    expect(answered).toBe(92);
    const worker = await fullWorker(evm.socketUrl, { capabilities: ["LLM_INFER"] });
    for (let done = ""; done !== id;) {
      const assign = await worker.frame(
        (frame) => frame.type === "job_assign" && !worker.frames.some((sent) => sent.type === "job_complete_ack" && sent.job_id === frame.job_id),
      );
      done = String(assign.job_id);
      await worker.complete(done, "done");
    }
    const answers = await Promise.all(waits);
    expect(answers.every(({ status, body: { job_id } }) => status === 201 && job_id === id)).toBe(true);
    expect(answers.filter(({ text }) => text.includes('"completed"'))).toHaveLength(LIMITS.waitersPerKey);
  },
);

test("[LM1] one client opens sockets that never register: it has sixteen, and costs another client's none", { timeout: 60_000 }, async () => {
  const honest = await WorkerSocket.open(evm.socketUrl, newIdentity(), from());
  const lines = [`Host: ${evm.host}`, `x-test-ip: ${String(from()["x-test-ip"])}`];
  const raws = await Promise.all(Array.from({ length: 100 }, () => RawSocket.open(evm.port, "/", lines)));
  try {
    const open = () => raws.filter(({ head, ended, frames }) => head.startsWith("HTTP/1.1 101") && !ended && !frames.some(({ opcode }) => opcode === 8));
    expect(open().length).toBeLessThanOrEqual(LIMITS.unregisteredSocketsPerClient);
    expect(raws.filter(({ head }) => head.startsWith("HTTP/1.1 503")).length).toBeGreaterThan(0);
    expect((await honest.registerSigned()).status).toBe("ok");
  } finally {
    for (const raw of raws) raw.end();
  }
});

test("[LM1] a worker that reads nothing is closed when 4 MiB wait for it", { timeout: 120_000 }, async () => {
  const raw = new RawHttp(evm.port);
  raw.socket.pause();
  const { pubkey } = newIdentity();
  raw.write(
    `GET / HTTP/1.1\r\nHost: ${evm.host}\r\nx-test-ip: ${String(from()["x-test-ip"])}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString("base64")}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  );
  const send = (frame: object) => raw.write(masked(JSON.stringify(frame)));
  send({ type: "register", provider_pubkey: pubkey, provider_type: "DESKTOP", capabilities: ["TASK"], features: ["ack"] });
  const user = newUser();
  const { pairing_code } = (await evm.api.post("/v1/trust/create", { user_id: user }, from())).body;
  expect((await evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey: pubkey }, from())).status).toBe(200);
  // Its owner commits the jobs, so it knows their ids without reading anything, and fails each one.
  const online = async () => (await evm.api.get("/v1/health", from())).body.workers_online;
  await within(
    5_000,
    async () => ((await online()) === 1 ? true : undefined),
    () => "its registration",
  );
  let jobs = 0;
  while ((await online()) === 1) {
    expect(++jobs).toBeLessThanOrEqual(MOST_UNREAD);
    const id = await evm.api.commit(task(user, LARGE, { privacy_class: "PRIVATE" }), "cheap", from());
    await within(
      10_000,
      async () => {
        // Every poll is of another client: together they are above the rate of one.
        const { status } = (await evm.api.get(`/v1/jobs/${id}`, from())).body;
        if (status === "assigned") send({ type: "job_failed", job_id: id, attempt: 1, error: "no", retryable: false });
        return status === "failed" || (await online()) === 0 ? true : undefined;
      },
      () => `the end of ${id} or of its worker`,
    );
  }
  expect(jobs).toBe(MOST_UNREAD);
  raw.socket.resume();
  await within(
    20_000,
    () => (raw.all.includes("\x0f\xa8reads nothing") ? true : undefined),
    () => `a close frame; got ${raw.all.length} characters, at the end ${JSON.stringify(raw.all.slice(-300))}`,
  );
  expect(raw.all.length).toBeLessThan(LIMITS.unreadBytes + MiB / 16);
  raw.end();
});

test("[LM1] large LLM jobs that nobody can run fill the queue: TASK jobs run beside them, at once and after a wait", { timeout: 120_000 }, async () => {
  const worker = await fullWorker(evm.socketUrl, { capabilities: ["TASK"] });
  const one = from();
  // Of one client there is room for a quarter of 32 MiB, of all together for what is not kept for TASK jobs.
  const own: Answer[] = await many(40, () => evm.api.tryCommit(llm(newUser(), LARGE), "fast", one));
  expect(counted(own, 201)).toBeLessThanOrEqual((LIMITS.queuedPayloadBytes / 4 / (256 * KiB)) | 0);
  expect(own.find(({ status }) => status !== 201)).toMatchObject({ status: 503, body: { error: "queue_full" } });
  const others: Answer[] = await many(137, () => evm.api.tryCommit(llm(newUser(), LARGE), "fast", from()));
  expect(others[0]?.status).toBe(201);
  expect(others.find(({ status }) => status !== 201)).toMatchObject({ status: 503, body: { error: "queue_full" } });
  const taken = [...own, ...others].filter(({ status }) => status === 201);
  expect(taken.length).toBeGreaterThan(100);
  // On a slow machine some have waited for as long as they may, and made room.
  const states = await Promise.all(taken.map(({ body }) => evm.api.get(`/v1/jobs/${String(body.job_id)}`, from())));
  expect(states.filter(({ body }) => body.status === "pending").length).toBeLessThanOrEqual(LIMITS.queuedPayloadBytes / (256 * KiB));
  const first = await evm.api.commit(task(newUser(), LARGE), "cheap", from());
  await worker.assigned(first);
  const second = await evm.api.commit(task(newUser(), LARGE), "cheap", from());
  for (const id of [first, second]) {
    await worker.assigned(id);
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  }
});

/** Returns a masked text frame as latin1 text, with a mask of zeros. */
function masked(text: string): string {
  const body = Buffer.from(text);
  const length = body.length < 126 ? Buffer.from([0x80 | body.length]) : Buffer.from([0xfe, body.length >> 8, body.length & 255]);
  return Buffer.concat([Buffer.from([0x81]), length, Buffer.alloc(4), body]).toString("latin1");
}
