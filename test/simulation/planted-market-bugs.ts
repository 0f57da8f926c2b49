// Bugs about fairness, planted so that the simulation shows that it finds them: probation, blame and the last word on a job [JB11], shares of the queue [LM1].
import { one, type PlantedBug } from "./planted-bugs.ts";

/** What would let a newcomer capture the market, or keep one out for ever. */
export const PLANTED_MARKET_BUGS: readonly PlantedBug[] = [
  one(
    "JB11",
    "probation is ignored at a claim",
    "claim.ts",
    "const isProvenTurn = proven !== undefined && !isForProbation(job.id);",
    "const isProvenTurn = false;",
  ),
  one(
    "JB11",
    "a newcomer never has a turn",
    "claim.ts",
    "const isProvenTurn = proven !== undefined && !isForProbation(job.id);",
    "const isProvenTurn = proven !== undefined;",
  ),
  one("JB3", "a fresh key goes first", "registration.ts", "(usedAt > 0 ? usedAt : registeredAt)", "usedAt"),
  one(
    "JB11",
    "the order of newcomers is by key and not by network",
    "standing.ts",
    "  return Math.max(lastUsedAt, backOffUntil);",
    "  return Math.max(0 * lastUsedAt, 0 * backOffUntil);",
  ),
  one(
    "JB11",
    "a network that stands back has its turn",
    "standing.ts",
    "  return Math.max(lastUsedAt, backOffUntil);",
    "  return Math.min(lastUsedAt, backOffUntil + lastUsedAt);",
  ),
  one(
    "JB11",
    "a network has several at work beside an idle proven worker",
    "standing.ts",
    "network.atWork.size > 0 ? turns.working :",
    "false ? turns.working :",
  ),
  one(
    "JB11",
    "a network without an idle worker is not told of one",
    "standing.ts",
    "    state.probation.change(name, true, (turns) => turns.move(network.name));\n",
    "",
  ),
  one("JB11", "a network keeps the turn that a claim has seen", "standing.ts", "state.probation.get(pool)?.move(network.name)", "void pool"),
  one("JB11", "a failure is not blamed on the network", "blame.ts", "  if (network !== undefined) startBackOff(state, network, ctx.now);\n", ""),
  one(
    "JB11",
    "a key that has left is not blamed",
    "blame.ts",
    '(job.phase.kind !== "leased" && job.phase.kind !== "orphaned")',
    'job.phase.kind !== "leased" || !state.workers.has(job.phase.lease.key)',
  ),
  one("JB11", "a reject is not blamed on the network", "lifecycle.ts", "if (lease.network !== undefined && blames) startBackOff", "if (false) startBackOff"),
  one("JB11", "a success heals nothing", "blame.ts", '  if (!worker.proven && job.privacyClass === "PUBLIC") endBackOff(state, worker.network);\n', ""),
  one("JB11", "two failures in a row cost nothing", "standing.ts", "if (failed < LIMITS.provenFailures) return", "if (failed < 99) return"),
  one("JB11", "a key that does not sign can be proven", "standing.ts", "return authenticated && record.completed", "return record.completed"),
  one("JB11", "jobs of the own network count", "standing.ts", '(network !== "" && network !== own)', 'network !== ""'),
  one("JB11", "PRIVATE jobs count", "standing.ts", 'job.privacyClass === "PUBLIC" && isCommittedElsewhere', "isCommittedElsewhere"),
  one("JB11", "one user counts twice", "standing.ts", " && !record.users.includes(user);", ";"),
  one("JB11", "a job that has lost an attempt goes to a newcomer again", "workers.ts", "job.attempts > 0 && job.outgrown", "job.attempts > 9 && job.outgrown"),
  one(
    "JB11",
    "the word of one key ends a job",
    "blame.ts",
    "  if (!hasUntriedWorker(state, asked)) return true;\n",
    "  if (job.denials.length > 0) return true;\n",
  ),
  one("JB11", "two keys of one network end a job", "blame.ts", "one.network !== other.network && (", "one.key !== other.key && ("),
  one("JB11", "two newcomers end a job beside a proven worker", "blame.ts", "(!hasUntriedProven(state, asked) || isConfirmed(job, true))", "true"),
  one("JB11", "nobody is left to ask and the job goes on", "blame.ts", "  if (!hasUntriedWorker(state, asked)) return true;\n", ""),
  one("JB11", "a restart forgets who denied a job", "snapshot.ts", "    denials: [...denials],\n", "    denials: [],\n"),
  one("JB11", "a job that has ended keeps its newcomer at work", "lifecycle.ts", "  endWork(state, lease.network, lease.key);\n", ""),
];

/** What would let one owner lock out the others. */
export const PLANTED_QUEUE_BUGS: readonly PlantedBug[] = [
  one("LM1", "a full queue refuses a job beside an idle worker", "claim.ts", " || hasIdleWorker(state, job, ctx);\n}", ";\n}"),
  one("LM1", "one client may use the whole queue", "workers.ts", "clientShares && isKnownNetwork(network) ? network : null", "null"),
  one("LM1", "clients that are not known share one share", "workers.ts", "clientShares && isKnownNetwork(network)", "clientShares"),
  one(
    "LM1",
    "one payer may use the whole queue",
    "workers.ts",
    "client: shareOf(settings, job.network), payer }",
    "client: shareOf(settings, job.network), payer: null }",
  ),
  one("LM1", "a payer has no share after a restart", "snapshot.ts", 'state.ledger.payments.get(payment ?? "")?.payer ?? null', "null"),
  one(
    "LM1",
    "one pool may use what is guaranteed to the others",
    "shares.ts",
    "this.#total + amount + reserved <= this.#most",
    "this.#total + amount <= this.#most",
  ),
  one("LM1", "what a pool has used is still kept for it", "shares.ts", "Math.max(0, guarantee - this.of(other))", "guarantee"),
  one("LM1", "bytes do not count", "shares.ts", " && this.#shares[kind].bytes.hasRoom(owners[kind], payloadBytes)", ""),
  one("LM1", "a PRIVATE job counts its payload only", "workers.ts", " + trustedKeys.length * LIMITS.pairedKeyBytes", ""),
  one("LM1", "a claimed job keeps its place", "workers.ts", "  state.queue.remove(ownersOf(state, job, job.payer), queuedBytes(job));\n", ""),
];
