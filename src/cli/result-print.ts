import type { RunResult } from "../sdk/index.ts";
import { shortKey } from "../worker/node/status-line.ts";
import { print, remark } from "./print.ts";

/** Prints a result: the output on standard output, what is known about it on standard error, so that a pipe gets the output only. */
export function printResult(result: RunResult, json: boolean): void {
  const { output, receipt, verified, verification, price, jobId, source } = result;
  if (json)
    return print(
      JSON.stringify({ job_id: jobId, source, price, verified, ...(!verification.ok && { reason: verification.reason }), result: result.result, receipt }),
    );
  print(typeof output === "string" ? output : JSON.stringify(output, null, 2));
  printFacts(result);
}

/** Prints what is known about a result on standard error: receipt, signer, price, job. */
export function printFacts({ receipt, verification, price, jobId }: RunResult): void {
  const signer = receipt === null ? "no receipt" : `worker ${shortKey(receipt.provider_pubkey)}`;
  const holds = verification.ok ? "receipt holds" : `NOT verified: ${verification.reason}`;
  remark([holds, signer, ...(price === null ? [] : [price]), `job ${jobId ?? "none"}`].join("  "));
}
