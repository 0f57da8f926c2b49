// What goes wrong in the chaos run beside the kills: the facilitator fails, restarts on another version, or is down; the chain stalls; the coordinator stops
// for a while.
import { setTimeout as delay } from "node:timers/promises";
import type { Coordinator } from "../../../scripts/coordinator-process.ts";
import type { Random } from "../../simulation/random.ts";
import { descendants } from "../../support/process-tree.ts";
import type { Fault, FaultRule } from "../facilitator/faults.ts";
import { FACILITATOR_VERSIONS, type FacilitatorVersion } from "../facilitator/schemes.ts";
import type { FullLab } from "../start-lab.ts";
import type { Side } from "../support/bench.ts";

/** Reasons of all three kinds, which are not true here: the payer has the money, and nothing was used. */
const REASONS = ["insufficient_funds", "invalid_exact_evm_nonce_already_used", "duplicate_settlement", "transaction_failed", "settlement_pending", "because"];
const STATUSES = [401, 403, 404, 429, 500, 502, 503];

/** How long a facilitator of the run waits for the receipt of a transaction. */
export const CONFIRMATION_MS = 3_000;
/** How often a run does next what it has to do once. */
const DUE_CHANCE = 0.75;

/** What the mischief of a run works on. */
export type Stage = { lab: FullLab; side: Side; random: Random; coordinator: () => Coordinator | null; note: (what: string) => void };

/**
 * Does one thing after the other until the run is over, and undoes what would last. On EVM each version of the facilitator meets one chain that stalls for too
 * long.
 */
export async function inflict(stage: Stage, isOver: () => boolean): Promise<void> {
  const { lab, side, random, note } = stage;
  // The oldest is the next one.
  const due = side === "evm" ? [...FACILITATOR_VERSIONS] : [];
  while (!isOver()) {
    await delay(random.between(50, 1_200));
    const version = random.chance(DUE_CHANCE) ? due.pop() : undefined;
    const doing = random.pick([fail, fail, fail, fail, fail, restart, restart, down, chain, chain, stall]);
    note(version === undefined ? await doing(stage) : await outlast(stage, version));
  }
  lab.facilitator.faults.clear();
  await lab.facilitator.up();
}

/** Some of the next calls of the facilitator fail. */
async function fail({ lab, random }: Stage): Promise<string> {
  const operation: FaultRule["operation"] = random.chance(0.8) ? "settle" : "verify";
  const fault = faultOf(random, operation);
  lab.facilitator.faults.add({ operation, fault, times: random.between(1, 4) });
  return `${operation} ${fault.kind}`;
}

function faultOf(random: Random, operation: FaultRule["operation"]): Fault {
  const faults: readonly Fault[] = [
    { kind: "hang" },
    { kind: "slow", ms: random.between(200, 9_000) },
    { kind: "status", status: random.pick(STATUSES) },
    { kind: "garbage", body: random.pick(["<!doctype html>", "{}", "null", '{"success":"true"}']) },
    { kind: "reset" },
  ];
  if (operation === "verify") return random.pick(faults);
  return random.pick([
    ...faults,
    { kind: "lost", how: random.pick(["reset", "status", "hang"] as const) },
    { kind: "lost", how: "reset" },
    { kind: "pending" },
    { kind: "refuse", reason: random.pick(REASONS) },
  ]);
}

/** The facilitator forgets everything, and comes back on some version. */
async function restart({ lab, random }: Stage): Promise<string> {
  const version = random.pick(FACILITATOR_VERSIONS);
  lab.facilitator.forget(version);
  return `facilitator ${version}`;
}

async function down({ lab, random }: Stage): Promise<string> {
  await lab.facilitator.down();
  await delay(random.between(200, 2_000));
  await lab.facilitator.up();
  return "facilitator down";
}

/** The chain stands still, perhaps for longer than the facilitator waits; or the signed payments grow too old. */
async function chain({ lab, side, random }: Stage): Promise<string> {
  if (side === "svm" && random.chance(0.3)) {
    lab.svm.expireBlockhashes();
    return "blockhashes expire";
  }
  return stallChain(lab[side], random.between(200, 2 * CONFIRMATION_MS));
}

/** The EVM makes no blocks for longer than a facilitator of this version waits: 2.20 and 2.3 say `transaction_failed` then, and the transfer is mined later. */
async function outlast({ lab, random }: Stage, version: FacilitatorVersion): Promise<string> {
  lab.facilitator.forget(version);
  return `${version}: ${await stallChain(lab.evm, CONFIRMATION_MS + random.between(2_000, 4_000))}`;
}

async function stallChain(chain: FullLab[Side], ms: number): Promise<string> {
  await chain.pause();
  await delay(ms);
  await chain.resume();
  return "chain stalls";
}

/** The coordinator's processes stop for a while. */
async function stall({ random, coordinator }: Stage): Promise<string> {
  const running = coordinator();
  if (running === null) return "none";
  const pids = descendants(running.pid).map(({ pid }) => pid);
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of pids) {
      try {
        process.kill(pid, name);
      } catch {
        // It was killed meanwhile.
      }
    }
  };
  signal("SIGSTOP");
  await delay(random.between(300, 3_000));
  signal("SIGCONT");
  return "coordinator stalls";
}
