import { describe, expect, it } from "vitest";
import { keyPair, signReceipt } from "../../../src/receipt/index.ts";
import { type Job, type Receipt, ReceiptError, verifyReceipt } from "../../../src/sdk/index.ts";
import { rejection } from "./support/faults.ts";
import { RouterServer, WORKER } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const OTHER_JOB = "00000000-0000-4000-8000-000000000001";
const AT = "2026-11-21T00:00:00.000Z";

/** What becomes of a receipt, or of the job that it is sent with. */
type Forgery = [string, (receipt: Receipt, job: Job) => unknown, string];

const forgeries: Forgery[] = [
  ["a missing receipt", () => null, "no_receipt"],
  ["an output that was changed after signing", (receipt, job) => ((job.result = { ...job.result, sentiment: "negative" }), receipt), "hash_mismatch"],
  ["a member that was added after signing", (receipt, job) => ((job.result = { ...job.result, extra: 1 }), receipt), "hash_mismatch"],
  ["a hash of other output", (receipt) => ({ ...receipt, output_hash: receipt.output_hash.replace(/.$/, (c) => (c === "0" ? "1" : "0")) }), "hash_mismatch"],
  ["a changed time", (receipt) => ({ ...receipt, completed_at: AT }), "bad_signature"],
  ["the key of another worker", (receipt) => ({ ...receipt, provider_pubkey: keyPair(new Uint8Array(32).fill(8)).publicKey }), "bad_signature"],
  ["a small-order key", (receipt) => ({ ...receipt, provider_pubkey: `01${"00".repeat(31)}` }), "invalid_key"],
  ["no key at all", (receipt) => ({ ...receipt, provider_pubkey: "worker" }), "invalid_key"],
  ["no signature at all", (receipt) => ({ ...receipt, signature: "" }), "bad_signature"],
  ["the genuine receipt of another job", (_receipt, job) => signReceipt(WORKER, OTHER_JOB, job.result, AT), "job_mismatch"],
];

describe("verification", () => {
  it.each(forgeries)("[RC4] says that %s is not valid, and why", async (_title, forge, reason) => {
    const router = await RouterServer.start({ receipt: forge });
    const result = await router.client().run(CLASSIFY);
    expect(result).toMatchObject({ verified: false, verification: { ok: false, reason }, status: "completed" });
    expect(result.output).not.toBeNull();
  });

  it.each(forgeries)("[RC4] requireVerified throws for %s", async (_title, forge, reason) => {
    const router = await RouterServer.start({ receipt: forge });
    const client = router.client({ requireVerified: true });
    const error = await rejection(client.run(CLASSIFY));
    expect(error).toBeInstanceOf(ReceiptError);
    expect(error).toMatchObject({ code: "receipt_invalid", reason, jobId: [...router.jobs.keys()][0] });
    expect(await client.run(CLASSIFY, { requireVerified: false })).toMatchObject({ verified: false });
  });

  it("requireVerified accepts a valid receipt, in run and in waitFor", async () => {
    const router = await RouterServer.start();
    const client = router.client();
    const { jobId } = await client.run(CLASSIFY, { requireVerified: true });
    expect(await client.waitFor(jobId ?? "", { requireVerified: true })).toMatchObject({ verified: true });
  });

  it("[PY10] a settlement in payment_ref does not break the signature", async () => {
    const router = await RouterServer.start({ receipt: (receipt) => ({ ...receipt, payment_ref: "0xabc" }) });
    expect(await router.client().run(CLASSIFY)).toMatchObject({ verified: true, receipt: { payment_ref: "0xabc" } });
  });

  it("[RC2] a string output is checked as it was signed", async () => {
    const router = await RouterServer.start({ work: () => ({ output: "ü 😀 \u2028" }) });
    expect(await router.client().run({ job_type: "LLM_INFER", prompt: "Hi" })).toMatchObject({ output: "ü 😀 \u2028", verified: true });
  });

  it("[LM3] a result past its retention cannot be checked", async () => {
    const router = await RouterServer.start({ receipt: (receipt, job) => ((job.result = null), receipt) });
    expect(await router.client().run(CLASSIFY)).toMatchObject({ output: null, result: null, verified: false, verification: { reason: "no_result" } });
  });

  it("verifyReceipt works without a router, and is also a method", async () => {
    const result = { sentiment: "positive", confidence: 1 };
    const receipt = signReceipt(WORKER, OTHER_JOB, result, AT);
    expect(verifyReceipt(receipt, result)).toEqual({ ok: true });
    expect(verifyReceipt(receipt, { ...result, confidence: 0 })).toEqual({ ok: false, reason: "hash_mismatch" });
    const router = await RouterServer.start();
    expect(router.client().verifyReceipt(receipt, result)).toEqual({ ok: true });
  });
});
