/** One change of one place in the dispatch core; `from` must occur exactly once in the file. */
export type Edit = { file: string; from: string; to: string };

/** A bug that the simulation has to find, and the rule that it breaks. */
export type PlantedBug = { name: string; rule: string; edits: readonly Edit[] };

const one = (rule: string, name: string, file: string, from: string, to: string): PlantedBug => ({ name, rule: `[${rule}]`, edits: [{ file, from, to }] });

/** What a hasty hand could get wrong, rule by rule. */
export const PLANTED_BUGS: readonly PlantedBug[] = [
  one("JB3", "a claimed worker is not marked busy", "claim.ts", "  worker.jobId = job.id;\n", ""),
  one("JB9", "a lease is not saved", "claim.ts", '  turn.effects.push({ type: "save", jobId: job.id });\n', ""),
  one("JB9", "a revision is not raised at a claim", "claim.ts", "  job.rev++;\n", ""),
  one("WS9", "no acknowledgement is due", "claim.ts", "ackDue: worker.acks ? turn.now + TIMING.ack : null", "ackDue: null"),
  one("JB8", "PRIVATE jobs go to anyone", "claim.ts", 'job.privacyClass === "PUBLIC" ? firstIdle', "true ? firstIdle"),
  one("ST1", "stake does not count", "eligibility.ts", 'rules.stake && job.policy === "FAST"', "false"),
  one("JB3", "workers are taken in order of arrival", "eligibility.ts", "state.idle[name].add(worker.key, worker.lastUsedAt, worker.seq)", "state.idle[name].add(worker.key, 0, worker.seq)"),
  one("JB3", "CHEAP stands beside FAST", "queue.ts", "job.createdAt + TIMING.cheapDelay", "job.createdAt"),
  one("WS6", "a silent worker is claimed", "claim.ts", "  if (!isSilent(worker, turn)) return false;\n", "  return false;\n"),
  one("JB4", "who lost a job may get it at once", "lifecycle.ts", "  if (tried) job.tried.add(lease.key);\n", ""),
  one("JB2", "a freed worker is offered nothing", "lifecycle.ts", "  else offerWorker(state, worker, turn);\n", ""),
  one("JB2", "a worker that failed is offered nothing", "lifecycle.ts", "    indexWorker(state, worker);\n  }\n  offerWorker(state, worker, turn);\n", "    indexWorker(state, worker);\n  }\n"),
  one("JB4", "attempts have no end", "lifecycle.ts", "job.attempts >= LIMITS.attempts", "job.attempts >= 99"),
  one("WS9", "a rejected job keeps its attempt", "lifecycle.ts", "  job.attempts--;\n", ""),
  one("JB4", "a lost socket keeps its lease for ever", "timers.ts", "return Math.min(job.phase.graceDue, job.totalDue)", "return job.totalDue"),
  one("JB4", "a lost socket orphans nothing", "reduce.ts", "      return orphan(state, worker.key, turn);\n", "      return;\n"),
  one("JB4", "an orphan's timer is not set", "lifecycle.ts", "graceDue: turn.now + TIMING.grace };\n  setTimer(state, job);\n", "graceDue: turn.now + TIMING.grace };\n"),
  one("WS7", "late events of a replaced socket count", "eligibility.ts", "  state.keyByConn.delete(worker.conn);\n", ""),
  one("WS12", "strangers may complete", "completion.ts", "if (!job.holders.some((held) => held.key === worker.key))", "if (false)"),
  one("JB6", "an old bad result ends the present attempt", "completion.ts", "  return attempt === undefined || attempt === job.phase.lease.attempt;\n", "  return true;\n"),
  one("JB6", "the other holder is not told of a late result", "completion.ts", 'isPresent ? null : "completed"', "null"),
  one("WS10", "what a worker still has is not cancelled", "registration.ts", '    else turn.effects.push({ type: "cancel_attempt", conn: worker.conn, jobId: entry.jobId, attempt: entry.attempt, reason: "not_assigned" });\n', ""),
  one("WS10", "a rebound lease is forgotten", "registration.ts", "  state.leases.set(worker.key, job.id);\n", ""),
  one("WS10", "a lease that is not listed stays", "registration.ts", '  else requeue(state, leased, "worker_lost", null, turn);\n', ""),
  one("WS10", "an entry listed twice is cancelled", "registration.ts", "job.phase.conn === worker.conn && job.phase.lease.attempt === entry.attempt) continue;", "false) continue;"),
  one("WS11", "a drained worker is kept", "lifecycle.ts", "  leaveIfDrained(state, worker, turn);\n", ""),
  one("WS11", "draining is forgotten with the memory", "registration.ts", "event.draining ?? false", "false"),
  one("JB2", "the tick is not armed", "timers.ts", "else state.tickDue ??= now + TIMING.retryTick;", "else state.tickDue = null;"),
  one("JB2", "the tick is always due", "timers.ts", "state.tickDue ??= now + TIMING.retryTick", "state.tickDue ??= now"),
  one("WS6", "the sweep keeps the job", "reduce.ts", '    closeWorker(state, worker, CLOSE.silent, "silent", turn);\n', '    closeWorker(state, worker, CLOSE.silent, "silent", turn);\n    if (worker.jobId !== null) continue;\n'),
  one("WS6", "the sweep closes nobody", "reduce.ts", "< TIMING.silentClosed) continue;", "< Infinity) continue;"),
  one("JB4", "the total deadline does not count", "reduce.ts", "if (job.totalDue <= turn.now) return finish", "if (false) return finish"),
  one("JB9", "a restart drops leases", "snapshot.ts", "last !== undefined && !state.leases.has(last.key) ? last : undefined", "undefined"),
  one("JB4", "a restart grants all times anew", "snapshot.ts", "snapshot.phase.executeDue ?? now + executionTime(job)", "now + executionTime(job)"),
  one("JB4", "a restart forgets who tried", "snapshot.ts", "tried: new Set(snapshot.tried)", "tried: new Set()"),
  one("JB3", "the heap is left in disorder", "ordered-pool.ts", "    this.#up(at);\n    this.#down(this.#at.get(last.id) ?? at);\n", ""),
  one("JB3", "the tick offers in order of arrival", "reduce.ts", "orderOf(a) - orderOf(b) || a.seq - b.seq", "a.seq - b.seq"),
  one("RC4", "a bad signer gets a job before it is parked", "completion.ts", "strike(state, worker, turn, isPresent ? job : undefined);\n        if (isPresent) requeue(state, job, \"invalid_receipt\", null, turn);", 'if (isPresent) requeue(state, job, "invalid_receipt", null, turn);\n        strike(state, worker, turn);'),
  one("JB5", "a rejection opens a fresh window", "lifecycle.ts", "Math.max(job.windowDue, turn.now)", "Math.max(job.windowDue, turn.now + TIMING.retryTick)"),
  one("JB3", "a new pairing offers in order of arrival", "reduce.ts", "    save(job, turn);\n  }\n", "    save(job, turn);\n    const early = state.workers.get(key);\n    if (early !== undefined) offerWorker(state, early, turn);\n  }\n"),
  one("JB4", "a failure for good does not count", "lifecycle.ts", "afterFailure(state, worker, turn);\n  else offerWorker", "offerWorker(state, worker, turn);\n  else offerWorker"),
  one("JB4", "a silent worker keeps others from a second try", "eligibility.ts", "!worker.draining && !worker.silent) state.connected", "!worker.draining) state.connected"),
  one("WS6", "a known silent worker is forgotten", "claim.ts", "    worker.silent = false;\n    indexWorker(state, worker);\n    offerWorker(state, worker, turn);\n", "    continue;\n"),
];
