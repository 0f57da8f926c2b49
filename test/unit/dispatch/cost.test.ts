import { describe, expect, test } from "vitest";
import { poolsOf } from "../../../src/coordinator/dispatch/workers.ts";
import { Desk } from "./desk.ts";

const COLLECTIONS = [Map, Set] as const;
const STEPS = ["get", "set", "has", "add", "delete"] as const;
const WALKS = ["values", "keys", "entries", "forEach"] as const;
const ARRAY_WALKS = ["map", "filter", "find", "some", "every", "includes", "flatMap", "forEach", "toSorted", "sort", "slice"] as const;

/**
 * How much `run` does: every step on a Map or Set counts one (each move in a heap is one), every walk over one or over an array counts
 * its whole size. Counted and not timed, so the machine does not matter.
 */
function workOf(run: () => void): number {
  let work = 0;
  const undo: (() => void)[] = [];
  const patch = (owner: object, name: string | symbol, cost: (self: { size: number; length: number }) => number) => {
    const original: unknown = Reflect.get(owner, name);
    if (typeof original !== "function") return;
    Reflect.set(owner, name, function (this: { size: number; length: number }, ...args: unknown[]) {
      work += cost(this);
      return Reflect.apply(original, this, args) as unknown;
    });
    undo.push(() => Reflect.set(owner, name, original));
  };
  for (const { prototype } of COLLECTIONS) {
    for (const name of STEPS) patch(prototype, name, () => 1);
    for (const name of [...WALKS, Symbol.iterator]) patch(prototype, name, (self) => self.size);
  }
  for (const name of [...ARRAY_WALKS, Symbol.iterator]) patch(Array.prototype, name, (self) => self.length);
  try {
    run();
  } finally {
    for (const restore of undo) restore();
  }
  return work;
}

/** The most that `many` may cost when `few` cost this: heaps grow with the logarithm. */
const allowed = (cost: number, few: number, many: number) => Math.ceil((cost * Math.log2(many)) / Math.log2(few)) + 10;

function workers(count: number): Desk {
  const desk = new Desk({ stake: true });
  for (let n = 0; n < count; n++) desk.register(`w${n}`, { lastUsedAt: n });
  return desk;
}

function queue(count: number): Desk {
  const desk = new Desk({ stake: true });
  for (let n = 0; n < count; n++) desk.submit(`j${n}`, { userId: `u${n % 100}`, policy: n % 2 === 0 ? "FAST" : "CHEAP" });
  desk.register("w");
  return desk;
}

const modelNames = (count: number, from: string) => Array.from({ length: count }, (_, n) => `${from}${n}`);

