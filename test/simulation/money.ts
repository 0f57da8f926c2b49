// The invariants of the simulation about money, seen from outside the core.
import { LIMITS } from "../../src/protocol/limits.ts";
import { TIMING } from "../../src/protocol/times.ts";
import type {
  DispatchEvent,
  DispatchState,
  EventOf,
  OrderOutcome,
  OrderVerb,
  Payment,
  PaymentStep,
  Reduced,
  Reservation,
  RowChange,
} from "../../src/coordinator/dispatch/index.ts";
import type { Authorization } from "./chain.ts";
import type { PayingPlan } from "./paying-plan.ts";
import { Random } from "./random.ts";
import type { PaidRequest } from "./seekers.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

/**
 * What may follow a step of a payment, by what it means for the money and not by the core's own table, which has to have the same moves: nothing is settled
 * that was not asked for, nothing that may have moved is void, what has moved stays moved, and what is over stays over.
 */
const LEGAL: Record<PaymentStep, readonly PaymentStep[]> = {
  none: ["reserved"],
  reserved: ["none", "held", "covered"],
  held: ["held", "settling", "void unused"],
  settling: ["held", "void unused", "void refused", "unknown", "unresolved expired", "unresolved already_used", "settled", "credit"],
  "settling again": ["unknown", "unresolved expired", "unresolved already_used", "settled assumed", "settled", "credit", "void by_chain"],
  unknown: ["settling again", "settled", "credit", "void by_chain"],
  "unresolved expired": ["settling again", "credit", "void by_operator", "void by_chain"],
  "unresolved already_used": ["credit", "void by_operator", "void by_chain"],
  "unresolved assumed": ["credit", "void by_operator", "void by_chain"],
  "unresolved illegal_move": ["credit", "void by_operator"],
  settled: ["spent", "credit"],
  "settled assumed": ["settled", "spent assumed", "unresolved assumed"],
  "spent assumed": ["spent"],
  credit: ["covered", "spent by others"],
  covered: ["credit", "spent by balance", "spent by others", "void paid_by_credit", "void given_back"],
  spent: [],
  "spent by balance": [],
  "spent by others": ["covered"],
  "void given_back": ["covered"],
  "void unused": [],
  "void refused": [],
  "void by_operator": [],
  "void by_chain": [],
  "void paid_by_credit": [],
};

/** Every legal move, as `held → settling`. */
export const LEGAL_MOVES = Object.entries(LEGAL).flatMap(([from, all]) => all.map((to) => `${from} → ${to}`));

/** How late an alarm and a commit may make something, ms. */
const LATE = 3_000;

/**
 * Money, from outside: what was signed, what moved on the chain, what is stored; no crash erases it. The invariants:
 *
 * - M1 a payment has at most one live or completed job; another only after the one before has failed, by its credit
 * - M2 money that moved has a row that says so, or will ask: settled with a live job, spent with a completed one, else a credit, or listed for the operator
 * - M3 no job of a paid request is leased before its payment is settled, or a credit of the same payer that covers it is spent
 * - M4 no settle call without a worker that is claimed for it, unless an earlier call ended unknown; never after settled or void
 * - M5 the hub makes at most as many settle calls at once as it may · M6 no worker is claimed for longer than 20 s after its settlement has begun
 * - M7 per payer no more than 4 held payments by a submit, and never more than 32 that are not settled
 * - M8 a request that was refused has no job and no payment · M9 nothing is reserved, held or settling for longer than it may be
 * - M10 `already used` is a settlement only after an answer was lost, and then a few times a day; a refusal without doubt is final, no answer is no
 *   refusal, and a call that was not taken leaves no doubt
 * - M11 the same payment for the same thing gives the same job; for another thing it is refused
 * - M12 every move of a payment is legal
 * - M13 per payer and asset: what was settled is what was spent, and what is in balances; a balance never pays for more than a job's price
 * - M14 the operator decides about a payment that is unresolved, and about no other
 * - M15 the chain decides about a payment in doubt, and about no other; where it can be read, no settlement is assumed, and none is tried again for a job
 *   that has ended, before its payment has expired
 */
