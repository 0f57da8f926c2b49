import {
  type Address,
  getCompiledTransactionMessageDecoder,
  getCompiledTransactionMessageEncoder,
  getTransactionDecoder,
  getTransactionEncoder,
} from "@solana/kit";
import { base58 } from "@scure/base";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_TRANSACTION_BYTES, readTransaction, type SvmTransaction } from "../../../src/coordinator/chain/svm-transaction.ts";
import { TRANSACTION } from "../../support/payments.ts";

/** A second decoder: the codecs of @solana/kit, and the rules that they leave to others, written a second time. */
function readByKit(bytes: Uint8Array): SvmTransaction | null {
  if (bytes.length > MAX_TRANSACTION_BYTES) return null;
  try {
    const transaction = getTransactionDecoder().decode(bytes);
    const compiled = getCompiledTransactionMessageDecoder().decode(transaction.messageBytes);
    const keys: readonly Address[] = compiled.staticAccounts;
    const { numSignerAccounts: signers, numReadonlySignerAccounts, numReadonlyNonSignerAccounts } = compiled.header;
    if (signers === 0 || numReadonlySignerAccounts >= signers || signers + numReadonlyNonSignerAccounts > keys.length) return null;
    if (new Set(keys).size !== keys.length) return null;
    const tables = "addressTableLookups" in compiled ? (compiled.addressTableLookups ?? []) : [];
    const known = keys.length + tables.reduce((sum, { writableIndexes, readonlyIndexes }) => sum + writableIndexes.length + readonlyIndexes.length, 0);
    if (compiled.instructions.some(({ programAddressIndex: program }) => program === 0 || program >= keys.length)) return null;
    if (compiled.instructions.some(({ accountIndices = [] }) => accountIndices.some((index) => index >= known))) return null;
    // Its decoder passes over bytes after the end, and takes a length in more bytes than it needs.
    const message = getCompiledTransactionMessageEncoder().encode(compiled);
    if (!Buffer.from(message).equals(Buffer.from(transaction.messageBytes))) return null;
    if (!Buffer.from(getTransactionEncoder().encode(transaction)).equals(bytes)) return null;
    return {
      message: Uint8Array.from(message),
      signatures: keys.slice(0, signers).map((key) => Uint8Array.from(transaction.signatures[key] ?? new Uint8Array(64))),
      signers: keys.slice(0, signers),
      blockhash: compiled.lifetimeToken,
      instructions: compiled.instructions.map(({ programAddressIndex, accountIndices = [], data = [] }) => ({
        program: keys[programAddressIndex] ?? "",
        accounts: accountIndices.map((index) => keys[index] ?? null),
        data: Uint8Array.from(data),
      })),
    };
  } catch {
    return null;
  }
}

/** As `readTransaction` gives it, with arrays of their own in place of views. */
function readByUs(bytes: Uint8Array): SvmTransaction | null {
  const read = readTransaction(bytes);
  if (read === null) return null;
  const own = (view: Uint8Array): Uint8Array => Uint8Array.from(view);
  const instructions = read.instructions.map((instruction) => ({ ...instruction, data: own(instruction.data) }));
  return { ...read, message: own(read.message), signatures: read.signatures.map(own), instructions };
}

const indexes = fc.array(fc.nat(9), { maxLength: 4 });
const key = (n: number): number[] => [n, ...Array.from({ length: 31 }, () => 9)];

/** Wire transactions, legacy and version 0, with and without lookup tables: some are good, and many break one of the rules. */
const WRITTEN = fc
  .record({
    isLegacy: fc.boolean(),
    header: fc.tuple(fc.integer({ min: 0, max: 3 }), fc.nat(1), fc.nat(2)),
    keys: fc.array(fc.nat(200), { minLength: 3, maxLength: 6 }),
    instructions: fc.array(fc.record({ program: fc.nat(5), accounts: indexes, data: indexes }), { maxLength: 3 }),
    tables: fc.array(fc.tuple(indexes, indexes), { maxLength: 2 }),
    /** Which of its lengths takes two bytes where one would do, if any. */
    wide: fc.option(fc.nat(6)),
  })
  .map(({ isLegacy, header, keys, instructions, tables, wide }) => {
    let lengths = 0;
    const length = (value: number): number[] => (lengths++ === wide ? [value | 0x80, 0] : [value]);
    const counted = (items: readonly number[][]): number[] => [...length(items.length), ...items.flat()];
    const list = (values: readonly number[]): number[] => [...length(values.length), ...values];
    const signatures = Array.from({ length: header[0] }, (_, n) => Array.from({ length: 64 }, () => n));
    return Uint8Array.from([
      ...counted(signatures),
      ...(isLegacy ? [] : [0x80]),
      ...header,
      ...counted(keys.map(key)),
      ...key(255),
      ...counted(instructions.map(({ program, accounts, data }) => [program, ...list(accounts), ...list(data)])),
      ...(isLegacy ? [] : counted(tables.map(([writable, readonly], n) => [...key(n), ...list(writable), ...list(readonly)]))),
    ]);
  });

const REAL = new Uint8Array(Buffer.from(TRANSACTION, "base64"));

/** A change of a few bytes: replaced, added or taken out. */
const EDITS = fc.array(fc.record({ at: fc.nat(MAX_TRANSACTION_BYTES), removed: fc.nat(2), added: fc.uint8Array({ maxLength: 2 }) }), { maxLength: 2 });

const CHANGED = fc.tuple(fc.oneof(WRITTEN, fc.constant(REAL)), EDITS).map(([bytes, edits]) =>
  edits.reduce((all, { at, removed, added }) => {
    const place = at % (all.length + 1);
    return Uint8Array.from([...all.subarray(0, place), ...added, ...all.subarray(place + removed)]);
  }, bytes),
);

describe("a Solana transaction", () => {
  test("[PY3] is read as @solana/kit reads it, and refused where kit refuses it or one of the rules that kit does not check is broken", () => {
    fc.assert(
      fc.property(fc.oneof(WRITTEN, CHANGED), (bytes) => {
        expect(readByUs(bytes)).toEqual(readByKit(bytes));
      }),
      { numRuns: 1_000 },
    );
  });

  test("[PY3] of a payment names the same programs, accounts and signers to both", () => {
    const read = readByUs(REAL);
    expect(read).toEqual(readByKit(REAL));
    expect(read?.signers.map((signer) => base58.decode(signer).length)).toEqual([32, 32]);
  });
});
