// The wait for a job, as a person sees it: what happens, for how long, and after Ctrl-C how to go on. The job itself goes on in any case.
import { ownCommand } from "../worker/node/command-name.ts";
import { type Out, printError } from "./print.ts";
import { urlHint } from "./url-option.ts";

const SECOND_MS = 1_000;

const STATES: Record<string, string> = {
  pending: "waiting for a worker",
  assigned: "a worker has the job",
  running: "a worker is working on the job",
};

/** What a run tells about its job. */
export type Wait = {
  /** Aborted by Ctrl-C. */
  readonly signal: AbortSignal;
  /** The coordinator has the job. */
  hasJob: (jobId: string) => void;
  /** Its state, as the coordinator names it. */
  isIn: (status: string) => void;
  /** Its text begins: the screen is the text's. */
  begins: () => void;
};

/**
 * Waits for a job. On a terminal a line on standard error shows that, and is gone afterwards. Ctrl-C ends the wait: it prints the job's id and
 * the command that shows the result, sets the exit code 130, and resolves to undefined.
 */
export async function waitFor<T>(url: string | undefined, run: (wait: Wait) => Promise<T>, out: Out = process.stderr): Promise<T | undefined> {
  const ending = new AbortController();
  const started = Date.now();
  // A member, because it is set from within the run.
  const known: { jobId: string | null } = { jobId: null };
  let state = "sending the job";
  let isLive = out.isTTY === true;
  let hasText = false;
  const draw = () => {
    const seconds = Math.floor((Date.now() - started) / SECOND_MS);
    if (isLive) out.write(`\r\u001B[K${state}${seconds > 0 ? ` … ${seconds} s` : " …"}`);
  };
  const hide = () => {
    if (isLive) out.write("\r\u001B[K");
    isLive = false;
  };
  const ticking = setInterval(draw, SECOND_MS);
  const onSignal = () => ending.abort();
  // Once: a second Ctrl-C ends the program at once.
  process.once("SIGINT", onSignal);
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
        known.jobId = id;
        change(STATES["pending"]);
      },
      isIn: (status) => change(STATES[status]),
      begins: () => {
        hide();
        hasText = true;
      },
    });
  } catch (error) {
    if (!ending.signal.aborted) throw error;
    hide();
    if (hasText) out.write("\n");
    const { jobId } = known;
    printError(
      jobId === null
        ? "stopped before the coordinator confirmed the job; it may have the job all the same"
        : `job ${jobId} goes on. To see its result:\n${ownCommand(`job ${jobId}${urlHint(url)}`)}`,
    );
    process.exitCode = 130;
    return undefined;
  } finally {
    hide();
    clearInterval(ticking);
    process.off("SIGINT", onSignal);
  }
}
