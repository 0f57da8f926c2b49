import { describe, expect, test } from "vitest";
import type { FailureCause } from "../../../src/protocol/job.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { Desk, words } from "./desk.ts";

/** An id of a job that goes to probation, and one of a job that does not. */
const FIFTH = "0a-job";
const OTHER = "01-job";
const NEWCOMER = { record: {} };

function newcomer(desk: Desk, key: string, network: string): void {
  desk.register(key, { ...NEWCOMER, network });
}

function fail(desk: Desk, key: string, jobId: string, attempt: number, cause?: "content_refused"): string {
  return words(desk.tell({ type: "failed", connId: `${key}#1`, jobId, attempt, retryable: false, ...(cause !== undefined && { cause }) }));
}

function complete(desk: Desk, key: string, jobId: string): void {
  desk.tell({ type: "complete", connId: `${key}#1`, jobId, attempt: undefined, verdict: "valid" });
}

describe("the claim between proven keys and newcomers", () => {
  test("[JB11] an idle proven worker has four jobs in five, an idle newcomer the fifth", () => {
    const desk = new Desk();
    newcomer(desk, "new", "n");
    desk.pass(1_000);
    desk.register("old");
    desk.submit(OTHER);
    expect(desk.where(OTHER)).toBe("assigned old 1");
    complete(desk, "old", OTHER);
    desk.submit(FIFTH);
    expect(desk.where(FIFTH)).toBe("assigned new 1");
  });

  test("[JB11] over all first bytes of an id the share is 52 of 256", () => {
    let fifths = 0;
    for (let byte = 0; byte < 256; byte++) {
      const desk = new Desk();
      newcomer(desk, "new", "n");
      desk.register("old");
      const id = `${byte.toString(16).padStart(2, "0")}-job`;
      desk.submit(id);
      if (desk.where(id) === "assigned new 1") fifths++;
    }
    expect(fifths).toBe(52);
  });

  test("[JB2, JB11] without an idle proven worker a newcomer gets the job at once", () => {
    const desk = new Desk();
    desk.register("old");
    desk.submit(OTHER);
    newcomer(desk, "new", "n");
    desk.submit("02-job");
    expect(desk.where("02-job")).toBe("assigned new 1");
  });

  test("[JB11] beside an idle proven worker all keys of a network together have one job at a time", () => {
    const desk = new Desk();
    for (const key of ["a", "b", "c"]) newcomer(desk, key, "n");
    desk.register("old");
    desk.register("older");
    desk.submit(FIFTH);
    desk.submit("0f-job");
    expect([desk.where(FIFTH), desk.where("0f-job")]).toEqual(["assigned a 1", "assigned old 1"]);
  });

  test("[JB11] a key that left with its job still counts as at work", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    newcomer(desk, "b", "n");
    desk.register("old");
    desk.submit(FIFTH);
    desk.tell({ type: "disconnect", connId: "a#1" });
    desk.submit("0f-job");
    expect(desk.where("0f-job")).toBe("assigned old 1");
  });

  test("[JB11, WS10] a key that lost its job and lists it when it comes back is at work again", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.submit(OTHER);
    desk.tell({ type: "disconnect", connId: "a#1" });
    desk.pass(TIMING.grace);
    expect(desk.where(OTHER)).toBe("pending");
    desk.register("a", { ...NEWCOMER, network: "n", resume: [{ jobId: OTHER, attempt: 1 }] });
    expect(desk.where(OTHER)).toBe("running a 1");
    newcomer(desk, "b", "n");
    desk.register("old");
    desk.pass(2 * TIMING.backOff);
    desk.submit(FIFTH);
    expect(desk.where(FIFTH)).toBe("assigned old 1");
  });

  test("[JB11, JB9] after the hub lost its memory the turn of a network is that of the key that got a job last", () => {
    const desk = new Desk();
    desk.register("a1", { ...NEWCOMER, network: "a", lastUsedAt: desk.now - 900 });
    desk.register("b", { ...NEWCOMER, network: "b", lastUsedAt: desk.now - 500 });
    desk.register("a2", { ...NEWCOMER, network: "a", lastUsedAt: desk.now - 100 });
    desk.submit(OTHER);
    expect(desk.where(OTHER)).toBe("assigned b 1");
  });

  test("[JB11] a network keeps its turn while none of its keys is connected: old keys, one after the other, do not come before others again and again", () => {
    const desk = new Desk();
    desk.register("honest", { ...NEWCOMER, network: "b", lastUsedAt: desk.now - 500 });
    const got = ["j0", "j1", "j2", "j3"].map((id, n) => {
      const key = `old${n}`;
      desk.register(key, { ...NEWCOMER, network: "a", lastUsedAt: desk.now - 900 });
      desk.submit(id);
      const [, holder = ""] = desk.where(id).split(" ");
      desk.now++;
      complete(desk, holder, id);
      desk.tell({ type: "disconnect", connId: `${key}#1` });
      return holder;
    });
    expect(got).toEqual(["old0", "honest", "old2", "honest"]);
  });

  test("[JB11] a network that a proven worker falls back into is not one of those that are away", () => {
    const desk = new Desk();
    newcomer(desk, "x", "n");
    desk.submit("j1");
    fail(desk, "x", "j1", 1);
    desk.tell({ type: "disconnect", connId: "x#1" });
    expect([...desk.state.awayNetworks]).toEqual(["n"]);
    desk.register("p", { network: "n" });
    for (const id of ["j2", "j3"]) {
      desk.submit(id);
      fail(desk, "p", id, 1);
    }
    expect(desk.state.workers.get("p")?.proven).toBe(false);
    expect([...desk.state.awayNetworks]).toEqual([]);
  });

  test("[JB11] if the clock was set back since a newcomer's last job, its network waits no longer for its turn", () => {
    const desk = new Desk();
    desk.register("new", { ...NEWCOMER, network: "n", lastUsedAt: desk.now + 3_600_000 });
    desk.register("old");
    desk.pass(1);
    desk.submit(FIFTH);
    expect(desk.where(FIFTH)).toBe("assigned new 1");
  });

  test("[JB11] among newcomers the turn goes by network, whatever the number of keys", () => {
    const desk = new Desk();
    for (const key of ["a1", "a2", "a3"]) newcomer(desk, key, "a");
    newcomer(desk, "b", "b");
    const got = ["j1", "j2", "j3", "j4"].map((id) => {
      desk.now++;
      desk.submit(id);
      const [, key = ""] = desk.where(id).split(" ");
      complete(desk, key, id);
      return key[0];
    });
    expect(got).toEqual(["a", "b", "a", "b"]);
  });

  test("[JB3, JB11] a fresh key and a fresh network count as used now", () => {
    const desk = new Desk();
    newcomer(desk, "first", "n1");
    desk.pass(1_000);
    newcomer(desk, "fresh", "n1");
    newcomer(desk, "other", "n2");
    desk.submit("j1");
    expect(desk.where("j1")).toBe("assigned first 1");
    desk.register("p1");
    desk.pass(1_000);
    desk.register("p2");
    desk.submit(OTHER);
    expect(desk.where(OTHER)).toBe("assigned p1 1");
  });

  test("[JB11, JB8] a PRIVATE job goes to paired workers on probation too", () => {
    const desk = new Desk();
    newcomer(desk, "new", "n");
    desk.pass(1_000);
    desk.register("old");
    desk.submit(OTHER, { privacyClass: "PRIVATE", trustedKeys: ["new", "old"] });
    expect(desk.where(OTHER)).toBe("assigned new 1");
    expect(desk.state.networks.get("n")?.atWork.size).toBe(0);
  });
});

