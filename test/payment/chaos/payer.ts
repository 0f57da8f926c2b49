// A payer of the chaos run: signs payments, sends them through lost answers and kills, takes some of them back on the chain, and notes every answer.
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../../simulation/random.ts";
import { type Challenge, challengeOf } from "../pay/challenge.ts";
import { settlementOf } from "../pay/envelope.ts";
import type { EvmPayload } from "../pay/evm.ts";
import type { Payment } from "../pay/pay.ts";
import type { FullLab } from "../start-lab.ts";
import type { Side } from "../support/bench.ts";

/** Above the 40 s that the coordinator asks for, so that what is never known ends soon. An SVM payment lasts as long as its blockhash. */
const VALID_FOR_S = 60;
const TRIES = 12;
const ANSWER_MS = 30_000;

/** What all payers of a run share, and what they were told. */
export class Ledger {
  readonly lab: FullLab;
  readonly side: Side;
  readonly url: string;
  /** True when no new payment is to be made. */
  isOver = false;
  /** Answers to commits by status and error; `lost` where none came. */
  readonly answers = new Map<string, number>();
  /** 201: the job with the payment that it was bought with. */
  readonly accepted = new Map<string, string>();
  /** Of each payment, the bodies that were accepted with it. */
  readonly bodies = new Map<string, Set<string>>();
  readonly violations: string[] = [];
  payments = 0;
  cancelled = 0;
  readonly #challenges = new Map<string, Promise<Challenge>>();

  constructor(lab: FullLab, side: Side, url: string) {
    this.lab = lab;
    this.side = side;
    this.url = url;
  }

  commit(tier: string, text: string, headers: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const body = JSON.stringify({ job_type: "TASK", user_id: "chaos", payload: { task_type: "summarize", input: text } });
    return fetch(`${this.url}/v1/jobs/commit/${tier}`, { method: "POST", headers, body, signal });
  }

  /** The terms of a tier, which stay the same. They are asked for until the coordinator answers. */
  challenge(tier: string): Promise<Challenge> {
    const known = this.#challenges.get(tier) ?? this.#ask(tier);
    this.#challenges.set(tier, known);
    return known;
  }

  async #ask(tier: string): Promise<Challenge> {
    for (;;) {
      try {
        return await challengeOf(await this.commit(tier, "first", {}, AbortSignal.timeout(ANSWER_MS)));
      } catch {
        await delay(200);
      }
    }
  }

  noted(answer: string): void {
    this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1);
  }

  bought(payment: string, text: string, id: string): void {
    const other = this.accepted.get(id);
    if (other !== undefined && other !== payment) this.violations.push(`job ${id} was sold twice`);
    this.accepted.set(id, payment);
    const bodies = this.bodies.get(payment) ?? new Set();
    this.bodies.set(payment, bodies.add(text));
    if (bodies.size > 1) this.violations.push(`one payment was accepted for ${[...bodies].join(" and ")}`);
  }
}

/** One payer, who pays again and again until the run is over. */
export class Payer {
  readonly #ledger: Ledger;
  readonly #who: number;
  readonly #random: Random;

  constructor(ledger: Ledger, who: number, random: Random) {
    this.#ledger = ledger;
    this.#who = who;
    this.#random = random;
  }

