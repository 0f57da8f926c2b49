// Reads of D1 for the routers outside Cloudflare, where D1 is in the thread of the hub. On a job's way: a poll of a job that the hub no longer has.
import type { Result } from "../../protocol/result.ts";
import { StoreUnavailable } from "../store/database.ts";
import { findJobs } from "../store/jobs.ts";
import { SharedLookups } from "../store/shared-lookups.ts";
import { tokensOf } from "../store/trust.ts";
import type { BoundToken, FoundJob } from "./rpc.ts";

/** The lookups that an RPC may ask for. Those that come at the same time share queries. A failure is a result, because an error would lose its class. */
export class Lookups {
  readonly #jobs: SharedLookups<FoundJob>;
  readonly #tokens: SharedLookups<BoundToken>;

  constructor(db: () => D1Database) {
    this.#jobs = new SharedLookups(async (ids) => new Map((await findJobs(db(), ids)).map((job) => [job.id, job])));
    this.#tokens = new SharedLookups((userIds) => tokensOf(db(), userIds));
  }

  job(id: string): Promise<Result<FoundJob | null, string>> {
    return asResult(this.#jobs.find(id));
  }

  token(userId: string): Promise<Result<BoundToken | null, string>> {
    return asResult(this.#tokens.find(userId));
  }
}

async function asResult<T>(lookup: Promise<T>): Promise<Result<T, string>> {
  try {
    return { ok: true, value: await lookup };
  } catch (error) {
    if (error instanceof StoreUnavailable) return { ok: false, reason: error.safeReason };
    throw error;
  }
}