describe("what a claim costs [JB2]", () => {
  test("[JB2] a submit costs the same beside 64 and beside 5,000 free workers", () => {
    const cost = (count: number) => {
      const desk = workers(count);
      // The first job of a pool gives all workers that have come since their places, once.
      desk.submit("first");
      return workOf(() => desk.submit("j"));
    };
    expect(cost(5_000)).toBeLessThanOrEqual(allowed(cost(64), 64, 5_000));
  });

  test.each(["proven", "newcomer"])("[JB2, JB10] a job costs the same whether its worker, %s, offers one model or a hundred", (standing) => {
    const cost = (names: number) => {
      const desk = new Desk({ stake: true });
      for (let n = 0; n < 4; n++) {
        const models = modelNames(names, "m");
        desk.register(`w${n}`, { ...(standing === "newcomer" && { record: {}, network: `n${n}` }), capabilities: ["LLM_INFER"], chats: true, models });
      }
      const cycle = (jobId: string) => {
        desk.submit(jobId, { jobType: "LLM_INFER", model: "m0" });
        const [key = ""] = [...desk.state.leases].find(([, leased]) => leased === jobId) ?? [];
        desk.tell({ type: "ack", connId: `${key}#1`, jobId, attempt: 1 });
        desk.tell({ type: "complete", connId: `${key}#1`, jobId, attempt: 1, verdict: "valid" });
        expect(desk.where(jobId)).toBe(`completed ${key}`);
      };
      for (let n = 0; n < 4; n++) cycle(`warm${n}`);
      return workOf(() => cycle("j"));
    };
    expect(cost(100)).toBeLessThanOrEqual(cost(1) + 10);
  });

  test.each(["own", "one"])("[JB2, JB11] beside 64 and 5,000 newcomers too, each in a network of its own or all in one (%s)", (kind) => {
    const cost = (count: number) => {
      const desk = new Desk();
      for (let n = 0; n < count; n++) desk.register(`w${n}`, { lastUsedAt: n + 1, record: {}, network: kind === "own" ? `n${n}` : "n" });
      for (let n = 0; n < count / 2; n++) desk.submit(`j${n}`);
      const jobId = desk.state.leases.get("w0") ?? "";
      return [
        workOf(() => desk.submit("00-j")),
        workOf(() => desk.tell({ type: "complete", connId: "w0#1", jobId, attempt: 1, verdict: "valid" })),
        workOf(() => desk.tell({ type: "failed", connId: "w1#1", jobId: desk.state.leases.get("w1") ?? "", attempt: 1, retryable: true })),
      ];
    };
    const few = cost(64);
    for (const [step, work] of cost(5_000).entries()) expect(work).toBeLessThanOrEqual(allowed(few[step] ?? 0, 64, 5_000));
  });

  test("[JB2, JB10, JB11] a newcomer's job costs the same while its network names ten models and while it names a thousand", () => {
    const cost = (names: number) => {
      const desk = new Desk();
      const newcomer = { record: {}, network: "n" };
      for (let n = 0; n < 10; n++) desk.register(`w${n}`, { ...newcomer, capabilities: ["LLM_INFER"], chats: true, models: modelNames(names / 10, `m${n}-`) });
      desk.register("w", { ...newcomer, capabilities: ["TASK"] });
      const about = (jobId: string) => ({ connId: "w#1", jobId, attempt: 1 });
      const steps = [
        () => desk.submit("done"),
        () => desk.tell({ type: "ack", ...about("done") }),
        () => desk.tell({ type: "complete", ...about("done"), verdict: "valid" }),
        () => desk.submit("failed"),
        () => desk.tell({ type: "failed", ...about("failed"), retryable: true }),
        () => desk.submit("healing"),
        () => desk.tell({ type: "complete", ...about("healing"), verdict: "valid" }),
        () => desk.register("v", { ...newcomer, capabilities: ["TASK"] }),
        () => desk.tell({ type: "disconnect", connId: "v#1" }),
      ];
      const work = steps.map((step) => workOf(step));
      expect([desk.where("done"), desk.where("failed"), desk.where("healing")]).toEqual(["completed w", "assigned v 2 gone", "completed w"]);
      return work;
    };
    const few = cost(10);
    for (const [step, work] of cost(1_000).entries()) expect(work, `step ${step}`).toBeLessThanOrEqual((few[step] ?? 0) + 10);
  });

  test("[JB2, JB11] a newcomer that becomes free costs the same while 64 and while 10,000 jobs wait for a proven worker", () => {
    const cost = (count: number) => {
      const desk = new Desk();
      desk.register("old");
      desk.submit("busy");
      desk.tell({ type: "ack", connId: "old#1", jobId: "busy", attempt: 1 });
      for (let n = 0; n < count; n++) {
        desk.register(`w${n}`, { record: {}, network: "n" });
        desk.submit(`j${n}`, { userId: `u${n % 100}` });
        desk.tell({ type: "failed", connId: `w${n}#1`, jobId: `j${n}`, attempt: 1, retryable: true });
        desk.tell({ type: "disconnect", connId: `w${n}#1` });
      }
      expect(desk.state.retried.get("TASK")?.size).toBe(count);
      return workOf(() => desk.register("fresh", { record: {}, network: "n" }));
    };
    expect(cost(9_000)).toBeLessThanOrEqual(allowed(cost(64), 64, 9_000));
  });

  test("[JB2] a completion with the claim of the next job costs the same with 64 and with 10,000 waiting jobs", () => {
    const cost = (count: number) => {
      const desk = queue(count);
      const jobId = desk.state.leases.get("w") ?? "";
      return workOf(() => desk.tell({ type: "complete", connId: "w#1", jobId, attempt: 1, verdict: "valid" }));
    };
    expect(cost(10_000)).toBeLessThanOrEqual(allowed(cost(64), 64, 10_000));
  });

  test("[JB2] a registration, an acknowledgement, a requeue and a timer cost the same with a full queue", () => {
    const cost = (count: number) => {
      const desk = queue(count);
      const jobId = desk.state.leases.get("w") ?? "";
      return [
        workOf(() => desk.register("v")),
        workOf(() => desk.tell({ type: "ack", connId: "w#1", jobId, attempt: 1 })),
        workOf(() => desk.tell({ type: "failed", connId: "w#1", jobId, attempt: 1, retryable: true })),
        workOf(() => desk.tell({ type: "disconnect", connId: "v#1" })),
      ];
    };
    const few = cost(64);
    for (const [step, work] of cost(10_000).entries()) expect(work).toBeLessThanOrEqual(allowed(few[step] ?? 0, 64, 10_000));
  });

  test("[JB2] PRIVATE jobs that a paired worker cannot run do not delay it", () => {
    const cost = (count: number) => {
      const desk = new Desk();
      desk.register("desktop", { capabilities: ["LLM_INFER"] });
      desk.register("mobile", { capabilities: ["TASK"] });
      for (let n = 0; n <= count; n++)
        desk.submit(`j${n}`, { jobType: "LLM_INFER", privacyClass: "PRIVATE", trustedKeys: ["desktop", "mobile"], userId: `u${n % 100}` });
      desk.submit("task");
      return workOf(() => desk.tell({ type: "complete", connId: "mobile#1", jobId: "task", attempt: 1, verdict: "valid" }));
    };
    expect(cost(9_000)).toBeLessThanOrEqual(allowed(cost(64), 64, 9_000));
  });

  test("[JB2] many busy workers cost a submit nothing, and the count would show a loop over them", () => {
    const busy = (count: number) => {
      const desk = workers(count);
      for (let n = 0; n < count; n++) desk.submit(`j${n}`);
      return desk;
    };
    const cost = (count: number) => {
      const desk = busy(count);
      return workOf(() => desk.submit("one more"));
    };
    expect(cost(5_000)).toBeLessThanOrEqual(allowed(cost(64), 64, 5_000));
    const desk = busy(500);
    expect(workOf(() => [...desk.state.workers.values()])).toBeGreaterThanOrEqual(500);
  });
});

