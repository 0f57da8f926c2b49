// Paid commits: reserve, submit after the payment was verified, and settle when a worker is claimed. On a job's way: commit → pay → settle.
import { LIMITS } from "../../protocol/limits.ts";
import { normalizeAddress } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { FairShare, type Payment, paysAlready, type Reservation } from "../dispatch/index.ts";
import { wasRefused } from "../store/jobs.ts";
import { TUNING } from "../tuning.ts";
import { type CommitParts, factsOf, originOf } from "./commits.ts";
import { KeyedMutex } from "./keyed-mutex.ts";
import type { LedgerStore } from "./ledger-store.ts";
import type { PaidJob, CommitInput, PaidAnswer, PaymentInput, ReserveAnswer, SettleReport, SettleTexts, StoredAnswer, SubmitAnswer } from "./rpc.ts";
import type { SettleCalls } from "./settle-calls.ts";
import type { Deadlines } from "./timers.ts";

type Parts = CommitParts & {
  ledger: LedgerStore;
  /** JSON text of the SettleResponse of a job's payment; null if no money has moved for it. */
  settlementOf: (jobId: string) => string | null;
  /** Reads the newest block of the chain, if that is due. */
  learnBlock: () => void;
  deadlines: Deadlines;
  settleCalls: SettleCalls;
};

