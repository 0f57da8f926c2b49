// The saved form of a live job, and how jobs are rebuilt from it. It lets a job survive the loss of the hub's memory.
import * as z from "zod";
import { FailureCause } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/times.ts";
import { addJob } from "./lifecycle.ts";
import { paymentOf } from "./ledger.ts";
import { owedPayment } from "./payment-moves.ts";
import { keepUntilKnown } from "./settlement.ts";
import { beginWork } from "./standing.ts";
import { armTicks, type DispatchState, executionTime, type JobFacts, type LiveJob, setTimer } from "./state.ts";
import { enqueue } from "./workers.ts";

const SavedLease = z.object({
  key: z.string(),
  attempt: z.int().min(1),
  acked: z.boolean(),
  begun: z.literal(true).exactOptional(),
  network: z.string().exactOptional(),
});
const SavedDenial = z.object({ key: z.string(), network: z.string(), proven: z.boolean() });

/** The part of a live job that every save writes. Four of its facts are in it, because they have no column; the others are written once. */
export const Snapshot = z.object({
  attempts: z.int().min(0),
  // An earlier hub did not save it.
  started: z.boolean().exactOptional(),
  streamed: z.boolean().exactOptional(),
  holders: z.array(SavedLease),
  tried: z.array(z.string()),
  struck: z.array(z.string()),
  // An earlier hub saved neither of these.
  denials: z.array(SavedDenial).catch([]),
  network: z.string().catch(""),
  model: z.string().exactOptional(),
  isChat: z.literal(true).exactOptional(),
  // A cause that only a newer hub knows still means that an attempt failed.
  cause: FailureCause.nullable().catch("worker_error"),
  message: z.string().nullable(),
  outgrown: z.number().nullable(),
  payment: z.string().nullable(),
  trustedKeys: z.array(z.string()),
  totalDue: z.number(),
  /** Waiting until `claimDue`, or leased to the last holder; `graceDue` is set while its socket is gone. */
  phase: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("waiting"), claimDue: z.number() }),
    z.object({ kind: z.literal("settling"), claimDue: z.number() }),
    z.object({ kind: z.literal("leased"), executeDue: z.number(), graceDue: z.number().optional() }),
  ]),
});
export type Snapshot = z.infer<typeof Snapshot>;

/**
 * The changing part of a live job, as it is saved. A lease keeps its deadlines: an idle hub loses its memory every 10 s, and if deadlines started again
 * each time, none longer than that would ever pass. Renewals by `job_progress` are saved every few seconds.
 */
export function snapshotOf(job: LiveJob): Snapshot {
  const { attempts, started, streamed, holders, tried, struck, denials, network, model, isChat, payment, cause, message, outgrown, trustedKeys, totalDue } =
    job;
  return {
    attempts,
    started,
    streamed,
    holders: holders.map((holder) => ({ ...holder })),
    tried: [...tried],
    struck: [...struck],
    denials: [...denials],
    network,
    payment,
    cause,
    message,
    outgrown,
    trustedKeys: [...trustedKeys],
    totalDue,
    phase: savedPhase(job),
    ...(model !== undefined && { model }),
    ...(isChat === true && { isChat }),
  };
}

function savedPhase({ phase, windowDue }: LiveJob): Snapshot["phase"] {
  switch (phase.kind) {
    case "waiting":
      return { kind: "waiting", claimDue: phase.claimDue };
    case "settling":
      return { kind: "settling", claimDue: windowDue };
    case "leased":
      return { kind: "leased", executeDue: phase.executeDue };
    case "orphaned":
      return { kind: "leased", executeDue: phase.executeDue, graceDue: phase.graceDue };
    default:
      return phase satisfies never;
  }
}

/** A saved job: the facts that the snapshot does not have, its revision and its snapshot. */
export type SavedJob = { facts: Omit<JobFacts, "trustedKeys" | "network" | "model" | "isChat">; rev: number; snapshot: Snapshot };

/**
 * Rebuilds jobs after the hub lost its memory, before the open sockets register again with `resume` left out.
 * A lease starts as orphaned: sockets that are still open take theirs back at once, the others have the grace time.
 * A lease that contradicts another row is dropped, and its job waits again: no job that was answered 201 may be lost.
 * No saved time lasts longer than one that began now would, because the clock that set it may have been set back since.
 */
export function restore(state: DispatchState, saved: readonly SavedJob[], now: number): void {
  for (const { facts, rev, snapshot } of saved) {
    const last = snapshot.phase.kind === "leased" ? snapshot.holders.at(-1) : undefined;
    const lease = last !== undefined && !state.leases.has(last.key) ? last : undefined;
    const claimDue = Math.min(snapshot.phase.kind !== "leased" ? snapshot.phase.claimDue : windowOf(facts, snapshot, now), now + TIMING.claimWindow);
    const { started = snapshot.holders.length > 0, streamed = false, payment } = snapshot;
    // The end of a job with a payment may be later: while the outcome is unknown it is the end of the authorization.
    const totalDue = payment === null ? Math.min(snapshot.totalDue, now + TIMING.total) : snapshot.totalDue;
    const job: LiveJob = {
      ...facts,
      ...snapshot,
      rev,
      started,
      streamed,
      totalDue,
      payer: state.ledger.payments.get(payment ?? "")?.payer ?? null,
      tried: new Set(snapshot.tried),
      struck: new Set(snapshot.struck),
      seq: state.nextSeq++,
      windowDue: claimDue,
      savedExecuteDue: snapshot.phase.kind === "leased" ? snapshot.phase.executeDue : 0,
      graceSaved: snapshot.phase.kind === "leased" && snapshot.phase.graceDue !== undefined,
      phase: { kind: "waiting", claimDue },
    };
    addJob(state, job);
    if (lease !== undefined && snapshot.phase.kind === "leased") {
      const executeDue = Math.min(snapshot.phase.executeDue, now + executionTime(job));
      // Without this bound each wake-up would grant the grace time again: after the execution time only a moment is left.
      const graceDue = Math.min(now + TIMING.grace, snapshot.phase.graceDue ?? Math.max(executeDue, now + TIMING.ack));
      job.phase = { kind: "orphaned", lease, graceDue, executeDue };
      state.leases.set(lease.key, job.id);
      if (lease.network !== undefined) beginWork(state, lease.network, lease.key, now);
    } else if (snapshot.phase.kind === "settling" && owedPayment(state, job) === undefined) {
      // The claimed worker is free again. The request tells what became of the payment, or the facilitator is asked.
      job.phase = { kind: "settling", claimed: null, releaseDue: now };
      const payment = paymentOf(state.ledger, job);
      if (payment !== undefined && payment.doubts > 0) keepUntilKnown(state, job, payment);
    } else enqueue(state, job);
    setTimer(state, job);
  }
  armTicks(state, now);
}

/** When the claim window of a leased job ends: it begins at the commit, and again after a failed attempt. */
function windowOf(facts: SavedJob["facts"], { cause }: Snapshot, now: number): number {
  return (cause === null ? facts.createdAt : now) + TIMING.claimWindow;
}
