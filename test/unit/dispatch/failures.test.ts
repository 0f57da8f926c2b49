import { describe, expect, test } from "vitest";
import type { JobFacts } from "../../../src/coordinator/dispatch/index.ts";
import { Desk, NOTHING, words } from "./desk.ts";

const LLM: Partial<JobFacts> = { jobType: "LLM_INFER" };

/** Workers with these contexts, `0` for one that announced none; the first named is given the job `j`. */
function desk(contexts: Record<string, number>, facts: Partial<JobFacts> = LLM): Desk {
  const made = new Desk();
  const [first = "", ...others] = Object.keys(contexts);
  made.register(first, contexts[first] === 0 ? {} : { context: contexts[first]! });
  made.submit("j", facts);
  for (const key of others) made.register(key, contexts[key] === 0 ? {} : { context: contexts[key]! });
  return made;
}

function tooLong(made: Desk, key: string, attempt: number, message?: string): string {
  const said = message === undefined ? {} : { message };
  return words(made.tell({ type: "failed", connId: `${key}#1`, jobId: "j", attempt, retryable: true, cause: "context_length_exceeded", ...said }));
}

describe("a job that does not fit a worker's context", () => {
  test("[JB5] goes to a worker that announces a larger one", () => {
    const made = desk({ a: 4096, same: 4096, silent: 0, smaller: 512, larger: 8192 });
    expect(tooLong(made, "a", 1)).toBe("assign j 2 to larger#1");
    made.tell({ type: "complete", connId: "larger#1", jobId: "j", attempt: 2, verdict: "valid" });
    expect(made.where("j")).toBe("completed larger");
  });

  test("[JB5] ends at once if no other worker is connected", () => {
    const made = desk({ a: 4096 });
    expect(tooLong(made, "a", 1, "9000 tokens are too many")).toBe("");
    expect(made.where("j")).toBe("failed context_length_exceeded: 9000 tokens are too many");
  });

  test.each([
    ["nobody announces a larger one", { a: 4096, b: 4096, silent: 0, smaller: 512 }],
    ["nobody announces any", { a: 0, b: 0 }],
  ])("[JB5, JB11] ends when a second worker says so too and %s", (_title, contexts) => {
    const made = desk(contexts);
    expect(tooLong(made, "a", 1)).toBe("assign j 2 to b#1");
    expect(tooLong(made, "b", 2, "9000 tokens are too many")).toBe("");
    expect(made.where("j")).toBe("failed context_length_exceeded: 9000 tokens are too many");
  });

  test("[JB5] one that announced none counts as smaller than one that did", () => {
    const made = desk({ a: 0, b: 1024 });
    expect(tooLong(made, "a", 1)).toBe("assign j 2 to b#1");
  });

  test("[JB5] the largest that was too small counts, whatever came after it", () => {
    const made = desk({ a: 4096, b: 8192, c: 6000 });
    expect(tooLong(made, "a", 1)).toBe("assign j 2 to b#1");
    made.tell({ type: "failed", connId: "b#1", jobId: "j", attempt: 2, retryable: true });
    // c has more than a, and b is idle but lost it.
    expect(made.where("j")).toBe("assigned c 3");
    expect(tooLong(made, "c", 3)).toBe("");
    expect(made.where("j")).toBe("failed context_length_exceeded");
  });

  test("[JB5] waits for a busy worker with a larger context, while the others take other jobs", () => {
    const made = desk({ a: 4096, larger: 8192, b: 4096 });
    made.submit("k", LLM);
    expect(made.where("k")).toBe("assigned larger 1");
    expect(tooLong(made, "a", 1)).toBe("");
    expect(made.where("j")).toBe("pending");
    made.pass(4_500);
    expect(made.where("j")).toBe("pending");
    made.submit("l", LLM);
    expect(made.where("l")).toBe("assigned a 1");
    expect(words(made.tell({ type: "complete", connId: "larger#1", jobId: "k", attempt: 1, verdict: "valid" }))).toBe("accepted, assign j 2 to larger#1");
  });

  test("[JB5, JB3] a worker with a larger context takes it in the order of the queue", () => {
    const made = desk({ a: 4096, larger: 8192 });
    made.submit("k", LLM);
    tooLong(made, "a", 1);
    made.register("x", { capabilities: ["TASK"] });
    made.tell({ type: "drain", connId: "a#1" });
    made.now += 1;
    made.submit("l", LLM);
    made.tell({ type: "complete", connId: "larger#1", jobId: "k", attempt: 1, verdict: "valid" });
    expect([made.where("j"), made.where("l")]).toEqual(["assigned larger 2", "pending"]);
  });

  test("[WS3] a context that grows on the same socket is a larger one; one that is withdrawn is none", () => {
    const made = desk({ a: 4096, larger: 8192, b: 100 });
    made.submit("k", LLM);
    tooLong(made, "a", 1);
    const capabilities = new Set(["LLM_INFER"] as const);
    expect(words(made.tell({ type: "update", connId: "b#1", capabilities, acks: true }))).toBe("");
    expect(words(made.tell({ type: "update", connId: "b#1", capabilities, acks: true, context: 5000 }))).toBe("assign j 2 to b#1");
  });

  describe("where a worker announces the context of each model", () => {
    const BIG: Partial<JobFacts> = { ...LLM, model: "big" };
    /** A worker that got `j`, a second one with the same context, and one that runs `big` with a larger context and has another model first. */
    function models(facts: Partial<JobFacts>): Desk {
      const made = new Desk();
      const small = { models: ["big"], context: 8192, contexts: new Map([["big", 8192]]) };
      made.register("a", small);
      made.submit("j", facts);
      made.register("b", small);
      const contexts = new Map([
        ["small", 4096],
        ["big", 32_768],
      ]);
      made.register("larger", { models: ["small", "big", "untold"], context: 4096, contexts });
      return made;
    }

    test("[JB5, WS3] that of the job's model counts", () => {
      expect(tooLong(models(BIG), "a", 1)).toBe("assign j 2 to larger#1");
    });

    test("[JB5, WS3] a job without a model takes that of the worker", () => {
      // Nobody has a larger one, so the next worker is asked as after any denial; its word ends the job.
      const made = models(LLM);
      expect(tooLong(made, "a", 1)).toBe("assign j 2 to b#1");
      expect(tooLong(made, "b", 2)).toBe("");
      expect(made.where("j")).toBe("failed context_length_exceeded");
    });

    test("[JB5, WS3, JB2] a worker that becomes free takes what outgrew another context of the same model", () => {
      const made = models(BIG);
      made.submit("k", { ...LLM, model: "small" });
      expect(made.where("k")).toBe("assigned larger 1");
      expect(tooLong(made, "a", 1)).toBe("");
      expect(made.where("j")).toBe("pending");
      expect(words(made.tell({ type: "complete", connId: "larger#1", jobId: "k", attempt: 1, verdict: "valid" }))).toBe("accepted, assign j 2 to larger#1");
    });

    test("[JB5, WS3] a model without one counts as not larger, and one that is announced later as larger", () => {
      const made = new Desk();
      made.register("a", { models: ["untold"], context: 512 });
      made.submit("j", { ...LLM, model: "untold" });
      const offer = { capabilities: new Set(["LLM_INFER"] as const), acks: true, models: ["small", "untold"], context: 4096 };
      const contexts = new Map([["small", 4096]]);
      made.register("b", { ...offer, capabilities: ["LLM_INFER"], contexts });
      made.register("larger", { models: ["untold"], context: 1024 });
      made.submit("k", { ...LLM, model: "untold", policy: "FAST" });
      expect([made.where("j"), made.where("k")]).toEqual(["assigned a 1", "assigned b 1"]);
      made.submit("l", { ...LLM, model: "untold" });
      expect(made.where("l")).toBe("assigned larger 1");
      expect(tooLong(made, "a", 1)).toBe("");
      expect(words(made.tell({ type: "complete", connId: "b#1", jobId: "k", attempt: 1, verdict: "valid" }))).toBe("accepted");
      expect(made.where("j")).toBe("pending");
      expect(words(made.tell({ type: "update", connId: "b#1", ...offer, contexts: new Map([...contexts, ["untold", 513]]) }))).toBe("assign j 2 to b#1");
    });
  });

  test("[JB5] if the worker with the larger context leaves, the job fails after its claim window, with the cause and the message", () => {
    const made = desk({ a: 4096, larger: 8192 });
    made.submit("k", LLM);
    tooLong(made, "a", 1, "too long");
    made.tell({ type: "disconnect", connId: "larger#1" });
    made.pass(30_000);
    expect(made.where("j")).toBe("failed context_length_exceeded: too long");
  });

  test("[JB4] a larger worker that rejected it gets it again at the tick, a smaller one does not", () => {
    const made = desk({ a: 4096, larger: 8192 });
    tooLong(made, "a", 1);
    made.tell({ type: "reject", connId: "larger#1", jobId: "j" });
    expect(made.where("j")).toBe("pending");
    expect(words(made.pass(2_000))).toBe("assign j 2 to larger#1");
  });

  test("[JB5, JB8] a PRIVATE one goes to a larger worker of the same user only", () => {
    const facts: Partial<JobFacts> = { ...LLM, privacyClass: "PRIVATE", trustedKeys: ["a", "mine"] };
    const made = desk({ a: 4096, stranger: 100_000, mine: 8192 }, facts);
    expect(tooLong(made, "a", 1)).toBe("assign j 2 to mine#1");
    expect(tooLong(made, "mine", 2)).toBe("");
    expect(made.where("j")).toBe("failed context_length_exceeded");
  });

  test("[WS9] a reject for that reason uses no attempt; without a larger worker the job ends", () => {
    const made = desk({ a: 4096, larger: 8192 });
    expect(words(made.tell({ type: "reject", connId: "a#1", jobId: "j", tooLong: true }))).toBe("assign j 1 to larger#1");
    expect(words(made.tell({ type: "reject", connId: "larger#1", jobId: "j", tooLong: true }))).toBe("");
    expect(made.where("j")).toBe("failed context_length_exceeded");
  });

  test.each([
    ["while a larger one is busy: no worker was eligible in its window, and it says nothing about the context", false, "failed no_eligible_worker"],
    ["and the larger one has left", true, "failed context_length_exceeded"],
  ])("[JB5, WS9] a job that was only rejected for that reason, %s", (_, leaves, end) => {
    const made = desk({ a: 4096, larger: 8192 });
    made.submit("k", LLM);
    made.tell({ type: "reject", connId: "a#1", jobId: "j", tooLong: true });
    if (leaves) made.tell({ type: "disconnect", connId: "larger#1" });
    else made.tell({ type: "ack", connId: "larger#1", jobId: "k", attempt: 1 });
    made.pass(30_000);
    expect(made.where("j")).toBe(end);
  });

  test("[JB5, WS9] a reject for that reason is no attempt: the last attempt's cause and message stay", () => {
    const made = desk({ a: 4096, b: 4096, larger: 8192 });
    made.submit("k", LLM);
    made.submit("l", LLM);
    expect([made.where("k"), made.where("l")]).toEqual(["assigned b 1", "assigned larger 1"]);
    made.tell({ type: "ack", connId: "larger#1", jobId: "l", attempt: 1 });
    made.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true, cause: "worker_error", message: "gpu broke" });
    expect(words(made.tell({ type: "complete", connId: "b#1", jobId: "k", attempt: 1, verdict: "valid" }))).toBe("accepted, assign j 2 to b#1");
    made.tell({ type: "reject", connId: "b#1", jobId: "j", tooLong: true });
    made.pass(30_000);
    expect(made.where("j")).toBe("failed worker_error: gpu broke");
  });

  test("[JB9] after the hub lost its memory, the context that was too small and the message are still known", () => {
    const made = desk({ a: 4096, larger: 8192 });
    made.submit("k", LLM);
    tooLong(made, "a", 1, "too long");
    made.forget();
    made.register("a", { context: 4096 });
    made.pass(2_500);
    expect(made.where("j")).toBe("pending");
    made.pass(30_000);
    expect(made.where("j")).toBe("failed context_length_exceeded: too long");
  });
});

