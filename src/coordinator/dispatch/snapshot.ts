import * as z from "zod";
import { FailureCause } from "../../protocol/job.ts";
import { TIMING } from "../../protocol/limits.ts";
import { executionTime } from "./claim.ts";
import { admit } from "./lifecycle.ts";
import { enqueue } from "./queue.ts";
import type { DispatchState, JobFacts, LiveJob } from "./state.ts";
import { armTicks, setTimer } from "./timers.ts";

const SavedLease = z.object({ key: z.string(), attempt: z.int().min(1), acked: z.boolean() });

/** What of a live job is written with every save; its facts are written once. */
export const Snapshot = z.object({
  attempts: z.int().min(0),
  holders: z.array(SavedLease),
  tried: z.array(z.string()),
  cause: FailureCause.nullable(),
  trustedKeys: z.array(z.string()),
  totalDue: z.number(),
  /** Waiting until then, or leased to the last holder. */
  phase: z.discriminatedUnion("kind", [z.object({ kind: z.literal("waiting"), claimDue: z.number() }), z.object({ kind: z.literal("leased") })]),
});
export type Snapshot = z.infer<typeof Snapshot>;

/** The changing half of a live job, as it is saved. Deadlines of a lease are not: after a restart they begin anew. */
export function snapshotOf(job: LiveJob): Snapshot {
  const { attempts, holders, tried, cause, trustedKeys, totalDue, phase } = job;
  return {
    attempts,
    holders: holders.map((held) => ({ ...held })),
    tried: [...tried],
    cause,
    trustedKeys: [...trustedKeys],
    totalDue,
    phase: phase.kind === "waiting" ? { kind: "waiting", claimDue: phase.claimDue } : { kind: "leased" },
  };
}

/** A saved job: its facts, its revision and its snapshot. */
export type SavedJob = { facts: JobFacts; rev: number; snapshot: Snapshot };

/**
 * Rebuilds jobs after the hub's memory was lost, before the live sockets register again with `resume` left out.
 * A lease starts as orphaned: the sockets that are still there take theirs back at once, the others have the grace time.
 * A lease that contradicts another row is dropped, and its job waits again: no job that was answered 201 may be lost.
 */
export function restore(state: DispatchState, saved: readonly SavedJob[], now: number): void {
  for (const { facts, rev, snapshot } of saved) {
    const last = snapshot.phase.kind === "leased" ? snapshot.holders.at(-1) : undefined;
    const lease = last !== undefined && !state.leases.has(last.key) ? last : undefined;
    const claimDue = snapshot.phase.kind === "waiting" ? snapshot.phase.claimDue : now + TIMING.claimWindow;
    const { attempts, holders, cause, trustedKeys, totalDue } = snapshot;
    const job: LiveJob = {
      ...facts,
      ...{ rev, attempts, holders, cause, trustedKeys, totalDue },
      tried: new Set(snapshot.tried),
      seq: state.nextSeq++,
      phase: { kind: "waiting", claimDue },
    };
    admit(state, job);
    if (lease !== undefined) {
      job.phase = { kind: "orphaned", lease, graceDue: now + TIMING.grace, executeDue: now + executionTime(job) };
      state.leases.set(lease.key, job.id);
    } else enqueue(state, job);
    setTimer(state, job);
  }
  armTicks(state, now);
}
