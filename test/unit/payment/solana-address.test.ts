import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { base58 } from "@scure/base";
import { getAddressEncoder, isAddress } from "@solana/kit";
import { addressBytes, associatedTokenAccount } from "../../../src/coordinator/chain/addresses.ts";

import { FEE_PAYER, SVM_PAYER, svmOffer } from "../../support/payments.ts";

const TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
const TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";

/** Texts near the addresses: right and wrong letters, lengths around the two bounds, leading ones too many and too few. */
const NEAR_ADDRESSES = fc.oneof(
  fc.uint8Array({ minLength: 30, maxLength: 34 }).map((bytes) => base58.encode(bytes)),
  fc.tuple(fc.nat(40), fc.uint8Array({ minLength: 0, maxLength: 34 })).map(([ones, bytes]) => "1".repeat(ones) + base58.encode(bytes)),
  fc.string({ unit: fc.constantFrom(..."123456789ABCXYZabcxyz0OIl é😀"), minLength: 30, maxLength: 46 }),
);

describe("address", () => {
  test("[PY11] every written address is read back", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        expect(addressBytes(base58.encode(bytes))).toEqual(bytes);
      }),
    );
  });

  test("[PY11] all zero is 32 ones: the system program, and our placeholder", () => {
    expect(addressBytes("1".repeat(32))).toEqual(new Uint8Array(32));
  });

  test.each(["", "1".repeat(31), "1".repeat(33), "0".repeat(32), "O".repeat(40), "l".repeat(40), "z".repeat(44), "z".repeat(45), `1${FEE_PAYER}`])(
    "[PY11] %s is not an address",
    (text) => {
      expect(addressBytes(text)).toBeNull();
    },
  );

  test("[PY11] exactly the texts that @solana/kit accepts are addresses, with the same bytes", () => {
    fc.assert(
      fc.property(NEAR_ADDRESSES, (text) => {
        expect(addressBytes(text)).toEqual(isAddress(text) ? getAddressEncoder().encode(text) : null);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe("associated token account", () => {
  // By findAssociatedTokenPda of @solana-program/token 0.9.0; 400 random ones of each program agreed too.
  test.each([
    [svmOffer().payTo, svmOffer().token.address, TOKEN_PROGRAM, "Hy1Lc3aN45SS8q5Lc3aVj13exqZ2Be2L2SWTLtCcr3ss"],
    ["1".repeat(32), "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", TOKEN_PROGRAM, "HJt8Tjdsc9ms9i4WCZEzhzr4oyf3ANcdzXrNdLPFqm3M"],
    [SVM_PAYER, "2u1tszSeqZ3qBWF3uNGPFc8TzMk2tdiwknnRMWGWjGWH", TOKEN_2022, "4J2PT2WvDQAH7o2YsEsBknRrCz91zyWvc7r3xLitXk7r"],
  ])("[PY3] of %s for %s under %s is %s", (owner, mint, program, account) => {
    expect(associatedTokenAccount(owner, program, mint)).toBe(account);
  });

  test("[PY3] of an invalid address there is none", () => {
    expect(associatedTokenAccount("x", TOKEN_PROGRAM, svmOffer().token.address)).toBeNull();
  });
});
