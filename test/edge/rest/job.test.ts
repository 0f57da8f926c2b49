import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { CommitResponse, Job } from "../../../src/protocol/job.ts";
import { shortJobId } from "../../../src/protocol/text.ts";
import { endedHere, startHere } from "../../../src/coordinator/recent-jobs.ts";
import { verifyReceipt } from "../../../src/receipt/index.ts";
import { TASK, failingDb, failingHub, freshInstance, post, read, refusal, rest } from "./rest.ts";
import { FakeWorker, recorded } from "./worker.ts";

vi.spyOn(console, "error").mockImplementation(() => undefined);
beforeEach(freshInstance);

const StrictJob = z.strictObject(Job.shape);
const UNKNOWN = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const LOST = { retryable: true };

async function commit(): Promise<string> {
  return (await read(await post("/v1/jobs/commit/cheap", TASK), CommitResponse)).job_id;
}

/** Runs a job that ends with `output`. */
async function completed(output: unknown): Promise<string> {
  const worker = await FakeWorker.connect();
  const [id] = await Promise.all([commit(), worker.complete(output)]);
  await worker.close();
  return id;
}

/** Runs a job that ends with `output`, waits until D1 has it, and goes on in another isolate. */
async function ended(output: unknown): Promise<string> {
  const id = await completed(output);
  await recorded(id);
  startHere();
  return id;
}

describe("GET /v1/jobs/{id}", () => {
  test("[SPEC, RC1] a completed job has its result and a receipt that verifies, the same from the hub and from D1", async () => {
    const id = await ended({ sentiment: "positive", confidence: 0.9 });
    const job = await read(await rest(`/v1/jobs/${id}`), StrictJob);
    expect(job).toMatchObject({ id, status: "completed", result: { sentiment: "positive", confidence: 0.9 } });
    expect(job.completed_at).toMatch(/\.\d{3}Z$/);
    expect(job.receipt && verifyReceipt(job.receipt, job.result)).toEqual({ ok: true });
    expect(Object.keys(job.receipt ?? {})).toEqual(["job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref", "signature"]);
    // The hub cannot be reached, so the answer comes from D1.
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    expect(await read(await rest(`/v1/jobs/${id}`, {}, failingHub(LOST)), StrictJob)).toEqual(job);
    // Who knows a whole id can read the job, and the log has other readers.
    const log = error.mock.calls.flat().map(String).join("\n");
    expect(log).toContain(`"job":"${shortJobId(id)}"`);
    expect(log).not.toContain(id);
  });

  test("[PY9] where jobs are paid, a failed one is 503 while the hub cannot be reached: only the hub knows what became of its money", async () => {
    const id = await ended({ sentiment: "positive", confidence: 0.9 });
    const paid = { ...failingHub(LOST), TESTNET_MODE: "false" };
    expect((await rest(`/v1/jobs/${id}`, {}, paid)).status).toBe(200);
    await env.DB.prepare("UPDATE jobs SET status = 'failed', result = ? WHERE id = ?").bind('{"error":"worker_error"}', id).run();
    const unknown = await rest(`/v1/jobs/${id}`, {}, paid);
    expect([unknown.status, unknown.headers.get("retry-after")]).toEqual([503, "2"]);
    expect((await rest(`/v1/jobs/${id}`, {}, failingHub(LOST))).status).toBe(200);
  });

  test("[RC2, RC5] the text of the result is the stored text, byte for byte", async () => {
    const id = await ended({ "10": 1, "9": 2, b: "\u2028é😀", a: { __: [1e21, 0.1, -0] } });
    const stored = await env.DB.prepare("SELECT result FROM jobs WHERE id = ?").bind(id).first<string>("result");
    for (const overrides of [{}, failingHub(LOST)])
      expect(await (await rest(`/v1/jobs/${id}`, {}, overrides)).text()).toContain(`"result":${stored},"receipt":{`);
  });

  test("what has just ended is answered without the hub and D1, where the router runs in the hub's isolate; with payments the hub is asked", async () => {
    const id = await completed({ a: 1 });
    await vi.waitFor(() => expect(endedHere(id, Date.now())).not.toBeNull());
    const nothing = { ...failingHub(LOST), DB: failingDb() };
    const job = await read(await rest(`/v1/jobs/${id.toUpperCase()}?wait=5`, {}, nothing), StrictJob);
    expect(job).toMatchObject({ id, status: "completed", result: { a: 1 } });
    expect((await rest(`/v1/jobs/${id}`, {}, { ...nothing, TESTNET_MODE: "false" })).status).toBe(503);
    await recorded(id);
    startHere();
    expect(await read(await rest(`/v1/jobs/${id}`), StrictJob)).toEqual(job);
  });

  test("[API1] an id in upper case is the same id", async () => {
    const id = await commit();
    expect((await read(await rest(`/v1/jobs/${id.toUpperCase()}`), StrictJob)).id).toBe(id);
  });

  test("[LM3] after retention the result is null and the receipt stays", async () => {
    const id = await ended({ a: 1 });
    await env.DB.prepare("UPDATE jobs SET result = NULL, payload = NULL WHERE id = ?").bind(id).run();
    const job = await read(await rest(`/v1/jobs/${id}`, {}, failingHub(LOST)), StrictJob);
    expect(job).toMatchObject({ status: "completed", result: null, receipt: { job_id: id } });
  });
});

describe("503", () => {
  test.each([
    ["the hub out of reach, no row in D1", failingHub(LOST)],
    ["the hub overloaded, no row in D1", failingHub({ overloaded: true })],
    ["a bug in the hub, no row in D1", failingHub({ remote: true })],
    ["D1 out of reach, unknown to the hub", { DB: failingDb() }],
    ["both out of reach", { ...failingHub(LOST), DB: failingDb() }],
  ])("[API1] %s: 503", async (_name, overrides) => {
    const response = await rest(`/v1/jobs/${UNKNOWN}`, {}, overrides);
    expect(await refusal(response, 503)).toBe("overloaded");
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("[API1] a live job needs no D1", async () => {
    const id = await commit();
    expect((await read(await rest(`/v1/jobs/${id}`, {}, { DB: failingDb() }), StrictJob)).status).toBe("pending");
  });
});

describe("wait", () => {
  test("[API6] wait=ten is 400", async () => {
    expect(await refusal(await rest(`/v1/jobs/${await commit()}?wait=ten`), 400)).toContain("wait");
  });

  test("[API6] answers as soon as the job has ended; more than 25 counts as 25", async () => {
    const polled = rest(`/v1/jobs/${await commit()}?wait=99999999999999999999`);
    const worker = await FakeWorker.connect();
    await worker.complete({ done: true });
    expect(await read(await polled, StrictJob)).toMatchObject({ status: "completed", result: { done: true } });
    await worker.close();
  });

  test("[API6, JB9] a hub that restarts during a wait is asked again for the rest of it", async () => {
    const polled = rest(`/v1/jobs/${await commit()}?wait=2`);
    const committed = post("/v1/jobs/commit/cheap", TASK, { prefer: "wait=2" });
    // The hub handles calls in order, so both calls have arrived when it answers this one.
    await rest("/v1/health");
    await abortAllDurableObjects();
    expect((await read(await polled, StrictJob)).status).toBe("pending");
    const { job_id } = await read(await committed, CommitResponse);
    expect((await read(await rest(`/v1/jobs/${job_id}`), StrictJob)).status).toBe("pending");
  });
});
