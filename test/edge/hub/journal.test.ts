import { expect, onTestFinished, test, vi } from "vitest";
import type { JobEnd, JobFacts } from "../../../src/coordinator/dispatch/index.ts";
import type { CheckedCompletion } from "../../../src/coordinator/hub/completion-check.ts";
import { Journal } from "../../../src/coordinator/hub/journal.ts";
import { endedHere } from "../../../src/coordinator/recent-jobs.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { TestHub } from "../support/worker-hub.ts";

const KEY = "ab".repeat(32);
const receipt = { job_id: "j", provider_pubkey: KEY, output_hash: "sha256:00", completed_at: "2026-01-01T00:00:00.000Z", payment_ref: null, signature: "s" };
const completion: CheckedCompletion = { verdict: "valid", result: '{"summary":"\\ud800 é"}', receipt: { ...receipt, verified: true }, fault: null };
const origin = { client: "198.51.100.1", payer: "0xaa" };

const facts = (id: string): JobFacts => ({
  ...{ id, jobType: "TASK", taskType: "summarize", policy: "CHEAP", privacyClass: "PUBLIC", userId: "u", trustedKeys: [] },
  ...{ payloadBytes: 12, createdAt: 1_000, network: "n" },
});
const end = (jobId: string, rest: Partial<JobEnd>): JobEnd => ({
  ...{ jobId, outcome: { status: "failed", cause: "execution_timeout" }, started: true, paymentRef: null, rev: 3, attempts: 2, holders: [KEY], endedAt: 2_000 },
  ...rest,
});

test.each(["kept in memory", "read again"])("the row of an end is the row that is stored, if what was written at its commit is %s", async (how) => {
  const { keptChars } = TUNING;
  onTestFinished(() => void Object.assign(TUNING, { keptChars }));
  if (how === "read again") Object.assign(TUNING, { keptChars: 0 });
  await new TestHub().inside((_hub, { storage }) => {
    const journal = new Journal(storage);
    const ends: [JobEnd, CheckedCompletion | undefined][] = [
      [end("completed", { outcome: { status: "completed", key: KEY, verified: true }, paymentRef: "0x1" }), completion],
      [end("without a receipt", { outcome: { status: "completed", key: KEY, verified: false } }), { ...completion, receipt: null }],
      [end("failed", {}), undefined],
      [end("not started", { started: false, holders: [] }), undefined],
    ];
    for (const [one, checked] of ends) {
      const row = journal.insertEnded(facts(one.jobId), '{"input":"x"}', origin, one, checked);
      const stored = journal.row(one.jobId);
      expect(stored).not.toBeNull();
      expect(row).toEqual({ ...stored, parsedReceipt: JSON.parse(stored?.receipt ?? "null") });
    }
    expect(journal.end(end("unknown", {}), undefined)).toBeNull();
  });
});

test("a job that has ended is not kept in memory again, because nothing would forget it", async () => {
  const { keptChars } = TUNING;
  onTestFinished(() => void Object.assign(TUNING, { keptChars }));
  // One row fits.
  Object.assign(TUNING, { keptChars: 900 });
  await new TestHub().inside((_hub, { storage }) => {
    const journal = new Journal(storage);
    journal.insertEnded(facts("first"), '{"input":"x"}', origin, end("first", {}), undefined);
    expect(journal.payload("first")).toBe('{"input":"x"}');
    const exec = vi.spyOn(storage.sql, "exec");
    journal.insertEnded(facts("second"), '{"input":"x"}', origin, end("second", {}), undefined);
    expect(exec.mock.calls.map(([query]) => query.slice(0, 6))).toEqual(["INSERT", "UPDATE"]);
  });
});

test.each(["has it", "refuses it"])("[JB9] the router tells an end without the hub only when it is on the disk, which %s", async (answer) => {
  const hub = new TestHub();
  const worker = await hub.worker();
  const id = await hub.commit();
  const job = await worker.assigned();
  let disk = Promise.withResolvers<void>();
  await hub.inside((_hub, { storage }) => {
    disk = Promise.withResolvers();
    vi.spyOn(storage, "sync").mockReturnValue(disk.promise);
  });
  await worker.complete(job);
  expect(await hub.stub.job(id, 0)).toContain('"completed"');
  expect(endedHere(id, Date.now())).toBeNull();
  const told = await hub.inside(async () => {
    if (answer === "has it") disk.resolve();
    else disk.reject(new Error("disk"));
    await new Promise((resolve) => setTimeout(resolve));
    return endedHere(id, Date.now());
  });
  if (answer === "has it") expect(told).toContain('"completed"');
  else expect(told).toBeNull();
});