describe("what the last worker said", () => {
  test("[JB5] is part of the failed job; of several attempts the last message counts", () => {
    const made = desk({ a: 0, b: 0, c: 0 });
    const fail = (key: string, attempt: number, message: string) =>
      made.tell({ type: "failed", connId: `${key}#1`, jobId: "j", attempt, retryable: true, message });
    fail("a", 1, "first");
    fail("b", 2, "second");
    fail("c", 3, "third");
    expect(made.where("j")).toBe("failed worker_error: third");
  });

  test("[JB5] if the last worker sent no message, the job has no message of an earlier worker", () => {
    const made = desk({ a: 0, b: 0 });
    made.tell({ type: "failed", connId: "a#1", jobId: "j", attempt: 1, retryable: true, message: "out of memory" });
    expect(made.where("j")).toBe("assigned b 2");
    made.tell({ type: "drain", connId: "a#1" });
    made.tell({ type: "disconnect", connId: "b#1" });
    made.pass(60_000);
    expect(made.where("j")).toBe("failed worker_lost");
  });

  test("[JB5] an output that is an error is what the worker said", () => {
    const made = desk({ a: 0 });
    made.tell({ type: "complete", connId: "a#1", jobId: "j", attempt: 1, verdict: "worker_error", message: "no disk" });
    expect(made.where("j")).toBe("failed worker_error: no disk");
  });
});