describe("blame", () => {
  test("[JB11] a failure moves all newcomers of the network back, for twice as long each time", () => {
    const desk = new Desk();
    for (const key of ["a", "b"]) newcomer(desk, key, "n");
    desk.register("old");
    const turn = (id: string) => {
      desk.submit(id);
      const key = desk.where(id).split(" ")[1] ?? "";
      if (key === "old") complete(desk, key, id);
      return key;
    };
    desk.pass(1);
    expect(turn("00-1")).toBe("a");
    fail(desk, "a", "00-1", 1);
    complete(desk, "old", "00-1");
    expect(turn("00-2")).toBe("old");
    desk.pass(TIMING.backOff);
    expect(turn("00-3")).toBe("b");
    desk.tell({ type: "reject", connId: "b#1", jobId: "00-3" });
    complete(desk, "old", "00-3");
    desk.pass(TIMING.backOff);
    expect(turn("00-4")).toBe("old");
    desk.pass(TIMING.backOff);
    expect(turn("00-5")).toBe("a");
    complete(desk, "a", "00-5");
    desk.pass(1);
    expect(turn("00-6")).toBe("b");
  });

  test.each([
    ["a TASK with signs of life alone", {}, "ack", false],
    ["a TASK with text, which a TASK has not", {}, "progress", false],
    ["an LLM job with signs of life alone", { jobType: "LLM_INFER" }, "ack", false],
    ["an LLM job with text: its worker is slow", { jobType: "LLM_INFER" }, "progress", true],
  ] as const)("[JB11] two jobs in a row that a proven worker keeps until their total deadline end its standing: %s", (_, facts, type, keeps) => {
    const desk = new Desk();
    desk.register("w");
    for (const id of ["01-1", "01-2"]) {
      desk.submit(id, facts);
      for (let ms = 0; ms < TIMING.total; ms += 20_000) {
        desk.tell({ type, connId: "w#1", jobId: id, attempt: 1 });
        desk.pass(20_000);
      }
      expect(desk.where(id)).toBe("failed deadline_exceeded");
    }
    expect(desk.state.workers.get("w")?.proven).toBe(keeps);
  });

  test("[JB11] a newcomer that sends a character now and then until the total deadline is blamed, and its network backs off", () => {
    const desk = new Desk();
    newcomer(desk, "new", "n");
    desk.submit("01", { jobType: "LLM_INFER" });
    for (let ms = 0; ms < TIMING.total; ms += 20_000) {
      desk.tell({ type: "progress", connId: "new#1", jobId: "01", attempt: 1 });
      desk.pass(20_000);
    }
    expect([desk.where("01"), desk.state.workers.get("new")?.record.failed]).toEqual(["failed deadline_exceeded", 1]);
    expect(desk.state.networks.get("n")?.backOffUntil).toBeGreaterThan(desk.now);
  });

  test("[JB11] a worker that got the job of another one is not blamed for its total deadline", () => {
    const desk = new Desk();
    desk.register("late");
    desk.submit("01");
    desk.register("w");
    const ack = (key: string, attempt: number) => desk.tell({ type: "ack", connId: `${key}#1`, jobId: "01", attempt });
    for (let ms = 0; ms < TIMING.total - 20_000; ms += 20_000) {
      ack("late", 1);
      desk.pass(20_000);
    }
    fail(desk, "late", "01", 1);
    ack("w", 2);
    desk.pass(20_000);
    expect([desk.where("01"), desk.state.workers.get("w")?.record.failed]).toEqual(["failed deadline_exceeded", 0]);
  });

  test("[JB11] a key that comes back as another one does not get rid of the blame", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.register("old");
    desk.submit(FIFTH);
    fail(desk, "a", FIFTH, 1);
    complete(desk, "old", FIFTH);
    desk.tell({ type: "disconnect", connId: "a#1" });
    newcomer(desk, "fresh", "n");
    desk.pass(TIMING.backOff - 1);
    desk.submit("0f-job");
    expect(desk.where("0f-job")).toBe("assigned old 1");
    // Its next failure counts as the second one.
    expect(desk.state.networks.get("n")?.failures).toBe(1);
  });

  test("[JB11] a network that nobody has connected from for a long time begins anew", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.submit(FIFTH);
    fail(desk, "a", FIFTH, 1);
    desk.tell({ type: "disconnect", connId: "a#1" });
    desk.pass(TIMING.backOff + TIMING.backOffMax + 1);
    newcomer(desk, "fresh", "n");
    expect(desk.state.networks.get("n")?.failures).toBe(0);
  });

  test("[JB11] a verified completion gives a network its turn back at once", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.submit(OTHER);
    fail(desk, "a", OTHER, 1);
    desk.submit("02-job");
    complete(desk, "a", "02-job");
    desk.pass(1);
    desk.register("old");
    desk.submit(FIFTH);
    expect(desk.where(FIFTH)).toBe("assigned a 1");
  });

  test("[JB11] a PRIVATE job of its own user does not take the blame from a network", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.submit(FIFTH);
    fail(desk, "a", FIFTH, 1);
    desk.submit("own", { privacyClass: "PRIVATE", trustedKeys: ["a"] });
    complete(desk, "a", "own");
    expect(desk.where("own")).toBe("completed a");
    expect(desk.state.networks.get("n")?.failures).toBe(1);
  });

  test("[JB11] failures of PRIVATE jobs say nothing against a key", () => {
    const desk = new Desk();
    desk.register("a");
    for (const id of ["own-1", "own-2"]) {
      desk.submit(id, { privacyClass: "PRIVATE", trustedKeys: ["a"] });
      fail(desk, "a", id, 1);
      expect(desk.where(id)).toBe("failed worker_error");
    }
    expect(desk.state.workers.get("a")?.proven).toBe(true);
  });

  test("[JB11, RC4] a strike counts as a failure, of the key and of its network", () => {
    const desk = new Desk();
    desk.register("a");
    newcomer(desk, "b", "n");
    const invalid = (key: string, jobId: string) => desk.tell({ type: "complete", connId: `${key}#1`, jobId, attempt: undefined, verdict: "invalid_receipt" });
    for (const id of [OTHER, "02-job"]) {
      desk.submit(id);
      invalid("a", id);
    }
    expect(desk.state.workers.get("a")).toMatchObject({ proven: false });
    desk.submit("03-job");
    invalid("b", "03-job");
    expect(desk.state.networks.get("n")?.failures).toBe(1);
  });

  test("[JB11] a key that leaves with its job is blamed when its time is over", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.submit("j");
    desk.tell({ type: "disconnect", connId: "a#1" });
    const { rows } = desk.pass(TIMING.grace)[0] ?? { rows: [] };
    expect(rows).toContainEqual(expect.objectContaining({ type: "record", key: "a", record: expect.objectContaining({ failed: 1 }) }));
    expect(desk.state.networks.get("n")?.failures).toBe(1);
  });

  test("[JB11] what is stored of a key moves its network back again after the hub lost its memory", () => {
    const desk = new Desk();
    desk.register("a", { network: "n", record: { failed: 3, failedAt: desk.now - 1_000 } });
    desk.register("old");
    desk.submit(FIFTH);
    expect(desk.where(FIFTH)).toBe("assigned old 1");
    // Its next failure counts as the fourth one.
    expect(desk.state.networks.get("n")?.failures).toBe(3);
  });

  test("[JB11] a failure that was noted before the clock was set back moves its network back no further", () => {
    const desk = new Desk();
    desk.register("a", { network: "n", record: { failed: 1, failedAt: desk.now + TIMING.failedClaims } });
    desk.register("old");
    desk.pass(TIMING.backOff);
    desk.submit(FIFTH);
    expect(desk.where(FIFTH)).toBe("assigned a 1");
  });

  test("[JB11] context_length_exceeded does not move the network back", () => {
    const desk = new Desk();
    newcomer(desk, "a", "n");
    desk.submit("j", { jobType: "LLM_INFER" });
    desk.register("b");
    desk.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true, cause: "context_length_exceeded" });
    expect(desk.state.networks.get("n")?.failures).toBe(0);
  });

  test("[JB11] two failures in a row put a proven key back on probation, in the pools too", () => {
    const desk = new Desk();
    desk.register("a");
    for (const id of ["j1", "j2"]) {
      desk.submit(id);
      fail(desk, "a", id, 1);
    }
    expect(desk.state.workers.get("a")).toMatchObject({ proven: false });
    desk.register("old");
    desk.submit(OTHER);
    expect(desk.where(OTHER)).toBe("assigned old 1");
  });

  test("[JB11] networks with failures and nobody connected are remembered in a bounded number", () => {
    const desk = new Desk();
    for (let n = 0; n < 5_100; n++) {
      newcomer(desk, `k${n}`, `n${n}`);
      desk.submit(`j${n}`);
      fail(desk, `k${n}`, `j${n}`, 1);
      desk.tell({ type: "disconnect", connId: `k${n}#1` });
    }
    expect([desk.state.networks.size, desk.state.awayNetworks.size]).toEqual([5_000, 5_000]);
    expect(desk.state.networks.has("n5099")).toBe(true);
  });
});