  async run(): Promise<void> {
    const ledger = this.#ledger;
    await delay(this.#random.between(0, 3_000));
    for (let n = 0; !ledger.isOver; n++) {
      await this.#order(`${this.#who} ${n}`);
      await delay(this.#random.between(50, this.#random.pick([500, 3_000])));
    }
  }

  async #order(text: string): Promise<void> {
    const ledger = this.#ledger;
    const random = this.#random;
    const tier = random.chance(0.1) ? "fast" : "cheap";
    const challenge = await ledger.challenge(tier);
    const paid = await ledger.lab.pay(challenge, { who: this.#who, ...(ledger.side === "evm" && { validFor: VALID_FOR_S }) });
    ledger.payments++;
    const sending = [this.#send(tier, text, paid)];
    if (random.chance(0.15)) sending.push(this.#send(tier, text, paid));
    if (random.chance(0.1)) sending.push(this.#once(tier, `${text} other`, paid, ANSWER_MS).then(() => null));
    if (ledger.side === "evm" && random.chance(0.15)) sending.push(this.#takeBack(paid).then(() => null));
    const [id] = (await Promise.all(sending)).filter((one) => one !== null);
    if (id === undefined) return;
    const patience = Date.now() + random.pick([0, 2_000, 20_000]);
    while (Date.now() < patience && !ledger.isOver && !(await this.#hasEnded(id))) await delay(random.between(100, 700));
    // Whatever has become of it, the same request may come again.
    if (random.chance(0.2)) await this.#send(tier, text, paid);
  }

  /** Sends a payment until there is an answer that says what has become of it. */
  async #send(tier: string, text: string, paid: Payment): Promise<string | null> {
    const random = this.#random;
    for (let tries = 0; tries < TRIES; tries++) {
      const patience = random.chance(0.2) ? random.between(5, 2_500) : ANSWER_MS;
      const said = await this.#once(tier, text, paid, patience);
      if (said.kind !== "again") return said.kind === "sold" ? said.id : null;
      await delay(random.between(50, 3_000));
    }
    return null;
  }

  async #once(tier: string, text: string, paid: Payment, patience: number): Promise<{ kind: "sold"; id: string } | { kind: "again" | "refused" }> {
    const ledger = this.#ledger;
    try {
      const response = await ledger.commit(tier, text, paid.headers(), AbortSignal.timeout(patience));
      const { job_id = "", error = "" } = (await response.json()) as { job_id?: string; error?: string };
      ledger.noted(`${response.status} ${error}`.trim());
      if (response.status === 201) {
        ledger.bought(paid.value, text, job_id);
        return { kind: "sold", id: job_id };
      }
      return { kind: response.status >= 500 || response.status === 429 ? "again" : "refused" };
    } catch {
      ledger.noted("lost");
      return { kind: "again" };
    }
  }

  async #hasEnded(id: string): Promise<boolean> {
    const job = await look(this.#ledger.url, id).catch(() => null);
    return job !== null && ["completed", "failed"].includes(job.status);
  }

  /** Takes the authorization back on the chain, so that the settlement meets it used. */
  async #takeBack({ payload }: Payment): Promise<void> {
    const { lab } = this.#ledger;
    const payer = lab.evm.payers[this.#who];
    if (payer === undefined) throw new Error(`the lab has no payer ${this.#who}`);
    const { nonce } = (payload as EvmPayload).authorization;
    await delay(this.#random.between(0, 3_000));
    // The lab makes a block for it, which would end the stall.
    while (lab.evm.isPaused) await delay(100);
    const taking = this.#random.chance(0.5) ? lab.evm.cancel(payer, nonce) : lab.evm.spendNonce(payer, nonce);
    await taking.then(
      () => void this.#ledger.cancelled++,
      // It was settled before, or another transaction of this payer was sent at the same time.
      () => {},
    );
  }
}

/** A job as its payer sees it: its status, why it failed, and whether money has moved for it. */
export type Seen = { status: string; error: string | null; isPaid: boolean };

/** Looks at a job. @throws when the coordinator does not answer, or does not know it */
export async function look(url: string, id: string): Promise<Seen> {
  const response = await fetch(`${url}/v1/jobs/${id}`, { signal: AbortSignal.timeout(ANSWER_MS) });
  if (!response.ok) throw new Error(`job ${id} is answered ${response.status}`);
  const { status, result } = (await response.json()) as { status: string; result: { error?: string } | null };
  return { status, error: result?.error ?? null, isPaid: settlementOf(response)?.success === true };
}
