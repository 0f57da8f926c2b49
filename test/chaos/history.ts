/** One HTTP commit as its seeker sent it; `marker` is in the payload and in no other commit's. */
export type Commit = { marker: string; user: string; secret: boolean; key: string | null; requests: number };

/** A result that some worker sent: the signatures of its receipts, one per run. */
type Sent = Map<string, Set<string>>;

/** How a worker's result was answered. */
type Answer = { job: string; worker: string; status: string; error: string | null };

/**
 * Every acknowledgement that anyone got from the coordinator, as it was given: what the store is checked against when the faults are over.
 * Nothing here is ever taken back.
 */
export class History {
  /** 201: the job's id with the commit that it answers. */
  readonly accepted = new Map<string, Commit>();
  /** 422: stored as failed, and never run. */
  readonly refused = new Set<string>();
  /** Ids by user and idempotency key. */
  readonly byKey = new Map<string, Set<string>>();
  readonly commits = new Map<string, Commit>();
  /** Other answers to commits, by status; `lost` where none came. */
  readonly otherAnswers = new Map<string, number>();
  /** Commits that were answered 503. */
  readonly unavailable = new Set<string>();
  /** 200 to a claim: code with the key that won it. */
  readonly claims: { code: string; user: string; worker: string }[] = [];
  readonly answers: Answer[] = [];
  readonly #sent = new Map<string, Sent>();
  /** Workers that each job was given to. */
  readonly assigned = new Map<string, Set<string>>();
  /** Ends that a seeker was shown, as JSON text: they may never change. */
  readonly shown = new Map<string, string>();
  readonly violations: string[] = [];

  committed(commit: Commit, status: number | null, id: string | null): void {
    if (status === 201 && id !== null) {
      this.accepted.set(id, commit);
      if (commit.key !== null) add(this.byKey, `${commit.user} ${commit.key}`, id);
      return;
    }
    if (status === 422 && id !== null) this.refused.add(id);
    if (status === 503) this.unavailable.add(commit.marker);
    const name = status === null ? "lost" : String(status);
    this.otherAnswers.set(name, (this.otherAnswers.get(name) ?? 0) + 1);
  }

  gave(job: string, worker: string): void {
    add(this.assigned, job, worker);
  }

  sent(job: string, worker: string, signature: string): void {
    const sent = this.#sent.get(job) ?? new Map<string, Set<string>>();
    this.#sent.set(job, sent);
    add(sent, worker, signature);
  }

  answered(answer: Answer): void {
    this.answers.push(answer);
    // A worker that answers only what it was given must never be taken for a stranger or a cheat.
    if (answer.error !== null && answer.error !== "already_terminal") {
      this.violations.push(`job ${answer.job}: the honest worker ${answer.worker.slice(0, 8)} was told ${answer.error}`);
    }
  }

  signatures(job: string, worker: string): ReadonlySet<string> {
    return this.#sent.get(job)?.get(worker) ?? new Set();
  }

  /** A seeker saw this end. */
  saw(id: string, json: string): void {
    const before = this.shown.get(id);
    if (before !== undefined && before !== json) this.violations.push(`job ${id}: ended as ${before.slice(0, 200)} and then as ${json.slice(0, 200)}`);
    this.shown.set(id, json);
  }
}

function add<K>(map: Map<K, Set<string>>, key: K, value: string): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([value]));
  else set.add(value);
}
