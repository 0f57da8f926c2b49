import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { type CodeClaim, PairingClaims } from "../../../src/coordinator/hub/pairing-claims.ts";
import { LIMITS, RATES } from "../../../src/protocol/limits.ts";
import { MINUTE } from "../../../src/protocol/times.ts";
import { pairText } from "../../../src/protocol/worker-messages.ts";
import { type KeyPair, signText } from "../../../src/receipt/index.ts";
import { type Answer, TestHub, withSettings } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";

withSettings({ RATE_LIMITS: "on", TRUST_PER_MINUTE: "1000", TRUSTED_IP_HEADER: "x-real-ip" });

const { failedPairingClaimsPerMinute: COMMON, failedPairingClaimsPerBlock: PER_BLOCK, pairingClaimsPerMinute: PER_CLIENT } = RATES;
const CONNECTED = RATES.pairingConnectedMinutes * MINUTE;
const HOUR = 60 * MINUTE;
const START = 1_750_000_000_000;

/** The claims of a new hub, with a clock of the test's own. */
class Desk {
  now = START;
  /** Since when the worker of each key is connected; the others are not. */
  readonly connected = new Map<string, number>();
  readonly #claims: PairingClaims;
  #blocks = 0;
  #ids = 0;

  constructor(sql: SqlStorage) {
    this.#claims = new PairingClaims(sql, RATES);
  }

  /** Begins a claim, of a new client in a block of its own unless `client` is given. */
  claim(claim: Partial<CodeClaim> = {}): boolean {
    const client = `10.${Math.floor(++this.#blocks / 250)}.${this.#blocks % 250}.1`;
    return this.#claims.begin({ id: String(++this.#ids), client, signedBy: null, ...claim }, (key) => this.connected.get(key) ?? null, this.now);
  }

  won(id: string): void {
    this.#claims.won(id);
  }

  /** Strangers fail until the common budget is spent. */
  spendCommon(): void {
    for (let n = 0; n < COMMON; n++) this.claim();
    expect(this.claim()).toBe(false);
  }

  /** A key whose worker has been connected for long enough. */
  owner(key = "owner"): string {
    this.connected.set(key, this.now - CONNECTED);
    return key;
  }
}

/** Runs a test on the claims of a new hub. */
const desk = (look: (desk: Desk) => void) => () => new TestHub().inside((_, state) => look(new Desk(state.storage.sql)));

describe("after strangers have spent the common budget of failed claims", () => {
  test(
    "[TR3] a claim passes if a worker signed it that has been connected for ten minutes, and not a millisecond less",
    desk((it) => {
      it.spendCommon();
      it.connected.set("late", it.now - CONNECTED + 1);
      expect(it.claim({ signedBy: "late" })).toBe(false);
      it.now += 1;
      expect(it.claim({ signedBy: "late" })).toBe(true);
      expect(it.claim({ signedBy: "nobody's" })).toBe(false);
      expect(it.claim()).toBe(false);
    }),
  );

  test(
    "[TR3] a key passes so until it has failed three times in an hour; what won and what others failed does not count",
    desk((it) => {
      it.spendCommon();
      const key = it.owner();
      it.claim({ signedBy: key, id: "winner" });
      it.won("winner");
      for (let n = 0; n < LIMITS.failedClaimsPerKey; n++) expect(it.claim({ signedBy: key })).toBe(true);
      expect(it.claim({ signedBy: key })).toBe(false);
      expect(it.claim({ signedBy: it.owner("another") })).toBe(true);
      it.now += HOUR - 1;
      it.spendCommon();
      expect(it.claim({ signedBy: key })).toBe(false);
      it.now += 1;
      expect(it.claim({ signedBy: key })).toBe(true);
    }),
  );

  test(
    "[TR3] failures of a key before the common budget was spent count for the key too",
    desk((it) => {
      const key = it.owner();
      for (let n = 0; n < LIMITS.failedClaimsPerKey; n++) it.claim({ signedBy: key });
      for (let n = LIMITS.failedClaimsPerKey; n < COMMON; n++) it.claim();
      expect(it.claim({ signedBy: key })).toBe(false);
      expect(it.claim({ signedBy: it.owner("another") })).toBe(true);
    }),
  );

  test(
    "[TR3] a hundred such failures in an hour are the most, and they do not spend the common budget",
    desk((it) => {
      it.spendCommon();
      const spared = (n: number) => it.claim({ signedBy: it.owner(`key ${n}`) });
      for (let n = 0; n < LIMITS.failedSparedClaims; n++) expect(spared(n)).toBe(true);
      expect(spared(1_000)).toBe(false);
      it.now += MINUTE;
      it.spendCommon();
      expect(spared(1_001)).toBe(false);
      it.now += HOUR - MINUTE;
      it.spendCommon();
      expect(spared(1_002)).toBe(true);
    }),
  );

  test(
    "[TR3] the budgets of its client and of its addresses hold all the same",
    desk((it) => {
      const client = "192.0.2.7";
      for (let n = 0; n < PER_CLIENT; n++) expect(it.claim({ client })).toBe(true);
      for (let n = PER_CLIENT; n < PER_BLOCK; n++) expect(it.claim({ client: `192.0.2.${100 + n}` })).toBe(true);
      for (let n = PER_BLOCK; n < COMMON; n++) it.claim();
      const signedBy = it.owner();
      expect(it.claim({ signedBy, client }), "its client").toBe(false);
      expect(it.claim({ signedBy, client: "192.0.2.8" }), "its /24").toBe(false);
      expect(it.claim({ signedBy, client: "192.0.3.8" }), "the next /24").toBe(true);
    }),
  );
});