export class Money {
  readonly #world: World;
  readonly plan: PayingPlan;
  /** Chance of everything that has to do with money, so that histories without it are as they were. */
  readonly random: Random;
  /** Chance of what comes late or is cancelled, for the same reason. */
  readonly late: Random;
  /** Chance of what the operator does, so that histories without a payment in doubt are as they were. */
  readonly operator: Random;
  readonly #told = new Set<string>();
  /** Payments that the hub has set aside, because a bug asked for a move that is not legal. */
  readonly #aside = new Set<string>();
  readonly #signed = new Map<string, Authorization>();
  readonly #requests = new Map<string, PaidRequest>();
  readonly #refused = new Set<string>();
  /** By payment, the jobs that it was ever committed to pay for. */
  readonly #jobs = new Map<string, Set<string>>();
  readonly #payer = new Map<string, string>();
  /** Payments that were committed as settling; of those, the ones with a call of which the outcome is not known, and the ones whose answer was lost. */
  readonly #begun = new Set<string>();
  readonly #doubted = new Set<string>();
  readonly #lost = new Set<string>();
  /** Payments whose last call was not taken. */
  readonly #busy = new Set<string>();
  /** By key: after a write that failed, the same settlement is assumed again. */
  readonly #assumed = new Map<string, { payer: string; at: number }>();
  readonly #final = new Map<string, Payment["phase"]["kind"]>();
  /** The step that a payment is at, in the hub's memory. */
  readonly #steps = new Map<string, PaymentStep>();
  /** The jobs that a worker had begun with when they were cancelled, and those of which a worker has sent text. */
  readonly #begunJobs = new Set<string>();
  readonly #streamed = new Set<string>();
  readonly #terms = new Map<string, { digest: string; binding: string }>();
  readonly #claims = new Map<string, { jobId: string; due: number; since: number }>();
  readonly #since = new Map<string, { kind: string; at: number }>();
  /** When the time of a job began anew, because its payment was unknown for a while [PY8]. */
  readonly #renewed = new Map<string, number>();

  constructor(world: World, plan: PayingPlan, seed: number) {
    this.#world = world;
    this.plan = plan;
    this.random = new Random(seed + 0xca54);
    this.late = new Random(seed + 0x1a7f);
    this.operator = new Random(seed + 0x09e7);
  }

  // --- what the world tells ---

  signed(authorization: Authorization): void {
    this.#signed.set(authorization.key, authorization);
    this.#payer.set(authorization.key, authorization.payer);
  }

  authorization(key: string): Authorization {
    return this.#signed.get(key) ?? broken("M4", `${key} was never signed`);
  }

  requested(request: PaidRequest): void {
    this.#requests.set(request.id, request);
  }

  request(jobId: string): PaidRequest | undefined {
    return this.#requests.get(jobId);
  }

  /** When the total time of a job began, if not at its commit. */
  renewedAt(jobId: string): number | undefined {
    return this.#renewed.get(jobId);
  }

  /** The chain moved money for us: the ledger has to be waiting for it. */
  moved(key: string): void {
    const { stats, hub, trace } = this.#world;
    stats.settlements++;
    trace?.(`chain: ${key} is settled`);
    const kind = stored(hub.storedPayments.get(key))?.phase.kind ?? "nothing";
    if (kind !== "settling" && kind !== "unknown" && kind !== "unresolved") broken("M2", `${key} is settled on chain and stored as ${kind}`);
  }

  answered(request: PaidRequest, said: Reservation): void {
    const { facts } = request;
    const terms = this.#terms.get(facts.key);
    const isSame = terms === undefined || (terms.digest === facts.digest && terms.binding === facts.binding);
    if (said.state === "known") this.same(request, said.jobId);
    if (said.state === "refused") this.refused(request);
    else if (!isSame && said.state !== "reserved") broken("M11", `${request.id} is another use of ${facts.key} and is told ${said.state}`);
  }

  /** A request was answered with another job: one for the same payment and the same thing. */
  same(request: PaidRequest, otherId: string): void {
    this.#world.stats.replays++;
    const other = this.#requests.get(otherId);
    if (other?.facts.digest !== request.facts.digest || other.facts.binding !== request.facts.binding)
      broken("M11", `${request.id} for ${request.facts.binding} is answered with ${otherId} for ${other?.facts.binding}`);
  }

  /** A request was refused for certain: it has no job and holds no payment, now and later. */
  refused(request: PaidRequest): void {
    this.#world.stats.refusals++;
    this.#refused.add(request.id);
    this.#checkRefused(request.id);
  }

