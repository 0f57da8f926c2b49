import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { sql, start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { type Frame, fullWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };
const keys = { none: newIdentity(), ninetyNine: newIdentity(), hundred: newIdentity(), most: newIdentity(), thousand: newIdentity() };

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", STAKE_SOURCE: "table" });
  const rows = [
    [keys.ninetyNine, 99],
    [keys.hundred, 100],
    [keys.most, 999],
    [keys.thousand, 1000],
  ] as const;
  // The coordinator makes its tables at the first statement that needs them [API10].
  expect((await evm.api.get(`/v1/trust/list?user_id=${newUser()}`)).status).toBe(200);
  sql(
    evm,
    `INSERT INTO stakes (provider_pubkey, amount, updated_at) VALUES ${rows.map(([{ pubkey }, amount]) => `('${pubkey}', ${amount}, ${Date.now()})`).join(", ")}`,
  );
});

async function tierOf(identity: ReturnType<typeof newIdentity>): Promise<Frame> {
  return (await WorkerSocket.open(evm.socketUrl, identity)).registerSigned();
}

describe("STAKE_SOURCE=table", () => {
  test.each([
    ["none", "Open"],
    ["ninetyNine", "Open"],
    ["hundred", "Verified"],
    ["most", "Verified"],
    ["thousand", "Sentinel"],
  ] as const)("[ST1, ST2, WS4] a stake of %s is tier %s at register", async (name, tier) => {
    expect(await tierOf(keys[name])).toMatchObject({ status: "ok", tier });
  });

  test("[ST1, SPEC] an Open worker gets CHEAP and never FAST; a Verified one gets both", async () => {
    const open = await fullWorker(evm.socketUrl, {}, keys.ninetyNine);
    const fast = await evm.api.commit(task(newUser()), "fast");
    const cheap = await evm.api.commit(task(newUser()), "cheap");
    await open.assigned(cheap);
    await open.complete(cheap, OUTPUT);
    await open.settled();
    expect(open.had(fast)).toBe(false);
    expect((await evm.api.job(fast)).status).toBe("pending");
    const verified = await fullWorker(evm.socketUrl, {}, keys.hundred);
    await verified.assigned(fast, 3_000);
    await verified.complete(fast, OUTPUT);
    open.close();
    await open.ended();
    const another = await evm.api.commit(task(newUser()), "cheap");
    await verified.assigned(another);
    await verified.complete(another, OUTPUT);
  });

  test("[ST1, JB8] FAST PRIVATE needs a paired worker of 100 up: 422 with an Open one; CHEAP PRIVATE does not", async () => {
    const open = await fullWorker(evm.socketUrl, {}, keys.none);
    const user = newUser();
    await evm.api.pair(user, open);
    expect((await evm.api.tryCommit(task(user, "x", PRIVATE), "fast")).status).toBe(422);
    const cheap = await evm.api.commit(task(user, "x", PRIVATE), "cheap");
    await open.assigned(cheap);
    await open.complete(cheap, OUTPUT);
    const sentinel = await fullWorker(evm.socketUrl, {}, keys.thousand);
    expect((await evm.api.tryCommit(task(user, "x", PRIVATE), "fast")).status, "[SPEC] stake never opens PRIVATE").toBe(422);
    await evm.api.pair(user, sentinel);
    const fast = await evm.api.commit(task(user, "x", PRIVATE), "fast");
    await sentinel.assigned(fast);
    expect(open.had(fast)).toBe(false);
    await sentinel.complete(fast, OUTPUT);
  });
});
