// The frame of `npm start` and `npm run start:paid`: their arguments, and the session until Ctrl-C, which stops its children.
import { parseArgs } from "node:util";
import { printable } from "../src/protocol/text.ts";
import { stopSignal } from "./child.ts";
import { DEFAULT_PORT, type Instance, INSTANCES, StartFailure } from "./coordinator-process.ts";

/** The arguments of `npm start` and similar programs. `state` is undefined if it is not given. */
export type StartOptions = { once: boolean; ports: Record<Instance, number>; state: string | undefined };

/** Parses the arguments. A returned text is for a person: an error, or the usage for `--help`. `--state` is allowed if the usage names it. */
export function readStartOptions(args: string[], usage: string): StartOptions | string {
  try {
    const { values } = parseArgs({
      args,
      options: {
        once: { type: "boolean", default: false },
        "evm-port": { type: "string" },
        "svm-port": { type: "string" },
        state: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    if (values.help) return usage;
    if (values.state !== undefined && !usage.includes("--state")) return `unknown option --state\n${usage}`;
    const ports = { evm: Number(values["evm-port"] ?? DEFAULT_PORT.evm), svm: Number(values["svm-port"] ?? DEFAULT_PORT.svm) };
    const bad = INSTANCES.find((instance) => !(Number.isInteger(ports[instance]) && ports[instance] >= 1 && ports[instance] <= 65_535));
    if (bad !== undefined) return `--${bad}-port must be 1 to 65535\n${usage}`;
    // Each would find the port free, and then a coordinator would be taken for the other one.
    if (ports.evm === ports.svm) return `both instances would listen on port ${ports.evm}: choose another with --evm-port or --svm-port\n${usage}`;
    return { once: values.once, ports, state: values.state };
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}\n${usage}`;
  }
}

/** What a program such as `npm start` can use while it runs. */
export type Session = {
  /** Aborts at Ctrl-C. */
  readonly signal: AbortSignal;
  /** Milliseconds since the start. */
  readonly elapsed: () => number;
  /** Prints a line with its time, until the session ends; `who` is an instance, or empty. */
  readonly say: (who: string, line: string) => void;
  /** Stops this child when the session ends, for any reason. */
  readonly keep: (child: { stop(): Promise<unknown> }) => void;
  /** Everything is up: from now on Ctrl-C is a success. */
  readonly markUp: () => void;
};

/** Runs `run` until it ends or until Ctrl-C, stops its children, and resolves to the exit code. It prints a StartFailure and throws other errors. */
export async function runSession(run: (session: Session) => Promise<number>): Promise<number> {
  const began = performance.now();
  const children: { stop(): Promise<unknown> }[] = [];
  const aborting = new AbortController();
  let up = false;
  let ends = false;
  const session: Session = {
    signal: aborting.signal,
    elapsed: () => performance.now() - began,
    say: (who, line) => {
      // Lines of a child that is being stopped are ignored: a compiler that loses its input reports a deadlock.
      if (ends) return;
      console.log(`${`${(session.elapsed() / 1000).toFixed(1)} s`.padStart(7)}  ${who.padEnd(3)}  ${printable(line)}`);
    },
    keep: (child) => void children.push(child),
    markUp: () => void (up = true),
  };
  const stopped = stopSignal().then((signal): number => {
    ends = true;
    aborting.abort();
    console.log("\nstopping");
    // Before everything is up, a signal is a failure.
    return up ? 0 : signal === "SIGINT" ? 130 : 143;
  });
  const running = run(session);
  // Handled below, or irrelevant after a stop.
  running.catch(() => {});
  try {
    return await Promise.race([running, stopped]);
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    console.error(printable(error.message));
    return 1;
  } finally {
    ends = true;
    await Promise.all(children.map((child) => child.stop()));
  }
}
