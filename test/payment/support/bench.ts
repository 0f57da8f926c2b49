// One coordinator over the payment lab, with its workers: what the payment tests work with.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { freePort } from "../../../scripts/coordinator-process.ts";
import { type CoordinatorHere, startHere } from "../../support/coordinator-here.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import { until } from "../../support/until.ts";
import type { Call } from "../facilitator/call-log.ts";
import { challengeOf } from "../pay/challenge.ts";
import { balanceOf, balancesOf, type Payment, type PayOptions } from "../pay/pay.ts";
import type { Who } from "../pay/wrongs.ts";
import type { FullLab } from "../start-lab.ts";
import type { Received } from "./books.ts";

export type Side = "evm" | "svm";
export type Tier = "fast" | "cheap";
export type Receipt = { job_id: string; provider_pubkey: string; output_hash: string; completed_at: string; payment_ref: string | null; signature: string };
export type Job = { id: string; status: string; result: Record<string, unknown> | null; receipt: Receipt | null };

/** A lab with so many payers that each test can take new ones: no credit of another test is spent. */
export const LAB = { evm: { payers: 120 }, svm: { payers: 120 } };
/** One for a file that takes few, and starts in less time. */
export const SMALL_LAB = { evm: { payers: 32 }, svm: { payers: 32 } };
/** So many new payers may pay while what is earned is counted. */
const SPARE = 10;
export const PRICE = { fast: 10_000n, cheap: 1_000n } as const;

/** One coordinator over a lab, its workers and its till. */
export class Bench {
  readonly lab: FullLab;
  readonly side: Side;
  readonly state: string;
  readonly #settings: Record<string, string>;
  coordinator!: CoordinatorHere;
  readonly workers: PlainWorker[] = [];
  #next = 0;
  /** The transactions from before its first start: of other coordinators over the same lab, with ledgers of their own. */
  #earlier: ReadonlySet<string> | null = null;

  /** `settings` are those beside the lab's. */
  constructor(lab: FullLab, side: Side, settings: Record<string, string> = {}) {
    this.lab = lab;
    this.#settings = settings;
    this.side = side;
    this.state = mkdtempSync(join(tmpdir(), `compute-router-paid-${side}-`));
  }

  get url(): string {
    return this.coordinator.url;
  }

