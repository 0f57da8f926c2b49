/** One change of one place in the dispatch core; `from` must occur exactly once in the file. */
export type Edit = { file: string; from: string; to: string };

/** A bug that the simulation has to find. `seeds` is how many it may look at; the default is 150. */
export type PlantedBug = { name: string; edits: readonly Edit[]; seeds?: number };

const one = (name: string, file: string, from: string, to: string, seeds?: number): PlantedBug => ({ name, edits: [{ file, from, to }], ...(seeds === undefined ? {} : { seeds }) });

/** What a hasty hand could get wrong, rule by rule. */
export const PLANTED_BUGS: readonly PlantedBug[] = [
  one("a claimed worker is not marked busy", "claim.ts", "  worker.jobId = job.id;\n", ""),
  one("a lease is not saved", "claim.ts", '  turn.effects.push({ type: "save", jobId: job.id });\n', ""),
  one("a revision is not raised at a claim", "claim.ts", "  job.rev++;\n", ""),
  one("no acknowledgement is due", "claim.ts", "ackDue: worker.acks ? turn.now + TIMING.ack : null", "ackDue: null"),
  one("PRIVATE jobs go to anyone", "claim.ts", 'job.privacyClass === "PUBLIC" ? firstIdle', "true ? firstIdle"),
  one("stake does not count", "eligibility.ts", 'rules.stake && job.policy === "FAST"', "false"),
  one("workers are taken in order of arrival", "eligibility.ts", "state.idle[name].add(worker.key, worker.lastUsedAt, worker.seq)", "state.idle[name].add(worker.key, 0, worker.seq)"),
  one("CHEAP stands beside FAST", "queue.ts", "job.createdAt + TIMING.cheapDelay", "job.createdAt"),
  one("a silent worker is claimed", "claim.ts", "  if (!isSilent(worker, turn)) return false;\n", "  return false;\n"),
  one("who lost a job may get it at once", "lifecycle.ts", "  if (tried) job.tried.add(lease.key);\n", ""),
  one("a freed worker is offered nothing", "lifecycle.ts", "  else offerWorker(state, worker, turn);\n", ""),
  one("a worker that failed is offered nothing", "lifecycle.ts", "    indexWorker(state, worker);\n  }\n  offerWorker(state, worker, turn);\n", "    indexWorker(state, worker);\n  }\n"),
  one("attempts have no end", "lifecycle.ts", "job.attempts >= LIMITS.attempts", "job.attempts >= 99"),
  one("a rejected job keeps its attempt", "lifecycle.ts", "  job.attempts--;\n", ""),
  one("a lost socket keeps its lease for ever", "timers.ts", "return Math.min(job.phase.graceDue, job.totalDue)", "return job.totalDue"),
  one("a lost socket orphans nothing", "reduce.ts", "      return orphan(state, worker.key, turn);\n", "      return;\n"),
  one("an orphan's timer is not set", "lifecycle.ts", "graceDue: turn.now + TIMING.grace };\n  setTimer(state, job);\n", "graceDue: turn.now + TIMING.grace };\n"),
  one("late events of a replaced socket count", "eligibility.ts", "  state.keyByConn.delete(worker.conn);\n", ""),
  one("strangers may complete", "completion.ts", "if (!job.holders.some((held) => held.key === worker.key))", "if (false)"),
  one("an old bad result ends the present attempt", "completion.ts", "  return attempt === undefined || attempt === job.phase.lease.attempt;\n", "  return true;\n", 1_500),
  one("the other holder is not told of a late result", "completion.ts", 'isPresent ? null : "completed"', "null", 1_500),
  one("what a worker still has is not cancelled", "registration.ts", '    else turn.effects.push({ type: "cancel_attempt", conn: worker.conn, jobId: entry.jobId, attempt: entry.attempt, reason: "not_assigned" });\n', "", 500),
  one("a rebound lease is forgotten", "registration.ts", "  state.leases.set(worker.key, job.id);\n", "", 500),
  one("a lease that is not listed stays", "registration.ts", '  else requeue(state, leased, "worker_lost", null, turn);\n', ""),
  one("an entry listed twice is cancelled", "registration.ts", "job.phase.conn === worker.conn && job.phase.lease.attempt === entry.attempt) continue;", "false) continue;", 500),
  one("a draining worker gets jobs", "eligibility.ts", "worker.jobId === null && !worker.draining && !worker.resting", "worker.jobId === null && !worker.resting", 500),
  one("draining is forgotten with the memory", "registration.ts", "event.draining ?? false", "false", 1_500),
  one("the tick is not armed", "timers.ts", "else state.tickDue ??= now + TIMING.retryTick;", "else state.tickDue = null;"),
  one("the tick is always due", "timers.ts", "state.tickDue ??= now + TIMING.retryTick", "state.tickDue ??= now"),
  one("the sweep keeps the job", "reduce.ts", '    closeWorker(state, worker, CLOSE.silent, "silent", turn);\n', '    closeWorker(state, worker, CLOSE.silent, "silent", turn);\n    if (worker.jobId !== null) continue;\n', 1_000),
  one("the sweep closes nobody", "reduce.ts", "< TIMING.silentClosed) continue;", "< Infinity) continue;", 1_000),
  one("the total deadline does not count", "reduce.ts", "if (job.totalDue <= turn.now) return finish", "if (false) return finish", 1_500),
  one("a restart drops leases", "snapshot.ts", "last !== undefined && !state.leases.has(last.key) ? last : undefined", "undefined"),
  one("a restart grants all times anew", "snapshot.ts", "snapshot.phase.executeDue ?? now + executionTime(job)", "now + executionTime(job)"),
  one("a restart forgets who tried", "snapshot.ts", "tried: new Set(snapshot.tried)", "tried: new Set()"),
  one("the heap is left in disorder", "ordered-pool.ts", "    this.#up(at);\n    this.#down(this.#at.get(last.id) ?? at);\n", "", 1_500),
  one("the tick offers in order of arrival", "reduce.ts", "orderOf(a) - orderOf(b) || a.seq - b.seq", "a.seq - b.seq", 500),
  one("a bad signer gets a job before it is parked", "completion.ts", "strike(state, worker, turn, isPresent ? job : undefined);\n        if (isPresent) requeue(state, job, \"invalid_receipt\", null, turn);", 'if (isPresent) requeue(state, job, "invalid_receipt", null, turn);\n        strike(state, worker, turn);', 1_500),
  one("a rejection opens a fresh window", "lifecycle.ts", "Math.max(job.windowDue, turn.now)", "Math.max(job.windowDue, turn.now + TIMING.retryTick)", 1_000),
  one("a new pairing offers in order of arrival", "reduce.ts", "    if (waits) enqueue(state, job);\n    save(job, turn);\n", "    if (waits) enqueue(state, job);\n    save(job, turn);\n    { const first = state.workers.get(key); if (first !== undefined && first.jobId === null && waits) { for (const name of [...state.privateJobs.get(userId) ?? []]) if (name !== id) state.waitingFor.get(`${job.jobType} ${key}`)?.remove(name); offerWorker(state, first, turn); } }\n", 1_000),
  one("a known silent worker is forgotten", "claim.ts", "    worker.silent = false;\n    indexWorker(state, worker);\n    offerWorker(state, worker, turn);\n", "    continue;\n", 1_000),
];
