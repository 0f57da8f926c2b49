// The faults of npm run test:chaos: which ones, in which order, and how each is made to happen.
import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../simulation/random.ts";
import type { DatabaseMood, DatabaseSwitch } from "./database-switch.ts";
import { breakDisk, type DiskFault } from "./disk-fault.ts";
import type { Subject } from "./subject.ts";

/** What can happen to a coordinator. */
export type Fault =
  | { kind: "kill runtime" }
  | { kind: "kill all" }
  | { kind: "restart" }
  | { kind: "deploy" }
  | { kind: "stall"; ms: number }
  | { kind: "database"; mood: DatabaseMood; ms: number }
  | { kind: "disk"; fault: DiskFault; ms: number };

/** Faults in which the coordinator dies, and how soon it served again: ms each. */
export type Outages = Map<Fault["kind"], number[]>;

/** The faults of a run in their order: as many of the killing ones as asked for, and others between them. */
export function plan(random: Random, kills: number, withDisk: boolean): Fault[] {
  const others = shuffled(random, otherFaults(random, withDisk));
  // The runtime alone every other time, so that both kinds of death are in the shortest run.
  return Array.from({ length: kills }, (_, n): Fault[] => {
    const kill: Fault = { kind: n % 2 === 0 ? "kill runtime" : "kill all" };
    const other = others[n % others.length];
    return other === undefined ? [kill] : [kill, other];
  }).flat();
}

function otherFaults(random: Random, withDisk: boolean): Fault[] {
  return [
    { kind: "deploy" },
    { kind: "restart" },
    { kind: "stall", ms: random.between(500, 4_000) },
    { kind: "database", mood: { kind: "shaky", chance: 0.4 }, ms: random.between(1_500, 3_000) },
    { kind: "database", mood: { kind: "down" }, ms: random.between(1_500, 3_000) },
    { kind: "database", mood: { kind: "slow", ms: random.between(300, 6_500) }, ms: random.between(1_500, 3_000) },
    ...(withDisk
      ? ([
          { kind: "disk", fault: "slow fsync", ms: random.between(1_000, 2_000) },
          { kind: "disk", fault: "failing fsync", ms: random.between(300, 1_000) },
          { kind: "disk", fault: "full disk", ms: random.between(300, 1_000) },
        ] as const)
      : []),
  ];
}

/** Makes a fault happen, and waits until the coordinator serves again. */
export async function inflict(fault: Fault, subject: Subject, database: DatabaseSwitch, outages: Outages): Promise<void> {
  const began = performance.now();
  switch (fault.kind) {
    case "kill runtime":
      subject.killRuntime();
      break;
    case "kill all":
      await subject.killAll();
      break;
    case "restart":
      await subject.restart();
      break;
    case "deploy":
      subject.deploy();
      // Until the edit is seen the old code serves on.
      await delay(1_000);
      break;
    case "stall":
      await subject.stall(fault.ms);
      break;
    case "database":
      database.mood = fault.mood;
      await delay(fault.ms);
      database.mood = { kind: "well" };
      break;
    case "disk":
      await breakDisk(subject.runtimes(), fault.fault, fault.ms);
      break;
    default:
      fault satisfies never;
  }
  await subject.untilServing();
  if (fault.kind !== "kill runtime" && fault.kind !== "kill all") return;
  outages.set(fault.kind, [...(outages.get(fault.kind) ?? []), performance.now() - began]);
}

/** In a few words, for the log of a run. */
export function describe(fault: Fault): string {
  switch (fault.kind) {
    case "stall":
      return `stall ${fault.ms} ms`;
    case "database":
      return `D1 ${fault.mood.kind} for ${fault.ms} ms`;
    case "disk":
      return `${fault.fault} for ${fault.ms} ms`;
    default:
      return fault.kind;
  }
}

function shuffled<T>(random: Random, list: readonly T[]): T[] {
  return list
    .map((item) => ({ item, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}
