import type { JobInput, RunOptions, RunResult } from "../sdk/index.ts";
import { untrusted } from "../worker/node/printable.ts";
import { shortKey } from "../worker/node/status-line.ts";
import { print, printJson, printUntrusted } from "./print.ts";
import { asking, type SeekerOptions } from "./seeker.ts";
import { waitFor } from "./waiting.ts";

/** Runs a job to its end and prints the result; after Ctrl-C it prints how to go on instead. */
export async function runJob(args: SeekerOptions & { json?: boolean | undefined }, job: JobInput, options: RunOptions): Promise<void> {
  const result = await asking(args, (client) =>
    waitFor(args.url, ({ signal, hasJob, isIn }) => {
      const onUpdate: RunOptions["onUpdate"] = ({ id, status }) => {
        hasJob(id);
        isIn(status);
      };
      return client.run(job, { ...options, signal, onUpdate });
    }),
  );
  if (result !== undefined) printResult(result, args.json === true);
}

/** Prints a result: the output on standard output, what is known about it on standard error, so that a pipe gets the output only. */
function printResult(result: RunResult, json: boolean): void {
  const { output, receipt, verified, verification, price, jobId, source } = result;
  if (json) {
    const reason = verification.ok ? {} : { reason: verification.reason };
    return printJson({ job_id: jobId, source, price, verified, ...reason, result: result.result, receipt });
  }
  printUntrusted(`${typeof output === "string" ? output : JSON.stringify(output, null, 2)}\n`);
  printFacts(result);
}

/** Prints what is known about a result on standard error: receipt, signer, price, job. */
export function printFacts({ receipt, verification, price, jobId }: RunResult): void {
  const signer = receipt === null ? "no receipt" : `worker ${shortKey(receipt.provider_pubkey)}`;
  const holds = verification.ok ? "receipt holds" : `NOT verified: ${verification.reason}`;
  print(untrusted([holds, signer, ...(price === null ? [] : [price]), `job ${jobId ?? "none"}`].join("  ")), process.stderr);
}
