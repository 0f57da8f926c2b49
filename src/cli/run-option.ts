import type { RunOptions } from "../sdk/index.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { PAYER_ARGS } from "./payer.ts";
import { SEEKER_ARGS } from "./seeker.ts";

const POLICIES = ["FAST", "CHEAP", "AUTO"] as const;

/** `--policy` of every command that has a price. */
export const POLICY_ARG = {
  type: "string",
  valueHint: "FAST|CHEAP|AUTO",
  description: "Tier; default AUTO (FAST for text generation, CHEAP for tasks)",
} as const;

/** The options of every command that runs a job. */
export const RUN_ARGS = {
  ...SEEKER_ARGS,
  policy: POLICY_ARG,
  private: { type: "boolean", description: "Only on workers that you have paired with" },
  timeout: { type: "string", valueHint: "seconds", description: "How long to wait; default 60 for text generation, 30 for tasks" },
  ...PAYER_ARGS,
  "require-verified": { type: "boolean", description: "Fail (exit code 8) unless the receipt holds" },
} as const;

/** A policy of what a person wrote, in any case. */
export function readPolicy(text: string | undefined): (typeof POLICIES)[number] | undefined {
  const policy = POLICIES.find((known) => known === text?.toUpperCase());
  if (text !== undefined && policy === undefined) throw new CliError(EXIT.usage, `--policy: one of ${POLICIES.join(", ")}`);
  return policy;
}

/** A whole number of what a person wrote. */
export function readCount(option: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined;
  const count = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (count >= min && count <= max) return count;
  throw new CliError(EXIT.usage, `--${option}: a whole number from ${min} to ${max}`);
}

/** The SDK's options for a run. */
export function readRunOptions(args: {
  policy?: string | undefined;
  private?: boolean | undefined;
  timeout?: string | undefined;
  "require-verified"?: boolean | undefined;
}): RunOptions {
  const policy = readPolicy(args.policy);
  const seconds = readCount("timeout", args.timeout, 1, 3600);
  return {
    privacy: args.private === true ? "PRIVATE" : "PUBLIC",
    requireVerified: args["require-verified"] === true,
    ...(policy !== undefined && { policy }),
    ...(seconds !== undefined && { timeout: seconds * 1000 }),
  };
}