/** Handles paid commits: `reserve`, then `submit` after the payment was verified, then `settled` when a worker was claimed [PY5–PY9]. */
export class PaidCommits {
  readonly #parts: Parts;
  readonly #mutex = new KeyedMutex();
  /** The requests that wait for a lock, by its name. */
  readonly #waiters = new FairShare({ most: LIMITS.waits, each: LIMITS.waitersPerKey });

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The stored answer of an idempotency key, as soon as no other request has the key; null if it has none [API5]. */
  async stored(input: CommitInput): Promise<StoredAnswer | null> {
    try {
      if (!(await this.#lockAll(idempotencyNames(input), input.id))) return { state: "refused", reason: "overloaded" };
      return await this.#storedByKey(input);
    } finally {
      this.#mutex.release(input.id);
    }
  }

  async reserve(input: CommitInput, payment: PaymentInput): Promise<ReserveAnswer> {
    try {
      return await this.#reserve(input, payment);
    } catch (error) {
      // Otherwise others with this payment or key would wait for a minute.
      this.#mutex.release(input.id);
      throw error;
    }
  }

  async #reserve(input: CommitInput, payment: PaymentInput): Promise<ReserveAnswer> {
    const { dispatcher, deadlines, clock, refusal, earlier, learnBlock } = this.#parts;
    try {
      if (await earlier.refusedBefore(input)) return { state: "refused", reason: "no_trusted_worker", jobId: input.id };
    } catch {
      // D1 does not answer, so the outcome of the first delivery is not known.
      return { state: "refused", reason: "overloaded" };
    }
    learnBlock();
    for (;;) {
      if (!(await this.#lockAll([...idempotencyNames(input), `payment ${payment.key}`], input.id))) return { state: "refused", reason: "overloaded" };
      const storedByKey = await this.#storedByKey(input);
      if (storedByKey !== null) return storedByKey;
      const stored = dispatcher.storedPayment(payment.key);
      const payer = payment.payer === null ? null : normalizeAddress(payment.payer);
      // A payment that came before gets its answer. Only a new job is refused, also one that a credit would pay for.
      const isKnown = stored !== null && paysAlready(stored, input.id);
      const noRoom = isKnown ? null : refusal(originOf(input, stored?.payer ?? payer ?? ""));
      if (noRoom !== null) {
        this.#mutex.release(input.id);
        return { state: "refused", ...noRoom };
      }
      const { key, digest, binding, asset, amount, expiresAt } = payment;
      const event = {
        type: "reserve",
        payment: { key, digest, binding, payer, asset, amount, expiresAt },
        job: factsOf(input, clock()),
        stored,
      } as const;
      const reservation = dispatcher.apply(event, { origin: originOf(input) });
      // A reservation is only in memory.
      if (reservation.state === "reserved") return { state: "reserved" };
      if (!(await dispatcher.becameDurable())) {
        this.#mutex.release(input.id);
        return { state: "refused", reason: "overloaded" };
      }
      switch (reservation.state) {
        case "credit":
          return { state: "credit" };
        case "known":
          if (await this.#isRefusedMeanwhile(reservation.jobId)) continue;
          // Stores the key of this request too. The job is durable, so the answer is 201 even if the key cannot be written.
          this.#keepKey(input, reservation.jobId);
          await dispatcher.becameDurable();
          return { state: "known", ...(await this.#accepted(input, reservation.jobId)) };
        case "refused":
          this.#mutex.release(input.id);
          return this.#refusedReservation(reservation.reason, input, payment, stored);
        case "busy":
          // Another request, which may have died, has reserved this payment. Its reservation ends by itself. The
          // payment stays locked, so that only a few requests wait for that.
          await deadlines.until(clock() + TUNING.busyPause);
          continue;
        default:
          return reservation satisfies never;
      }
    }
  }

  async submit(input: CommitInput, key: string, payer: string, texts?: SettleTexts): Promise<SubmitAnswer> {
    let isSettling = false;
    try {
      const answer = await this.#submit(input, key, payer, texts);
      isSettling = "settle" in answer;
      return answer;
    } finally {
      // The answer to a request that settles by itself is known only after `settled`, and the others with its payment or key wait for it [API5].
      if (!isSettling) this.#mutex.release(input.id);
    }
  }

  /** Records the outcome of a settle call that the router made. */
  async settled(input: CommitInput, key: string, outcome: SettleReport): Promise<PaidAnswer> {
    try {
      if (!(await this.#parts.settleCalls.reported(key, outcome))) return { ok: false, reason: "reservation_lost" };
      return await this.#answerAfterSettling(input, key);
    } finally {
      this.#mutex.release(input.id);
    }
  }

  /** Releases the requests that wait for one whose payment is now in doubt: its router may never report the outcome, and its job stays accepted [PY8]. */
  doubted(payments: readonly Payment[]): void {
    for (const { key, jobId, doubts } of payments) {
      if (doubts === 0) continue;
      this.#mutex.release(jobId);
      this.#parts.settleCalls.endWaits(key);
    }
  }

  async release(key: string, jobId: string): Promise<void> {
    this.#parts.dispatcher.apply({ type: "release", key, jobId });
    this.#mutex.release(jobId);
    await this.#parts.dispatcher.becameDurable();
  }

  async #submit(input: CommitInput, key: string, payer: string, texts: SettleTexts | undefined): Promise<SubmitAnswer> {
    const { dispatcher, clock, journal, refusal } = this.#parts;
    // If the answer to a submit was lost, it may be repeated when its job has run or ended. It is the same commit. Only then can its job be in the journal
    // alone.
    const row = dispatcher.storedPayment(key);
    const wasSubmitted = row?.jobId === input.id && row.phase.kind !== "reserved";
    const stored = input.again === false ? null : journal.result(input.id);
    if (stored !== null && wasRefused(stored)) return { ok: false, reason: "no_trusted_worker", jobId: input.id };
    if (wasSubmitted || dispatcher.state.jobs.has(input.id) || stored !== null) return this.#waitAndAnswer(input, key);
    // Without its texts nobody could settle this payment. An earlier router answers this request with 503, and the same
    // payment may be sent again.
    if (texts === undefined && row?.phase.kind === "reserved") {
      await this.release(key, input.id);
      return { ok: false, reason: "reservation_lost" };
    }
    const job = factsOf(input, clock());
    // Who pays from a balance may be known from the settled payment only.
    const verified = { key, payer: row?.payer ?? normalizeAddress(payer), stored: row, byRequest: input.settles === true };
    const origin = originOf(input, verified.payer);
    // On SVM the payer is known only now. No money has moved.
    const noRoom = refusal(origin);
    if (noRoom !== null) {
      await this.release(key, input.id);
      return { ok: false, ...noRoom };
    }
    const submitted = dispatcher.apply({ type: "submit", job, payment: verified }, { payload: input.payload, origin, payment: { key, ...texts } });
    if (!submitted.ok) {
      const { reason } = submitted;
      if (!(await dispatcher.becameDurable())) return { ok: false, reason: "reservation_lost" };
      if (reason === "no_such_model") return { ok: false, reason, models: this.#parts.models() };
      return reason === "no_trusted_worker" ? { ok: false, reason, jobId: input.id } : { ok: false, reason };
    }
    // The key is stored with the job, not after the settlement: a hub that dies in between must not sell the same commit twice [API5].
    this.#keepKey(input, input.id);
    return this.#waitAndAnswer(input, key);
  }

  /** The answer to an accepted submit, after its settle call has ended or the wait for it is over. */
  async #waitAndAnswer(input: CommitInput, key: string): Promise<SubmitAnswer> {
    const { dispatcher, cancelTokens } = this.#parts;
    const paidBy = dispatcher.state.jobs.get(input.id)?.payment ?? key;
    if (!(await dispatcher.becameDurable())) return { ok: false, reason: "reservation_lost" };
    // A second delivery comes from the same router, which has not heard the first answer.
    if (input.settles === true && dispatcher.state.ledger.settlingByRequest.has(paidBy)) {
      return { ok: true, settle: true, jobId: input.id, cancelToken: cancelTokens.of(input.id) };
    }
    await this.#parts.settleCalls.waitForEnd(paidBy);
    return this.#answerAfterSettling(input, paidBy);
  }

  /** The answer to a submit that has been settled, refused, or is not known. */
  async #answerAfterSettling(input: CommitInput, paidBy: string): Promise<PaidAnswer> {
    // The outcome of another call may not be written yet.
    await this.#parts.dispatcher.becameDurable();
    const refusalText = this.#refusalOf(paidBy, input.id);
    if (refusalText !== null) {
      // Only an answer of 201 is stored.
      if (input.idempotency !== null) this.#parts.journal.dropIdempotent(input.userId, input.idempotency.key, input.id);
      return { ok: false, reason: "payment_failed", settlement: refusalText };
    }
    return { ok: true, ...(await this.#accepted(input, input.id)) };
  }

  /** JSON text of the refusal of a job's payment; null if it was not refused, or is not known. */
  #refusalOf(paidBy: string, jobId: string): string | null {
    const { ledger, dispatcher } = this.#parts;
    const { kind } = dispatcher.state.ledger.payments.get(paidBy)?.phase ?? {};
    return kind === "settled" || kind === "held" || kind === "covered" ? null : ledger.refusalOf(paidBy, jobId);
  }

  #refusedReservation(
    reason: Extract<Reservation, { state: "refused" }>["reason"],
    { id }: CommitInput,
    { key, digest, binding }: PaymentInput,
    stored: Payment | null,
  ): Extract<ReserveAnswer, { state: "refused" }> {
    if (reason === "no_such_model") return { state: "refused", reason, models: this.#parts.models() };
    if (reason === "no_trusted_worker") return { state: "refused", reason, jobId: id };
    // A repeated request must not read that nothing was charged: nobody knows whether this payment has moved money.
    const isRepeated = reason === "payment_already_used" && stored?.digest === digest && stored.binding === binding && stored.phase.kind === "unresolved";
    const settlement = isRepeated ? this.#parts.ledger.refusalOf(key, stored.jobId) : null;
    return { state: "refused", reason, ...(settlement !== null && { settlement }) };
  }

  #keepKey({ userId, idempotency }: CommitInput, jobId: string): void {
    if (idempotency !== null) this.#parts.dispatcher.keepIdempotent({ userId, ...idempotency, jobId });
  }

  /** What a 201 tells of a job. Others with its payment or key need not wait for the end of the job. */
  async #accepted({ id, wait, client }: CommitInput, jobId: string): Promise<PaidJob> {
    const { settlementOf, job, cancelTokens, repeated } = this.#parts;
    this.#mutex.release(id);
    if (jobId !== id) repeated.add(jobId);
    const waited = wait > 0 ? await job(jobId, wait, client) : null;
    return { jobId, job: waited, settlement: settlementOf(jobId), cancelToken: cancelTokens.of(jobId) };
  }

  /**
   * Waits for the settle call of an earlier commit's payment, if one is under way. Usually the lock of that commit has done so; but a restart of the hub, and a
   * clock that was set back, end locks and no settle call. True if the payment was refused, so that the earlier commit is no answer for others [PY7, API5].
   */
  async #isRefusedMeanwhile(jobId: string): Promise<boolean> {
    const paidBy = this.#parts.dispatcher.state.jobs.get(jobId)?.payment;
    if (paidBy == null || !(await this.#parts.settleCalls.waitForEnd(paidBy))) return false;
    return (await this.#parts.dispatcher.becameDurable()) && this.#refusalOf(paidBy, jobId) !== null;
  }

  /** The stored answer of the idempotency key that this request has locked; null if it has none. An answer releases the locks of the request. */
  async #storedByKey(input: CommitInput): Promise<StoredAnswer | null> {
    const known = this.#parts.earlier.byKey(input);
    if (known === null) return null;
    if (known.ok && (await this.#isRefusedMeanwhile(known.value))) {
      // The refused commit deletes this key too, but may not have done so yet.
      if (input.idempotency !== null) this.#parts.journal.dropIdempotent(input.userId, input.idempotency.key, known.value);
      return null;
    }
    if (known.ok) return { state: "known", ...(await this.#accepted(input, known.value)) };
    this.#mutex.release(input.id);
    return { state: "refused", reason: known.reason };
  }

  /** Locks names for a request, its idempotency key first: so no two requests wait for each other. Locks none of them if it returns false, as `#lock` does. */
  async #lockAll(names: readonly string[], owner: string): Promise<boolean> {
    for (const name of names) {
      if (await this.#lock(name, owner)) continue;
      this.#mutex.release(owner);
      return false;
    }
    return true;
  }

  /** Waits until `owner` has locked this name; false if too many requests wait for it already, because each keeps its body in memory [LM1]. */
  async #lock(name: string, owner: string): Promise<boolean> {
    const { clock, deadlines } = this.#parts;
    const acquire = () => this.#mutex.acquire(name, owner, clock(), TIMING.reservation);
    let other = acquire();
    if (other === null) return true;
    if (!this.#waiters.take(name)) return false;
    try {
      for (; other !== null; other = acquire()) await deadlines.until(other.until, other.released);
      return true;
    } finally {
      this.#waiters.give(name);
    }
  }
}

/** The name of the lock of a request's idempotency key, if it has one. */
function idempotencyNames({ userId, idempotency }: CommitInput): string[] {
  return idempotency === null ? [] : [`idempotency ${userId}\n${idempotency.key}`];
}