  #checkRefused(id: string): void {
    const { hub } = this.#world;
    if (hub.storedRows.has(id)) broken("M8", `${id} was refused and lives`);
    const outcome = hub.storedEnded.get(id)?.outcome;
    if (outcome !== undefined && (outcome.status === "completed" || outcome.cause !== "no_trusted_worker")) broken("M8", `${id} was refused and was run`);
    const key = this.#requests.get(id)?.facts.key ?? "";
    const row = stored(hub.storedPayments.get(key));
    if (row?.jobId === id) broken("M8", `${id} was refused and ${key} is ${row.phase.kind} for it`);
  }

  /** A payment is in doubt. Now and then its operator looks at the chain some time later, and decides what is certain; it may be too late [PY8]. */
  #tellOperator(key: string, isCertain: boolean): void {
    const { agenda, chain, hub } = this.#world;
    if (this.#told.has(key)) return;
    this.#told.add(key);
    if (!isCertain && this.operator.chance(0.7)) return;
    agenda.after(this.operator.between(1_000, this.operator.pick([20_000, 400_000])), () => {
      if (chain.moved.has(key)) hub.order(key, "credit");
      else if (chain.cancelled.has(key) || agenda.now > this.authorization(key).expiresAt) hub.order(key, "void");
    });
  }

  /** The hub has set a payment aside. Its money moves now and then all the same: whoever has the authorization can send it to the chain. */
  setAside(key: string): void {
    const { agenda, chain } = this.#world;
    this.#aside.add(key);
    this.#since.set(key, { kind: "unresolved", at: agenda.now });
    this.#told.delete(key);
    this.#tellOperator(key, true);
    if (this.operator.chance(0.5)) return;
    agenda.after(this.operator.between(0, 20_000), () => {
      if (chain.move(this.authorization(key), agenda.now) === null) this.moved(key);
    });
  }

  /** M14: what the operator's order has changed, and what it was told. */
  ordered(verb: OrderVerb, { key, said, was, is }: { key: string; said: OrderOutcome; was: string | undefined; is: string | undefined }): void {
    this.#world.stats.orders++;
    const due = was === "unresolved" ? "done" : was === "settling" ? "under_way" : was === undefined ? "no_such_payment" : "not_unresolved";
    if (said === "done" && verb === "credit") this.#assumed.delete(key);
    if (said !== due) broken("M14", `${key} was ${was}, and the order of ${verb} is ${said}`);
    if (is !== (said === "done" ? verb : was)) broken("M14", `${key} was ${was}, and after an order of ${verb} it is ${is}`);
  }

  /** M15: what the chain's word has changed. */
  found({ key, finding }: Pick<EventOf<"chain">, "key" | "finding">, was: Payment | null, is: Payment | null): void {
    const step = was === null ? "none" : this.#world.core.stepOf(was);
    const now = is === null ? "none" : this.#world.core.stepOf(is);
    const wasOpen = ["unknown", "settling again", "unresolved expired", "unresolved already_used", "unresolved assumed"].includes(step);
    this.#world.stats.findings++;
    if (wasOpen) this.#assumed.delete(key);
    const due = !wasOpen ? [step] : finding.kind === "void" ? ["void by_chain"] : ["settled", "credit"];
    if (!due.includes(now)) broken("M15", `${key} was ${step}, and after the chain said ${finding.kind} it is ${now}`);
    const live = [...(this.#jobs.get(key) ?? [])].filter((id) => this.#world.hub.memory?.jobs.has(id) === true);
    if (wasOpen && finding.kind === "void" && live.length > 0) broken("M15", `${key} is void by the chain's word and ${live.join()} lives on`);
    if (wasOpen && now === "settled") for (const id of live) this.#renewed.set(id, this.#world.agenda.now);
  }

  // --- before and after every event ---

  before(state: DispatchState, event: DispatchEvent): void {
    if (event.type === "progress") this.#streamed.add(event.jobId);
    if (event.type !== "cancel") return;
    const { phase } = state.jobs.get(event.jobId) ?? {};
    const lease = phase?.kind === "leased" ? phase.lease : undefined;
    // A worker that never acknowledges begins with its job at once.
    if (lease !== undefined && (lease.acked || lease.begun === true)) this.#begunJobs.add(event.jobId);
    else this.#begunJobs.delete(event.jobId);
  }

  after(state: DispatchState, event: DispatchEvent, { rows, sends, settles }: Reduced, now: number): void {
    const late = LATE + this.#world.plan.alarmLate;
    for (const row of rows) this.#checkMove(row);
    for (const key of settles) this.#checkSettle(state, event, key, now);
    for (const row of rows)
      if (row.type === "save_payment" && row.payment.phase.kind === "settling" && state.ledger.settlingByRequest.has(row.payment.key))
        this.#checkSettle(state, event, row.payment.key, now);
    if (event.type === "time") for (const row of rows) if (row.type === "save_payment") this.#checkGivenUp(row.payment, now);
    for (const send of sends) if (send.type === "assign") this.#checkAssign(state, send.jobId);
    for (const row of rows)
      if (row.type === "ended" && row.outcome.status === "failed" && row.outcome.cause === "payment_failed") this.#checkFailed(state, event, row.jobId, now);
    for (const row of rows) if (row.type === "ended" && row.outcome.status === "failed") this.#checkCause(row.jobId, row.outcome.cause, rows);
    const { stats } = this.#world;
    stats.queuedSettlements = Math.max(stats.queuedSettlements, state.ledger.settleQueue.size);
    if (event.type === "settled" && event.settlement.kind === "unknown") stats.unknownOutcomes++;
    if (event.type === "settled") this.#checkAnswer(state, event, rows, now);
    this.#checkCaps(state, event, now);
    for (const { id, phase, payment } of state.jobs.values()) {
      if (phase.kind !== "settling" || phase.claimed !== null) continue;
      const over = now - (state.ledger.payments.get(payment ?? "")?.expiresAt ?? now);
      // Two calls before its own may each have taken all their time.
      if (over > 60_000 + late) broken("M9", `${id} is not known to be paid ${over} ms after its payment expired`);
    }
    for (const worker of state.workers.values()) {
      const phase = state.jobs.get(worker.jobId ?? "")?.phase;
      if (phase?.kind !== "settling" || phase.claimed?.connId !== worker.connId) {
        this.#claims.delete(worker.key);
        continue;
      }
      const before = this.#claims.get(worker.key);
      const hasBegun = state.ledger.payments.get(state.jobs.get(worker.jobId ?? "")?.payment ?? "")?.phase.kind === "settling";
      if (before?.jobId !== worker.jobId || before?.due !== phase.releaseDue || !hasBegun)
        this.#claims.set(worker.key, { jobId: worker.jobId ?? "", due: phase.releaseDue, since: now });
      else if (now > before.since + TIMING.hold + late) broken("M6", `${worker.key} is claimed for ${worker.jobId} for ${now - before.since} ms`);
    }
    for (const [key, { kind, at }] of this.#since) {
      if (kind === "reserved" && now > at + TIMING.reservation + late) broken("M9", `${key} is reserved for ${now - at} ms`);
      if (kind === "held" && now > at + TIMING.total + late) broken("M9", `${key} is held for ${now - at} ms`);
      if (kind === "settling" && now > at + TIMING.settleReport + late) broken("M9", `${key} is settling for ${now - at} ms`);
    }
  }

  #checkMove(row: RowChange): void {
    if (row.type === "save_payment") this.#moves(row.payment.key, this.#world.core.stepOf(row.payment));
    else if (row.type === "drop_payment") this.#moves(row.key, "none");
  }

  #moves(key: string, to: PaymentStep): void {
    const from = this.#steps.get(key) ?? "none";
    // A row whose balance has changed stays at its step.
    if (from === to && !LEGAL[from].includes(to)) return;
    if (!LEGAL[from].includes(to)) broken("M12", `${key} moves from ${from} to ${to}`);
    this.#steps.set(key, to);
    this.#world.stats.moved(`${from} → ${to}`);
  }

  #checkCaps(state: DispatchState, event: DispatchEvent, now: number): void {
    const unsettled = new Map<string, number>();
    const held = new Map<string, number>();
    const count = (of: Map<string, number>, payer: string) => of.set(payer, (of.get(payer) ?? 0) + 1);
    for (const { key, phase, expiresAt, jobId } of state.ledger.payments.values()) {
      if (phase.kind !== "held" && phase.kind !== "settling" && phase.kind !== "unknown") continue;
      if (expiresAt <= now) continue;
      const payer = this.#payer.get(key) ?? "";
      count(unsettled, payer);
      if ((unsettled.get(payer) ?? 0) > LIMITS.unsettledPayments) broken("M7", `${payer} has more than ${LIMITS.unsettledPayments} payments on the way`);
      if (state.jobs.get(jobId)?.phase.kind === "waiting") count(held, payer);
    }
    if (event.type !== "submit" || event.payment === undefined) return;
    const waits = state.jobs.get(event.job.id)?.phase.kind === "waiting";
    const payer = this.#payer.get(event.payment.key) ?? "";
    if (waits && (held.get(payer) ?? 0) > LIMITS.heldPayments) broken("M7", `${payer} has more than ${LIMITS.heldPayments} held payments`);
  }

  #checkSettle(state: DispatchState, event: DispatchEvent, key: string, now: number): void {
    const final = this.#final.get(key);
    if (final !== undefined) broken("M4", `${key} is settled again, it is ${final}`);
    const payment = state.ledger.payments.get(key);
    if (payment?.phase.kind !== "settling") broken("M4", `${key} is settled while it is ${payment?.phase.kind}`);
    if (this.#world.hub.calls.has(key)) broken("M4", `${key} is settled twice at once`);
    const job = state.jobs.get(payment.jobId);
    if (state.settings.chain && job === undefined && now < payment.expiresAt) broken("M15", `${key} is settled again for ${payment.jobId}, which has ended`);
    if (this.#begun.has(key)) {
      if (event.type === "time" && payment.expiresAt <= now && job !== undefined) broken("M9", `${key} has expired and ${job.id} still waits for it`);
      return;
    }
    const claimed = job?.phase.kind === "settling" ? job.phase.claimed : null;
    if (claimed === null || state.workers.get(claimed.key)?.jobId !== job?.id) broken("M4", `${key} is settled without a worker for ${payment.jobId}`);
  }

  #checkAssign(state: DispatchState, jobId: string): void {
    const request = this.#requests.get(jobId);
    const key = state.jobs.get(jobId)?.payment ?? null;
    if (request === undefined) return key === null ? undefined : broken("M3", `the free ${jobId} is paid by ${key}`);
    const payment = state.ledger.payments.get(key ?? "");
    if (payment === undefined) return broken("M3", `${jobId} is assigned and not paid`);
    const { order } = request;
    const { phase } = payment;
    if (phase.kind !== "settled" && phase.kind !== "covered") return broken("M3", `${jobId} is assigned while ${key} is ${phase.kind}`);
    const parts = phase.kind === "covered" ? phase.parts : [{ key: payment.key, amount: payment.amount }];
    const { chain } = this.#world;
    for (const part of parts) {
      const isAssumed = chain.cancelled.has(part.key) && this.#lost.has(part.key) && (!state.settings.chain || this.#assumed.has(part.key));
      const isOurs = chain.moved.has(part.key) || isAssumed;
      if (!isOurs) broken("M3", `${jobId} is assigned and ${part.key} never moved`);
      const { payer, asset } = this.authorization(part.key);
      if (asset !== order.asset) broken("M3", `${jobId} is to be paid in ${order.asset} and is paid in ${asset}`);
      if (payer !== order.payer) broken("M3", `${jobId} of ${order.payer} is paid by ${payer}`);
    }
    const paid = parts.reduce((sum, { amount }) => sum + Number(amount), 0);
    if (paid !== order.amount) broken("M3", `${jobId} costs ${order.amount} and is paid with ${paid}`);
  }

  #checkAnswer(state: DispatchState, { key, settlement, by, stored: row }: EventOf<"settled">, rows: readonly RowChange[], now: number): void {
    const payment = state.ledger.payments.get(key);
    const saved = rows.findLast((row) => row.type === "save_payment" && row.payment.key === key);
    const kind = saved?.type === "save_payment" ? saved.payment.phase.kind : (payment ?? row)?.phase.kind;
    // The hub does not wait for this call any more. Only that money moved is news then.
    if (saved === undefined && settlement.kind !== "settled" && (by === "request" || payment?.phase.kind !== "settling")) return;
    const doubted = this.#doubted.has(key);
    const jobs = [...(this.#jobs.get(key) ?? [])].filter((id) => state.jobs.has(id));
    const isOpen = kind === "unknown" || kind === "unresolved";
    this.#busy.delete(key);
    switch (settlement.kind) {
      case "unknown":
        this.#doubted.add(key);
        if (settlement.lost) this.#lost.add(key);
        if (!isOpen) broken("M10", `the outcome of ${key} is unknown and it is ${kind}`);
        return;
      case "settled":
        if (kind !== "settled" && kind !== "credit" && kind !== "spent" && kind !== "covered") broken("M10", `${key} is settled and it is ${kind}`);
        // The money was known to have moved already.
        if (saved === undefined) return;
        // What is confirmed is not assumed any more, and its job has its time already.
        if (!this.#assumed.delete(key) && doubted) for (const id of jobs) this.#renewed.set(id, now);
        return;
      case "already_used":
        if (kind === "settled") {
          if (state.settings.chain) broken("M15", `${key} is used and it is settled, though the chain can tell`);
          this.#checkAssumed(key, now);
          for (const id of jobs) this.#renewed.set(id, now);
        } else if (!isOpen || (kind === "unknown" && !(state.settings.chain && doubted))) broken("M10", `${key} is used and it is ${kind}`);
        else if (state.settings.chain && doubted) this.#doubted.add(key);
        else if (jobs.length > 0) broken("M10", `${key} is used, nobody knows for what, and ${jobs.join()} lives on`);
        return;
      case "refused":
        if (doubted ? !isOpen : kind !== "void") broken("M10", `${key} was refused and is ${kind}`);
        if (state.settings.chain && doubted && kind === "unknown") {
          const ended = rows.filter((row) => row.type === "ended" && this.#jobs.get(key)?.has(row.jobId) === true);
          return ended.length === 0 ? undefined : broken("M15", `${key} was refused after a doubt, and its job ends before the chain has decided`);
        }
        if (jobs.length > 0) broken("M10", `${key} was refused and ${jobs.join()} lives on`);
        return;
      case "not_asked":
        if (doubted) return isOpen ? undefined : broken("M10", `${key} was not asked for, after a doubt, and is ${kind}`);
        if (kind !== "held" && !(kind === "void" && jobs.length === 0)) broken("M10", `${key} was not asked for and is ${kind}`);
        this.#begun.delete(key);
        this.#busy.add(key);
        return;
      default:
        settlement satisfies never;
    }
  }

  /** Nobody has reported how a settle call ended: from then on its answer counts as lost. */
  #checkGivenUp({ key, phase, lostAnswer }: Payment, now: number): void {
    const since = this.#since.get(key);
    if ((phase.kind !== "unknown" && phase.kind !== "unresolved") || !lostAnswer || since?.kind !== "settling") return;
    if (now < since.at + TIMING.settle) broken("M9", `${key} is given up ${now - since.at} ms after it began to be settled`);
    this.#doubted.add(key);
    this.#lost.add(key);
  }

  #checkAssumed(key: string, now: number): void {
    if (!this.#lost.has(key)) broken("M10", `${key} is used and it is settled, though no answer was lost`);
    const payer = this.#payer.get(key) ?? "";
    this.#assumed.set(key, { payer, at: now });
    const today = [...this.#assumed.values()].filter(({ at }) => at > now - TIMING.parkHalving);
    const own = today.filter((other) => other.payer === payer).length;
    if (own > LIMITS.assumedPerPayer || today.length > LIMITS.assumedPerHub)
      broken("M10", `${own} settlements of ${payer} and ${today.length} in all were assumed in a day`);
  }

  /** JB5: that a job found no worker means that no money has moved for it. */
  #checkCause(jobId: string, cause: string, rows: readonly RowChange[]): void {
    const key = this.#requests.get(jobId)?.facts.key;
    const saved = rows.findLast((row) => row.type === "save_payment" && row.payment.key === key && row.payment.jobId === jobId);
    const step = saved?.type === "save_payment" ? this.#world.core.stepOf(saved.payment) : "none";
    const isPaid = step === "credit" || step === "void given_back" || step === "spent by others" || step === "unresolved assumed";
    if (cause === "cancelled" && isPaid && step !== "unresolved assumed" && this.#begunJobs.has(jobId))
      broken("JB13", `${jobId} is cancelled while its worker is at it, and is ${step}`);
    if (cause === "no_eligible_worker" && isPaid) broken("JB5", `${jobId} is ${step} and fails with no_eligible_worker`);
    if (cause === "worker_unavailable" && !isPaid) broken("JB5", `${jobId} is ${step} and fails with worker_unavailable`);
  }

  #checkFailed(state: DispatchState, event: DispatchEvent, jobId: string, now: number): void {
    if (event.type === "settled" && (event.settlement.kind === "refused" || event.settlement.kind === "already_used")) return;
    if (event.type === "chain" && event.finding.kind === "void") return;
    const key = [...this.#jobs].find(([, ids]) => ids.has(jobId))?.[0] ?? "";
    if (this.#busy.has(key) || this.#aside.has(key)) return;
    if (now < this.authorization(key).expiresAt) broken("M10", `${jobId} fails with payment_failed before ${key} is known or has expired`);
    if (state.ledger.payments.get(key)?.phase.kind === "settled") broken("M10", `${jobId} fails with payment_failed though it is paid`);
  }

  // --- after every commit ---

  /** The memory is gone. */
  forgotten(): void {
    this.#claims.clear();
    this.#steps.clear();
    for (const row of this.#rows()) this.#steps.set(row.key, this.#world.core.stepOf(row));
  }

  /**
   * With the memory went the answers of the hub's own calls, so what it was settling is in doubt; a request tells its answer to this memory too, if its time is
   * not over. A worker that was claimed is released: its job has until now, and one more claim window.
   */
  booted(now: number): void {
    for (const { key, phase } of this.#rows()) {
      if (phase.kind !== "settling" || (phase.by === "request" && phase.until > now)) continue;
      this.#moves(key, "unknown");
      this.#doubted.add(key);
      this.#lost.add(key);
      this.#since.delete(key);
    }
    for (const since of this.#since.values()) if (since.kind === "held") since.at = Math.max(since.at, now - TIMING.claimWindow);
  }

  committed(rows: readonly RowChange[], now: number): void {
    const touched = new Set<string>();
    for (const row of rows) {
      if (row.type === "save_payment") this.#saved(row.payment, touched, now);
      else if (row.type === "drop_payment") this.#dropped(row.key, touched);
      else if (row.type === "save") this.#linked(row.jobId, touched);
      else if (row.type === "ended") {
        for (const [key, ids] of this.#jobs) if (ids.has(row.jobId)) touched.add(key);
        if (this.#refused.has(row.jobId)) this.#checkRefused(row.jobId);
      }
    }
    for (const row of rows) if (row.type === "save_payment" && this.#world.core.isInDoubt(row.payment)) this.#world.chainReader.note(row.payment.key);
    for (const key of touched) this.#checkRow(key);
    if (touched.size > 0) this.#checkSums();
  }

  /** M13: by the stored rows alone. */
  #checkSums(): void {
    const sums = new Map<string, { settled: number; spent: number; left: number; lent: number; taken: number }>();
    for (const row of this.#rows()) {
      const { phase, amount, credit, payer, asset } = row;
      const of = `${payer} in ${asset}`;
      const sum = sums.get(of) ?? { settled: 0, spent: 0, left: 0, lent: 0, taken: 0 };
      sums.set(of, sum);
      const step = this.#world.core.stepOf(row);
      const price = Number(amount);
      const isOwn = ["settled", "settled assumed", "spent", "spent assumed"].includes(step);
      if (isOwn || step === "credit" || step === "spent by balance" || step === "spent by others" || (phase.kind === "covered" && phase.own !== null))
        sum.settled += price;
      if (isOwn || step === "covered" || step === "spent by balance" || step === "void paid_by_credit") sum.spent += price;
      if (phase.kind === "covered") sum.taken += phase.parts.reduce((all, part) => all + Number(part.amount), 0);
      sum.left += Number(credit?.left ?? 0);
      sum.lent += Number(credit?.lent ?? 0);
      if (credit !== undefined && (Number(credit.left) < 0 || Number(credit.lent) < 0 || Number(credit.left) + Number(credit.lent) > price))
        broken("M13", `${row.key} has ${JSON.stringify(credit)} of ${price}`);
    }
    for (const [of, { settled, spent, left, lent, taken }] of sums) {
      if (settled !== spent + left) broken("M13", `${of}: ${settled} are settled, ${spent} are spent and ${left} are left`);
      if (lent !== taken) broken("M13", `${of}: ${lent} are lent and ${taken} are taken`);
    }
  }

  #saved(payment: Payment, touched: Set<string>, now: number): void {
    const { key, phase, digest, binding } = payment;
    touched.add(key);
    if (phase.kind === "settling") this.#begun.add(key);
    if (!["reserved", "held", "settling", "unknown", "unresolved"].includes(phase.kind)) this.#final.set(key, phase.kind);
    if (phase.kind === "unresolved" && this.#since.get(key)?.kind !== phase.kind) this.#tellOperator(key, phase.reason === "assumed");
    if (phase.kind === "settling" || this.#since.get(key)?.kind !== phase.kind) this.#since.set(key, { kind: phase.kind, at: now });
    if (phase.kind === "covered") this.#world.stats.creditsSpent++;
    const terms = this.#terms.get(key);
    if (terms !== undefined && (terms.digest !== digest || terms.binding !== binding)) broken("M11", `${key} changes its terms to ${binding}`);
    this.#terms.set(key, { digest, binding });
    if (this.#refused.has(payment.jobId)) this.#checkRefused(payment.jobId);
  }

  #dropped(key: string, touched: Set<string>): void {
    touched.add(key);
    this.#since.delete(key);
    this.#terms.delete(key);
    if (this.#begun.has(key) || this.#final.has(key)) broken("M2", `the row of ${key} is dropped after it was settling`);
  }

  #linked(jobId: string, touched: Set<string>): void {
    const row = this.#world.hub.storedRows.get(jobId);
    if (row === undefined) return;
    const key = paymentOf(row.snapshot);
    if (this.#refused.has(jobId)) this.#checkRefused(jobId);
    if (key === null) return this.#requests.has(jobId) ? broken("M3", `${jobId} is stored without its payment`) : undefined;
    const ids = this.#jobs.get(key) ?? new Set();
    this.#jobs.set(key, ids.add(jobId));
    touched.add(key);
  }

  /** M1, M2: what is stored of a payment, of its jobs and on the chain fits together. */
  #checkRow(key: string): void {
    const { hub, chain } = this.#world;
    const row = stored(hub.storedPayments.get(key));
    let live = 0;
    let completed = 0;
    for (const id of this.#jobs.get(key) ?? []) {
      if (hub.storedRows.has(id)) live++;
      else if (hub.storedEnded.get(id)?.outcome.status === "completed") completed++;
    }
    if (live + completed > 1) broken("M1", `${key} has ${live} live and ${completed} completed jobs: ${[...(this.#jobs.get(key) ?? [])].join()}`);
    const kind = row?.phase.kind ?? "nothing";
    const now = `${key} is ${kind} with ${live} live and ${completed} completed jobs`;
    switch (kind) {
      case "settled":
      case "covered":
      case "held":
        if (live !== 1 || !hub.storedRows.has(row?.jobId ?? "")) broken(kind === "held" ? "M9" : "M2", now);
        break;
      case "settling":
      case "unknown":
        if (completed > 0) broken("M3", now);
        break;
      case "spent":
      case "void": {
        const isOwnJobs = row?.phase.kind === "spent" ? row.phase.by !== "others" : row?.phase.kind === "void" && row.phase.reason === "paid_by_credit";
        const isSpent = completed === 1 || this.#isSpentUnfinished(row?.jobId ?? "");
        if (isOwnJobs ? !isSpent || live > 0 : live + completed > 0) broken("M2", now);
        break;
      }
      default:
        if (live + completed > 0) broken("M1", now);
    }
    if (chain.moved.has(key) && ["nothing", "reserved", "held", "void"].includes(kind)) broken("M2", `${key} is settled on chain and stored as ${kind}`);
    if (kind === "settling" || kind === "unknown" || kind === "held") {
      for (const id of this.#jobs.get(key) ?? []) {
        const { phase } = JSON.parse(hub.storedRows.get(id)?.snapshot ?? '{"phase":{"kind":"none"}}') as { phase: { kind: string } };
        if (phase.kind === "leased") broken("M3", `${id} is leased while ${key} is ${kind}`);
      }
    }
  }

  /** True if a job was worth its money though it did not complete: cancelled while its worker was at it [JB13], or it streamed text [PY9]. */
  #isSpentUnfinished(jobId: string): boolean {
    const outcome = this.#world.hub.storedEnded.get(jobId)?.outcome;
    if (outcome?.status !== "failed") return false;
    return (outcome.cause === "cancelled" && this.#begunJobs.has(jobId)) || (outcome.cause === "deadline_exceeded" && this.#streamed.has(jobId));
  }

  *#rows(): Generator<Payment> {
    for (const text of this.#world.hub.storedPayments.values()) yield JSON.parse(text) as Payment;
  }

  /** With the faults gone for long enough nothing is under way; what nobody can know any more is only asked for again. */
  checkRest(): number {
    const { agenda, stats } = this.#world;
    let open = 0;
    for (const row of this.#rows()) {
      this.#checkRow(row.key);
      const { kind } = row.phase;
      if (row.credit !== undefined) stats.credits++;
      if (kind === "void" || kind === "spent" || kind === "credit") continue;
      if (row.phase.kind === "unresolved" && row.phase.retryDue === null) {
        stats.unresolved++;
        continue;
      }
      const isAsked = (kind === "unresolved" || kind === "settling") && row.expiresAt < agenda.now && this.#doubted.has(row.key);
      if (!isAsked) broken("M9", `${row.key} is ${kind} at rest`);
      open++;
    }
    return open;
  }
}

function stored(text: string | undefined): Payment | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Payment);
}

/** The payment in a saved snapshot. */
function paymentOf(snapshot: string): string | null {
  return (JSON.parse(snapshot) as { payment: string | null }).payment;
}