describe("one network alone", () => {
  test.each([
    ["an IPv4 /24", (n: number) => `192.0.2.${n + 1}`, "192.0.3.1"],
    ["an IPv6 /48", (n: number) => `2001:db8:7:${n.toString(16)}::/64`, "2001:db8:8:1::/64"],
  ])("[TR3] %s cannot spend the common budget: its own is smaller", (_, address, other) =>
    desk((it) => {
      for (let n = 0; n < PER_BLOCK; n++) expect(it.claim({ client: address(n) })).toBe(true);
      expect(it.claim({ client: address(PER_BLOCK) })).toBe(false);
      expect(it.claim({ client: other })).toBe(true);
      it.now += MINUTE;
      expect(it.claim({ client: address(PER_BLOCK) })).toBe(true);
    })(),
  );
});

describe("the owner of a worker, while strangers guess", () => {
  /** Claims a code, signed by a key or not. */
  async function claim(hub: TestHub, code: string, ip: string, key: KeyPair, isSigned: boolean): Promise<Answer> {
    const network = env.INSTANCE === "evm" ? "eip155:10143" : "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
    const signature = isSigned ? signText(pairText({ network, code, pubkey: key.publicKey }), key.secret) : undefined;
    const body = JSON.stringify({ pairing_code: code, provider_pubkey: key.publicKey, signature });
    return hub.request("/v1/trust/claim", { method: "POST", headers: { "content-type": "application/json", "x-real-ip": ip }, body });
  }

  test("[TR3, TR4] pairs by its worker's signature once the worker has been connected for ten minutes, also after the hub lost its memory", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const worker = await hub.worker({ signed: true });
    const create = { method: "POST", headers: { "content-type": "application/json", "x-real-ip": "198.51.100.1" }, body: '{"user_id":"pairing owner"}' };
    const code = String((await hub.request("/v1/trust/create", create)).body.pairing_code);
    const flood = async (): Promise<void> => {
      for (let n = 0; n < COMMON; n++) await claim(hub, "000000", `203.0.${n}.7`, newKey(), true);
      expect((await claim(hub, "000000", "203.0.113.7", newKey(), true)).status).toBe(429);
    };
    await flood();
    expect((await claim(hub, code, "198.51.100.1", worker.key, true)).status, "connected just now").toBe(429);
    hub.skip(CONNECTED - 1);
    // Heard just now: the next sweep closes what was silent for ten minutes.
    await worker.quiet();
    await flood();
    expect((await claim(hub, code, "198.51.100.1", worker.key, true)).status, "almost").toBe(429);
    // So does a hub that starts.
    await worker.quiet();
    await hub.evict();
    await hub.pass(1);
    expect((await claim(hub, code, "198.51.100.1", worker.key, false)).status, "not signed").toBe(429);
    expect((await claim(hub, code, "198.51.100.1", newKey(), true)).status, "not connected").toBe(429);
    expect(await claim(hub, code, "198.51.100.1", worker.key, true)).toMatchObject({ status: 200, body: { user_id: "pairing owner" } });
  });
});
