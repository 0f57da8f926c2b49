import { createPublicKey, verify } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { type Coordinator, startCoordinator } from "../../../scripts/coordinator-process.ts";
import { freePort } from "../../../scripts/port.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import { until } from "../../support/until.ts";
import { challengeOf } from "../pay/challenge.ts";
import { balanceOf, type Payment, type PayOptions } from "../pay/pay.ts";
import type { FullLab } from "../start-lab.ts";

export type Side = "evm" | "svm";
export type Tier = "fast" | "cheap";
export type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: string | null; signature: string };
export type Job = { id: string; status: string; result: Record<string, unknown> | null; receipt: Receipt | null };

/** How many payers a lab of the probe has: each test takes new ones, so that no credit of another test is spent. */
export const PAYERS = 90;
export const LAB = { evm: { payers: PAYERS }, svm: { payers: PAYERS } };
export const PRICE = { fast: 10_000n, cheap: 1_000n } as const;
export const MONEY = { fast: "$0.010", cheap: "$0.001" } as const;

/** One coordinator of the probe, its workers and its till. */
export class Bench {
  readonly lab: FullLab;
  readonly side: Side;
  readonly state: string;
  coordinator!: Coordinator;
  readonly workers: PlainWorker[] = [];
  #next = 0;

  constructor(lab: FullLab, side: Side) {
    this.lab = lab;
    this.side = side;
    this.state = mkdtempSync(join(tmpdir(), `compute-router-probe-${side}-`));
  }

  get url(): string {
    return this.coordinator.url;
  }

  async start(): Promise<this> {
    const settings = { WORKER_AUTH: "optional", RATE_LIMITS: "off", ...this.lab.description.settings[this.side] };
    this.coordinator = await startCoordinator({ instance: this.side, port: await freePort(), stateDir: this.state, settings });
    return this;
  }

  async stop(): Promise<void> {
    this.workers.splice(0).forEach((worker) => worker.close());
    await this.coordinator.stop();
    rmSync(this.state, { recursive: true, force: true });
  }

  /** SIGKILL for the whole tree, and a new one on the same state. */
  async kill(): Promise<void> {
    await this.coordinator.kill();
    this.workers.splice(0).forEach((worker) => worker.close());
  }

  async join(count = 1, serve = true): Promise<PlainWorker> {
    const joined = await Promise.all(
      Array.from({ length: count }, async () => {
        const worker = new PlainWorker(this.coordinator.socketUrl);
        await worker.connect();
        if (serve) worker.serve();
        this.workers.push(worker);
        return worker;
      }),
    );
    return joined[0] as PlainWorker;
  }

  async leave(): Promise<void> {
    this.workers.splice(0).forEach((worker) => worker.close());
    await until("no worker", async () =>
      (JSON.parse(await (await fetch(`${this.url}/v1/health`)).text()) as { workers_online: number }).workers_online === 0 ? true : undefined,
    );
  }

  body(text: string, more: object = {}): string {
    return JSON.stringify({ job_type: "TASK", user_id: "probe", payload: { task_type: "summarize", input: text }, ...more });
  }

  commit(tier: Tier, text: string, headers: Record<string, string> = {}, more: object = {}): Promise<Response> {
    return this.post(tier, this.body(text, more), headers);
  }

