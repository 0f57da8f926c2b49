// A job that is cancelled at every state, and what becomes of its money: nothing is charged, it becomes a credit that the next job spends, or it is spent
// [JB13].
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { fullWorker } from "../../conformance/support/worker.ts";
import { until } from "../../support/until.ts";
import type { Fault } from "../facilitator/faults.ts";
import type { Payment } from "../pay/pay.ts";
import type { FullLab } from "../start-lab.ts";
import { type Bench, type Job, PRICE } from "../support/bench.ts";
import { balancedBooks } from "../support/books.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

const CANCELLED = { status: "failed", result: { error: "cancelled" }, receipt: null };

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("a cancelled job on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    bench = await sharedBench(side);
    return () => giveBack(bench);
  });
  beforeEach(async () => {
    lab.facilitator.faults.clear();
    await bench.leave();
  });

  type Committed = { id: string; token: string; who: number; paid: Payment };

  async function commit(text: string): Promise<Committed> {
    const who = bench.payer();
    const paid = await bench.pay("cheap", { who });
    const response = await bench.commit("cheap", text, paid.headers());
    expect(response.status).toBe(201);
    const { job_id } = JSON.parse(await response.text()) as { job_id: string };
    return { id: job_id, token: response.headers.get("x-cancel-token") ?? "", who, paid };
  }

  async function cancel({ id, token }: Committed): Promise<Job> {
    const response = await fetch(`${bench.url}/v1/jobs/${id}`, { method: "DELETE", headers: { "x-cancel-token": token } });
    expect(response.status).toBe(200);
    return JSON.parse(await response.text()) as Job;
  }

  /** The balance that the job's `PAYMENT-RESPONSE` tells; null if it tells none. */
  async function creditOf(id: string): Promise<string | null> {
    const header = (await bench.job(id)).response.headers.get("payment-response");
    if (header === null) return null;
    const { extensions } = JSON.parse(Buffer.from(header, "base64").toString("utf8")) as { extensions?: { credit?: { balance: string } } };
    return extensions?.credit?.balance ?? null;
  }

  const settling = (payer: string) =>
    until("a settle call", () =>
      lab.facilitator.log.calls.some((call) => call.operation === "settle" && call.payer?.toLowerCase() === payer.toLowerCase()) ? true : undefined,
    );

  /** The next job of the same payer costs nothing more, so the credit is real money; the one after it costs its price. */
  async function spendsCredit(who: number): Promise<void> {
    await bench.leave();
    await bench.join();
    const run = async (text: string): Promise<void> => {
      const paid = await bench.pay("cheap", { who });
      const response = await bench.commit("cheap", text, paid.headers());
      expect((await bench.ended((JSON.parse(await response.text()) as { job_id: string }).job_id)).job.status).toBe("completed");
    };
    expect(await bench.earning(() => run("from the credit"))).toBe(0n);
    expect(await bench.earning(() => run("anew"))).toBe(PRICE.cheap);
  }

  it("[JB13, PY7] held, because no worker is there: nothing is charged, and a worker that comes gets nothing", async () => {
    const gained = await bench.earning(async () => {
      const job = await commit("held");
      expect(await cancel(job)).toMatchObject(CANCELLED);
      const worker = await bench.join();
      expect((await bench.job(job.id)).job).toMatchObject(CANCELLED);
      expect(worker.frames.filter(({ type }) => type === "job_assign")).toEqual([]);
      // The same payment again is the same job.
      const again = await bench.commit("cheap", "held", job.paid.headers());
      expect(JSON.parse(await again.text())).toMatchObject({ job_id: job.id });
    });
    expect(gained).toBe(0n);
  });

  it.each<[string, Fault[]]>([
    ["settling, and the money moves afterwards", [{ kind: "slow", ms: 60_000 }]],
    // The first call gets no answer; the second one waits until the job was cancelled.
    ["of which it is not known whether it is settled", [{ kind: "reset" }, { kind: "slow", ms: 60_000 }]],
  ])("[JB13, PY8] %s: it ends at once, and the money that has moved is a credit", async (_, faults) => {
    let who = 0;
    const gained = await bench.earning(async () => {
      const job = await commit("settling");
      who = job.who;
      for (const fault of faults) lab.facilitator.faults.add({ operation: "settle", fault, times: 1, payer: job.paid.payer });
      const worker = await bench.join();
      await settling(job.paid.payer);
      await until("the calls of all faults", () => (lab.facilitator.faults.rules.length === 0 ? true : undefined));
      expect(await cancel(job)).toMatchObject(CANCELLED);
      lab.facilitator.faults.clear();
      await until("the credit", async () => ((await creditOf(job.id)) === String(PRICE.cheap) ? true : undefined));
      expect(worker.frames.filter(({ job_id }) => job_id === job.id)).toEqual([]);
    });
    expect(gained).toBe(PRICE.cheap);
    await spendsCredit(who);
    await balancedBooks(bench);
  });

  it("[JB13] assigned, and its worker has not begun: a credit", async () => {
    let who = 0;
    const gained = await bench.earning(async () => {
      // It announces acknowledgements and sends none.
      const worker = await fullWorker(bench.coordinator.socketUrl);
      const job = await commit("assigned");
      who = job.who;
      await worker.assigned(job.id);
      expect(await cancel(job)).toMatchObject(CANCELLED);
      expect(await creditOf(job.id)).toBe(String(PRICE.cheap));
      await worker.frame("job_cancel");
      worker.close();
    });
    expect(gained).toBe(PRICE.cheap);
    await spendsCredit(who);
  });

  it("[JB13] running: it is spent, and the worker is told to stop", async () => {
    const gained = await bench.earning(async () => {
      const worker = await bench.join(1, false);
      const job = await commit("running");
      await until("the job to run", async () => ((await bench.job(job.id)).job.status === "running" ? true : undefined));
      expect(await cancel(job)).toMatchObject(CANCELLED);
      expect(await creditOf(job.id)).toBeNull();
      await worker.frame("job_cancel", ({ job_id }) => job_id === job.id);
      // Nothing is left for the next job of this payer.
      await bench.leave();
      await bench.join();
      const next = await bench.pay("cheap", { who: job.who });
      expect((await bench.commit("cheap", "next", next.headers())).status).toBe(201);
    });
    expect(gained).toBe(2n * PRICE.cheap);
  });

  it("[JB13] begun by a worker that failed, and waiting for the next one: a credit", async () => {
    let who = 0;
    const gained = await bench.earning(async () => {
      const worker = await bench.join(1, false);
      const job = await commit("failed once");
      who = job.who;
      await until("the job to run", async () => ((await bench.job(job.id)).job.status === "running" ? true : undefined));
      worker.send({ type: "job_failed", job_id: job.id, attempt: 1, error: "broken", retryable: true });
      worker.close();
      await until("the job to wait", async () => ((await bench.job(job.id)).job.status === "pending" ? true : undefined));
      expect(await cancel(job)).toMatchObject(CANCELLED);
      expect(await creditOf(job.id)).toBe(String(PRICE.cheap));
    });
    expect(gained).toBe(PRICE.cheap);
    await spendsCredit(who);
  });

  it("[JB13] ended before: it stays as it is, and so does its money", async () => {
    const gained = await bench.earning(async () => {
      await bench.join();
      const job = await commit("completed");
      const { job: end } = await bench.ended(job.id);
      expect(end.status).toBe("completed");
      expect(await cancel(job)).toEqual(end);
      expect(await creditOf(job.id)).toBeNull();
    });
    expect(gained).toBe(PRICE.cheap);
  });
});
