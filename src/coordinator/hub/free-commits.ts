// Free commits: looks up repeated ones, stores new jobs and claims workers in one turn. On a job's way: commit → store → claim.
import { type Result, utf8Length } from "../../protocol/text.ts";
import type { JobFacts } from "../dispatch/index.ts";
import { wideNetworkOf } from "../rates.ts";
import { findResult, wasRefused } from "../store/jobs.ts";
import type { CancelTokens } from "./cancel-tokens.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { RecentJobs } from "./job-answers.ts";
import type { Journal } from "./journal.ts";
import type { RepeatedCommits } from "./repeated-commits.ts";
import type { CommitAnswer, CommitInput, StorageRefusal } from "./rpc.ts";
import type { Origin } from "./storage-room.ts";

type Parts = {
  journal: Journal;
  dispatcher: Dispatcher;
  recent: RecentJobs;
  clock: () => number;
  db: () => D1Database;
  idempotencySince: () => number;
  cancelTokens: CancelTokens;
  repeated: RepeatedCommits;
  /** The names of the models that are online. */
  models: () => string[];
  /** Why a new commit of this origin is refused before it is looked at; null if it is not. */
  refusal: (origin: Origin) => { reason: "queue_full" } | StorageRefusal | null;
  job: (id: string, wait: number, client?: string) => Promise<string | null>;
};

/** What is known of a commit that came before: the id of its job, or why it is refused. */
type Known = Result<string, "no_trusted_worker" | "idempotency_key_reused">;

/** Handles commits without a payment: stores and claims in one turn, and gives repeated commits the same answer [PY5, API5]. */
export class FreeCommits {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async commit(input: CommitInput): Promise<CommitAnswer> {
    const { dispatcher, refusal } = this.#parts;
    const origin = originOf(input);
    let known = this.#known(input);
    // Before it may be refused: a refusal says that no job was stored, and the first delivery may have stored one.
    if (known === null && input.again === true) {
      try {
        known = await this.#recorded(input.id);
      } catch {
        // The job may have ended. If it ran again it would have two results.
        return { ok: false, reason: "overloaded" };
      }
      // The first delivery may have arrived while D1 was asked.
      known ??= this.#known(input);
    }
    const unstored = known === null ? refusal(origin) : null;
    if (unstored !== null) return { ok: false, ...unstored };
    if (known?.ok) {
      // A second delivery of the same request has the id of the first one.
      if (known.value !== input.id) this.#parts.repeated.add(known.value);
      return this.#accepted(known.value, input);
    }
    if (known !== null) return refused(known.reason, input.id);
    const { id, userId, idempotency } = input;
    const submitted = dispatcher.apply({ type: "submit", job: factsOf(input, this.#parts.clock()) }, { payload: input.payload, origin });
    if (!submitted.ok) {
      if (submitted.reason === "no_such_model") return { ok: false, reason: submitted.reason, models: this.#parts.models() };
      if (submitted.reason !== "no_trusted_worker") return { ok: false, reason: "queue_full" };
      const stored = await this.#accepted(id, { wait: 0 });
      return stored.ok ? refused("no_trusted_worker", id) : stored;
    }
    if (idempotency !== null) dispatcher.keepIdempotent({ userId, key: idempotency.key, fingerprint: idempotency.fingerprint, jobId: id });
    return this.#accepted(id, input);
  }

  /** True if this same commit was refused before, because no trusted worker was connected [JB8]. @throws {StoreUnavailable} */
  async wasRefused(input: CommitInput): Promise<boolean> {
    if (input.again !== true) return false;
    const known = this.#known({ ...input, idempotency: null }) ?? (await this.#recorded(input.id));
    return known?.ok === false && known.reason === "no_trusted_worker";
  }

  /** Finds the job of a commit that came before: if its answer was lost, it comes again and is the same job. */
  #known({ id, userId, idempotency, again }: CommitInput): Known | null {
    const { dispatcher, journal, recent, idempotencySince } = this.#parts;
    if (idempotency !== null) {
      const { key, fingerprint } = idempotency;
      const stored = dispatcher.pendingIdempotent(userId, key) ?? journal.idempotent(userId, key, idempotencySince());
      if (stored !== null) return stored.fingerprint === fingerprint ? { ok: true, value: stored.jobId } : { ok: false, reason: "idempotency_key_reused" };
    }
    if (dispatcher.state.jobs.has(id)) return { ok: true, value: id };
    const ended = recent.get(id);
    // The router has just made the id of a first delivery, so no row can have it. An earlier router does not say which delivery it is.
    const row = again === false ? null : journal.result(id);
    if (row === null && ended === undefined) return null;
    return knownJob(id, row === null ? ended?.refused === true : wasRefused(row));
  }

  async #recorded(id: string): Promise<Known | null> {
    const row = await findResult(this.#parts.db(), id);
    if (row === null) return null;
    return knownJob(id, wasRefused(row));
  }

  async #accepted(jobId: string, { wait, client }: Pick<CommitInput, "wait" | "client">): Promise<CommitAnswer> {
    const { dispatcher, job, cancelTokens } = this.#parts;
    if (!(await dispatcher.becameDurable())) return { ok: false, reason: "overloaded" };
    return { ok: true, jobId, job: wait > 0 ? await job(jobId, wait, client) : null, cancelToken: cancelTokens.of(jobId) };
  }
}

function knownJob(id: string, isRefused: boolean): Known {
  return isRefused ? { ok: false, reason: "no_trusted_worker" } : { ok: true, value: id };
}

function refused(reason: "no_trusted_worker" | "idempotency_key_reused", jobId: string): CommitAnswer {
  return reason === "no_trusted_worker" ? { ok: false, reason, jobId } : { ok: false, reason };
}

/** Who a commit comes from. `payer` is left out while it is free or not verified. */
export function originOf({ client = "" }: CommitInput, payer = ""): Origin {
  return { client, payer };
}

/** The facts of a commit that dispatch needs. */
export function factsOf(input: CommitInput, createdAt: number): JobFacts {
  const { id, jobType, taskType, model, isChat, policy, privacyClass, userId, trustedKeys, payload, client = "" } = input;
  const kind = { jobType, ...(taskType !== undefined && { taskType }), ...(model !== undefined && { model }), ...(isChat === true && { isChat }) };
  const facts = { id, ...kind, policy, privacyClass, userId, trustedKeys };
  return { ...facts, payloadBytes: utf8Length(payload), createdAt, network: wideNetworkOf(client) };
}