  post(tier: Tier, body: string, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.url}/v1/jobs/commit/${tier}`, { method: "POST", headers, body });
  }

  /** The number of a payer that nobody used. */
  payer(): number {
    if (this.#next >= PAYERS) throw new Error("the probe needs more payers");
    return this.#next++;
  }

  /** A payment by a new payer, if no other is named. */
  async pay(tier: Tier, options: PayOptions = {}): Promise<Payment> {
    return this.lab.pay(await challengeOf(await this.commit(tier, "first")), { who: options.who ?? this.payer(), ...options });
  }

  earned(): Promise<bigint> {
    return balanceOf(this.lab[this.side], this.lab[this.side].payTo);
  }

  async job(id: string): Promise<{ job: Job; response: Response }> {
    const response = await fetch(`${this.url}/v1/jobs/${id}`);
    return { job: JSON.parse(await response.clone().text()) as Job, response };
  }

  async ended(id: string, seconds = 45): Promise<{ job: Job; response: Response }> {
    const deadline = Date.now() + seconds * 1000;
    for (;;) {
      const seen = await this.job(id);
      if (["completed", "failed"].includes(seen.job.status)) return seen;
      if (Date.now() > deadline) throw new Error(`job ${id} is ${seen.job.status} after ${seconds} s`);
      await delay(50);
    }
  }

  settles(): number {
    return this.lab.facilitator.log.counts.settle;
  }

  /** What the payee got during `what`. */
  async earning(what: () => Promise<unknown>): Promise<bigint> {
    const before = await this.earned();
    await what();
    return (await this.earned()) - before;
  }

  /** A paid job that ends in a credit of its payer. */
  async makeCredit(tier: Tier, who: number, text: string): Promise<{ id: string; paid: Payment }> {
    await this.leave();
    const failing = await this.join(1, false);
    const paid = await this.pay(tier, { who });
    const first = this.commit(tier, text, paid.headers());
    const assigned = await failing.frame("job_assign");
    failing.send({ type: "job_failed", job_id: assigned.job_id, attempt: 1, error: "broken", retryable: false });
    const id = await idOf(await first);
    expect((await this.ended(id)).job).toMatchObject({ status: "failed", result: { error: "worker_error" } });
    await this.leave();
    return { id, paid };
  }
}

export const idOf = async (response: Response): Promise<string> => {
  const text = await response.clone().text();
  if (response.status !== 201) throw new Error(`not 201 but ${response.status} ${text}`);
  return (JSON.parse(text) as { job_id: string }).job_id;
};

export const brief = async (response: Response): Promise<string> => {
  const { error } = JSON.parse(await response.clone().text()) as { error?: string };
  return `${response.status} ${error ?? ""}`;
};

/** The signature of a receipt as REST returns it, checked with the worker's null. */
export function isReceiptValid({ signature, ...receipt }: Receipt): boolean {
  const { job_id, provider_pubkey, output_hash, completed_at } = receipt;
  const signed = JSON.stringify({ job_id, provider_pubkey, output_hash, completed_at, payment_ref: null });
  const key = createPublicKey({
    format: "der",
    type: "spki",
    key: Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(provider_pubkey, "hex")]),
  });
  return verify(null, Buffer.from(signed), key, Buffer.from(signature, "base64"));
}

/** Everything that PY4 says of any 402. */
export async function check402(response: Response, { lab, side, url }: Bench, tier: Tier, label = ""): Promise<{ error: string }> {
  const text = await response.clone().text();
  expect(response.status, `${label}: ${text.slice(0, 300)}`).toBe(402);
  expect(response.headers.get("content-type"), label).toMatch(/^application\/json/);
  expect(response.headers.get("cache-control"), label).toContain("no-store");
  expect(response.headers.get("access-control-allow-origin"), label).toBe("*");
  expect(response.headers.get("access-control-allow-credentials"), label).toBeNull();
  expect(response.headers.get("x-request-id"), label).toBeTruthy();
  const exposed = (response.headers.get("access-control-expose-headers") ?? "").toLowerCase().split(/\s*,\s*/);
  expect(exposed, label).toEqual(
    expect.arrayContaining(["payment-required", "payment-response", "x-payment-response", "preference-applied", "retry-after", "x-request-id"]),
  );

  const raw = response.headers.get("payment-required") ?? "";
  expect(raw, label).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
  const header = JSON.parse(Buffer.from(raw, "base64").toString("utf8")) as Record<string, unknown> & {
    accepts: Record<string, unknown>[];
    resource: { url: string };
  };
  const body = JSON.parse(text) as Record<string, unknown> & { error: string; accepts: Record<string, unknown>[] };
  const chain = lab[side];
  const amount = String(PRICE[tier]);
  expect(
    Object.keys(header).filter((key) => !["x402Version", "error", "resource", "accepts", "extensions"].includes(key)),
    label,
  ).toEqual([]);
  expect(header.x402Version, label).toBe(2);
  expect(header.accepts, label).toHaveLength(1);
  const [entry] = header.accepts;
  expect(Object.keys(entry ?? {}).toSorted(), label).toEqual(["amount", "asset", "extra", "maxTimeoutSeconds", "network", "payTo", "scheme"]);
  expect(entry, label).toMatchObject({
    scheme: "exact",
    network: chain.network,
    amount,
    asset: chain.token,
    payTo: chain.payTo,
    maxTimeoutSeconds: expect.any(Number),
  });
  if (side === "evm") expect(entry?.extra, label).toEqual({ name: "USDC", version: "2" });
  else
    expect(
      lab.svm.feePayers.map(({ address }) => String(address)),
      label,
    ).toContain((entry?.extra as { feePayer: string }).feePayer);
  expect(header.resource, label).toEqual({ url: `${url}/v1/jobs/commit/${tier}`, description: expect.any(String), mimeType: "application/json" });

  expect(Object.keys(body), label).toEqual(["error", "accepts", "x402Version", "resource"]);
  expect(body.error, label).toMatch(/\S/);
  expect(body.x402Version, label).toBe(2);
  expect(body.resource, label).toEqual(header.resource);
  expect(body.accepts, label).toHaveLength(1);
  expect(body.accepts[0], label).toEqual({
    scheme: "exact",
    price: MONEY[tier],
    network: chain.network,
    payTo: chain.payTo,
    ...(side === "evm" && { asset: chain.token }),
    amount,
    maxTimeoutSeconds: entry?.maxTimeoutSeconds,
    extra: entry?.extra,
    maxAmountRequired: amount,
    resource: header.resource.url,
    description: expect.any(String),
    mimeType: "application/json",
  });
  return body;
}
