import type { FailedTransactionMetadata } from "litesvm";

/** A transaction's error as a Solana RPC writes it: `"BlockhashNotFound"`, `{"InstructionError":[2,{"Custom":1}]}`. */
export type TransactionError = string | Readonly<Record<string, unknown>>;

/** Why litesvm failed a transaction. Read from its text: its enums have no names at run time. */
export function transactionError(failed: FailedTransactionMetadata): TransactionError {
  const [, text = "Unknown"] = /\berr: (.*?), meta: /s.exec(String(failed)) ?? [];
  const [, index, inner] = /^InstructionError\((\d+), (.*)\)$/s.exec(text) ?? [];
  if (inner !== undefined) return { InstructionError: [Number(index), instructionError(inner)] };
  const [, name, field, value] = /^(\w+) \{ (\w+): (\d+) \}$/.exec(text) ?? [];
  if (name !== undefined && field !== undefined) return { [name]: { [field]: Number(value) } };
  const [, tuple, argument] = /^(\w+)\((\d+)\)$/.exec(text) ?? [];
  return tuple === undefined ? text : { [tuple]: Number(argument) };
}

function instructionError(text: string): unknown {
  const [, code] = /^Custom\((\d+)\)$/.exec(text) ?? [];
  return code === undefined ? text.replace(/\(.*$/s, "") : { Custom: Number(code) };
}
