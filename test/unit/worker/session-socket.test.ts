import { createHash, createPublicKey, verify } from "node:crypto";
import { describe, expect, it, onTestFinished } from "vitest";
import type { ResultShelf } from "../../../src/worker/session/delivery.ts";
import type { Runtime } from "../../../src/worker/runtimes/runtime.ts";
import { createExecutor, type Executor, type Hooks, seedSigner } from "../../../src/worker/session/executor.ts";
import { type SessionOptions, WorkerSession } from "../../../src/worker/session/session.ts";
import type { KeptResult, Run, SessionNote } from "../../../src/worker/session/state.ts";
import { FakeCoordinator } from "./support/fake-coordinator.ts";
import { KEY, PROFILE } from "./support/session-bench.ts";

const QUICK = { reconnectFirst: 10, reconnectMax: 20, challenge: 30, resend: 40, leave: 500 };
const echo: Executor = (run) => Promise.resolve({ ok: true, output: { z: 1, said: String(run.payload["input"]), a: { "10": 1, "9": 2 } }, tokens: null });

type Started = { session: WorkerSession; notes: SessionNote[] };

function start(coordinator: FakeCoordinator, over: Partial<SessionOptions> = {}): Started {
  const notes: SessionNote[] = [];
  const timing = { ...QUICK, ...over.timing };
  const options = {
    url: coordinator.url,
    WebSocket,
    signer: seedSigner(KEY),
    profile: PROFILE,
    execute: echo,
    onNote: (note: SessionNote) => notes.push(note),
    ...over,
    timing,
  };
  const session = new WorkerSession(options);
  onTestFinished(() => session.stop());
  session.start();
  return { session, notes };
}

/** An executor whose runs end when the test says so. */
function byHand(): { execute: Executor; next: () => Promise<{ run: Run; hooks: Hooks; finish: (output: string | Record<string, unknown>) => void }> } {
  const waiting: PromiseWithResolvers<{ run: Run; hooks: Hooks; finish: (output: string | Record<string, unknown>) => void }>[] = [Promise.withResolvers()];
  let begun = 0;
  let asked = 0;
  const at = (i: number) => (waiting[i] ??= Promise.withResolvers());
  return {
    execute: (run, hooks) =>
      new Promise((resolve) => {
        hooks.signal.addEventListener("abort", () => resolve({ ok: false, error: "aborted", message: "", retryable: true }));
        at(begun++).resolve({ run, hooks, finish: (output) => resolve({ ok: true, output, tokens: null }) });
      }),
    next: () => at(asked++).promise,
  };
}

/** An object of so many levels. */
function nested(levels: number): Record<string, unknown> {
  return levels === 1 ? { a: 1 } : { a: nested(levels - 1) };
}

/** Node's own verification, which shares no code with the worker's. */
function signedBy(publicKey: string, text: string, signature: string): boolean {
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: Buffer.from(publicKey, "hex").toString("base64url") }, format: "jwk" });
  return verify(null, Buffer.from(text, "utf8"), key, Buffer.from(signature, "base64"));
}

function memoryShelf(): ResultShelf & { kept: readonly KeptResult[] } {
  return {
    kept: [],
    load() {
      return this.kept;
    },
    save(results) {
      this.kept = results;
    },
  };
}

