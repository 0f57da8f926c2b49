// A client that stays connected after the coordinator has closed its sockets: the platform keeps such a connection, and all that is unread, for ever [LM2].
import { beforeAll, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { within } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

const SOCKETS = 4;
const attacker = { "x-test-ip": "192.0.2.66" };
const honest = { "x-test-ip": "198.51.100.7" };

let evm: Subject;

beforeAll(async () => {
  const limits = { RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip", SOCKETS_PER_IP: String(SOCKETS) };
  evm = await start("evm", { TESTNET_MODE: "true", ...limits });
});

const dial = ({ "x-test-ip": address }: typeof attacker) => RawSocket.open(evm.port, "/", [`Host: ${evm.host}`, `x-test-ip: ${address}`]);

/** A socket that was closed for bad messages, and whose client neither answers the close nor hangs up. */
async function lingering(): Promise<RawSocket> {
  const raw = await dial(attacker);
  expect(raw.head).toMatch(/^HTTP\/1.1 101/);
  for (let n = 0; n < LIMITS.badFramesInARow; n++) raw.send(1, "no JSON");
  expect(await raw.closeCode()).toBe(4400);
  return raw;
}

test("[LM2] has as many such connections as sockets, and no more; a thousand frames on each of them disturb nobody", { timeout: 60_000 }, async () => {
  const worker = await fullWorker(evm.socketUrl, { capabilities: ["TASK"] }, undefined, honest);
  const raws: RawSocket[] = [];
  for (let n = 0; n < SOCKETS; n++) raws.push(await lingering());
  const refused = await dial(attacker);
  expect(refused.head).toMatch(/^HTTP\/1.1 429/);
  refused.end();
  for (const raw of raws) for (let n = 0; n < 1_000; n++) raw.send(1, "more");
  const id = await evm.api.commit(task(newUser()), "cheap", honest);
  await worker.assigned(id);
  expect((await worker.complete(id, { sentiment: "positive", confidence: 0.9 })).status).toBe("accepted");
  // No frame was answered, and the connections stand.
  for (const { frames, ended } of raws) expect([frames.at(-1)?.opcode, ended]).toEqual([8, false]);
  raws[0]?.end();
  const next = await within(
    10_000,
    async () => {
      const raw = await dial(attacker);
      if (raw.head.startsWith("HTTP/1.1 101")) return raw;
      raw.end();
      return undefined;
    },
    () => "room for one socket",
  );
  for (const raw of [...raws, next]) raw.end();
});