  /** `cronMs` is how often its cron runs, which reads the operator's orders. */
  async start({ cronMs }: { cronMs?: number } = {}): Promise<this> {
    this.#earlier ??= new Set((await this.lab[this.side].received()).map(({ transaction }) => transaction));
    // An empty PUBLIC_HOST: as at a deployed coordinator, pages of every origin may pay.
    const settings = { WORKER_AUTH: "optional", RATE_LIMITS: "off", PUBLIC_HOST: "", ...this.lab.description.settings[this.side], ...this.#settings };
    const when = cronMs === undefined ? {} : { cronMs };
    this.coordinator = await startHere({ instance: this.side, port: await freePort(), stateDir: this.state, settings, ...when });
    return this;
  }

  async stop(): Promise<void> {
    this.workers.splice(0).forEach((worker) => worker.close());
    await this.coordinator.stop();
    rmSync(this.state, { recursive: true, force: true });
  }

  /** SIGKILL; `start` begins a new one on the same state. */
  async kill(): Promise<void> {
    await this.coordinator.kill();
    this.workers.splice(0).forEach((worker) => worker.close());
  }

  async join(count = 1, serve = true): Promise<PlainWorker> {
    const joined = await Promise.all(
      Array.from({ length: count }, async () => {
        const worker = new PlainWorker(this.coordinator.socketUrl, { acks: true });
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

  /** Sends a payment of a payer who pays once, and the same again while the facilitator is too slow, as a client does. */
  async commitPatiently(tier: Tier, text: string, paid: Payment): Promise<Response> {
    for (let tries = 1; ; tries++) {
      const response = await this.commit(tier, text, paid.headers());
      if ((await brief(response)) !== "503 facilitator_unavailable") return response;
      expect(await this.unverified(paid)).toBe(tries);
    }
  }

  /**
   * How often the coordinator has left before the facilitator had verified a payment of this payer: so often may it say `facilitator_unavailable`. The
   * facilitator shares its process with the tests, and a busy machine may give it less than the 5 s of [PY8].
   */
  async unverified(paid: Payment): Promise<number> {
    const calls = this.lab.facilitator.log.calls.filter((call) => call.operation === "verify" && isPayerOf(paid, call));
    const ends = await Promise.all(calls.map((call) => until("the end of a call", () => call.ended ?? undefined)));
    return ends.filter((end) => end === "left").length;
  }

  post(tier: Tier, body: string, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(`${this.url}/v1/jobs/commit/${tier}`, { method: "POST", headers, body });
  }

  /** The number of a payer that nobody used. */
  payer(): number {
    if (this.#next >= this.lab[this.side].payers.length) throw new Error("the lab needs more payers");
    return this.#next++;
  }

  /** How many payers nobody has used. */
  get payersLeft(): number {
    return this.lab[this.side].payers.length - this.#next;
  }

  /** What a payer has. */
  purse(who: Who): Promise<bigint> {
    const chain = this.lab[this.side];
    const owner = typeof who === "number" ? chain.payers[who] : chain[who];
    return balanceOf(chain, owner?.address ?? "");
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
    const began = Date.now();
    for (;;) {
      const seen = await this.job(id);
      if (["completed", "failed"].includes(seen.job.status)) return seen;
      if (Date.now() - began > seconds * 1000) throw new Error(`job ${id} is ${seen.job.status} after ${seconds} s\n${this.#explain()}`);
      // What has not ended in a second waits for times of the protocol.
      await delay(Date.now() - began < 1_000 ? 50 : 250);
    }
  }

  /** What the payee has got by payments since the first start. */
  async received(): Promise<Received[]> {
    return (await this.lab[this.side].received()).filter(({ transaction }) => !this.#earlier?.has(transaction));
  }

  settles(): number {
    return this.lab.facilitator.log.counts.settle;
  }

  /** What the payee got during `what`, which is what all payers together have lost. */
  async earning(what: () => Promise<unknown>): Promise<bigint> {
    // A read costs time for each purse, and those who come later have paid nothing.
    const payers = this.#next + SPARE;
    const before = await this.#books(payers);
    await what();
    expect(this.#next, "all who may have paid are counted").toBeLessThanOrEqual(payers);
    const after = await this.#books(payers);
    expect(before.purses - after.purses, "lost by the payers, got by the payee").toBe(after.earned - before.earned);
    return after.earned - before.earned;
  }

  /** A paid job that ends in a credit of its payer. */
  async makeCredit(tier: Tier, who: number, text: string): Promise<{ id: string; paid: Payment }> {
    await this.leave();
    const failing = await this.join(1, false);
    const paid = await this.pay(tier, { who });
    const id = await idOf(await this.commit(tier, text, paid.headers()));
    await failing.assigned(id);
    failing.send({ type: "job_failed", job_id: id, attempt: 1, error: "broken", retryable: false });
    expect((await this.ended(id)).job).toMatchObject({ status: "failed", result: { error: "worker_error" } });
    await this.leave();
    return { id, paid };
  }

  /** What was going on, for a person. */
  #explain(): string {
    return JSON.stringify({ workers: this.workers.map(({ closed, frames }) => [closed, frames.slice(-6)]), calls: this.lab.facilitator.log.calls.slice(-4) });
  }

  /** Of the payee, and of the poor one and the first `count` payers. */
  async #books(count: number): Promise<{ purses: bigint; earned: bigint }> {
    const { payers, poor, payTo } = this.lab[this.side];
    const counted = payers.slice(0, count).map(({ address }) => address);
    const [earned = 0n, ...purses] = await balancesOf(this.lab[this.side], [payTo, poor.address, ...counted]);
    return { purses: purses.reduce((sum, purse) => sum + purse, 0n), earned };
  }
}

/** True if a call of the facilitator is about the money of this payer. An address of EVM may be written in both cases. */
export const isPayerOf = (payment: Payment, { payer }: Pick<Call, "payer">): boolean => payer?.toLowerCase() === payment.payer.toLowerCase();

export const idOf = async (response: Response): Promise<string> => {
  const text = await response.clone().text();
  if (response.status !== 201) throw new Error(`not 201 but ${response.status} ${text}`);
  return (JSON.parse(text) as { job_id: string }).job_id;
};

export const brief = async (response: Response): Promise<string> => {
  const { error } = JSON.parse(await response.clone().text()) as { error?: string };
  return `${response.status} ${error ?? ""}`;
};