describe("what an update costs [WS3]", () => {
  const update = (desk: Desk, models: readonly string[], more: object = {}) =>
    desk.tell({ type: "update", connId: "w#1", capabilities: new Set(["LLM_INFER", "TASK"]), acks: true, models, ...more });

  test.each([{}, { record: {} }])("[WS3, JB10] one that changes nothing stores nothing and moves nothing, proven or not (%o)", (standing) => {
    const desk = new Desk();
    const names = modelNames(100, "m");
    desk.register("w", { ...standing, models: names });
    let told = update(desk, names);
    const unchanged = workOf(() => (told = update(desk, names)));
    expect(told.rows).toEqual([]);
    const changed = workOf(() => (told = update(desk, modelNames(100, "other"))));
    expect(told.rows).toHaveLength(200);
    // Both name the pools that follow from the offer and look for a waiting job there.
    const read = workOf(() => poolsOf(desk.state.workers.get("w")!)) + workOf(() => desk.tell({ type: "paired", userId: "u", key: "w" }));
    expect(unchanged - read).toBeLessThan(100);
    expect(changed - read).toBeGreaterThan(1_000);
  });

  test("[WS3, JB10] one that adds a model stores that one only, also while the network has no place for all", () => {
    const desk = new Desk();
    for (let n = 0; n < 9; n++) desk.register(`w${n}`, { network: "n", models: modelNames(100, `m${n}-`) });
    desk.register("w", { network: "n", models: modelNames(98, "m") });
    expect(update(desk, ["new", ...modelNames(98, "m")]).rows).toEqual([{ type: "model", name: "new", leftAt: null }]);
    const tooMany = ["new", "newer", "newest", ...modelNames(97, "m")];
    expect(update(desk, [...tooMany, "last"]).rows.map((row) => row.type === "model" && [row.name, row.leftAt])).toEqual([
      ["newer", null],
      ["newest", null],
      ["m97", desk.now],
    ]);
    expect(update(desk, [...tooMany, "last"]).rows).toEqual([]);
    expect(desk.state.workers.get("w")?.models).toEqual(tooMany);
  });

  test("[WS3, JB2] one that changes only what is not about pools is noted all the same", () => {
    const desk = new Desk();
    desk.register("w", { acks: false, models: ["m"], capabilities: ["LLM_INFER", "TASK"] });
    desk.submit("j");
    expect(desk.where("j")).toBe("pending");
    update(desk, ["m"], { context: 4_096 });
    expect([desk.where("j"), desk.state.workers.get("w")?.context]).toEqual(["assigned w 1", 4_096]);
  });
});
