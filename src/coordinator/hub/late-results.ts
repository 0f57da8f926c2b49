// Results of jobs that are not live: looked up, a few at a time, and answered. On a job's way: after the end.
import { LIMITS } from "../../protocol/limits.ts";
import { FairShare } from "../dispatch/index.ts";
import { EndedFacts, findEnded, hasResult } from "../store/jobs.ts";
import { storedReceipt } from "../store/record.ts";
import { type CheckedCompletion, explained, type ExplainedRefusal } from "./completion-check.ts";
import type { Journal } from "./journal.ts";

type LateAnswer = { status: "duplicate" } | ExplainedRefusal;

/**
 * Answers a completion of a job that is not live. The same receipt again is a duplicate; any other result of a worker that held the job comes too late
 * [WS10]. `read` parses and checks the result; it is called only if the worker held the job. Null if the result cannot be parsed.
 * @throws {StoreUnavailable} if D1 does not answer; then nothing is known
 */
export async function answerLateResult(
  journal: Journal,
  db: D1Database,
  jobId: string,
  key: string,
  read: () => CheckedCompletion | null,
): Promise<LateAnswer | null> {
  const ended = fromJournal(journal, jobId) ?? (await findEnded(db, jobId));
  if (ended === null) return explained({ status: "rejected", error: "unknown_job" }, null);
  if (!ended.holders.includes(key)) return explained({ status: "rejected", error: "not_assigned" }, null);
  const completion = read();
  if (completion === null) return null;
  const isAlike = ended.status === "completed" && ended.provider_pubkey === key && ended.signature === (completion.receipt?.signature ?? null);
  // Without a receipt the result itself must be the same. Only then it is read.
  const same = isAlike && (ended.signature !== null || (await isStored(journal, db, jobId, completion.result)));
  return same ? { status: "duplicate" } : explained({ status: "rejected", error: "already_terminal" }, null);
}

function fromJournal(journal: Journal, jobId: string): EndedFacts | null {
  const row = journal.ended(jobId);
  return row === null ? null : EndedFacts.parse({ ...row, signature: storedReceipt(row)?.signature ?? null });
}

async function isStored(journal: Journal, db: D1Database, jobId: string, result: string): Promise<boolean> {
  const kept = journal.result(jobId);
  return kept === null ? await hasResult(db, jobId, result) : kept.result === result;
}

/** A result of a job that is not live: the socket that sent it, whose share of lookups and memory it uses [LM1], and its frame. */
export type LateResult = { connId: string; owner: string; text: string };

/**
 * The lookups in D1 for results of jobs that are not live. Only a few run at once. Those that wait are limited, in number per socket and per client, in bytes
 * per client, and both in all: a worker that sends results of invented jobs must not use up D1, nor the memory while D1 does not answer. A result above the
 * limit gets no answer; an honest worker sends it again.
 */
export class LateResults {
  readonly #waiting: { result: LateResult; run: () => Promise<void> }[] = [];
  /** The lookups that wait or run, by socket and by owner, and the bytes of their frames, by owner. */
  readonly #sockets = new FairShare({ most: LIMITS.lookupsWaiting + LIMITS.lookups, each: LIMITS.lookupsPerSocket });
  readonly #lookups = new FairShare({ most: LIMITS.lookupsWaiting + LIMITS.lookups, each: LIMITS.lookupsPerClient });
  readonly #bytes = new FairShare({ most: LIMITS.lookupBytes, each: LIMITS.lookupBytesPerClient });
  #running = 0;

  /** Adds a lookup, which runs when it is its turn; `run` must not reject, and may keep no more than the frame. False if there are too many already. */
  add(result: LateResult, run: () => Promise<void>): boolean {
    if (!this.#sockets.hasRoom(result.connId) || !this.#lookups.hasRoom(result.owner) || !this.#bytes.take(result.owner, bytesOfText(result))) return false;
    this.#sockets.add(result.connId);
    this.#lookups.add(result.owner);
    this.#waiting.push({ result, run });
    this.#next();
    return true;
  }

  #next(): void {
    if (this.#running >= LIMITS.lookups) return;
    const first = this.#waiting.shift();
    if (first === undefined) return;
    this.#running++;
    void first.run().finally(() => {
      this.#running--;
      this.#sockets.give(first.result.connId);
      this.#lookups.give(first.result.owner);
      this.#bytes.give(first.result.owner, bytesOfText(first.result));
      this.#next();
    });
  }
}

/** The most bytes that a text may take in memory: JavaScript keeps two for each character if one of them is not in Latin-1. */
function bytesOfText({ text }: LateResult): number {
  return 2 * text.length;
}
