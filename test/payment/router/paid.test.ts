import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type Coordinator, startCoordinator } from "../../../scripts/coordinator-process.ts";
import { freePort } from "../../../scripts/port.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import { until } from "../../support/until.ts";
import { challengeOf } from "../pay/challenge.ts";
import { settlementOf } from "../pay/envelope.ts";
import { balanceOf, type Payment, type PayOptions } from "../pay/pay.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

type Job = { status: string; result: Record<string, unknown> | null; receipt: { payment_ref: string | null } | null };

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());

describe.each(["evm", "svm"] as const)("paid commits on %s", (instance) => {
  let coordinator: Coordinator;
  let worker: PlainWorker | null = null;
  let state: string;
  let next = 0;

  beforeAll(async () => {
    state = mkdtempSync(join(tmpdir(), `compute-router-paid-${instance}-`));
    coordinator = await start();
    return async () => {
      await coordinator.stop();
      rmSync(state, { recursive: true, force: true });
    };
  });
  beforeEach(async () => {
    lab.facilitator.faults.clear();
    await join1();
    return () => leave();
  });

  async function start(): Promise<Coordinator> {
    const settings = { WORKER_AUTH: "optional", RATE_LIMITS: "off", ...lab.description.settings[instance] };
    return startCoordinator({ instance, port: await freePort(), stateDir: state, settings });
  }

  const body = (text: string) => ({ job_type: "TASK", user_id: "payer-1f", payload: { task_type: "summarize", input: text } });

  async function join1(): Promise<void> {
    worker = new PlainWorker(coordinator.socketUrl);
    await worker.connect();
    worker.serve();
  }

  async function leave(): Promise<void> {
    worker?.close();
    worker = null;
    await until("no worker", async () => ((await health()) === 0 ? true : undefined));
  }

  async function health(): Promise<unknown> {
    const answer: { workers_online: number } = JSON.parse(await (await fetch(`${coordinator.url}/v1/health`)).text());
    return answer.workers_online;
  }

  function commit(tier: "fast" | "cheap", text: string, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${coordinator.url}/v1/jobs/commit/${tier}`, { method: "POST", headers, body: JSON.stringify(body(text)) });
  }

  /** A signed payment for a tier, by a payer that no other test uses. */
  async function payment(tier: "fast" | "cheap", options: PayOptions = {}): Promise<Payment> {
    return lab.pay(await challengeOf(await commit(tier, "first")), { who: next++ % 8, ...options });
  }

  const earned = () => balanceOf(lab[instance], lab[instance].payTo);

  async function ended(id: string): Promise<{ job: Job; response: Response }> {
    let last: Job | null = null;
    const look = async () => {
      const response = await fetch(`${coordinator.url}/v1/jobs/${id}`);
      const job: Job = JSON.parse(await response.clone().text());
      last = job;
      return ["completed", "failed"].includes(job.status) ? { job, response } : undefined;
    };
    return until("end of the job", look, () => JSON.stringify({ job: last, worker: worker?.frames, calls: lab.facilitator.log.calls.slice(-4) }));
  }

  const idOf = async (response: Response): Promise<string> => String((JSON.parse(await response.clone().text()) as { job_id: string }).job_id);

  it.each([
    ["fast", "v2", "PAYMENT-SIGNATURE", 10_000n],
    ["cheap", "v2", "X-PAYMENT", 1_000n],
    ["cheap", "v1", "X-PAYMENT", 1_000n],
    ["fast", "v1", "PAYMENT-SIGNATURE", 10_000n],
  ] as const)("[PY1] [PY3] [PY4] %s, envelope %s in %s: 201, settled, completed, and exactly the price moved", async (tier, envelope, header, price) => {
    const before = await earned();
    const response = await commit(tier, `paid ${envelope}`, (await payment(tier, { envelope })).headers(header));
    expect(response.status).toBe(201);
    const settlement = settlementOf(response);
    expect(settlement).toMatchObject({ success: true, network: lab[instance].network });
    expect(response.headers.get("x-payment-response")).toBe(response.headers.get("payment-response"));
    const { job, response: poll } = await ended(await idOf(response));
    expect(job).toMatchObject({ status: "completed", receipt: { payment_ref: settlement?.transaction } });
    expect(settlementOf(poll)).toMatchObject({ transaction: settlement?.transaction });
    expect((await earned()) - before).toBe(price);
  });

  it("[PY6] ten parallel uses with one body are one job and one charge; another body is refused", async () => {
    const before = await earned();
    const paid = await payment("cheap");
    const answers = await Promise.all(Array.from({ length: 10 }, () => commit("cheap", "same", paid.headers())));
    expect(answers.map((answer) => answer.status)).toEqual(Array.from({ length: 10 }, () => 201));
    expect(new Set(await Promise.all(answers.map(idOf))).size).toBe(1);
    const other = await commit("cheap", "another", paid.headers());
    expect(other.status).toBe(402);
    expect(await other.json()).toMatchObject({ error: expect.stringContaining("payment_already_used"), x402Version: 2 });
    expect((await earned()) - before).toBe(1_000n);
  });

  it("[PY6] ten parallel uses with ten bodies: one wins, nobody is charged twice", async () => {
    const before = await earned();
    const paid = await payment("cheap");
    const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => commit("cheap", `body ${n}`, paid.headers())));
    expect(answers.map((answer) => answer.status).toSorted()).toEqual([201, ...Array.from({ length: 9 }, () => 402)]);
    expect((await earned()) - before).toBe(1_000n);
  });

  it("[PY3] a cheap payment does not buy fast, and wrong terms are refused before anyone is asked", async () => {
    const before = await earned();
    lab.facilitator.log.clear();
    const cheap = await payment("cheap");
    expect((await commit("fast", "cheat", cheap.headers())).status).toBe(402);
    for (const wrong of ["amount", "pay_to", "asset", "scheme", "network", "expired"] as const) {
      expect((await commit("cheap", wrong, (await payment("cheap", { wrong })).headers())).status, wrong).toBe(402);
    }
    expect(lab.facilitator.log.counts.settle).toBe(0);
    expect(await earned()).toBe(before);
  });

  it("[PY5] bad bodies and PRIVATE without a worker are not charged, and the same payment still works", async () => {
    const before = await earned();
    const paid = await payment("cheap");
    const bad = await fetch(`${coordinator.url}/v1/jobs/commit/cheap`, { method: "POST", headers: paid.headers(), body: "{}" });
    expect(bad.status).toBe(400);
    const secret = JSON.stringify({ ...body("secret"), privacy_class: "PRIVATE" });
    expect((await fetch(`${coordinator.url}/v1/jobs/commit/cheap`, { method: "POST", headers: paid.headers(), body: secret })).status).toBe(422);
    expect(await earned()).toBe(before);
    expect((await commit("cheap", "now", paid.headers())).status).toBe(201);
    expect((await earned()) - before).toBe(1_000n);
  });

  it("[PY8] a facilitator that is down at verify is 503, never 402, and nothing is kept", async () => {
    const paid = await payment("cheap");
    lab.facilitator.faults.add({ operation: "verify", fault: { kind: "status", status: 500, body: "boom" } });
    const response = await commit("cheap", "down", paid.headers());
    expect([response.status, response.headers.has("retry-after")]).toEqual([503, true]);
    lab.facilitator.faults.clear();
    expect((await commit("cheap", "down", paid.headers())).status).toBe(201);
  });

  it("[PY8] an answer that is lost after the chain moved is 201 without a settlement; the job runs once it is known; charged once", async () => {
    const before = await earned();
    const paid = await payment("cheap");
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "lost", how: "reset" }, times: 1 });
    const response = await commit("cheap", "lost", paid.headers());
    expect(response.status).toBe(201);
    expect(response.headers.has("payment-response")).toBe(false);
    expect((await ended(await idOf(response))).job.status).toBe("completed");
    expect((await earned()) - before).toBe(1_000n);
  });

  it("[PY7] a refused settlement is 402 with the reason, the job fails and the worker is free again", async () => {
    const before = await earned();
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason: "insufficient_funds" }, times: 1 });
    const response = await commit("cheap", "refused", (await payment("cheap")).headers());
    expect(response.status).toBe(402);
    expect(settlementOf(response)).toMatchObject({ success: false });
    expect(await earned()).toBe(before);
    expect((await commit("cheap", "after", (await payment("cheap")).headers())).status).toBe(201);
  });

  it("[PY7] without a worker the payment is held: 201 without a settlement, and settled when a worker comes", async () => {
    await leave();
    const before = await earned();
    const response = await commit("cheap", "held", (await payment("cheap")).headers());
    expect(response.status).toBe(201);
    expect(response.headers.has("payment-response")).toBe(false);
    expect(await earned()).toBe(before);
    await join1();
    const { job, response: poll } = await ended(await idOf(response));
    expect(job.status).toBe("completed");
    expect(settlementOf(poll)).toMatchObject({ success: true });
    expect((await earned()) - before).toBe(1_000n);
  });

  it("[PY9] a job that fails after its settlement is a credit: the same payload starts one more, and nobody pays again", async () => {
    await leave();
    const failing = new PlainWorker(coordinator.socketUrl);
    await failing.connect();
    const before = await earned();
    const paid = await payment("cheap");
    const id = await idOf(await commit("cheap", "credit", paid.headers()));
    await failing.assigned(id);
    failing.send({ type: "job_failed", job_id: id, attempt: 1, error: "broken", retryable: false });
    expect((await ended(id)).job).toMatchObject({ status: "failed", result: { error: "worker_error" } });
    failing.close();
    await join1();
    const again = await commit("cheap", "credit", paid.headers());
    expect(again.status).toBe(201);
    const second = await idOf(again);
    expect(second).not.toBe(id);
    expect((await ended(second)).job.status).toBe("completed");
    expect(await idOf(await commit("cheap", "credit", paid.headers()))).toBe(second);
    expect((await earned()) - before).toBe(1_000n);
  });

  it("[PY6] [JB9] SIGKILL of the coordinator changes nothing: the same payment is the same job, and a held one is settled after it", async () => {
    const before = await earned();
    const paid = await payment("cheap");
    const first = await idOf(await commit("cheap", "kill", paid.headers()));
    await ended(first);
    await leave();
    const held = await idOf(await commit("cheap", "held over the kill", (await payment("cheap")).headers()));
    await coordinator.kill();
    coordinator = await start();
    expect(await idOf(await commit("cheap", "kill", paid.headers()))).toBe(first);
    expect((await earned()) - before).toBe(1_000n);
    await join1();
    expect((await ended(held)).job.status).toBe("completed");
    expect((await earned()) - before).toBe(2_000n);
  });
});
