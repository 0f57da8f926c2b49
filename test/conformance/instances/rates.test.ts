import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { within } from "../support/wait.ts";
import { fullWorker, unsignedWorker } from "../support/worker.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });
});

let last = 0;
/** The headers of a new client. */
const from = (): Record<string, string> => ({ "x-test-ip": `10.0.${Math.floor(++last / 250)}.${(last % 250) + 1}` });

/** Refused, also for a web page, with a Retry-After of at most the period: a rate is counted in tenths of it, and the present one may have begun. */
function expectLimited(answer: Answer, period: number): void {
  expect(answer.status).toBe(429);
  expect(answer.body).toEqual({ error: "rate_limited" });
  expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(Number(answer.headers.get("retry-after"))).toBeLessThanOrEqual(period * 1.1);
}

describe("RATE_LIMITS=on", () => {
  test("[LM2] 60 commits a minute per IP: the 61st is 429 with Retry-After, another IP's is not", async () => {
    const headers = from();
    for (let each = 0; each < 60; each += 1) expect((await evm.api.tryCommit(task(newUser()), "cheap", headers)).status).toBe(201);
    expectLimited(await evm.api.tryCommit(task(newUser()), "cheap", headers), 60);
    expect((await evm.api.tryCommit(task(newUser()), "cheap", from())).status).toBe(201);
  });

  test("[LM2] 200 polls per 10 s per IP", async () => {
    const id = await evm.api.commit(task(newUser()), "cheap", from());
    const headers = from();
    const answers = await Promise.all(Array.from({ length: 201 }, () => evm.api.get(`/v1/jobs/${id}`, headers)));
    const [refused = expect.unreachable(), ...others] = answers.toSorted((a, b) => b.status - a.status);
    expectLimited(refused, 10);
    expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 200 }, () => 200));
    expect((await evm.api.get(`/v1/jobs/${id}`, from())).status, "another client").toBe(200);
  });

  test("[LM2] 10 trust requests a minute per IP", async () => {
    const headers = from();
    for (let each = 0; each < 10; each += 1) expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, headers)).status).toBe(201);
    expectLimited(await evm.api.post("/v1/trust/create", { user_id: newUser() }, headers), 60);
    expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, from())).status, "another client").toBe(201);
  });

  test("[LM2] 100 messages in a burst are handled; beyond, frames get error rate_limited; 5 s of it closes 4008", async () => {
    // Without capabilities it gets none of the jobs that other tests left, whose job_ack would be one more frame.
    const worker = await unsignedWorker(evm.socketUrl, { capabilities: [] });
    for (let each = 0; each < 300; each += 1) worker.send({ type: "heartbeat", n: each });
    await worker.frame((frame) => frame.type === "error" && frame.code === "rate_limited");
    // The registration was the first of the hundred frames.
    expect(worker.frames.filter(({ type }) => type === "heartbeat_ack").length).toBeGreaterThanOrEqual(99);
    const timer = setInterval(() => {
      for (let each = 0; each < 30; each += 1) worker.send({ type: "heartbeat", n: each });
    }, 100);
    try {
      expect((await worker.ended(12_000)).code).toBe(4008);
    } finally {
      clearInterval(timer);
    }
  });

  test(
    "[LM2] sockets of one IP that each keep their own rate are closed if together they send too much; another IP's is not",
    { timeout: 60_000 },
    async () => {
      const rates = { CLIENT_MESSAGES_PER_SECOND: "80", CLIENT_MESSAGE_BURST: "100" };
      const narrow = await start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip", ...rates });
      const [many, few] = [from(), from()];
      const connect = (headers: Record<string, string>) => fullWorker(narrow.socketUrl, { capabilities: [] }, undefined, headers);
      const flooders = await Promise.all(Array.from({ length: 6 }, () => connect(many)));
      const other = await connect(few);
      // 40 a second of each: a socket may send 50, and these six together 80.
      const timer = setInterval(() => {
        for (const worker of [...flooders, other]) if (worker.closed === undefined) for (let n = 0; n < 4; n++) worker.send({ type: "heartbeat", n });
      }, 100);
      try {
        const closed = await within(
          30_000,
          () => flooders.find((worker) => worker.closed !== undefined)?.closed,
          () => "a closed socket",
        );
        expect(closed).toEqual({ code: 4008, reason: "flooding" });
        expect(flooders[0]?.frames.some(({ type, code }) => type === "error" && code === "rate_limited")).toBe(true);
        expect(other.closed).toBeUndefined();
      } finally {
        clearInterval(timer);
      }
    },
  );

  test("[LM2] 256 sockets per IP; the next is 429, from another IP it is not", { timeout: 60_000 }, async () => {
    const open = (headers: Record<string, string>) =>
      RawSocket.open(evm.port, "/", [`Host: 127.0.0.1:${evm.port}`, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)]);
    const headers = from();
    const sockets: RawSocket[] = [];
    try {
      // A client may have 16 that have not registered, so these register.
      for (let batch = 0; batch < 16; batch += 1)
        await Promise.all(Array.from({ length: 16 }, () => unsignedWorker(evm.socketUrl, { capabilities: [] }, undefined, headers)));
      const extra = await open(headers);
      sockets.push(extra);
      expect(extra.head).toMatch(/^HTTP\/1\.1 429 /);
      expect(extra.head).toMatch(/\r\nretry-after: \d+/i);
      const other = await open(from());
      sockets.push(other);
      expect(other.head).toMatch(/^HTTP\/1\.1 101 /);
    } finally {
      for (const socket of sockets) socket.end();
    }
  });

  test("[TR3, API1] at most 5 open codes per user: the sixth is 429 rate_limited with Retry-After", async () => {
    const user = newUser();
    const codes: unknown[] = [];
    for (let each = 0; each < 5; each += 1) {
      const answer = await evm.api.post("/v1/trust/create", { user_id: user }, from());
      expect(answer.status).toBe(201);
      codes.push(answer.body.pairing_code);
    }
    const sixth = await evm.api.post("/v1/trust/create", { user_id: user }, from());
    expect(sixth.status).toBe(429);
    expect(sixth.body).toEqual({ error: "rate_limited" });
    expect(Number(sixth.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, from())).status, "another user").toBe(201);
    expect((await evm.api.post("/v1/trust/claim", { pairing_code: codes[0], provider_pubkey: newIdentity().pubkey }, from())).status).toBe(200);
    expect((await evm.api.post("/v1/trust/create", { user_id: user }, from())).status, "after one is claimed").toBe(201);
  });

  test("[TR3] 10 claims a minute per IP: the eleventh is 429, from another IP it is not", async () => {
    const headers = from();
    const claim = (h: Record<string, string>) => evm.api.post("/v1/trust/claim", { pairing_code: "000000", provider_pubkey: newIdentity().pubkey }, h);
    for (let each = 0; each < 10; each += 1) expect((await claim(headers)).status).toBe(400);
    expectLimited(await claim(headers), 60);
    expect((await claim(from())).status).toBe(400);
  });
});
