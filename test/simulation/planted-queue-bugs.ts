// Bugs about the shares of the queue, planted so that the simulation shows that it finds them [LM1].
import { one, type PlantedBug } from "./planted-bugs.ts";

/** What would let one owner lock out the others. */
export const PLANTED_QUEUE_BUGS: readonly PlantedBug[] = [
  one("LM1", "a full queue refuses a job beside an idle worker", "claim.ts", " || hasIdleWorker(state, job, ctx);\n}", ";\n}"),
  one("LM1", "one client may use the whole queue", "workers.ts", "clientShares && isKnownNetwork(network) ? network : null", "null"),
  one("LM1", "clients that are not known share one share", "workers.ts", "clientShares && isKnownNetwork(network)", "clientShares"),
  one(
    "LM1",
    "one payer may use the whole queue",
    "workers.ts",
    "client: shareOf(rules, job.network), payer }",
    "client: shareOf(rules, job.network), payer: null }",
  ),
  one("LM1", "a payer has no share after a restart", "snapshot.ts", 'state.ledger.payments.get(payment ?? "")?.payer ?? null', "null"),
  one(
    "LM1",
    "one pool may use what is guaranteed to the others",
    "fair-share.ts",
    "this.#total + amount + kept <= this.#most",
    "this.#total + amount <= this.#most",
  ),
  one("LM1", "what a pool has used is still kept for it", "fair-share.ts", "Math.max(0, guarantee - this.of(other))", "guarantee"),
  one("LM1", "bytes do not count", "queue.ts", " && this.#shares[kind].bytes.hasRoom(owners[kind], payloadBytes)", ""),
  one("LM1", "a claimed job keeps its place", "workers.ts", "  state.queue.remove(ownersOf(state, job, job.payer), job.payloadBytes);\n", ""),
];
