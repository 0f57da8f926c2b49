// Doubts that last until the rules' own times end them: the end of an authorization, the 30 s of a job, the 20 s of a settle call [PY8].
import { afterAll, beforeAll, expect, it } from "vitest";
import { until } from "../../support/until.ts";
import { settlementOf } from "../pay/envelope.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, LAB } from "../support/bench.ts";
import { balancedBooks, expectBooks, order, rowsOf } from "../support/books.ts";

let lab: FullLab;
let bench: Bench;
beforeAll(async () => {
  lab = await startLab({ ...LAB, svm: { payers: 1 }, facilitator: { version: "2.3", confirmationTimeoutMs: 30_000 } });
  bench = await new Bench(lab, "evm").start({ cronMs: 1_000 });
  await bench.join(2);
  return () => bench.stop();
});
afterAll(() => lab.stop());

it("[PY8] a transfer that comes after the facilitator has given up is a listed doubt when its authorization has expired, and a credit when the operator says so", async () => {
  const before = await balancedBooks(bench);
  const paid = await bench.pay("cheap", { validFor: 50 });
  lab.facilitator.faults.add({ operation: "settle", fault: { kind: "pending" }, times: 1 });
  const response = await bench.commit("cheap", "expires", paid.headers());
  expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
  const id = await idOf(response);
  expect((await bench.ended(id, 75)).job).toMatchObject({ status: "failed", result: { error: "payment_failed" } });
  await until("doubt", () => rowsOf(bench.state).find((row) => row.job_id === id && row.state === "unresolved" && row.reason === "expired"));
  await expectBooks(bench, { ...before, doubts: before.doubts + 1 });
  expect(await idOf(await bench.commit("cheap", "expires", paid.headers()))).toBe(id);
  await order(bench, id, "credit");
  await expectBooks(bench, { ...before, credits: before.credits + 1 });
}, 120_000);

it("[PY8] a facilitator that takes no question for the 30 s of a job: payment_failed, no doubt, nothing charged", async () => {
  const before = await balancedBooks(bench);
  lab.facilitator.faults.add({ operation: "settle", fault: { kind: "status", status: 429 } });
  const id = await idOf(await bench.commit("cheap", "busy", (await bench.pay("cheap")).headers()));
  const { job, response } = await bench.ended(id, 60);
  lab.facilitator.faults.clear();
  expect([job.status, job.result?.error, response.headers.has("payment-response")]).toEqual(["failed", "payment_failed", false]);
  await until("row", () => rowsOf(bench.state).find((row) => row.job_id === id && row.state === "void" && row.reason === "unused"));
  await expectBooks(bench, before);
}, 120_000);

it("[PY8] a chain that stalls for longer than a settle call may take: 201 without a settlement, one transfer, and it is in the books", async () => {
  const before = await balancedBooks(bench);
  const paid = await bench.pay("cheap");
  await lab.evm.pause();
  const response = await bench.commit("cheap", "stalls", paid.headers()).finally(() => lab.evm.resume());
  expect([await brief(response), settlementOf(response)]).toEqual(["201 ", null]);
  const { job } = await bench.ended(await idOf(response), 8).catch(async () => await bench.job(await idOf(response)));
  const isRun = job.status === "completed";
  await expectBooks(bench, { ...before, completed: before.completed + (isRun ? 1 : 0), doubts: before.doubts + (isRun ? 0 : 1) });
}, 120_000);
