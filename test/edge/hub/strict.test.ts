import { LIMITS } from "../../../src/protocol/limits.ts";
import { describe, expect, test } from "vitest";
import { receiptText, signText } from "../../../src/receipt/index.ts";
import { toHex } from "../../../src/receipt/bytes.ts";
import type { ReceiptFields } from "../../../src/protocol/job.ts";
import { TestHub, withSettings } from "../support/worker-hub.ts";
import { newKey, type TestWorker } from "../support/worker.ts";

withSettings({ RECEIPT_POLICY: "strict" });

const OUTPUT = { summary: "s", word_count: 1 };
const S_LIMIT = 2n ** 252n + 27742317777372353535851937790883648493n;

/** Returns a receipt of this worker with changed fields and a valid signature over them. */
function signed(worker: TestWorker, jobId: string, fields: Partial<ReceiptFields>): Record<string, unknown> {
  const { signature: _, ...honest } = worker.receipt(jobId, OUTPUT);
  const receipt = { ...honest, ...fields };
  return { receipt, receipt_signature: signText(receiptText(receipt), worker.key.secret) };
}

/** The same signature with S + L: a lax verifier accepts it too. */
function malleated(signature: string): string {
  const bytes = Uint8Array.from(atob(signature), (char) => char.charCodeAt(0));
  let s = 0n;
  for (let i = 63; i >= 32; i--) s = (s << 8n) | BigInt(bytes[i] ?? 0);
  s += S_LIMIT;
  for (let i = 32; i < 64; i++, s >>= 8n) bytes[i] = Number(s & 255n);
  return btoa(String.fromCharCode(...bytes));
}

/** Lets a worker send invalid receipts for several jobs, one after the other. The jobs stay waiting. */
async function strikes(hub: TestHub, worker: TestWorker, count: number = LIMITS.strikes): Promise<void> {
  for (let strike = 0; strike < count; strike++) {
    await hub.commit();
    const job = await worker.assigned();
    if (strike === 1) await hub.evict();
    expect((await worker.complete(job, OUTPUT, { receipt: null })).error).toBe("invalid_receipt");
  }
}

async function sha256(text: string): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

type Spoil = (worker: TestWorker, jobId: string) => Record<string, unknown>;
const at = (ms: number): string => new Date(Date.now() + ms).toISOString();

