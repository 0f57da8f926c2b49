import { LIMITS } from "../../../src/protocol/limits.ts";
import { describe, expect, test } from "vitest";
import { receiptText, signText } from "../../../src/receipt/index.ts";
import type { ReceiptFields } from "../../../src/protocol/receipt.ts";
import { TestHub, withSettings } from "../support/worker-hub.ts";
import { newKey, type TestWorker } from "../support/worker.ts";

withSettings({ RECEIPT_POLICY: "strict" });

const OUTPUT = { summary: "s" };
const S_LIMIT = 2n ** 252n + 27742317777372353535851937790883648493n;

/** A receipt of this worker with other fields, signed as it then reads. */
function signed(worker: TestWorker, jobId: string, fields: Partial<ReceiptFields>): Record<string, unknown> {
  const { signature: _, ...honest } = worker.receipt(jobId, OUTPUT);
  const receipt = { ...honest, ...fields };
  return { receipt, receipt_signature: signText(receiptText(receipt), worker.key.secret) };
}

/** The same signature with S + L: another text for what a lax verifier takes. */
function malleated(signature: string): string {
  const bytes = Uint8Array.from(atob(signature), (char) => char.charCodeAt(0));
  let s = 0n;
  for (let i = 63; i >= 32; i--) s = (s << 8n) | BigInt(bytes[i] ?? 0);
  s += S_LIMIT;
  for (let i = 32; i < 64; i++, s >>= 8n) bytes[i] = Number(s & 255n);
  return btoa(String.fromCharCode(...bytes));
}

type Spoil = (worker: TestWorker, jobId: string) => Record<string, unknown>;
const at = (ms: number): string => new Date(Date.now() + ms).toISOString();