describe("a frame over the limit", () => {
  test("[LM1] ends the attempt at once; the last of three ends the job with the cause", () => {
    const made = new Desk();
    made.submit("j", LLM);
    for (const key of ["a", "b", "c"]) {
      made.register(key);
      expect(words(made.tell({ type: "oversized", connId: `${key}#1`, jobId: "j" }))).toBe("rejected: output_too_large");
    }
    expect(made.where("j")).toBe("failed output_too_large");
  });

  test("[LM1, WS7] the worker gets no job on the socket that is about to be closed", () => {
    const made = desk({ a: 0 });
    made.submit("k", LLM);
    expect(words(made.tell({ type: "oversized", connId: "a#1", jobId: "j" }))).toBe("rejected: output_too_large");
    expect([made.where("j"), made.where("k")]).toEqual(["pending", "pending"]);
    expect(made.tell({ type: "disconnect", connId: "a#1" })).toEqual(NOTHING);
  });

  test("[LM1] for a job that the worker does not hold only closes the socket", () => {
    const made = desk({ a: 0 });
    made.tell({ type: "oversized", connId: "a#1", jobId: "other" });
    expect(made.where("j")).toBe("assigned a 1 gone");
  });
});

describe("a worker that ends job after job", () => {
  test.each(["content_refused", "output_too_large", "context_length_exceeded"] as const)(
    "[JB4] gets nothing until the tick, whatever cause it names: %s",
    (cause) => {
      const made = new Desk();
      made.register("a");
      for (let i = 0; i < 8; i++) made.submit(`j${i}`, LLM);
      for (let i = 0; i < 5; i++) made.tell({ type: "failed", connId: "a#1", jobId: `j${i}`, attempt: 1, retryable: false, cause });
      expect([made.where("j4"), made.where("j5")]).toEqual([`failed ${cause}`, "pending"]);
      expect(words(made.pass(2_000))).toBe("assign j5 1 to a#1");
    },
  );
});
