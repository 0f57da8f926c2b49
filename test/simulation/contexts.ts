// Contexts of models in the simulation: which jobs fit which worker [JB5].
import type { DispatchEvent, DispatchState, JobEnd, LiveJob, Reduced, RowChange, Worker } from "../../src/coordinator/dispatch/index.ts";
import { suits } from "./indexes.ts";
import { isFinal } from "./market.ts";
import { Random } from "./random.ts";
import { broken } from "./violation.ts";
import type { World } from "./world.ts";

/** Contexts of the workers and sizes of the jobs, where a history has them: what is larger than its worker's context does not fit. */
export type ContextPlan = { contexts: Readonly<Record<string, number>>; sizes: Readonly<Record<string, number>> };

/** Small numbers, so that equal ones are common; a context of 0 is one that was not announced. Of its own stream of chance. */
export function contextPlanOf(seed: number, workers: readonly { key: string }[], jobs: readonly { id: string; jobType: string }[]): ContextPlan {
  const random = new Random(seed + 0xc0de);
  return {
    contexts: Object.fromEntries(workers.map(({ key }) => [key, random.pick([0, 1, 2, 2, 4])])),
    sizes: Object.fromEntries(jobs.map(({ id, jobType }) => [id, jobType === "TASK" ? 0 : random.pick([0, 1, 2, 3, 5])])),
  };
}

/**
 * JB5: a job that did not fit goes to a worker that announces a larger context, to no other, if the word of the one who said so counts; it ends where there
 * is none and JB11 lets it end. What was too small is written down here by what the sockets announced, and is durable when the turn is.
 */
export class Contexts {
  readonly #world: World;
  #tooSmall = new Map<string, number>();
  #durable = new Map<string, number>();
  readonly #everTold = new Set<string>();
  /** The job that this event says does not fit, whether it must end by that, and whether it has had its attempts. */
  #told: { jobId: string; isFinal: boolean; isLast: boolean } | null = null;

  constructor(world: World) {
    this.#world = world;
  }

  before(state: DispatchState, event: DispatchEvent): void {
    this.#told = null;
    const tells = (event.type === "failed" && event.cause === "context_length_exceeded") || (event.type === "reject" && event.tooLong === true);
    if (!tells) return;
    const job = state.jobs.get(event.jobId);
    if (job?.phase.kind !== "leased" || job.phase.connId !== event.connId || !state.keyByConn.has(event.connId)) return;
    if (event.type === "failed" && event.attempt !== job.phase.lease.attempt) return;
    this.#world.stats.tooLong++;
    this.#everTold.add(job.id);
    const teller = state.workers.get(job.phase.lease.key);
    if (teller === undefined) return;
    const before = this.#tooSmall.get(job.id);
    const size = Math.max(before ?? 0, this.#announced(event.connId));
    const able = [...state.workers.values()].filter((worker) => suits(state, { ...job, outgrown: null }, worker));
    const isPrivate = job.privacyClass === "PRIVATE";
    const isLarger = able.some((worker) => this.#announced(worker.connId) > size && (isPrivate || worker.network !== teller.network));
    const left = able.filter((worker) => worker !== teller && !worker.silent && !job.tried.has(worker.key));
    const denials = [...job.denials, teller];
    const isConfirmed = denials.some(({ network }) => network !== teller.network || network !== denials[0]?.network);
    const counts = isPrivate || teller.proven || isConfirmed || !left.some(({ proven }) => proven);
    const ends = !isLarger && isFinal(state, job, denials, teller.key);
    if (!isLarger) this.#tooSmall.delete(job.id);
    else if (counts) this.#tooSmall.set(job.id, size);
    if (ends) this.#tooSmall.set(job.id, size);
    this.#told = { jobId: job.id, isFinal: ends, isLast: event.type === "failed" && job.attempts >= 3 };
  }

  after(state: DispatchState, { rows, sends }: Reduced): void {
    for (const row of rows) if (row.type === "ended") this.#checkEnd(row, state);
    for (const send of sends) {
      const worker = send.type === "assign" ? state.workers.get(state.keyByConn.get(send.connId) ?? "") : undefined;
      if (send.type === "assign" && worker !== undefined && !this.#hasRoom(send.jobId, worker))
        broken(
          "JB5",
          `${send.jobId} goes to ${worker.key}, whose context is ${this.#announced(worker.connId)}; ${this.#tooSmall.get(send.jobId)} was too small`,
        );
    }
    if (this.#told === null) return;
    const { jobId, isFinal: ends, isLast } = this.#told;
    const lives = state.jobs.has(jobId);
    if (lives && ends) broken("JB5", `${jobId} fits nobody's context and lives on`);
    if (!lives && !ends && !isLast) broken("JB5", `${jobId} ends though a larger context, or another worker to ask, is there`);
  }

  #checkEnd({ jobId, outcome }: JobEnd, state: DispatchState): void {
    const isContext = outcome.status === "failed" && outcome.cause === "context_length_exceeded";
    if (isContext && !this.#everTold.has(jobId)) broken("JB5", `${jobId} ends with context_length_exceeded, which nobody said`);
    if (state.jobs.has(jobId)) broken("I4", `${jobId} ended and lives`);
  }

  committed(rows: readonly RowChange[]): void {
    for (const row of rows) {
      if (row.type !== "save" && row.type !== "ended") continue;
      const size = this.#tooSmall.get(row.jobId);
      if (size !== undefined) this.#durable.set(row.jobId, size);
      else this.#durable.delete(row.jobId);
    }
  }

  /** The hub's memory is rebuilt: what was said in a turn that was lost was not said. */
  booted(saved: readonly Pick<LiveJob, "id" | "outgrown">[]): void {
    this.#tooSmall = new Map(this.#durable);
    for (const { id, outgrown } of saved)
      if ((this.#durable.get(id) ?? null) !== outgrown) broken("JB5", `${id} outgrew ${this.#durable.get(id)}, restored is ${outgrown}`);
  }

  #hasRoom(jobId: string, worker: Worker): boolean {
    const tooSmall = this.#tooSmall.get(jobId);
    return tooSmall === undefined || this.#announced(worker.connId) > tooSmall;
  }

  #announced(connId: string): number {
    return this.#world.hub.sockets.get(connId)?.attachment?.context ?? 0;
  }
}