describe("RECEIPT_POLICY=strict", () => {
  const invalid: [string, Spoil][] = [
    ["no receipt", () => ({ receipt: undefined, receipt_signature: undefined })],
    ["null for a receipt", () => ({ receipt: null })],
    ["a receipt without signature", () => ({ receipt_signature: undefined })],
    ["another output", () => ({ output: { summary: "other" } })],
    ["a signature of another key", (worker, id) => ({ receipt_signature: signText(receiptText(worker.receipt(id, OUTPUT)), newKey().secret) })],
    ["a signature over other bytes", (worker) => ({ receipt_signature: signText("x", worker.key.secret) })],
    ["S + L in the signature", (worker, id) => ({ receipt_signature: malleated(worker.receipt(id, OUTPUT).signature) })],
    ["another worker's key in it", (worker, id) => signed(worker, id, { provider_pubkey: newKey().publicKey })],
    ["another job in it", (worker, id) => signed(worker, id, { job_id: crypto.randomUUID() })],
    [
      "a hash in upper case",
      (worker, id) => signed(worker, id, { output_hash: worker.receipt(id, OUTPUT).output_hash.toUpperCase().replace("SHA256", "sha256") }),
    ],
    ["a hash of something else", (worker, id) => signed(worker, id, { output_hash: `sha256:${"0".repeat(64)}` })],
    ["a completed_at of 5 min and 1 ms ago", (worker, id) => signed(worker, id, { completed_at: at(-300_001) })],
    ["a completed_at in 5 min and 1 ms", (worker, id) => signed(worker, id, { completed_at: at(300_001) })],
    ["a completed_at that is not ISO 8601", (worker, id) => signed(worker, id, { completed_at: new Date().toUTCString() })],
    ["a completed_at without a zone", (worker, id) => signed(worker, id, { completed_at: at(0).slice(0, -1) })],
    ["a payment_ref", (worker, id) => signed(worker, id, { payment_ref: "0x1" })],
    ["a lone surrogate in the output", (worker, id) => worker.completion({ job_id: id, attempt: 1 }, { summary: "\ud800" })],
  ];

  test.for(invalid)("[RC3] [RC4] %s is invalid_receipt, and the job goes to another worker", async ([, spoil]) => {
    const hub = new TestHub();
    hub.skip(0);
    const [bad, good] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    const job = await bad.assigned();
    expect(await bad.complete(job, OUTPUT, spoil(bad, id))).toEqual({ type: "job_complete_ack", job_id: id, status: "rejected", error: "invalid_receipt" });
    const second = await good.assigned();
    expect(second).toMatchObject({ job_id: id, attempt: 2 });
    expect((await good.complete(second, OUTPUT)).status).toBe("accepted");
    expect((await hub.job(id)).receipt?.provider_pubkey).toBe(good.key.publicKey);
  });

  const valid: [string, Spoil][] = [
    ["a completed_at of 5 min ago", (worker, id) => signed(worker, id, { completed_at: at(-300_000) })],
    ["a completed_at in 5 min, in another zone", (worker, id) => signed(worker, id, { completed_at: at(300_000 + 7_200_000).replace("Z", "+02:00") })],
    ["a bare-hex hash", (worker, id) => signed(worker, id, { output_hash: worker.receipt(id, OUTPUT).output_hash.slice(7) })],
    ["its key in upper case", (worker, id) => signed(worker, id, { provider_pubkey: worker.key.publicKey.toUpperCase() })],
    ["payment_ref left out", (worker, id) => ({ receipt: { ...worker.receipt(id, OUTPUT), payment_ref: undefined } })],
    ["its members in another order", (worker, id) => ({ receipt: Object.fromEntries(Object.entries(worker.receipt(id, OUTPUT)).toReversed()) })],
  ];

  test.for(valid)("[RC1] [RC2] [RC3] %s is valid, and returned as signed", async ([, spoil]) => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const id = await hub.commit();
    const fields = spoil(worker, id);
    expect((await worker.complete(await worker.assigned(), OUTPUT, fields)).status).toBe("accepted");
    const sent = fields.receipt as ReceiptFields;
    const { receipt } = await hub.job(id);
    expect(receipt).toMatchObject({ ...sent, payment_ref: null });
    expect(Object.keys(receipt ?? {})).toEqual(["job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref", "signature"]);
  });

  test("[JB5] three invalid receipts end the job with invalid_receipt", async () => {
    const hub = new TestHub();
    const workers = [await hub.worker(), await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    for (const worker of workers) expect((await worker.complete(await worker.assigned(), OUTPUT, { receipt: null })).status).toBe("rejected");
    expect(await hub.job(id)).toMatchObject({ status: "failed", result: { error: "invalid_receipt" } });
  });

  test("[RC4] [WS4] three strikes park the key: 4003, for 60 s, then twice as long, though the hub lost its memory; other keys are not", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const key = newKey();
    for (const seconds of [60, 120]) {
      const worker = await hub.worker({ key });
      const id = await hub.commit();
      const job = await worker.assigned();
      for (let strike = 0; strike < LIMITS.strikes; strike++) {
        if (strike === 1) await hub.evict();
        expect((await worker.complete(job, OUTPUT, { receipt: null })).error).toBe("invalid_receipt");
      }
      expect(await worker.closed()).toBe(4003);
      const again = await hub.connect(key);
      again.send(again.registration());
      expect(await again.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "parked", retry_after_s: seconds });
      expect(await again.closed()).toBe(4003);
      const other = await hub.worker();
      const second = await other.assigned();
      expect(second.job_id).toBe(id);
      await other.complete(second, OUTPUT);
      other.close();
      await hub.online(0);
      hub.skip(seconds * 1_000 - 1);
      const early = await hub.connect(key);
      early.send(early.registration());
      expect(await early.next("register_ack")).toMatchObject({ error: "parked", retry_after_s: 1 });
      hub.skip(1);
    }
    await hub.worker({ key });
  });

  test("[RC4] [WS4] who is parked in this very turn cannot register in it", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    const again = await hub.connect(worker.key);
    const bad = { from: worker, frame: worker.completion(job, OUTPUT, { receipt: null }) };
    await hub.together(bad, bad, bad, { from: again, frame: again.registration() });
    expect(await again.next("register_ack")).toMatchObject({ error: "parked", retry_after_s: 60 });
    expect(await hub.workersOnline()).toBe(0);
  });

  test("[RC4] [WS12] a stranger's results are strikes too", async () => {
    const hub = new TestHub();
    const stranger = await hub.worker({ capabilities: [] });
    const id = await hub.commit();
    for (let strike = 0; strike < LIMITS.strikes; strike++) expect((await stranger.complete({ job_id: id, attempt: 1 })).error).toBe("not_assigned");
    expect(await stranger.closed()).toBe(4003);
    expect((await hub.job(id)).status).toBe("pending");
  });

  test("[RC4] a repeated bad result of an earlier attempt does not end the present one", async () => {
    const hub = new TestHub();
    const [one, two] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    const bad = { ...one.completion(await one.assigned(), OUTPUT), receipt: null };
    for (let times = 0; times < 2; times++) {
      one.send(bad);
      expect((await one.next("job_complete_ack")).error).toBe("invalid_receipt");
    }
    const second = await two.assigned();
    await two.quiet();
    expect((await two.complete(second, OUTPUT)).status).toBe("accepted");
    expect((await hub.job(id)).status).toBe("completed");
  });
});
