import { beforeAll, expect, test } from "vitest";
import { type Answer, newUser } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type Identity, newIdentity, signText } from "../support/identity.ts";
import { pass, stopwatch } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

/** The shortest time after which a worker's signature counts that the setting can name; by default it is ten minutes. */
const CONNECTED_MS = 60_000;
/** For so long a wrong guess counts. */
const MINUTE = 60_000;
const OWNER_ADDRESS = "198.51.100.1";

let evm: Subject;

beforeAll(async () => {
  const settings = { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip", PAIRING_CONNECTED_MINUTES: "1" };
  evm = await start("evm", settings);
});

/** Claims a code from this address; `signer` signs the claim. */
function claim(code: string, address: string, pubkey: string, signer?: Identity): Promise<Answer> {
  const signature = signer && signText(signer, `compute-router/pair/v1\neip155:10143\n${code}\n${pubkey}`);
  return evm.api.post("/v1/trust/claim", { pairing_code: code, provider_pubkey: pubkey, signature }, { "x-test-ip": address });
}

/** Forty wrong guesses, each of a fresh key that signs it, from forty networks. The last ones are not looked at. */
async function strangersGuess(): Promise<void> {
  const guesses = Array.from({ length: 40 }, (_, n) => {
    const key = newIdentity();
    return claim(`F${n.toString(16).padStart(5, "0")}`.toUpperCase(), `203.0.${n}.7`, key.pubkey, key);
  });
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 400).length).toBeLessThanOrEqual(30);
  expect(statuses).toContain(429);
}

test(
  "[TR3, TR4] strangers of many networks guess without end: the owner of a worker that was there before pairs all the same",
  { timeout: 130_000 },
  async () => {
    const worker = await fullWorker(evm.socketUrl);
    const connected = stopwatch();
    const user = newUser();
    const code = String((await evm.api.post("/v1/trust/create", { user_id: user }, { "x-test-ip": OWNER_ADDRESS })).body.pairing_code);
    await strangersGuess();
    const guessed = stopwatch();
    expect((await claim(code, OWNER_ADDRESS, worker.pubkey, worker.identity)).status, "connected just now").toBe(429);

    // The guesses before are forgotten then: if some of them still counted, they would be forgotten while the owner claims.
    await pass(Math.max(CONNECTED_MS - connected(), MINUTE - guessed()) + 1_000);
    await strangersGuess();
    const late = await fullWorker(evm.socketUrl);
    expect((await claim(code, OWNER_ADDRESS, worker.pubkey)).status, "not signed").toBe(429);
    expect((await claim(code, OWNER_ADDRESS, late.pubkey, late.identity)).status, "a newcomer's signature").toBe(429);
    expect(await claim(code, OWNER_ADDRESS, worker.pubkey, worker.identity)).toMatchObject({ status: 200, body: { user_id: user } });
  },
);
