import { printable } from "../src/worker/node/printable.ts";
import { StartFailure } from "./coordinator-process.ts";
import { stopSignal } from "./stop-signal.ts";

/** What a program like `npm start` has while it runs. */
export type Session = {
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  /** Milliseconds since it began. */
  readonly elapsed: () => number;
  /** Prints a line with its time, until Ctrl-C; `who` is an instance, or empty. */
  readonly say: (who: string, line: string) => void;
  /** Has this ended when the session ends, however that comes. */
  readonly keep: (child: { stop(): Promise<unknown> }) => void;
  /** All is there that was asked for: from now on Ctrl-C is success. */
  readonly isUp: () => void;
};

/** Runs `run` until it ends or Ctrl-C, ends what it kept, and resolves to the exit code. A StartFailure is told, all else is thrown. */
export async function runSession(run: (session: Session) => Promise<number>): Promise<number> {
  const began = performance.now();
  const children: { stop(): Promise<unknown> }[] = [];
  const aborting = new AbortController();
  let up = false;
  const session: Session = {
    signal: aborting.signal,
    elapsed: () => performance.now() - began,
    say: (who, line) => {
      // What a child says while it is being ended is no news: a compiler that loses its input calls that a deadlock.
      if (aborting.signal.aborted) return;
      console.log(`${`${(session.elapsed() / 1000).toFixed(1)} s`.padStart(7)}  ${who.padEnd(3)}  ${printable(line)}`);
    },
    keep: (child) => void children.push(child),
    isUp: () => void (up = true),
  };
  const stopped = stopSignal().then((signal): number => {
    aborting.abort();
    console.log("\nstopping");
    // What was asked for is not there yet.
    return up ? 0 : signal === "SIGINT" ? 130 : 143;
  });
  const running = run(session);
  // Told below, or of no interest once stopped.
  running.catch(() => {});
  try {
    return await Promise.race([running, stopped]);
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    console.error(printable(error.message));
    return 1;
  } finally {
    await Promise.all(children.map((child) => child.stop()));
  }
}
