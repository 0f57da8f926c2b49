// The wait for a job as a person sees it: its state, the seconds, the streamed text, and after Ctrl-C how to continue, or to cancel the job. On a job's way:
// poll or stream.
import {
  type Cancellation,
  type ComputeRouter,
  ComputeRouterError,
  type Credit,
  type JobEvent,
  JobFailedError,
  type JobInput,
  ProtocolError,
  type RouterResult,
  type RunOptions,
  type RunResult,
  type Usage,
} from "../sdk/index.ts";
import { inDollars } from "../sdk/payment.ts";
import { shortKey } from "../receipt/ed25519.ts";
import { untrusted } from "../protocol/text.ts";
import { duration, EXIT, type Out, print, printError, printJson, printUntrusted } from "./command.ts";
import { isInteractive, onCtrlC, withPrompt } from "./input.ts";
import { sameKeyText } from "./paying.ts";
import { withClient, moneyText, sameUser, type SeekerOptions } from "./seeker.ts";

const SECOND_MS = 1_000;

const STATES: Record<string, string> = {
  pending: "waiting for a worker",
  assigned: "a worker has the job",
  running: "a worker is working on the job",
};

/** What a run reports about its job. */
export type Wait = {
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  /** The coordinator has the job. */
  hasJob: (jobId: string) => void;
  /** The job has this status. */
  isIn: (status: string) => void;
  /** The text begins, so the status line must disappear. */
  begins: () => void;
  /** The worker of the text was lost, and its line has ended: the status line can be shown again. */
  breaks: () => void;
  /** The coordinator takes no request for so many milliseconds. */
  isLimited: (wait: number) => void;
};

/** What became of a job that a person cancelled, in one line. */
export function cancellationText({ job, cancelled, charged, credit }: Cancellation): string {
  if (!cancelled) return `job ${job.id} had already ended: ${job.status}`;
  return `job ${job.id} is cancelled${charged === null ? "" : moneyText({ charged, credit }, { payer: "anyone" })}`;
}

/** After Ctrl-C: asks a person whether the job should be cancelled, and does it. Resolves to what to say; null if the job continues. */
async function offerCancel(client: Pick<ComputeRouter, "cancel">, jobId: string): Promise<string | null> {
  if (!isInteractive()) return null;
  const wanted = await withPrompt(({ confirm }) => confirm(`cancel job ${jobId}? If a worker has started it, it is still charged`, false)).catch(() => false);
  if (!wanted) return null;
  try {
    return cancellationText(await client.cancel(jobId));
  } catch (error) {
    if (!(error instanceof ComputeRouterError)) throw error;
    return `the job could not be cancelled: ${error.message}`;
  }
}

/**
 * Waits for a job. On a terminal, a line on standard error shows the status and disappears at the end. Ctrl-C ends the wait: it offers to cancel the job, or
 * prints the commands that show its result and cancel it; before the coordinator has confirmed the job, its key. It sets the exit code 130 and resolves to
 * undefined.
 */
export async function waitFor<T>(
  args: SeekerOptions & { idempotencyKey: string },
  client: Pick<ComputeRouter, "cancel">,
  run: (wait: Wait) => Promise<T>,
  out: Out = process.stderr,
): Promise<T | undefined> {
  const ending = new AbortController();
  const started = Date.now();
  // An object, because the run sets it.
  const known: { jobId: string | null } = { jobId: null };
  let state = "sending the job";
  let limitedUntil = 0;
  let isLive = out.isTTY === true;
  let hasText = false;
  const draw = () => {
    const seconds = Math.floor((Date.now() - started) / SECOND_MS);
    const pause = Math.ceil((limitedUntil - Date.now()) / SECOND_MS) * SECOND_MS;
    const shown = pause > 0 ? `rate limited, the next try is in ${duration(pause)}` : `${state} …${seconds > 0 ? ` ${seconds} s` : ""}`;
    if (isLive) out.write(`\r\u001B[K${shown}`);
  };
  const hide = () => {
    if (isLive) out.write("\r\u001B[K");
    isLive = false;
  };
  const ticking = setInterval(draw, SECOND_MS);
  const endCtrlC = onCtrlC(() => ending.abort());
  const change = (next: string | undefined) => {
    if (next === undefined || next === state) return;
    state = next;
    draw();
  };
  draw();
  try {
    return await run({
      signal: ending.signal,
      hasJob: (id) => {
        // This is called with every status. Only the first call is news: a later one must not show "waiting for a worker" again.
        if (known.jobId === null) change(STATES["pending"]);
        known.jobId = id;
      },
      isIn: (status) => change(STATES[status]),
      begins: () => {
        hide();
        hasText = true;
      },
      breaks: () => {
        hasText = false;
        isLive = out.isTTY === true;
        change(STATES["pending"]);
      },
      isLimited: (wait) => {
        limitedUntil = Date.now() + wait;
        draw();
      },
    });
  } catch (error) {
    hide();
    // The text that has come has no end of line.
    if (hasText) out.write("\n");
    if (!ending.signal.aborted) throw error;
    const { jobId } = known;
    process.exitCode = EXIT.interrupted;
    if (jobId === null) printError(`stopped before the coordinator confirmed the job; ${sameKeyText(args.idempotencyKey, args.payer !== undefined)}`);
    else printError((await offerCancel(client, jobId)) ?? continuesText(jobId, args));
    return undefined;
  } finally {
    hide();
    clearInterval(ticking);
    endCtrlC();
  }
}

