// Recomputes the shares of the queue and compares them, for the simulation [LM1].
import type { DispatchSettings, DispatchState, JobFacts, LiveJob, Worker } from "../../src/coordinator/dispatch/index.ts";
import { QUEUE_SIZE } from "../support/queue-size.ts";
import { sharePoolOf, suits } from "./indexes.ts";
import { Random } from "./random.ts";
import { broken } from "./violation.ts";

type Used = { jobs: number; bytes: number };
type Kind = "pool" | "user" | "client" | "payer";
type Owner = readonly [Kind, string];

/** A queue that a few jobs fill, for some seeds; the others have one that is never full. */
export function queueSettingsOf(seed: number): Pick<DispatchSettings, "queue" | "clientShares"> {
  const random = new Random(seed + 0xc40);
  if (random.chance(0.7)) return { queue: QUEUE_SIZE, clientShares: true };
  return { queue: { jobs: 8, bytes: random.pick([900, 4_000]), jobsPerUser: 6 }, clientShares: random.chance(0.8) };
}

/** The payload of a job, where the queue is small: of three sizes. */
export function payloadBytesOf(id: string, { queue }: DispatchSettings): number {
  return queue === QUEUE_SIZE ? 100 : 60 + 40 * ([...id].reduce((sum, char) => sum + char.charCodeAt(0), 0) % 3);
}

/** The network of a user, where the queue is small: one is not known. */
export function clientOf(userId: string): string {
  return userId === "cyd" ? "local" : `home of ${userId}`;
}

/** Whose shares a job uses, written down independently of the core. */
function ownersOf(state: DispatchState, job: JobFacts, payer: string | null): Owner[] {
  const owners: Owner[] = [
    ["pool", sharePoolOf(state, job)],
    ["user", job.userId],
  ];
  if (state.settings.clientShares && job.network !== "local" && job.network !== "") owners.push(["client", job.network]);
  if (payer !== null) owners.push(["payer", payer]);
  return owners;
}

/** The bytes of the queue that a job counts, written down independently of the core. */
function bytesOf({ payloadBytes, trustedKeys }: JobFacts): number {
  return payloadBytes + 200 * trustedKeys.length;
}

/** What every owner uses of the queue, counted from the jobs. */
function tally(state: DispatchState): Map<string, Used> {
  const used = new Map<string, Used>();
  for (const job of state.jobs.values()) {
    if (job.phase.kind !== "waiting") continue;
    for (const owner of [...ownersOf(state, job, job.payer), ["pool", "all"] as const]) {
      const { jobs, bytes } = used.get(owner.join()) ?? { jobs: 0, bytes: 0 };
      used.set(owner.join(), { jobs: jobs + 1, bytes: bytes + bytesOf(job) });
    }
  }
  return used;
}

/** Recomputes the shares of all jobs that wait, and compares them with what the core has counted [LM1]. */
export function checkShares(state: DispatchState): void {
  const used = tally(state);
  const all = used.get("pool,all") ?? { jobs: 0, bytes: 0 };
  if (state.queue.jobs !== all.jobs || state.queue.bytes !== all.bytes) broken("index", `the queue has ${state.queue.jobs} jobs, should be ${all.jobs}`);
  for (const job of state.jobs.values()) {
    if (job.payer !== (state.ledger.payments.get(job.payment ?? "")?.payer ?? null)) broken("index", `the payer of ${job.id} is ${job.payer}`);
    for (const [kind, owner] of ownersOf(state, job, job.payer)) {
      const should = used.get(`${kind},${owner}`) ?? { jobs: 0, bytes: 0 };
      const { jobs, bytes } = state.queue.usedBy(kind, owner);
      if (jobs !== should.jobs || bytes !== should.bytes) broken("index", `${kind} ${owner} uses ${jobs} jobs of the queue, should be ${should.jobs}`);
    }
  }
}

/** LM1: a job that was accepted and waits is within every share, and what is guaranteed to the other pools is still free. */
export function checkAccepted(state: DispatchState, job: LiveJob): void {
  if (job.phase.kind !== "waiting") return;
  const over = overfullBy(state, tally(state), ownersOf(state, job, job.payer));
  if (over !== null) broken("LM1", `${job.id} waits, and ${over}`);
}

/** LM1: a job that was refused because of a full queue would have exceeded a share, and no idle worker was there for it. */
export function checkRefused(state: DispatchState, job: JobFacts, payer: string | null, isIdle: (worker: Worker) => boolean): void {
  const used = tally(state);
  const owners = ownersOf(state, job, payer);
  for (const owner of [...owners, ["pool", "all"] as const]) {
    const { jobs, bytes } = used.get(owner.join()) ?? { jobs: 0, bytes: 0 };
    used.set(owner.join(), { jobs: jobs + 1, bytes: bytes + bytesOf(job) });
  }
  if (overfullBy(state, used, owners) === null) broken("LM1", `${job.id} is refused, and the queue has room for it`);
  for (const worker of state.workers.values())
    if (isIdle(worker) && suits(state, job, worker)) broken("LM1", `${job.id} is refused beside ${worker.key}, which is idle`);
}

/** The share that these owners exceed, with a job of theirs counted; null if it is none. */
function overfullBy({ settings }: DispatchState, used: ReadonlyMap<string, Used>, owners: readonly Owner[]): string | null {
  const { jobs, bytes, jobsPerUser } = settings.queue;
  const pools = ["TASK", "TASK+", "LLM_INFER", "LLM_INFER+"].filter((name) => settings.stake || !name.endsWith("+"));
  for (const what of ["jobs", "bytes"] as const) {
    const most = what === "jobs" ? jobs : bytes;
    const of = (owner: string) => used.get(owner)?.[what] ?? 0;
    for (const [kind, owner] of owners) {
      const own = of(`${kind},${owner}`);
      if (kind === "user" && what === "jobs" && own > jobsPerUser) return `${owner} has ${own} jobs`;
      if ((kind === "client" || kind === "payer") && own > Math.floor(most / 4)) return `${kind} ${owner} has ${own} ${what}`;
      if (kind !== "pool") continue;
      const part = Math.floor(most / 8);
      const kept = pools.reduce((sum, pool) => sum + (pool === owner ? 0 : Math.max(0, part - of(`pool,${pool}`))), 0);
      if (own > part && of("pool,all") + kept > most) return `all have ${of("pool,all")} ${what}, with ${kept} kept for other pools`;
    }
  }
  return null;
}
