// What free and paid commits share: the search for a commit that came before, and the count of the requests that wait for the same job. On a job's way: commit.
import type { Result } from "../../protocol/result.ts";
import { utf8Length } from "../../protocol/text.ts";
import type { DispatchState, JobFacts, LiveJob } from "../dispatch/index.ts";
import { wideNetworkOf } from "../rates/network.ts";
import { findResult, wasRefused } from "../store/jobs.ts";
import type { RecentJobs } from "../recent-jobs.ts";
import type { CancelTokens } from "./cancel-tokens.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Journal } from "./journal.ts";
import type { CommitInput, StorageRefusal } from "./rpc.ts";
import type { Origin } from "./storage-room.ts";

/** What every commit needs of the hub. */
export type CommitParts = {
  journal: Journal;
  dispatcher: Dispatcher;
  clock: () => number;
  idempotencySince: () => number;
  cancelTokens: CancelTokens;
  repeated: RepeatedCommits;
  earlier: EarlierCommits;
  /** The names of the models that are online. */
  models: () => string[];
  /** Why a new commit of this origin is refused before it, or its money, is looked at; null if it is not. */
  refusal: (origin: Origin) => { reason: "queue_full" } | StorageRefusal | null;
  job: (id: string, wait: number, client?: string) => Promise<string | null>;
};

/** Who a commit comes from. `payer` is left out while it is free or not verified. */
export function originOf({ client = "" }: CommitInput, payer = ""): Origin {
  return { client, payer };
}

/** The facts of a commit that dispatch needs. */
export function factsOf(input: CommitInput, createdAt: number): JobFacts {
  const { id, jobType, taskType, model, isChat, policy, privacyClass, userId, trustedKeys, payload, client = "" } = input;
  const kind = { ...(taskType !== undefined && { taskType }), ...(model !== undefined && { model }), ...(isChat === true && { isChat }) };
  const ofJob = { payloadBytes: utf8Length(payload), createdAt, network: wideNetworkOf(client) };
  return { id, jobType, policy, privacyClass, userId, trustedKeys, ...ofJob, ...kind };
}

/** What is known of a commit that came before: the id of its job, or why it is refused. */
type Known = Result<string, "no_trusted_worker" | "idempotency_key_reused">;

type EarlierParts = Pick<CommitParts, "journal" | "dispatcher" | "idempotencySince"> & { recent: RecentJobs; db: () => D1Database };

/** Finds the jobs of commits that came before. A commit whose answer was lost is sent again [API5]. */
export class EarlierCommits {
  readonly #parts: EarlierParts;

  constructor(parts: EarlierParts) {
    this.#parts = parts;
  }

  /** The job that is stored under the idempotency key of this commit; null if it has no key, or nothing is stored under it [API5]. */
  byKey({ userId, idempotency }: CommitInput): Result<string, "idempotency_key_reused"> | null {
    if (idempotency === null) return null;
    const { dispatcher, journal, idempotencySince } = this.#parts;
    const { key, fingerprint } = idempotency;
    const stored = dispatcher.pendingIdempotent(userId, key) ?? journal.idempotent(userId, key, idempotencySince());
    if (stored === null) return null;
    return stored.fingerprint === fingerprint ? { ok: true, value: stored.jobId } : { ok: false, reason: "idempotency_key_reused" };
  }

  /** The job of this commit in the hub, if it came before. */
  known(input: CommitInput): Known | null {
    const { id, again } = input;
    const { dispatcher, journal, recent } = this.#parts;
    const stored = this.byKey(input);
    if (stored !== null) return stored;
    if (dispatcher.state.jobs.has(id)) return { ok: true, value: id };
    const ended = recent.get(id);
    // The router has just made the id of a first delivery, so no row can have it. An earlier router does not say which delivery it is.
    const row = again === false ? null : journal.result(id);
    if (row === null && ended === undefined) return null;
    return knownJob(id, row === null ? ended?.refused === true : wasRefused(row));
  }

  /** The job of this commit in D1, if it came before: the job may have ended and left the hub. @throws {StoreUnavailable} */
  async recorded(id: string): Promise<Known | null> {
    const row = await findResult(this.#parts.db(), id);
    if (row === null) return null;
    return knownJob(id, wasRefused(row));
  }

  /** True if this same commit was refused before, because no trusted worker was connected [JB8]. @throws {StoreUnavailable} */
  async refusedBefore(input: CommitInput): Promise<boolean> {
    if (input.again !== true) return false;
    const known = this.known({ ...input, idempotency: null }) ?? (await this.recorded(input.id));
    return known?.ok === false && known.reason === "no_trusted_worker";
  }
}

function knownJob(id: string, isRefused: boolean): Known {
  return isRefused ? { ok: false, reason: "no_trusted_worker" } : { ok: true, value: id };
}

/**
 * Counts the further requests of a job: those that came with its idempotency key or its payment and got the same 201 [API5]. If one of its requests breaks off,
 * the others still wait for its answer [API9]. Kept in memory, for as long as the job lives.
 */
export class RepeatedCommits {
  readonly #state: () => DispatchState;
  readonly #others = new WeakMap<LiveJob, number>();

  constructor(state: () => DispatchState) {
    this.#state = state;
  }

  /** Notes one more request. */
  add(jobId: string): void {
    const job = this.#state().jobs.get(jobId);
    if (job !== undefined) this.#others.set(job, (this.#others.get(job) ?? 0) + 1);
  }

  /** Notes that a request has left. True if another one is still there. */
  leave(jobId: string): boolean {
    const job = this.#state().jobs.get(jobId);
    const others = job === undefined ? 0 : (this.#others.get(job) ?? 0);
    if (job === undefined || others === 0) return false;
    this.#others.set(job, others - 1);
    return true;
  }
}