function continuesText(jobId: string, args: SeekerOptions): string {
  const place = { url: args.url, "config-dir": args["config-dir"] };
  return `job ${jobId} continues. To see its result:\n${sameUser(`job ${jobId}`, { url: args.url })}\nTo cancel it:\n${sameUser(`job cancel ${jobId}`, place)}`;
}

/** Runs a job to its end and prints the result. After Ctrl-C it prints how to continue instead. */
export async function runJob(
  args: SeekerOptions & { json?: boolean | undefined },
  job: JobInput,
  options: RunOptions & { idempotencyKey: string },
): Promise<void> {
  const { idempotencyKey } = options;
  await withClient(args, async (client) => {
    const result = await waitFor({ ...args, idempotencyKey }, client, ({ signal, hasJob, isIn, isLimited }) => {
      const onUpdate: RunOptions["onUpdate"] = ({ id, status }) => {
        hasJob(id);
        isIn(status);
      };
      return client.run(job, { ...options, signal, onUpdate, onRateLimit: isLimited });
    }).catch((error: unknown) => {
      if (args.json === true && error instanceof ComputeRouterError) printJson(failureOf(error));
      throw error;
    });
    if (result !== undefined) printResult(result, args, client);
  });
}

/** What a program can read of a run that failed. A person reads the message on standard error. */
function failureOf(error: ComputeRouterError): object {
  const { code, reason, message } = error;
  const jobId = "jobId" in error && typeof error.jobId === "string" ? error.jobId : null;
  const charged = error instanceof JobFailedError ? { charged: error.charged, credit: error.credit } : {};
  return { job_id: jobId, error: code, reason, message: untrusted(message), ...charged };
}

/** Prints a result: the output on standard output, the facts about it on standard error, so that a pipe gets only the output. */
function printResult(result: RunResult, args: { json?: boolean | undefined }, client: Pick<ComputeRouter, "usage">): void {
  const { output, receipt, verified, verification, price, credit, jobId, source } = result;
  if (args.json === true) {
    const reason = verification.ok ? {} : { reason: verification.reason };
    return printJson({ job_id: jobId, source, price, credit, verified, ...reason, result: result.result, receipt });
  }
  printUntrusted(`${typeof output === "string" ? output : JSON.stringify(output, null, 2)}\n`);
  printFacts(result, client);
}

/** Prints the facts about a result on standard error: receipt, signer, price, job. */
export function printFacts({ receipt, verification, price, credit, jobId }: RunResult, client: Pick<ComputeRouter, "usage">): void {
  const signer = receipt === null ? "no receipt" : `worker ${shortKey(receipt.provider_pubkey)}`;
  const verdict = verification.ok ? "receipt valid" : `NOT verified: ${verification.reason}`;
  print(
    untrusted([verdict, signer, ...(price === null ? [] : [priceText(price, credit, client.usage())]), `job ${jobId ?? "none"}`].join("  ")),
    process.stderr,
  );
}

function priceText(price: string, credit: Credit | null, { spent, unclear }: Usage): string {
  // The coordinator asked for no payment, also if there is a payer.
  if (spent === inDollars("0") && unclear === 0 && credit === null) return `free (quoted ${price})`;
  return credit === null ? price : `${price} from your credit, ${inDollars(credit.balance)} left`;
}

/** The outputs of a stream. */
export type Streams = { stdout: Out; stderr: Out };

/**
 * Prints the text of a job on standard output as it arrives, and resolves with the result. Printed text cannot be removed. After a reset, or if the result is
 * another text, the text begins again on a new line. After a reset this can take long, so the loss is said at once.
 */
export async function printStream(
  events: AsyncIterable<JobEvent>,
  { stdout, stderr }: Streams,
  wait: Pick<Wait, "hasJob" | "isIn" | "begins" | "breaks"> = { hasJob: () => {}, isIn: () => {}, begins: () => {}, breaks: () => {} },
): Promise<RouterResult> {
  let printed = "";
  let hasBeginning = false;
  let isBroken = false;
  const begin = (): void => {
    wait.begins();
    if (isBroken) stderr.write("the text begins again:\n");
    isBroken = false;
  };
  const breakOff = (why: string): void => {
    stdout.write("\n");
    stderr.write(`${why}\n`);
    printed = "";
    isBroken = true;
  };
  for await (const event of events) {
    if (event.type === "job") wait.hasJob(event.jobId);
    if (event.type === "status") wait.isIn(event.status);
    if (event.type === "delta") {
      // Text without its beginning is not printed. The result has the whole text.
      hasBeginning ||= event.seq === 0;
      if (!hasBeginning) continue;
      begin();
      printUntrusted(event.delta, stdout);
      printed += event.delta;
    }
    if (event.type === "reset") {
      hasBeginning = false;
      if (printed === "") continue;
      breakOff("the worker or the connection was lost; waiting for another one");
      wait.breaks();
    }
    if (event.type !== "done") continue;
    const { output } = event.result;
    const text = typeof output === "string" ? output : JSON.stringify(output, null, 2);
    if (!text.startsWith(printed)) breakOff("the result is a different text");
    begin();
    printUntrusted(`${text.slice(printed.length)}\n`, stdout);
    return event.result;
  }
  throw new ProtocolError("the stream ended without a result");
}
