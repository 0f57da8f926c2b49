import { describe, expect, test } from "vitest";
import type { JobFacts } from "../../../src/coordinator/dispatch/index.ts";
import { LIMITS, MiB } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { Desk, words } from "./desk.ts";

/** Jobs that a new desk accepts before the first refusal, each with these facts. */
function accepted(facts: (index: number) => Partial<JobFacts>, desk = new Desk()): number {
  for (let index = 0; ; index++) if (words(desk.submit(`j${index} of ${desk.state.queue.jobs}`, facts(index))) === "queue_full") return index;
}

const user = (index: number) => `u${index % 100}`;
const home = (index: number) => `192.0.2.${index % 100}`;

describe("the shares of the queue [LM1]", () => {
  const { queuedJobs, queuedJobsPerUser, queuedPayloadBytes } = LIMITS;

  test("[LM1] one user has 1,000 jobs in it, another one still has a place", () => {
    const desk = new Desk();
    expect(accepted((index) => ({ network: home(index) }), desk)).toBe(queuedJobsPerUser);
    expect(words(desk.submit("of another", { userId: "bob" }))).toBe("");
  });

  test("[LM1] one client has a quarter, in jobs and in bytes; another one still has a place", () => {
    const desk = new Desk();
    expect(accepted((index) => ({ userId: user(index) }), desk)).toBe(queuedJobs / 4);
    expect(words(desk.submit("of another", { userId: "bob", network: "192.0.2.9" }))).toBe("");
    expect(accepted(() => ({ payloadBytes: MiB }))).toBe(8);
    expect(words(new Desk().submit("too big", { payloadBytes: queuedPayloadBytes / 4 + 1 }))).toBe("queue_full");
  });

  test("[LM1] in a queue of three jobs each client and each payer has a place", () => {
    const desk = new Desk({ queue: { jobs: 3, bytes: queuedPayloadBytes, jobsPerUser: 3 } });
    expect(words(desk.submit("first"))).toBe("");
    expect(words(desk.submit("second"))).toBe("queue_full");
    expect(words(desk.submit("of another", { network: "192.0.2.9" }))).toBe("");
  });

  test("[LM1, LM2] a client that is not known, or where rates are not limited, has no share of its own", () => {
    for (const network of ["local", ""]) expect(accepted(() => ({ payloadBytes: MiB, network }))).toBe(28);
    expect(accepted(() => ({ payloadBytes: MiB }), new Desk({ clientShares: false }))).toBe(28);
  });

  test("[LM1] a pool has all but the eighth of each other pool, which is theirs whatever waits", () => {
    const desk = new Desk();
    const llm = (index: number) => ({ jobType: "LLM_INFER", userId: user(index), network: home(index) }) as const;
    expect(accepted(llm, desk)).toBe((queuedJobs * 7) / 8);
    expect(accepted((index) => ({ userId: user(index), network: home(index + 50) }), desk)).toBe(queuedJobs / 8);
    const bytes = new Desk({ stake: true });
    const big = { payloadBytes: MiB };
    expect(accepted((index) => ({ ...big, policy: "FAST", network: home(index) }), bytes)).toBe(20);
    for (const pool of [{ policy: "CHEAP" }, { jobType: "LLM_INFER", policy: "CHEAP" }, { jobType: "LLM_INFER", policy: "FAST" }] as const)
      expect(accepted((index) => ({ ...big, ...pool, network: home(index) }), bytes)).toBe(4);
  });

  test("[LM1, JB2] a job that an idle worker can take at once is never refused, whatever waits", () => {
    const idle = new Desk();
    accepted((index) => ({ jobType: "LLM_INFER", payloadBytes: MiB, network: home(index) }), idle);
    idle.register("w", { capabilities: ["TASK"] });
    // Found silent and heard since, it is idle too.
    idle.silence("w#1");
    idle.now += TIMING.silentUnclaimable + 1;
    const big = { payloadBytes: queuedPayloadBytes };
    expect(words(idle.submit("too early", big))).toBe("queue_full");
    idle.hear("w#1");
    idle.now += 1_000;
    expect(words(idle.submit("in time", big))).toBe("assign in time 1 to w#1");
    expect(words(idle.submit("too late", big))).toBe("queue_full");
  });

  test("[LM1] a job that waits again after a lost attempt is never refused, and counts", () => {
    const desk = new Desk({ queue: { jobs: 8, bytes: 800, jobsPerUser: 2 } });
    desk.register("w", { capabilities: ["TASK"] });
    desk.submit("lost");
    expect(accepted(() => ({}), desk)).toBe(2);
    desk.tell({ type: "failed", connId: "w#1", jobId: "lost", attempt: 1, retryable: true });
    expect([desk.state.queue.jobs, desk.state.queue.usedBy("user", "ann")]).toEqual([2, { jobs: 2, bytes: 20 }]);
  });

  test("[LM1, PY5] one payer has a quarter, before the facilitator is asked and after; another one still has a place", () => {
    const desk = new Desk({ clientShares: false });
    const big = { payloadBytes: queuedPayloadBytes / 8 };
    for (const name of ["k", "l"]) desk.pay(name, `${name} job`, {}, big);
    expect(words(desk.reserve("m", "one more", {}, big))).toBe("queue_full");
    expect(words(desk.pay("n", "of another", { payer: "quin" }, big))).toBe("reserved");
    // On the SVM only the facilitator tells the payer.
    expect(words(desk.reserve("o", "of the first", { payer: null }, big))).toBe("reserved");
    expect(words(desk.buy("o", "of the first", "pam", big))).toBe("drop o, queue_full");
    desk.forget();
    expect(words(desk.reserve("m", "one more", {}, big))).toBe("queue_full");
  });

  test("[LM1, PY9] a job that is paid from a balance counts for the payer of the settled payment, also where the request does not name the payer", () => {
    const desk = new Desk({ clientShares: false });
    desk.register("w");
    desk.pay("credit", "failed");
    desk.settled("credit");
    desk.tell({ type: "failed", connId: "w#1", jobId: "failed", attempt: 1, retryable: false });
    desk.tell({ type: "disconnect", connId: "w#1" });
    const big = { payloadBytes: queuedPayloadBytes / 8 };
    for (const name of ["k", "l"]) desk.pay(name, `${name} job`, { amount: "2000" }, big);
    expect(words(desk.reserve("credit", "again", { payer: null }, big))).toBe("queue_full");
    expect(words(desk.reserve("n", "of another", { payer: "quin" }, big))).toBe("reserved");
  });

  test("[LM1] a PRIVATE job counts its place with each paired worker, as long as it waits", () => {
    const desk = new Desk({ queue: { jobs: 1_000, bytes: 16_000, jobsPerUser: 1_000 } });
    desk.register("key 0");
    desk.submit("first");
    const trustedKeys = Array.from({ length: 19 }, (_, index) => `key ${index}`);
    const paired = { privacyClass: "PRIVATE", trustedKeys, payloadBytes: 100 } as const;
    // A quarter of the bytes is 4,000; each job is 3,900.
    expect(accepted(() => paired, desk)).toBe(1);
    desk.tell({ type: "paired", userId: "ann", key: "key 19" });
    expect(desk.state.queue.bytes).toBe(4_100);
    desk.pass(TIMING.claimWindow + TIMING.retryTick);
    expect([desk.state.queue.jobs, desk.state.queue.bytes]).toEqual([0, 0]);
  });

  test("[LM1] a loss of memory keeps what the jobs hold, for their clients too", () => {
    const desk = new Desk();
    accepted(() => ({ payloadBytes: MiB }), desk);
    desk.forget();
    expect(desk.state.queue.usedBy("client", "seekers")).toEqual({ jobs: 8, bytes: 8 * MiB });
    expect(words(desk.submit("one more", { payloadBytes: 1 }))).toBe("queue_full");
    expect(words(desk.submit("of another", { payloadBytes: 1, network: "192.0.2.9" }))).toBe("");
  });
});
