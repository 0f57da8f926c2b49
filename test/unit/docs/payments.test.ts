import { readdirSync, readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { MOVES } from "../../../src/coordinator/dispatch/index.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";

const PAGE = readFileSync("docs/payments.md", "utf8").replaceAll(/\s+/g, " ");
const seconds = (ms: number): string => `${ms / 1_000} s`;
const minutes = (ms: number): string => `${ms / 60_000} minutes`;

describe("docs/payments.md", () => {
  test.each([
    [
      "PY7",
      `The hub runs at most ${LIMITS.settlements} settlements of its own at once, and the others wait in order; with ${LIMITS.queuedSettlements.toLocaleString("en-US")} in that queue`,
    ],
    ["PY7", `It waits ${seconds(TIMING.hold)} at most, as long as the facilitator may take.`],
    ["PY7", `If a request has not reported the outcome after ${seconds(TIMING.settleReport)}, the answer counts as lost.`],
    ["PY7", `If no worker is free within ${seconds(TIMING.claimWindow)}, the job fails with \`no_eligible_worker\``],
    ["PY8", `again after ${seconds(TIMING.settleRetry)} and then after twice as long each time, up to every ${minutes(TIMING.settleRetryMax)}`],
    ["PY8", `so the first pause is ${seconds(TIMING.settleCall - TIMING.settle)}`],
    ["PY8", `the coordinator goes on asking for ${TIMING.unknownSettlement / 3_600_000} h`],
    ["PY8", `after pauses that double from ${minutes(TIMING.settleRetryMax)} to ${TIMING.settleRetryLate / 3_600_000} h`],
    ["PY8", `the facilitator gave no usable answer within ${seconds(TIMING.verify)}`],
    ["PY8", `no answer within ${seconds(TIMING.settle)}, 5xx, a connection that was cut`],
    ["PY8", `${LIMITS.assumedPerPayer} times a day for one payer and ${LIMITS.assumedPerHub} for all`],
    ["PY8", `in pages of ${LIMITS.chainPageBlocks} blocks`],
    ["PY8", `while the chain's clock is at most ${minutes(TIMING.svmClock)} from ours`],
    ["PY8", `and by the chain's, and ${minutes(TIMING.svmDrift)} more on each side`],
    ["PY9", `${LIMITS.unsettledPayments} payments of this payer are not settled, or ${LIMITS.heldPayments} are held and no worker is idle`],
    ["PY8", `was not answered when the ${seconds(TIMING.total)} of the job were over`],
    ["PY9", `the job streamed text, then reached ${seconds(TIMING.total)}`],
    ["PY5", `is being verified; only in memory, and forgotten after ${seconds(TIMING.reservation)}`],
  ])("[%s] says, as the limits do: %s", (_, sentence) => {
    expect(PAGE).toContain(sentence);
  });

  test("[PY8] names every state of a payment, and every reason of those that have one", () => {
    const steps = Object.keys(MOVES).filter((step) => step !== "none");
    const words = new Set(
      steps.flatMap((step) =>
        step
          .replace(/^settling again$/, "settling")
          .replace(/^spent by \w+$/, "spent")
          .split(" "),
      ),
    );
    expect([...words].filter((word) => !PAGE.includes(`\`${word}\``))).toEqual([]);
  });

  test("its commands for reconciliation run on the database as the migrations make it, and show what is owed", () => {
    const [sums = "", moved = "", ...others] = [...PAGE.matchAll(/d1 execute DB [^`]*?--command "([^"]+)"/g)].map(([, sql]) => sql);
    expect(others).toEqual([]);
    const database = new DatabaseSync(":memory:");
    for (const file of readdirSync("migrations")
      .filter((name) => name.endsWith(".sql"))
      .toSorted())
      database.exec(readFileSync(`migrations/${file}`, "utf8"));
    const insert = database.prepare(
      "INSERT INTO payments (key, rev, state, job_id, payer, asset, amount, settlement, updated_at, balance) VALUES (?, 1, ?, 'j', 'p', 'usdc', '1000', ?, ?, ?)",
    );
    insert.run("a", "spent", "0x1", 1, null);
    insert.run("b", "credit", "0x2", 2, "600");
    insert.run("c", "credit", "", 3, "1000");
    insert.run("d", "unknown", null, 4, null);
    expect(database.prepare(sums).all()).toMatchObject([
      { state: "credit", asset: "usdc", n: 2, atomic_units: 2_000, owed: 1_600 },
      { state: "spent", n: 1, atomic_units: 1_000, owed: null },
      { state: "unknown", n: 1, atomic_units: 1_000, owed: null },
    ]);
    expect(database.prepare(moved).all()).toMatchObject([{ settlement: "0x1" }, { settlement: "0x2" }, { settlement: "" }]);
  });
});
