import { type JobEvent, ProtocolError, type RouterResult } from "../sdk/index.ts";
import { type Out, printUntrusted } from "./print.ts";
import type { Wait } from "./waiting.ts";

/** Where a stream is printed. */
export type Streams = { stdout: Out; stderr: Out };

/**
 * Prints a job's text as it comes, on standard output; resolves with the result. What was printed cannot be taken back: after a reset, and where
 * the result turns out to be another text, it begins again on a new line.
 */
export async function printStream(
  events: AsyncIterable<JobEvent>,
  { stdout, stderr }: Streams,
  wait: Pick<Wait, "hasJob" | "isIn" | "begins"> = { hasJob: () => {}, isIn: () => {}, begins: () => {} },
): Promise<RouterResult> {
  let printed = "";
  let hasBeginning = false;
  const beginAnew = (why: string): void => {
    if (printed === "") return;
    stdout.write("\n");
    stderr.write(`${why}; the text begins again:\n`);
    printed = "";
  };
  for await (const event of events) {
    if (event.type === "job") wait.hasJob(event.jobId);
    if (event.type === "status") wait.isIn(event.status);
    if (event.type === "delta") {
      // Text whose beginning was lost is not worth reading: the result has all of it.
      hasBeginning ||= event.seq === 0;
      if (!hasBeginning) continue;
      wait.begins();
      printUntrusted(event.delta, stdout);
      printed += event.delta;
    }
    if (event.type === "reset") {
      hasBeginning = false;
      beginAnew("the worker was lost, or the connection");
    }
    if (event.type !== "done") continue;
    const { output } = event.result;
    const text = typeof output === "string" ? output : JSON.stringify(output, null, 2);
    if (!text.startsWith(printed)) beginAnew("the result is another");
    wait.begins();
    printUntrusted(`${text.slice(printed.length)}\n`, stdout);
    return event.result;
  }
  throw new ProtocolError("the stream ended without a result");
}
