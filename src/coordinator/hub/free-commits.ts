// Free commits: looks up repeated ones, stores new jobs and claims workers in one turn. On a job's way: commit → store → claim.
import { type CommitParts, factsOf, originOf } from "./commits.ts";
import type { CommitAnswer, CommitInput } from "./rpc.ts";

/** Handles commits without a payment: stores and claims in one turn, and gives repeated commits the same answer [PY5, API5]. */
export class FreeCommits {
  readonly #parts: CommitParts;

  constructor(parts: CommitParts) {
    this.#parts = parts;
  }

  async commit(input: CommitInput): Promise<CommitAnswer> {
    const { dispatcher, earlier, refusal } = this.#parts;
    const origin = originOf(input);
    let known = earlier.known(input);
    // This comes before any refusal: a refusal says that no job was stored, and the first delivery may have stored one.
    if (known === null && input.again === true) {
      try {
        known = await earlier.recorded(input.id);
      } catch {
        // D1 does not answer, and the job may have ended. If it ran again, it would have two results.
        return { ok: false, reason: "overloaded" };
      }
      // The first delivery may have arrived while D1 was asked.
      known ??= earlier.known(input);
    }
    const noRoom = known === null ? refusal(origin) : null;
    if (noRoom !== null) return { ok: false, ...noRoom };
    if (known?.ok) {
      // A second delivery of the same request has the id of the first one.
      if (known.value !== input.id) this.#parts.repeated.add(known.value);
      return this.#accepted(known.value, input);
    }
    const { id, userId, idempotency } = input;
    if (known?.reason === "no_trusted_worker") return { ok: false, reason: known.reason, jobId: id };
    if (known !== null) return { ok: false, reason: known.reason };
    const submitted = dispatcher.apply({ type: "submit", job: factsOf(input, this.#parts.clock()) }, { payload: input.payload, origin });
    if (!submitted.ok) {
      if (submitted.reason === "no_such_model") return { ok: false, reason: submitted.reason, models: this.#parts.models() };
      if (submitted.reason !== "no_trusted_worker") return { ok: false, reason: "queue_full" };
      return (await dispatcher.becameDurable()) ? { ok: false, reason: "no_trusted_worker", jobId: id } : { ok: false, reason: "overloaded" };
    }
    if (idempotency !== null) dispatcher.keepIdempotent({ userId, key: idempotency.key, fingerprint: idempotency.fingerprint, jobId: id });
    return this.#accepted(id, input);
  }

  async #accepted(jobId: string, { wait, client }: CommitInput): Promise<CommitAnswer> {
    const { dispatcher, job, cancelTokens } = this.#parts;
    if (!(await dispatcher.becameDurable())) return { ok: false, reason: "overloaded" };
    return { ok: true, jobId, job: wait > 0 ? await job(jobId, wait, client) : null, cancelToken: cancelTokens.of(jobId) };
  }
}
