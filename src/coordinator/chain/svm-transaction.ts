// Decodes a Solana transaction strictly, and tells its transfers of tokens. Step "pay" of a job: the transfer of an SVM payment is read from it.
import { base58 } from "@scure/base";
import { associatedTokenAccount } from "./addresses.ts";

/** The maximum size of a transaction that a Solana node accepts, in bytes. */
export const MAX_TRANSACTION_BYTES = 1_232;

/** One instruction. An account is null if it is in an address lookup table, which only the chain can read. */
export type SvmInstruction = { program: string; accounts: (string | null)[]; data: Uint8Array };

/** A decoded transaction. The first signer pays its fee. */
export type SvmTransaction = {
  /** The bytes of the compiled message, which every signer signs. */
  message: Uint8Array;
  /** In the order of `signers`. A missing signature is 64 zero bytes. */
  signatures: Uint8Array[];
  signers: string[];
  /** The blockhash, or the nonce that stands in its place. */
  blockhash: string;
  instructions: SvmInstruction[];
};

/** The bytes end too early, or have an encoding that the chain rejects. */
class Malformed extends Error {
  override readonly name = "Malformed";
}

class Reader {
  readonly #bytes: Uint8Array;
  offset = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get atEnd(): boolean {
    return this.offset === this.#bytes.length;
  }

  take(length: number): Uint8Array {
    if (this.offset + length > this.#bytes.length) throw new Malformed();
    this.offset += length;
    return this.#bytes.subarray(this.offset - length, this.offset);
  }

  byte(): number {
    const [byte] = this.take(1);
    if (byte === undefined) throw new Malformed();
    return byte;
  }

  /** A compact-u16: 7 bits per byte, lowest first, in the fewest possible bytes. */
  length(): number {
    let value = 0;
    for (let shift = 0; shift <= 14; shift += 7) {
      const byte = this.byte();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        if ((byte === 0 && shift > 0) || value > 0xffff) throw new Malformed();
        return value;
      }
    }
    throw new Malformed();
  }

  list<T>(read: () => T): T[] {
    // Each item takes at least one byte. This bound keeps a wrong length from allocating much memory; the read fails instead.
    return Array.from({ length: Math.min(this.length(), this.#bytes.length + 1) }, read);
  }
}

/** Decodes a wire transaction, legacy or version 0. Null if it is neither, or if bytes follow its end. */
export function readTransaction(bytes: Uint8Array): SvmTransaction | null {
  if (bytes.length > MAX_TRANSACTION_BYTES) return null;
  try {
    return read(bytes);
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

function read(bytes: Uint8Array): SvmTransaction {
  const reader = new Reader(bytes);
  const signatures = reader.list(() => reader.take(64));
  const start = reader.offset;
  const first = reader.byte();
  const versioned = first >= 0x80;
  if (versioned && first !== 0x80) throw new Malformed();
  const signerCount = versioned ? reader.byte() : first;
  const readonlySigners = reader.byte();
  const readonlyOthers = reader.byte();
  const keys = reader.list(() => base58.encode(reader.take(32)));
  const blockhash = base58.encode(reader.take(32));
  const compiled = reader.list(() => {
    const program = reader.byte();
    const length = reader.length();
    const accounts = [...reader.take(length)];
    return { program, accounts, data: reader.take(reader.length()) };
  });
  let lookedUp = 0;
  if (versioned) {
    reader.list(() => {
      reader.take(32);
      for (let i = 0; i < 2; i++) {
        const indexes = reader.length();
        reader.take(indexes);
        lookedUp += indexes;
      }
    });
  }
  if (!reader.atEnd || signerCount === 0 || signatures.length !== signerCount) throw new Malformed();
  // The first signer pays the fee, so it must be writable.
  if (signerCount + readonlyOthers > keys.length || readonlySigners >= signerCount || new Set(keys).size !== keys.length) throw new Malformed();
  const instructions = compiled.map(({ program, accounts, data }) => {
    const programKey = keys[program];
    // The program must be one of the listed keys, and the fee payer cannot be a program.
    if (program === 0 || programKey === undefined || accounts.some((index) => index >= keys.length + lookedUp)) throw new Malformed();
    return { program: programKey, accounts: accounts.map((index) => keys[index] ?? null), data };
  });
  return { message: bytes.subarray(start), signatures, signers: keys.slice(0, signerCount), blockhash, instructions };
}

/** The programs of token accounts: SPL Token and Token-2022. */
export const TOKEN_PROGRAMS = ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"] as const;
const TRANSFER_CHECKED = 12;

/** True for a transfer of tokens whose first account is the one that pays. */
export function isTransfer({ program, data }: SvmInstruction): boolean {
  return TOKEN_PROGRAMS.some((known) => known === program) && data[0] === TRANSFER_CHECKED;
}

/** True if this TransferChecked transfers the amount of a 402 to its payee. */
export function isTransferOf({ program, accounts, data }: SvmInstruction, terms: { asset: string; amount: string | bigint; payTo: string }): boolean {
  const [, mint, destination] = accounts;
  const amount = data.length === 10 ? new DataView(data.buffer, data.byteOffset).getBigUint64(1, true) : null;
  return mint === terms.asset && amount === BigInt(terms.amount) && destination === associatedTokenAccount(terms.payTo, program, terms.asset);
}
