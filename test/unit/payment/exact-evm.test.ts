import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readExactEvm } from "../../../src/coordinator/payment/read-payment.ts";
import { requirements } from "../../../src/coordinator/payment/terms.ts";
import { authorization, evmOffer } from "../../support/payments.ts";

const NOW = 1_790_000_000_000;
const SECONDS = NOW / 1_000;
const ours = requirements(evmOffer());
const read = (change: Record<string, unknown> = {}, more: Record<string, unknown> = {}) => {
  const { authorization: signed, ...rest } = authorization(NOW);
  return readExactEvm({ ...rest, ...more, authorization: { ...signed, ...change } }, ours, NOW);
};

describe("shape", () => {
  test("[PY3, PY6] hex is converted to lower case, the payer is the signer, and unknown members are left out", () => {
    const reading = read({ evil: 1 }, { signature: `0x${"AB".repeat(65)}`, evil: 1 });
    const { authorization: signed } = authorization(NOW);
    expect(reading).toEqual({
      ok: true,
      value: {
        payload: {
          signature: `0x${"ab".repeat(65)}`,
          authorization: { ...signed, from: signed.from.toLowerCase(), to: signed.to.toLowerCase(), nonce: signed.nonce.toLowerCase() },
        },
        key: `eip155:10143:${ours.asset}:${signed.from}:${signed.nonce}`.toLowerCase(),
        payer: signed.from.toLowerCase(),
        feePayer: null,
        expiresAt: NOW + 300_000,
        untimely: null,
      },
    });
  });

  const wrong: [string, unknown][] = [
    ["from", undefined],
    ["from", null],
    ["from", "0x123"],
    ["from", `0x${"g".repeat(40)}`],
    ["from", "a".repeat(42)],
    ["from", `0x${"a".repeat(40)}\n`],
    ["to", `0x${"a".repeat(41)}`],
    ["to", 1],
    ["value", 10000],
    ["value", "0x2710"],
    ["value", "010000"],
    ["value", "1e4"],
    ["value", "-10000"],
    ["value", "10000.0"],
    ["value", " 10000"],
    ["value", String(2n ** 256n)],
    ["value", "9".repeat(5_000)],
    ["validAfter", 0],
    ["validAfter", ""],
    ["validBefore", "never"],
    ["validBefore", String(2n ** 256n)],
    ["validBefore", {}],
    ["nonce", "0x"],
    ["nonce", `0x${"0".repeat(63)}`],
    ["nonce", `0x${"0".repeat(66)}`],
    ["nonce", 0],
  ];
  test.each(wrong)("[PY3] authorization.%s %o is refused before the facilitator is asked", (field, value) => {
    const reading = read({ [field]: value });
    expect(reading).toEqual({ ok: false, reason: expect.stringMatching(new RegExp(`^payload\\.authorization\\.${field} `)) });
  });

  test.each([undefined, null, "", "0x", "0xzz", `0x${"ab".repeat(63)}`, `0x${"ab".repeat(64)}a`, "ab".repeat(65), 1, []])(
    "[PY3] signature %o is refused",
    (signature) => {
      expect(read({}, { signature })).toEqual({ ok: false, reason: expect.stringMatching(/^payload\.signature /) });
    },
  );

  test.each([undefined, null, [], "x", 1])("[PY3] authorization %o is refused", (signed) => {
    expect(readExactEvm({ ...authorization(NOW), authorization: signed }, ours, NOW)).toEqual({
      ok: false,
      reason: expect.stringMatching(/^payload\.authorization /),
    });
  });

  test("[PY3] payments of another kind are refused", () => {
    expect(readExactEvm({ signature: `0x${"ab".repeat(65)}`, permit2Authorization: {} }, ours, NOW).ok).toBe(false);
    expect(readExactEvm({ transaction: "AA==" }, ours, NOW).ok).toBe(false);
  });
});

describe("terms", () => {
  test.each([
    ["to", "0x0000000000000000000000000000000000000000"],
    ["value", "9999"],
    ["value", "10001"],
    ["value", "1000"],
    ["value", "0"],
  ])("[PY3] %s %s differs from our terms", (field, value) => {
    expect(read({ [field]: value })).toEqual({ ok: false, reason: expect.stringContaining(`${field} must be `) });
  });

  test("[PY6] the key depends on network, token, payer and nonce, and on nothing else", () => {
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 1_000 }), fc.integer({ min: 0, max: SECONDS }), (before, after) => {
        const reading = read({ validBefore: String(SECONDS + before), validAfter: String(after) });
        expect(reading).toMatchObject({ ok: true, value: { key: readKey() } });
      }),
    );
  });
});

function readKey(): string {
  const reading = read();
  return reading.ok ? reading.value.key : "";
}

describe("times", () => {
  test.each([
    [0, 300, null],
    [0, 0, null],
    [1, 300, /validAfter/],
    [3_600, 7_200, /validAfter/],
    [-600, 40, null],
    [-600, 39, /validBefore must be at least 40 s/],
    [-600, -60, /validBefore/],
  ])("[PY3, PY7] good from %i s to %i s from now: %o", (after, before, untimely) => {
    const reading = read({ validAfter: String(SECONDS + after), validBefore: String(before === 0 ? 2n ** 255n : SECONDS + before) });
    expect(reading).toMatchObject({ ok: true, value: { untimely: untimely === null ? null : expect.stringMatching(untimely) } });
  });

  test("[PY6] an expired payment is still the same payment, because it may have been valid when it came first", () => {
    expect(read({ validBefore: "1" })).toMatchObject({ ok: true, value: { key: readKey(), expiresAt: 1_000 } });
  });

  test("[PY8] the hub does not ask for ever about an authorization without an end", () => {
    expect(read({ validBefore: String(2n ** 256n - 1n) })).toMatchObject({ ok: true, value: { untimely: null, expiresAt: NOW + 24 * 60 * 60 * 1_000 } });
  });
});