describe("a worker session on a real socket", () => {
  it("[WS3] registers with a signature over exactly the bytes of the protocol", async () => {
    const coordinator = await FakeCoordinator.start();
    start(coordinator);
    const { register, nonce } = await coordinator.registered();
    const text = `compute-router/register/v1\neip155:10143\n${coordinator.host}\n${nonce}\n${KEY.publicKey}`;
    expect(signedBy(KEY.publicKey, text, String(register["signature"]))).toBe(true);
  });

  it("[WS3] gives another host no signature", async () => {
    const coordinator = await FakeCoordinator.start();
    start(coordinator);
    const worker = await coordinator.dialled();
    worker.challenge("router.example");
    expect(await worker.receive("register")).not.toHaveProperty("signature");
  });

  it("[WS2] registers without a signature if no challenge comes", async () => {
    const coordinator = await FakeCoordinator.start();
    start(coordinator);
    expect(await (await coordinator.dialled()).receive("register")).not.toHaveProperty("signature");
  });

  it("[WS10] delivers output, hash and receipt that verify, members sorted", async () => {
    const coordinator = await FakeCoordinator.start();
    start(coordinator);
    const { worker } = await coordinator.registered();
    const job = worker.assign({ attempt: 2 });
    expect(await worker.receive("job_ack")).toEqual({ type: "job_ack", job_id: job.job_id, attempt: 2 });
    const complete = await worker.receive("job_complete");
    const text = '{"a":{"9":2,"10":1},"said":"What a wonderful day","z":1}';
    expect(JSON.stringify(complete["output"])).toBe(text);
    const hash = `sha256:${createHash("sha256").update(text).digest("hex")}`;
    const receipt = { job_id: job.job_id, provider_pubkey: KEY.publicKey, output_hash: hash, completed_at: expect.any(String), payment_ref: null };
    expect(complete).toMatchObject({ attempt: 2, output_hash: hash, receipt });
    expect(Object.keys(complete["receipt"] ?? {})).toEqual(["job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref"]);
    expect(signedBy(KEY.publicKey, JSON.stringify(complete["receipt"]), String(complete["receipt_signature"]))).toBe(true);
  });

  it("[WS10] sends exactly the same frame again until it is acknowledged", async () => {
    const coordinator = await FakeCoordinator.start();
    const shelf = memoryShelf();
    const { notes } = start(coordinator, { shelf });
    const { worker } = await coordinator.registered();
    const job = worker.assign();
    const first = await worker.receive("job_complete", "job_ack");
    expect(await worker.receive("job_complete")).toEqual(first);
    expect(shelf.kept).toHaveLength(1);
    worker.send({ type: "job_complete_ack", job_id: job.job_id, status: "duplicate" });
    worker.assign();
    await worker.receive("job_ack", "job_complete");
    expect(notes).toContainEqual({ type: "job_acknowledged", job_id: job.job_id, status: "duplicate", error: null, message: null });
  });

  it("[WS10] after a lost connection it reconnects, resumes the running job and delivers its result", async () => {
    const coordinator = await FakeCoordinator.start();
    const { execute, next } = byHand();
    start(coordinator, { execute });
    const { worker } = await coordinator.registered();
    const job = worker.assign();
    const { finish } = await next();
    worker.cut();
    const again = await coordinator.registered();
    expect(again.register["resume"]).toEqual([{ job_id: job.job_id, attempt: 1 }]);
    finish("done");
    expect(await again.worker.receive("job_complete")).toMatchObject({ job_id: job.job_id, output: "done" });
  });

  it("[WS10] a result of a process that has ended is delivered by the next one", async () => {
    const coordinator = await FakeCoordinator.start();
    const shelf = memoryShelf();
    const first = start(coordinator, { shelf });
    const { worker } = await coordinator.registered();
    const job = worker.assign();
    const complete = await worker.receive("job_complete", "job_ack");
    first.session.stop();
    start(coordinator, { shelf });
    const again = await coordinator.registered();
    expect(again.register["resume"]).toEqual([{ job_id: job.job_id, attempt: 1 }]);
    expect(await again.worker.receive("job_complete")).toEqual(complete);
    again.worker.send({ type: "job_complete_ack", job_id: job.job_id, status: "accepted" });
    again.worker.assign();
    await again.worker.receive("job_ack", "job_complete");
    expect(shelf.kept.some((kept) => kept.jobId === job.job_id)).toBe(false);
  });

  it("[WS11] a cancel aborts the run and the next job runs", async () => {
    const coordinator = await FakeCoordinator.start();
    const { execute, next } = byHand();
    start(coordinator, { execute });
    const { worker } = await coordinator.registered();
    const first = worker.assign();
    const { hooks } = await next();
    worker.send({ type: "job_cancel", job_id: first.job_id, attempt: 1, reason: "cancelled" });
    const second = worker.assign();
    const { finish } = await next();
    expect(hooks.signal.aborted).toBe(true);
    finish("second");
    expect(await worker.receive("job_complete", "job_ack")).toMatchObject({ job_id: second.job_id });
  });

  it("[WS9] the end of an aborted LLM run is told at once, also while a TASK that came after it runs", async () => {
    const coordinator = await FakeCoordinator.start();
    const ended = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const never = Promise.withResolvers<never>();
    const told: string[] = [];
    const execute: Executor = async ({ jobType }) => {
      if (jobType === "LLM_INFER") await ended.promise;
      else {
        begun.resolve();
        await never.promise;
      }
      return { ok: true, output: "late", tokens: null };
    };
    start(coordinator, { execute, onRunEnd: () => told.push("run end"), timing: { ...QUICK, settle: 60_000 } });
    const { worker } = await coordinator.registered();
    const first = worker.assign({ job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "hello" } });
    await worker.receive("job_ack");
    worker.send({ type: "job_cancel", job_id: first.job_id, attempt: 1, reason: "cancelled" });
    worker.assign();
    await worker.receive("job_ack");
    expect(told).toEqual([]);
    ended.resolve();
    await begun.promise;
    expect(told).toEqual(["run end"]);
  });

  it("[WS9] a second job while one runs is rejected as busy", async () => {
    const coordinator = await FakeCoordinator.start();
    const { execute, next } = byHand();
    start(coordinator, { execute });
    const { worker } = await coordinator.registered();
    worker.assign();
    await next();
    const second = worker.assign();
    expect(await worker.receive("job_reject", "job_ack")).toEqual({ type: "job_reject", job_id: second.job_id, reason: "busy" });
  });

  it("[WS9] joins streamed text; the deltas are the whole text", async () => {
    const coordinator = await FakeCoordinator.start();
    const words = Array.from({ length: 500 }, (_, i) => `w${i} `);
    const execute: Executor = (_, { onProgress }) => {
      for (const word of words) onProgress(word);
      return Promise.resolve({ ok: true, output: words.join(""), tokens: 500 });
    };
    start(coordinator, { execute });
    const { worker } = await coordinator.registered();
    worker.assign({ job_type: "LLM_INFER", payload: { prompt: "x" } });
    await worker.receive("job_ack");
    const frames: { [name: string]: unknown }[] = [];
    for (let frame = await worker.next(); frame["type"] === "job_progress"; frame = await worker.next()) frames.push(frame);
    expect(frames.map(({ seq }) => seq)).toEqual([...frames.keys()]);
    expect(frames.map(({ delta }) => delta).join("")).toBe(words.join(""));
    // One on an idle machine. On a busy one the words can come slower than frames may be sent.
    expect(frames.length).toBeLessThan(50);
  });

  it("[WS11] drain finishes the job, waits for its acknowledgement and for drained, closes 1000", async () => {
    const coordinator = await FakeCoordinator.start();
    const { execute, next } = byHand();
    const { session } = start(coordinator, { execute });
    const { worker } = await coordinator.registered();
    const job = worker.assign();
    const { finish } = await next();
    const drained = session.drain();
    await worker.receive("drain", "job_ack");
    finish("last");
    await worker.receive("job_complete");
    worker.send({ type: "job_complete_ack", job_id: job.job_id, status: "accepted" });
    worker.send({ type: "drained" });
    expect(await drained).toMatchObject({ reason: "drained" });
    expect(await worker.closed).toBe(1000);
  });

  it("[WS4] replaced: ends with a message that says what to do", async () => {
    const coordinator = await FakeCoordinator.start();
    const { session } = start(coordinator);
    const { worker } = await coordinator.registered();
    worker.close(4001);
    expect(await session.ended).toMatchObject({ reason: "replaced", message: expect.stringContaining("--key") });
  });

  it("[WS4] parked: it reconnects after the time that the coordinator says", async () => {
    const coordinator = await FakeCoordinator.start();
    const { notes } = start(coordinator, { timing: { parkMax: 15 } });
    const worker = await coordinator.dialled();
    worker.challenge();
    await worker.receive("register");
    worker.send({ type: "register_ack", status: "error", error: "parked", retry_after_s: 60 });
    worker.close(4003);
    await coordinator.registered();
    expect(notes).toContainEqual(expect.objectContaining({ type: "offline", code: 4003, cause: "parked" }));
  });

  it("[WS6] opens a new socket if heartbeats are not answered", async () => {
    const coordinator = await FakeCoordinator.start();
    coordinator.heartbeats = false;
    const { notes } = start(coordinator, { timing: { heartbeat: 40, silent: 400 } });
    const { worker } = await coordinator.registered();
    await coordinator.registered();
    expect(worker.heartbeats).toBeGreaterThanOrEqual(2);
    expect(notes).toContainEqual(expect.objectContaining({ type: "offline", cause: "the coordinator is silent" }));
  });

  it("[WS4] tries again until the coordinator is there", async () => {
    const coordinator = await FakeCoordinator.start();
    let refusals = 3;
    const Refusing = class extends WebSocket {
      constructor(url: string) {
        super(refusals-- > 0 ? "ws://127.0.0.1:1/" : url);
      }
    };
    start(coordinator, { WebSocket: Refusing });
    expect((await coordinator.registered()).register["provider_pubkey"]).toBe(KEY.publicKey);
  });

  it.each([
    ["output_too_large", { text: "x".repeat(1024 * 1024) }],
    ["invalid_output", { text: "\uD800" }],
    ["invalid_output", nested(32)],
  ])("[LM1] an output that the coordinator can never accept fails without a retry: %s", async (error, output) => {
    const coordinator = await FakeCoordinator.start();
    start(coordinator, { execute: () => Promise.resolve({ ok: true, output, tokens: null }) });
    const { worker } = await coordinator.registered();
    worker.assign();
    expect(await worker.receive("job_failed", "job_ack")).toMatchObject({ error, retryable: false });
  });

  it.each([
    ["the limit of bytes", "x".repeat(1024 * 1024 - 2)],
    // The frame is the 32nd level.
    ["the limit of levels", nested(31)],
  ])("[LM1] an output of exactly %s is delivered", async (_, output) => {
    const coordinator = await FakeCoordinator.start();
    start(coordinator, { execute: () => Promise.resolve({ ok: true, output, tokens: null }) });
    const { worker } = await coordinator.registered();
    worker.assign();
    await worker.receive("job_complete", "job_ack");
  });

  it("[JB5] an unexpected error tells the seeker its name, and nothing of the job that its message may repeat", async () => {
    const execute = createExecutor({ task: () => Promise.reject(new RangeError("the private text")) });
    const coordinator = await FakeCoordinator.start();
    start(coordinator, { execute });
    const { worker } = await coordinator.registered();
    worker.assign();
    expect(await worker.receive("job_failed", "job_ack")).toMatchObject({ error: "worker_error", message: "RangeError", retryable: true });
  });

  it("an LLM hears which job a prompt belongs to, because the attempts of one job say less than several jobs", async () => {
    const asked: unknown[] = [];
    const generate: Runtime["generate"] = (prompt, { jobId }) => {
      asked.push([prompt, jobId]);
      return Promise.resolve({ text: "t", model: "m", usage: { prompt_tokens: 1, completion_tokens: 1 }, finishReason: "stop" });
    };
    const execute = createExecutor({ task: () => ({}), llm: () => ({ generate }) });
    const run: Run = { jobId: "j", attempt: 2, jobType: "LLM_INFER", payload: { prompt: "p" } };
    await execute(run, { signal: new AbortController().signal, onProgress: () => {} });
    expect(asked).toEqual([["p", "j"]]);
  });

  it("[WS3] a key that signs only asynchronously works (WebCrypto)", async () => {
    const coordinator = await FakeCoordinator.start();
    const pair = await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
    if (!("privateKey" in pair)) throw new Error("no pair");
    const publicKey = Buffer.from(await crypto.subtle.exportKey("raw", pair.publicKey)).toString("hex");
    const sign = async (text: string) => Buffer.from(await crypto.subtle.sign("Ed25519", pair.privateKey, Buffer.from(text))).toString("base64");
    start(coordinator, { signer: { publicKey, sign } });
    const { register, nonce } = await coordinator.registered();
    const text = `compute-router/register/v1\neip155:10143\n${coordinator.host}\n${nonce}\n${publicKey}`;
    expect(signedBy(publicKey, text, String(register["signature"]))).toBe(true);
  });

  it("[WS10] an error while storing a result is reported, and the session goes on", async () => {
    const coordinator = await FakeCoordinator.start();
    const shelf: ResultShelf = {
      load: () => [],
      save: () => {
        throw new Error("disk full");
      },
    };
    const { notes } = start(coordinator, { shelf });
    const { worker } = await coordinator.registered();
    worker.assign();
    await worker.receive("job_complete", "job_ack");
    expect(notes).toContainEqual(expect.objectContaining({ type: "warning", code: "cannot_keep" }));
  });
});
