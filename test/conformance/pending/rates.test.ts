import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { specWorker } from "../support/worker.ts";

/** Not built yet: CONFORMANCE_PENDING=1 runs it. */
const built = Boolean(process.env.CONFORMANCE_PENDING);
let evm: Subject;
let last = 0;
/** Headers of a client that nobody has seen. */
const from = (): Record<string, string> => ({ "x-test-ip": `10.1.${Math.floor(++last / 250)}.${(last % 250) + 1}` });

describe.runIf(built)("RATE_LIMITS=on", () => {
  beforeAll(async () => {
    evm = await start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });
  });

  test("[LM2] 60 commits a minute per IP: the 61st is 429 with Retry-After, another IP's is not", async () => {
    const headers = from();
    for (let each = 0; each < 60; each += 1) expect((await evm.api.tryCommit(task(newUser()), "cheap", headers)).status).toBe(201);
    const answer = await evm.api.tryCommit(task(newUser()), "cheap", headers);
    expect(answer.status).toBe(429);
    expect(answer.body).toEqual({ error: "rate_limited" });
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    expect((await evm.api.tryCommit(task(newUser()), "cheap", from())).status).toBe(201);
  });

  test("[LM2] 200 polls per 10 s per IP", async () => {
    const id = await evm.api.commit(task(newUser()), "cheap", from());
    const headers = from();
    const statuses = await Promise.all(Array.from({ length: 201 }, async () => (await evm.api.get(`/v1/jobs/${id}`, headers)).status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(200);
    expect(statuses.filter((status) => status === 429)).toHaveLength(1);
  });

  test("[LM2] 10 trust requests a minute per IP", async () => {
    const headers = from();
    for (let each = 0; each < 10; each += 1) expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, headers)).status).toBe(201);
    expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, headers)).status).toBe(429);
  });

  test("[LM2] 100 messages in a burst are handled; beyond, frames get error rate_limited; 5 s of it closes 4008", async () => {
    const worker = await specWorker(evm.socketUrl);
    for (let each = 0; each < 300; each += 1) worker.send({ type: "heartbeat", n: each });
    await worker.frame((frame) => frame.type === "error" && frame.code === "rate_limited");
    expect(worker.frames.filter(({ type }) => type === "heartbeat_ack").length).toBeGreaterThanOrEqual(100);
    const timer = setInterval(() => {
      for (let each = 0; each < 30; each += 1) worker.send({ type: "heartbeat", n: each });
    }, 100);
    try {
      expect((await worker.ended(12_000)).code).toBe(4008);
    } finally {
      clearInterval(timer);
    }
  });
});
