// One chaos run on one chain: payers, workers, a facilitator and a chain that fail, a coordinator that is killed; then rest, and the books.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Coordinator, freePort, startCoordinator } from "../../../scripts/coordinator-process.ts";
import { History } from "../../chaos/history.ts";
import { ChaosWorker, Gate } from "../../chaos/worker.ts";
import { Random } from "../../simulation/random.ts";
import { startLab } from "../start-lab.ts";
import type { Side } from "../support/bench.ts";
import { type Books, compare, rowsOf } from "../support/books.ts";
import { CONFIRMATION_MS, inflict } from "./mischief.ts";
import { Ledger, look, Payer, type Seen } from "./payer.ts";

const POLL_MS = 1_000;

/** A chaos run. */
export type ChaosOptions = {
  side: Side;
  seconds: number;
  /** It goes on until at least so many jobs were accepted, however slow the machine is. */
  jobs: number;
  /** SIGKILLs of the coordinator and everything under it. */
  kills: number;
  payers: number;
  workers: number;
  seed: number;
  /** Whether the coordinator reads the chain. */
  rpc: boolean;
  /** How many seconds everything may take to end once nothing fails any more. */
  rest: number;
  /** A bundle of the coordinator; null for the sources as they are. */
  bundle: string | null;
  say?: (line: string) => void;
};

/** What has happened in a run, and every violation. */
export type ChaosReport = {
  books: Books;
  transfers: number;
  payments: number;
  cancelled: number;
  jobs: number;
  kills: number;
  answers: Record<string, number>;
  ends: Record<string, number>;
  mischief: Record<string, number>;
  violations: string[];
};

/** Runs chaos on one chain and reconciles the books: each transfer is one completed job, one open credit or one listed doubt [PY9]. */
export async function runChaos(options: ChaosOptions): Promise<ChaosReport> {
  const { side, seconds, payers: count, seed, rpc, bundle, say = () => {} } = options;
  const random = new Random(seed);
  const some = () => new Random(random.between(0, 1e9));
  const lab = await startLab({
    evm: { payers: side === "evm" ? count : 1 },
    svm: { payers: side === "svm" ? count : 1 },
    facilitator: { confirmationTimeoutMs: CONFIRMATION_MS },
  });
  const stateDir = mkdtempSync(join(tmpdir(), `payment-chaos-${side}-`));
  const node = rpc ? { EVM_RPC_URL: lab.evm.rpcUrl, SVM_RPC_URL: lab.svm.rpcUrl } : {};
  const settings = { RATE_LIMITS: "off", ...lab.description.settings[side], ...node };
  const port = await freePort();
  const start = () => startCoordinator({ instance: side, port, stateDir, settings, cronMs: 1_000, bundle });
  let coordinator: Coordinator | null = await start();
  let calm = false;
  const history = new History();
  const ledger = new Ledger(lab, side, coordinator.url);
  const scene = { url: coordinator.socketUrl, history, calm: () => calm, gate: new Gate() };
  const workers = Array.from({ length: options.workers }, (_, index) => new ChaosWorker(scene, index, some()));
  const mischief: Record<string, number> = {};
  const note = (what: string) => void (mischief[what] = (mischief[what] ?? 0) + 1);
  let kills = 0;

  const kill = async (): Promise<void> => {
    const killed = coordinator;
    coordinator = null;
    await killed?.kill();
    kills++;
    coordinator = await start();
  };
  const killing = async (): Promise<void> => {
    const chance = some();
    const pause = (seconds * 1_000) / (options.kills + 1);
    while (kills < options.kills) {
      await delay(chance.between(pause / 2, pause * 1.5));
      await kill();
      say(`kill ${kills}: ${ledger.payments} payments, ${ledger.accepted.size} jobs`);
    }
  };

  try {
    const paying = Array.from({ length: count }, (_, who) => new Payer(ledger, who, some()).run());
    const failing = inflict({ lab, side, random: some(), coordinator: () => coordinator, note }, () => calm);
    const finalize = (): void => {
      // Its blocks would end every stall of the chain.
      if (side === "evm" && !lab.evm.isPaused) lab.evm.finalize().catch(() => {});
    };
    const finalizing = setInterval(finalize, POLL_MS);
    await Promise.all([delay(seconds * 1_000), killing()]);
    while (ledger.accepted.size < options.jobs) await delay(POLL_MS);
    calm = true;
    ledger.isOver = true;
    await failing;
    say("nothing fails any more");
    await Promise.all(paying);
    const { books, transfers, ends, faults } = await atRest({ ledger, stateDir, received: () => lab[side].received() }, options.rest, say);
    clearInterval(finalizing);
    return {
      books,
      transfers,
      payments: ledger.payments,
      cancelled: ledger.cancelled,
      jobs: ledger.accepted.size,
      kills,
      answers: Object.fromEntries([...ledger.answers].toSorted(([one], [other]) => (one < other ? -1 : 1))),
      ends,
      mischief,
      violations: [...faults, ...ledger.violations, ...history.violations],
    };
  } finally {
    calm = true;
    ledger.isOver = true;
    await Promise.all(workers.map((worker) => worker.stop()));
    await coordinator?.stop();
    await lab.stop();
    rmSync(stateDir, { recursive: true, force: true, maxRetries: 5 });
  }
}

type Ledgers = { ledger: Ledger; stateDir: string; received: () => Promise<Parameters<typeof compare>[0]> };

/** Waits until every accepted job has ended and chain and ledger agree, or the time is over. */
async function atRest({ ledger, stateDir, received }: Ledgers, seconds: number, say: (line: string) => void) {
  const deadline = Date.now() + seconds * 1_000;
  const ended = new Map<string, Seen>();
  for (;;) {
    const faults: string[] = [];
    for (const id of ledger.accepted.keys()) {
      if (ended.has(id)) continue;
      const seen = await look(ledger.url, id).catch((error: unknown) => ({ status: String(error), error: null, isPaid: false }));
      if (["completed", "failed"].includes(seen.status)) ended.set(id, seen);
      else faults.push(`job ${id} is ${seen.status}`);
    }
    const transfers = await received();
    const { books, faults: differences } = compare(transfers, rowsOf(stateDir));
    faults.push(...differences);
    if (faults.length === 0 || Date.now() > deadline) {
      const ends: Record<string, number> = {};
      for (const { status, error } of ended.values()) {
        const name = [status, error].filter(Boolean).join(" ");
        ends[name] = (ends[name] ?? 0) + 1;
      }
      return { books, transfers: transfers.length, ends, faults: [...faults, ...contradictions(ledger, ended)] };
    }
    say(`rest: ${faults.length} differences, the first: ${faults[0]}`);
    await delay(5 * POLL_MS);
  }
}

/** What payers were told that cannot be true. */
function contradictions(ledger: Ledger, ended: ReadonlyMap<string, Seen>): string[] {
  const found: string[] = [];
  const completed = new Map<string, string>();
  for (const [id, { status, error, isPaid }] of ended) {
    const payment = ledger.accepted.get(id) ?? "";
    if (status === "completed" && !isPaid) found.push(`job ${id} is completed, and nothing says that it was paid`);
    if (error === "no_eligible_worker" && isPaid) found.push(`job ${id} was paid, and failed with no_eligible_worker`);
    if (status !== "completed") continue;
    if (completed.has(payment)) found.push(`jobs ${id} and ${completed.get(payment)} were both bought with one payment`);
    completed.set(payment, id);
  }
  return found;
}
