import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { until } from "../../support/until.ts";
import type { FaultRule } from "../facilitator/faults.ts";
import { type Bench, brief, idOf } from "./bench.ts";

/** When a coordinator is killed: `after` milliseconds after the request was sent, or a call of the facilitator came or was answered. */
export type Moment = { name: string; fault?: FaultRule; after: number; on: "sent" | "verify" | "settle" | "settled" };

const once = (operation: "verify" | "settle", fault: FaultRule["fault"]): FaultRule => ({ operation, fault, times: 1 });

/** The three in which a payment is neither here nor there. */
export const MOMENTS: readonly Moment[] = [
  { name: "between verify and settle", fault: once("settle", { kind: "hang" }), on: "settle", after: 0 },
  { name: "while it is settled", fault: once("settle", { kind: "slow", ms: 1_500 }), on: "settle", after: 300 },
  { name: "after the money moved, before anybody was told", fault: once("settle", { kind: "lost", how: "hang" }), on: "settle", after: 600 },
];

/** Others, for those who have the time. */
export const MORE_MOMENTS: readonly Moment[] = [
  { name: "during verify", fault: once("verify", { kind: "slow", ms: 1_500 }), on: "verify", after: 100 },
  { name: "during settle, which never happens", fault: once("settle", { kind: "hang" }), on: "settle", after: 100 },
  { name: "as the settlement is answered", on: "settled", after: 0 },
  { name: "10 ms after the settlement", on: "settled", after: 10 },
  { name: "40 ms after the settlement", on: "settled", after: 40 },
  { name: "10 ms after the request", on: "sent", after: 10 },
  { name: "while a settle is unknown", fault: { operation: "settle", fault: { kind: "status" } }, on: "settled", after: 1_500 },
];

/** SIGKILL in that moment of a paid commit: the same payment sent again is one job, completed, and charged once. */
export async function expectNothingLost(bench: Bench, { fault, after, on, name }: Moment): Promise<void> {
  const { facilitator } = bench.lab;
  facilitator.faults.clear();
  if (bench.workers.length === 0) await bench.join();
  const paid = await bench.pay("cheap");
  const gained = await bench.earning(async () => {
    facilitator.log.clear();
    if (fault !== undefined) facilitator.faults.add(fault);
    const first = bench.commit("cheap", name, paid.headers()).then(brief, () => "cut");
    if (on !== "sent") {
      const operation = on === "verify" ? "verify" : "settle";
      await until(operation, async () => facilitator.log.calls.find((call) => call.operation === operation && (on !== "settled" || call.ms !== null)));
    }
    await delay(after);
    await bench.kill();
    const answered = await first;
    facilitator.faults.clear();
    await bench.start();
    await bench.join();
    const again = await bench.commit("cheap", name, paid.headers());
    expect(await brief(again), `first ${answered}, ${JSON.stringify(facilitator.log.calls)}`).toBe("201 ");
    const id = await idOf(again);
    const { job } = await bench.ended(id, 90);
    expect(job.status, JSON.stringify(job)).toBe("completed");
    expect(await idOf(await bench.commit("cheap", name, paid.headers()))).toBe(id);
    expect((await bench.commit("cheap", `${name}, other`, paid.headers())).status).toBe(402);
  });
  expect(gained).toBe(1_000n);
}
