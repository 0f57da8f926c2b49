// Reads from the chain about payments in doubt, of which nobody knows whether their money has moved. After a job's way.
import { shortJobId } from "../../protocol/text.ts";
import { HOUR, SECOND, TIMING } from "../../protocol/times.ts";
import type { Settings } from "../config.ts";
import { type Finding, IllegalMove, isInDoubt, type Payment } from "../dispatch/index.ts";
import { errorFacts, logError, logWarning } from "../log.ts";
import type { ChainAnswer, ChainSource } from "../payment/chain.ts";
import { EvmChain } from "../payment/chain-evm.ts";
import { SvmChain } from "../payment/chain-svm.ts";
import { TUNING } from "../tuning.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { ChainRead, LedgerStore } from "./ledger-store.ts";

type ChainParts = { source: ChainSource | null; dispatcher: Dispatcher; ledger: LedgerStore; clock: () => number };

/** After this many readings, which take about four hours, a payment is read only once an hour. */
const MANY_READINGS = 50;

/** A pause of at least this long is stored, because the hub may hibernate in it. A shorter one keeps the hub awake. */
const STORED_PAUSE = 8 * SECOND;

/**
 * What the chain shows about payments in doubt [PY8]. Each is read soon after its doubt began, and then after longer and longer pauses until the chain decides.
 * One round of a few requests runs at a time, for a bounded number of payments. An RPC that is down, slow or contradicts itself decides nothing. The pauses and
 * what was found outlast the hub's memory: otherwise a hub that hibernates would begin again with the short pauses, all day.
 */
export class ChainReads {
  readonly #parts: ChainParts;
  readonly #waiting = new Map<string, ChainRead>();
  #running: Promise<void> | null = null;
  #blockDue = 0;

  constructor(parts: ChainParts) {
    this.#parts = parts;
  }

  /** Begins with all payments that are in doubt: when the hub has started, and when the cron runs, because only so many are taken at once. */
  load(): void {
    const { source, dispatcher, ledger } = this.#parts;
    if (source === null) return;
    const stored = ledger.chainReads();
    this.#note([...dispatcher.state.ledger.payments.values(), ...ledger.unresolved()], stored);
    for (const key of stored.keys()) if (!this.#waiting.has(key)) ledger.dropChainRead(key);
  }

  /** Notes the new phases of payments. */
  note(payments: readonly Payment[]): void {
    if (this.#parts.source !== null) this.#note(payments, new Map());
  }

  #note(payments: readonly Payment[], stored: ReadonlyMap<string, ChainRead>): void {
    const { ledger, clock } = this.#parts;
    for (const payment of payments) {
      const { key } = payment;
      if (isInDoubt(payment)) {
        if (!this.#waiting.has(key)) this.#waiting.set(key, stored.get(key) ?? { due: clock() + TIMING.chainFirst, readings: 0, found: null });
      } else if (this.#waiting.delete(key)) ledger.dropChainRead(key);
    }
  }

  /** When the alarm must read again, ms since the epoch; null if no payment is in doubt. */
  get due(): number | null {
    if (this.#waiting.size === 0 || this.#running !== null) return null;
    return Math.min(...[...this.#waiting.values()].map(({ due }) => due));
  }

  /** Learns the number of a finalized block, which payments note before they are settled. Nobody awaits this, because no payment waits for the RPC. */
  learnBlock(): void {
    const { source, ledger, clock } = this.#parts;
    const now = clock();
    if (source === null || (now < this.#blockDue && this.#blockDue <= now + TUNING.chainBlockFresh)) return;
    this.#blockDue = now + TUNING.chainBlockFresh;
    void source.block().then(
      (block) => (ledger.block = block),
      (error: unknown) => logError("chain_unreadable", errorFacts(error)),
    );
  }

  /** Reads the payments that are due, the longest overdue first. Two rounds never overlap. Never rejects. */
  read(): Promise<void> {
    const { source } = this.#parts;
    if (source === null || this.#waiting.size === 0) return Promise.resolve();
    this.#running ??= this.#round(source)
      .catch((error: unknown) => logError("chain_unreadable", errorFacts(error)))
      .finally(() => (this.#running = null));
    return this.#running;
  }

  async #round(source: ChainSource): Promise<void> {
    const { dispatcher, ledger, clock } = this.#parts;
    const now = clock();
    const due = [...this.#waiting].filter(([, one]) => one.due <= now || one.due > now + HOUR);
    const first = due.toSorted(([, a], [, b]) => a.due - b.due).slice(0, source.most);
    const asked = first.flatMap(([key, waiting]) => {
      const doubt = ledger.doubt(key);
      // Then only the operator can look for it.
      if (doubt === null) this.#waiting.delete(key);
      else waiting.due = now + pauseAfter(waiting.readings++);
      return doubt === null ? [] : [{ waiting, doubt: { ...doubt, found: waiting.found } }];
    });
    if (asked.length === 0) return;
    try {
      const answers = await source.read(
        asked.map(({ doubt }) => doubt),
        now,
      );
      for (const [at, { waiting, doubt }] of asked.entries()) {
        const answer = answers[at];
        if (answer !== undefined) this.#take(doubt.key, waiting, answer);
      }
    } finally {
      // A payment that has just been decided stays in this map until the decision is written. Then it is dropped.
      for (const { waiting, doubt } of asked) if (waiting.due >= now + STORED_PAUSE && this.#waiting.has(doubt.key)) ledger.keepChainRead(doubt.key, waiting);
    }
    await dispatcher.becameDurable();
  }

  #take(key: string, waiting: ChainRead, answer: ChainAnswer): void {
    if (answer.kind !== "undecided") return this.#decide(key, answer);
    waiting.found = answer.found;
    if (answer.more) waiting.due = Math.min(waiting.due, this.#parts.clock() + TIMING.chainFirst);
    if (answer.fault === undefined) return;
    const payment = this.#parts.ledger.find(key);
    logError("chain_unreadable", { job: payment && shortJobId(payment.jobId), reason: answer.fault });
  }

  /** Tells dispatch. What has been decided meanwhile stays as it is. */
  #decide(key: string, finding: Finding): void {
    const { dispatcher } = this.#parts;
    const stored = dispatcher.storedPayment(key);
    if (stored === null || !isInDoubt(stored)) return;
    try {
      dispatcher.apply({ type: "chain", key, finding, stored });
    } catch (error) {
      // The dispatcher has logged it.
      if (error instanceof IllegalMove) return;
      throw error;
    }
    const job = shortJobId(stored.jobId);
    if (finding.kind === "settled") logWarning("chain_settled", { job });
    else logWarning("chain_void", { job, proof: finding.proof });
  }
}

/** The pause after a reading: two seconds, then twice as long each time, up to five minutes; an hour for what the chain has not decided for hours. */
function pauseAfter(readings: number): number {
  if (readings > MANY_READINGS) return HOUR;
  return Math.min(TIMING.settleRetry * 2 ** Math.min(readings, 10), TIMING.settleRetryMax);
}

/** The chain of an instance; null if no RPC is set: then nothing is read, and the facilitator and the operator decide. */
export function chainSource({ instance, network, payment }: Pick<Settings, "instance" | "network" | "payment">): ChainSource | null {
  if (payment.rpcUrl === null) return null;
  const rpc = { url: payment.rpcUrl, deadline: TIMING.chainAnswer };
  return instance === "evm" ? new EvmChain(rpc, network) : new SvmChain(rpc, network);
}