describe("the last word on a job", () => {
  const START: readonly [FailureCause, (desk: Desk, key: string, attempt: number) => string][] = [
    ["worker_error", (desk, key, attempt) => fail(desk, key, "j", attempt)],
    ["content_refused", (desk, key, attempt) => fail(desk, key, "j", attempt, "content_refused")],
    ["worker_error", (desk, key, attempt) => words(desk.tell({ type: "complete", connId: `${key}#1`, jobId: "j", attempt, verdict: "worker_error" }))],
  ];

  test.each(START)("[JB11, JB5] the word of one key does not end a job: %s (%#)", (cause, deny) => {
    const desk = new Desk();
    newcomer(desk, "bad", "n");
    desk.submit("j");
    desk.register("good");
    desk.register("another");
    deny(desk, "bad", 1);
    expect(desk.where("j")).toBe("assigned good 2");
    deny(desk, "good", 2);
    expect(desk.where("j")).toBe(`failed ${cause}`);
  });

  test("[JB11] two keys of one network do not end a job, and after three attempts it ends all the same", () => {
    const desk = new Desk();
    for (const key of ["a", "b", "c", "d"]) newcomer(desk, key, "n");
    desk.submit("j");
    for (const attempt of [1, 2]) fail(desk, desk.where("j").split(" ")[1] ?? "", "j", attempt);
    expect(desk.where("j")).toContain(" 3");
    fail(desk, desk.where("j").split(" ")[1] ?? "", "j", 3);
    expect(desk.where("j")).toBe("failed worker_error");
  });

  test("[JB11] two newcomers of two networks do not end a job beside a proven worker, without one they do", () => {
    const ends = (proven: boolean) => {
      const desk = new Desk();
      newcomer(desk, "a", "n1");
      desk.submit("j");
      newcomer(desk, "b", "n2");
      fail(desk, "a", "j", 1);
      newcomer(desk, "c", "n3");
      if (proven) desk.register("good", { draining: false });
      fail(desk, "b", "j", 2);
      return desk.where("j");
    };
    expect([ends(true), ends(false)]).toEqual(["assigned good 3", "failed worker_error"]);
  });

  test("[JB11] the word of the only worker ends a job", () => {
    const desk = new Desk();
    newcomer(desk, "only", "n");
    desk.submit("j");
    fail(desk, "only", "j", 1);
    expect(desk.where("j")).toBe("failed worker_error");
  });

  test("[JB11, JB9] after the hub lost its memory it still knows which keys said that a job cannot be done", () => {
    const desk = new Desk();
    desk.register("a");
    desk.submit("j");
    desk.register("b");
    desk.register("c");
    fail(desk, "a", "j", 1);
    desk.forget(["b", "c"]);
    expect(desk.where("j")).toBe("assigned b 2");
    words(desk.tell({ type: "failed", connId: "b#2", jobId: "j", attempt: 2, retryable: false }));
    expect(desk.where("j")).toBe("failed worker_error");
  });

  test("[JB11] one worker's huge context does not make the others ineligible", () => {
    const desk = new Desk();
    desk.register("bad", { ...NEWCOMER, context: 1_000_000_000 });
    desk.submit("j", { jobType: "LLM_INFER" });
    desk.register("good", { context: 4096 });
    expect(words(desk.tell({ type: "failed", connId: "bad#1", jobId: "j", attempt: 1, retryable: true, cause: "context_length_exceeded" }))).toBe(
      "assign j 2 to good#1",
    );
  });

  test("[JB11] the keys of one network do not get a job one after the other because each announces a larger context", () => {
    const desk = new Desk();
    for (const [key, context] of [
      ["a", 1],
      ["b", 2],
      ["c", 3],
    ] as const)
      desk.register(key, { ...NEWCOMER, network: "n", context });
    desk.submit("j", { jobType: "LLM_INFER" });
    desk.register("good");
    const told = desk.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true, cause: "context_length_exceeded" });
    expect(words(told)).toBe("assign j 2 to good#1");
  });
});