describe("RECEIPT_POLICY=strict", () => {
  const invalid: [name: string, check: string, Spoil][] = [
    ["no receipt", "missing", () => ({ receipt: undefined, receipt_signature: undefined })],
    ["null for a receipt", "missing", () => ({ receipt: null })],
    ["a receipt without signature", "missing", () => ({ receipt_signature: undefined })],
    ["another output", "hash", () => ({ output: { summary: "other" } })],
    ["a signature of another key", "signature", (worker, id) => ({ receipt_signature: signText(receiptText(worker.receipt(id, OUTPUT)), newKey().secret) })],
    ["a signature over other bytes", "signature", (worker) => ({ receipt_signature: signText("x", worker.key.secret) })],
    ["S + L in the signature", "signature", (worker, id) => ({ receipt_signature: malleated(worker.receipt(id, OUTPUT).signature) })],
    ["another worker's key in it", "key", (worker, id) => signed(worker, id, { provider_pubkey: newKey().publicKey })],
    ["another job in it", "job_id", (worker, id) => signed(worker, id, { job_id: crypto.randomUUID() })],
    [
      "a hash in upper case",
      "hash",
      (worker, id) => signed(worker, id, { output_hash: worker.receipt(id, OUTPUT).output_hash.toUpperCase().replace("SHA256", "sha256") }),
    ],
    ["a hash of something else", "hash", (worker, id) => signed(worker, id, { output_hash: `sha256:${"0".repeat(64)}` })],
    ["a completed_at of 5 min and 1 ms ago", "time", (worker, id) => signed(worker, id, { completed_at: at(-300_001) })],
    ["a completed_at in 5 min and 1 ms", "time", (worker, id) => signed(worker, id, { completed_at: at(300_001) })],
    ["a completed_at that is not ISO 8601", "time", (worker, id) => signed(worker, id, { completed_at: new Date().toUTCString() })],
    ["a completed_at without a zone", "time", (worker, id) => signed(worker, id, { completed_at: at(0).slice(0, -1) })],
    ["a payment_ref", "signature", (worker, id) => signed(worker, id, { payment_ref: "0x1" })],
    ["a lone surrogate in the output", "hash", (worker, id) => worker.completion({ job_id: id, attempt: 1 }, { summary: "\ud800" })],
  ];

  test.for(invalid)("[RC3] [RC4] [WS10] %s is invalid_receipt, the failed check is told, and the job goes to another worker", async ([, check, spoil]) => {
    const hub = new TestHub();
    hub.skip(0);
    const [bad, good] = [await hub.worker(), await hub.worker()];
    const id = await hub.commit();
    const job = await bad.assigned();
    const message = expect.stringMatching(new RegExp(`^${check}: .{10,}`));
    expect(await bad.complete(job, OUTPUT, spoil(bad, id))).toEqual({
      type: "job_complete_ack",
      job_id: id,
      status: "rejected",
      error: "invalid_receipt",
      message,
    });
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

  test("[WS10] the failed check says what was expected", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker();
    const told = async (fields: Record<string, unknown>): Promise<unknown> => {
      const id = await hub.commit("cheap", { user_id: crypto.randomUUID() });
      const job = await worker.assigned();
      const { message } = await worker.complete(job, OUTPUT, fields);
      // The worker gets its own job again only after other workers had a chance to take it.
      await worker.complete(job, OUTPUT);
      return String(message).replaceAll(id, "ID").replaceAll(worker.key.publicKey, "KEY");
    };
    expect(await told({ receipt: { output_hash: "sha256:00" } })).toBe("missing: receipt.job_id, receipt.provider_pubkey, receipt.completed_at: expected text");
    expect(await told({ output: "another" })).toBe(`hash: expected sha256:${await sha256('"another"')} of the output as JSON.stringify writes it`);
    expect(await told({ receipt_signature: "AAAA" })).toBe("signature: expected 64 bytes as base64");
    expect(await told({ receipt_signature: signText("x", newKey().secret) })).toBe(
      `signature: expected that of KEY over the UTF-8 of {"job_id":"ID","provider_pubkey":"KEY","output_hash":"sha256:${await sha256(JSON.stringify(OUTPUT))}","completed_at":"${at(0)}","payment_ref":null}`,
    );
    expect(await told({ output: "x".repeat(LIMITS.outputBytes - 1) })).toBe(
      `the output has ${LIMITS.outputBytes + 1} bytes as JSON text, at most ${LIMITS.outputBytes} are allowed`,
    );
    expect((await worker.complete({ job_id: crypto.randomUUID(), attempt: 1 }, OUTPUT)).message).toBe("no job has this id");
  });

  const shapes: [name: string, fields: object, output: string | Record<string, unknown>, isTaken: boolean][] = [
    ["classify", { payload: { task_type: "classify", input: "i" } }, { sentiment: "s", confidence: 1, more: null }, true],
    ["classify that is too sure", { payload: { task_type: "classify", input: "i" } }, { sentiment: "s", confidence: 1.01 }, false],
    ["classify without confidence", { payload: { task_type: "classify", input: "i" } }, { sentiment: "s" }, false],
    ["classify with words for a number", { payload: { task_type: "classify", input: "i" } }, { sentiment: "s", confidence: "high" }, false],
    ["summarize", {}, { summary: "", word_count: 0 }, true],
    ["summarize with an output of another task", {}, { sentiment: "s", confidence: 1 }, false],
    ["summarize as text", {}, "a summary", false],
    ["summarize as an LLM would answer", {}, { output: "a summary" }, false],
    ["extract_json", { payload: { task_type: "extract_json", input: "i" } }, { extracted: [{ a: 1 }, {}], count: 2 }, true],
    ["extract_json of nothing", { payload: { task_type: "extract_json", input: "i" } }, { extracted: [], count: 0 }, true],
    ["extract_json that counts wrong", { payload: { task_type: "extract_json", input: "i" } }, { extracted: [{}], count: 2 }, false],
    ["extract_json of what is no object", { payload: { task_type: "extract_json", input: "i" } }, { extracted: [[]], count: 1 }, false],
    ["LLM text", { job_type: "LLM_INFER" }, "hi", true],
    ["LLM output", { job_type: "LLM_INFER" }, { output: "hi", usage: {} }, true],
    ["LLM text as a member", { job_type: "LLM_INFER" }, { text: "hi" }, true],
    ["LLM output that is no text", { job_type: "LLM_INFER" }, { output: ["hi"], text: "hi" }, false],
    ["LLM output that is missing", { job_type: "LLM_INFER" }, {}, false],
  ];

  test.for(shapes)("[RC6] %s: the shape of the output is checked", async ([, fields, output, isTaken]) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const id = await hub.commit("cheap", fields);
    const answer = await worker.complete(await worker.assigned(), output);
    if (!isTaken) return expect(answer).toMatchObject({ status: "rejected", error: "invalid_receipt", message: expect.stringMatching(/^shape: expected /) });
    expect(answer.status).toBe("accepted");
    expect((await hub.job(id)).result).toEqual(typeof output === "string" ? { output } : output);
  });

  test.each([
    [
      "by its task type",
      "UPDATE jobs SET rev = rev",
      { summary: "s", word_count: 1 },
      "shape: expected an object with a string sentiment and a number confidence from 0 to 1",
    ],
    ["as any object, where the task type is lost", "UPDATE jobs SET task_type = NULL", "s", "shape: expected an object"],
  ])("[RC6] after the hub lost its memory the shape is checked %s", async (_, damage, wrong, message) => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit("cheap", { payload: { task_type: "classify", input: "i" } });
    const job = await worker.assigned();
    await worker.quiet();
    await hub.sql(damage);
    await hub.evict();
    expect((await worker.complete(job, wrong)).message).toBe(message);
    expect((await worker.complete(job, { sentiment: "s", confidence: 0 })).status).toBe("accepted");
  });

  test("[RC4] [WS4] three strikes park the key: told for how long, 4003, for 60 s, then twice as long, though the hub lost its memory; other keys are not", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const key = newKey();
    for (const seconds of [60, 120]) {
      const worker = await hub.worker({ key });
      await strikes(hub, worker);
      expect(await worker.next("error")).toEqual({ type: "error", code: "parked", message: expect.stringContaining(`${seconds} s`), retry_after_s: seconds });
      expect(await worker.closed()).toBe(4003);
      const again = await hub.connect(key);
      again.send(again.registration());
      expect(await again.next("register_ack")).toEqual({ type: "register_ack", status: "error", error: "parked", retry_after_s: seconds });
      expect(await again.closed()).toBe(4003);
      const other = await hub.worker();
      for (let each = 0; each < LIMITS.strikes; each++) await other.complete(await other.assigned(), OUTPUT);
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

  test("[RC4] one job is one strike, however often and after whatever restart its bad result comes", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await hub.commit();
    const job = await worker.assigned();
    for (let times = 0; times < 2 * LIMITS.strikes; times++) {
      if (times === 2) await hub.evict();
      expect((await worker.complete(job, OUTPUT, { receipt: null })).error).toBe("invalid_receipt");
    }
    expect(await hub.sql("SELECT strikes, parks FROM keys")).toEqual([{ strikes: 1, parks: 0 }]);
    expect((await worker.complete(job, OUTPUT)).status).toBe("accepted");
    expect(await hub.sql("SELECT strikes, parks FROM keys")).toEqual([{ strikes: 0, parks: 0 }]);
  });

  test("[RC4] [WS4] who is parked in this very turn cannot register in it", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    await strikes(hub, worker, LIMITS.strikes - 1);
    await hub.commit();
    const job = await worker.assigned();
    const again = await hub.connect(worker.key);
    const bad = { from: worker, frame: worker.completion(job, OUTPUT, { receipt: null }) };
    await hub.together(bad, { from: again, frame: again.registration() });
    expect(await again.next("register_ack")).toMatchObject({ error: "parked", retry_after_s: 60 });
    expect(await hub.workersOnline()).toBe(0);
  });

  test("[RC4] [WS12] a stranger's results are strikes too", async () => {
    const hub = new TestHub();
    const stranger = await hub.worker({ capabilities: [] });
    const ids: string[] = [];
    for (let strike = 0; strike < LIMITS.strikes; strike++) {
      ids.push(await hub.commit());
      expect((await stranger.complete({ job_id: ids[strike] ?? "", attempt: 1 })).error).toBe("not_assigned");
    }
    expect(await stranger.ended()).toBe(4003);
    for (const id of ids) expect((await hub.job(id)).status).toBe("pending");
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
