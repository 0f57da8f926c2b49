import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readExactSvm } from "../../../src/coordinator/payment/read-payment.ts";
import { requirements, type Requirements } from "../../../src/coordinator/payment/terms.ts";
import { readTransaction } from "../../../src/coordinator/chain/svm-transaction.ts";
import { FEE_PAYER, SVM_KEY, SVM_PAYER, svmOffer, TRANSACTION } from "../../support/payments.ts";

const NOW = 1_790_000_000_000;
const ours = requirements(svmOffer());
const bytes = Buffer.from(TRANSACTION, "base64");
const read = (transaction: unknown, terms: Requirements = ours) => readExactSvm({ transaction }, terms, NOW);
const NO_TRANSACTION = { ok: false, reason: "payload.transaction must be a serialized transaction in base64" };

/** The transaction with other bytes from an offset on. */
function changed(at: number, ...values: number[]): string {
  const copy = Buffer.from(bytes);
  for (const [i, value] of values.entries()) copy[at + i] = value;
  return copy.toString("base64");
}

/** Parts of a transaction that a test may choose. */
type Parts = {
  version?: number | null;
  signers?: number;
  keys?: number;
  program?: number;
  accounts?: number[];
  data?: number[];
  lookups?: number[][];
  tail?: number[];
  signature?: number;
};

/** A small transaction, legacy where `version` is null. */
function made({ version = 0x80, signers = 1, keys = 3, program = 2, accounts = [0, 1], data = [1], lookups = [], tail = [], signature = 7 }: Parts): string {
  const key = (n: number) => [n + 1, ...Array.from({ length: 31 }, () => 9)];
  const message = [
    ...(version === null ? [] : [version]),
    ...[signers, 0, 1],
    keys,
    ...Array.from({ length: keys }, (_, i) => key(i)).flat(),
    ...Array.from({ length: 32 }, () => 5),
    ...[1, program, accounts.length, ...accounts, data.length, ...data],
    ...(version === null ? [] : [lookups.length, ...lookups.flatMap((indexes) => [...key(99), indexes.length, ...indexes, 0])]),
  ];
  return Buffer.from([signers, ...Array.from({ length: 64 * signers }, () => signature), ...message, ...tail]).toString("base64");
}

describe("a payment of @x402/svm", () => {
  test("[PY3, PY6] is read: its key is the hash of its message, its payer is the owner of the tokens", () => {
    expect(read(TRANSACTION)).toEqual({
      ok: true,
      value: { payload: { transaction: TRANSACTION }, key: SVM_KEY, payer: SVM_PAYER, feePayer: FEE_PAYER, expiresAt: NOW + 120_000, untimely: null },
    });
  });

  test("[PY6] a signature that is added or changed does not change the key, but the digest", () => {
    const signed = read(changed(1, 1, 2, 3));
    expect(signed).toMatchObject({ ok: true, value: { key: SVM_KEY, payload: { transaction: changed(1, 1, 2, 3) } } });
  });

  test("[PY3] unsigned by its payer it is refused", () => {
    expect(read(changed(65, ...Array.from({ length: 64 }, () => 0)))).toEqual({ ok: false, reason: "payload.transaction is not signed by its payer" });
  });

  test.each([
    ["amount", { amount: "10001" }],
    ["amount", { amount: "1000" }],
    ["payTo", { payTo: SVM_PAYER }],
    ["asset", { asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" }],
  ])("[PY3] with another %s than ours it is refused", (_, terms) => {
    expect(read(TRANSACTION, { ...ours, ...terms })).toEqual({ ok: false, reason: expect.stringContaining("payload.transaction must transfer ") });
  });
});

test("[PY3] the owner of the tokens must have signed the transfer itself: anybody can name the account of somebody else", () => {
  // The instruction of the transfer: program, four accounts. Its owner is the last account, and becomes one that signs nothing.
  const at = bytes.indexOf(Buffer.from([7, 4, 2, 4, 3, 1, 10, 12]));
  expect(at).toBeGreaterThan(0);
  expect(read(changed(at + 5, 4))).toEqual({ ok: false, reason: expect.stringContaining("payload.transaction must transfer ") });
});

describe("shape", () => {
  test.each([undefined, null, 1, {}, [], "", "A".repeat(1_645)])("[PY3] transaction %o is refused", (transaction) => {
    expect(read(transaction)).toEqual({ ok: false, reason: "payload.transaction must be a string of 1 to 1644 characters" });
  });

  test.each(["%", "AA==", "AAAA", "A".repeat(1_644), TRANSACTION.slice(0, -4), `${TRANSACTION.slice(0, -2)}AA==`, TRANSACTION.replaceAll("+", "-")])(
    "[PY3] %s is not a transaction",
    (transaction) => {
      expect(read(transaction)).toEqual(NO_TRANSACTION);
    },
  );

  test.each<[string, Parts, boolean]>([
    ["version 0", {}, true],
    ["legacy", { version: null }, true],
    ["version 1", { version: 0x81 }, false],
    ["a program that is the fee payer", { program: 0 }, false],
    ["a program that is not there", { program: 3 }, false],
    ["an account that is not there", { accounts: [3] }, false],
    ["an account of a lookup table", { accounts: [3, 4], lookups: [[7, 8]] }, true],
    ["an account after the lookup table's", { accounts: [5], lookups: [[7, 8]] }, false],
    ["bytes after its end", { tail: [0] }, false],
    ["more signers than keys", { signers: 4 }, false],
    ["no keys", { keys: 0 }, false],
  ])("[PY3] %s", (_, parts, ok) => {
    expect(read(made(parts)).ok).toBe(ok);
  });

  test("[PY3] without a complete transfer the facilitator decides, and says who pays", () => {
    expect(read(made({}))).toMatchObject({ ok: true, value: { payer: null } });
  });

  test("[PY3] a length in more bytes than necessary is refused, because the chain refuses it too", () => {
    const [count = 0, ...rest] = bytes;
    expect(read(Buffer.from([count | 0x80, 0, ...rest]).toString("base64"))).toEqual(NO_TRANSACTION);
    expect(read(Buffer.from([0xff, 0xff, 0xff, 1, ...rest]).toString("base64"))).toEqual(NO_TRANSACTION);
  });

  test("[PY3] no bytes make it throw, and a transaction that is cut is refused", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 1_300 }), (random) => void readTransaction(random)),
      { numRuns: 2_000 },
    );
    for (let length = 0; length < bytes.length; length++) expect(readTransaction(bytes.subarray(0, length))).toBeNull();
    expect(readTransaction(new Uint8Array(1_233))).toBeNull();
  });
});
