import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { TestHub, until } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";

const OUTPUT = { summary: "s" };

async function verifiedFlag(id: string): Promise<unknown> {
  const row = await env.DB.prepare("SELECT verified FROM receipts WHERE job_id = ?").bind(id).first();
  return row?.verified ?? null;
}

describe("RECEIPT_POLICY=record", () => {
  test("[RC4] without a readable receipt and signature the job completes with receipt null", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (const fields of [
      { receipt: undefined, receipt_signature: undefined },
      { receipt: null },
      { receipt: "x" },
      { receipt_signature: "short" },
      { receipt: { job_id: "x" } },
    ]) {
      const id = await hub.commit();
      expect((await worker.complete(await worker.assigned(), OUTPUT, fields)).status).toBe("accepted");
      const hot = await hub.job(id);
      expect(hot).toMatchObject({ status: "completed", result: OUTPUT, receipt: null, completed_at: expect.any(String) });
      await hub.recorded(id, "completed");
      expect(await hub.job(id)).toEqual(hot);
      expect(await verifiedFlag(id)).toBeNull();
    }
  });

  test("[RC4] an invalid receipt is returned as sent, even one that names another job or worker, and its flag is false", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const other = newKey();
    for (const fields of [
      { job_id: crypto.randomUUID() },
      { provider_pubkey: other.publicKey },
      { output_hash: "nonsense" },
      { completed_at: "yesterday" },
      { payment_ref: "0x1" },
    ]) {
      const id = await hub.commit();
      const { signature, ...honest } = worker.receipt(id, OUTPUT);
      const receipt = { ...honest, ...fields };
      expect((await worker.complete(await worker.assigned(), OUTPUT, { receipt, receipt_signature: signature })).status).toBe("accepted");
      await hub.recorded(id, "completed");
      expect(await verifiedFlag(id)).toBe(0);
      await hub.evict();
      expect((await hub.job(id)).receipt).toEqual({ ...receipt, signature });
    }
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[RC4] the flag of a valid one is true, and it is never exposed", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    await worker.complete(await worker.assigned(), OUTPUT);
    expect((await hub.request(`/v1/jobs/${id}`)).text).not.toContain("verified");
    await hub.recorded(id, "completed");
    expect(await verifiedFlag(id)).toBe(1);
    expect((await hub.request(`/v1/jobs/${id}`)).text).not.toContain("verified");
  });

  test("[RC4] no worker is parked for it", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    for (let i = 0; i < 4; i++) {
      await hub.commit();
      expect((await worker.complete(await worker.assigned(), OUTPUT, { receipt: null })).status).toBe("accepted");
    }
    await worker.quiet();
  });

  test("[WS10] [RC4] without a receipt the same output again is duplicate, another one already_terminal", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit();
    const job = await worker.assigned();
    await worker.complete(job, OUTPUT, { receipt: null });
    for (const stored of [false, true]) {
      if (stored) await hub.recorded(id, "completed");
      if (stored) await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "only in D1");
      expect((await worker.complete(job, OUTPUT, { receipt: null })).status).toBe("duplicate");
      for (const summary of ["other", "S"]) expect((await worker.complete(job, { ...OUTPUT, summary }, { receipt: null })).error).toBe("already_terminal");
    }
  });

  test("[WS10] [RC4] without a receipt the same output of another worker that held the job is already_terminal", async () => {
    const hub = new TestHub();
    const first = await hub.worker();
    await hub.commit();
    const job = await first.assigned();
    first.send({ type: "job_reject", job_id: job.job_id, reason: "busy" });
    const second = await hub.worker();
    await second.complete(await second.assigned(), OUTPUT, { receipt: null });
    expect((await first.complete(job, OUTPUT, { receipt: null })).error).toBe("already_terminal");
  });
});