describe("a job that has lost an attempt", () => {
  test("[JB11] waits for a proven worker that is busy, while newcomers are idle", () => {
    const desk = new Desk();
    desk.register("old");
    desk.submit("busy");
    desk.tell({ type: "ack", connId: "old#1", jobId: "busy", attempt: 1 });
    newcomer(desk, "a", "n1");
    newcomer(desk, "b", "n2");
    desk.submit("j");
    desk.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true });
    desk.pass(6_000);
    expect(desk.where("j")).toBe("pending");
    complete(desk, "old", "busy");
    expect(desk.where("j")).toBe("assigned old 2");
  });

  test("[JB11, JB2] waits for it also if its claim window ends before a newcomer without `ack` has arrived", () => {
    const desk = new Desk();
    desk.register("old");
    desk.submit("busy", { jobType: "LLM_INFER" });
    desk.tell({ type: "ack", connId: "old#1", jobId: "busy", attempt: 1 });
    newcomer(desk, "a", "n1");
    desk.submit("j");
    desk.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true });
    desk.pass(TIMING.claimWindow - 1_000);
    desk.register("b", { ...NEWCOMER, network: "n2", acks: false });
    expect(words(desk.register("rejects"))).toBe("assign j 2 to rejects#1");
    expect(words(desk.tell({ type: "reject", connId: "rejects#1", jobId: "j" }))).toBe("");
  });

  test("[JB11] goes to a newcomer at the next tick when the last proven worker leaves", () => {
    const desk = new Desk();
    desk.register("old");
    desk.submit("busy");
    newcomer(desk, "a", "n1");
    newcomer(desk, "b", "n2");
    desk.submit("j");
    desk.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true });
    desk.tell({ type: "disconnect", connId: "old#1" });
    desk.pass(TIMING.retryTick);
    expect(desk.where("j")).toBe("assigned b 2");
  });

  test("[JB11] a rejected job has lost no attempt", () => {
    const desk = new Desk();
    desk.register("old");
    desk.submit("busy");
    newcomer(desk, "a", "n1");
    newcomer(desk, "b", "n2");
    desk.submit("j");
    desk.tell({ type: "reject", connId: "a#1", jobId: "j" });
    expect(desk.where("j")).toBe("assigned b 1");
  });
});
