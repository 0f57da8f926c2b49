import { parseArgs } from "node:util";
import { DEFAULT_PORT, type Instance, INSTANCES } from "./instance.ts";

/** What `npm start` and its kind are told. `state` is undefined when not given. */
export type StartOptions = { once: boolean; ports: Record<Instance, number>; state: string | undefined };

/** Reads the arguments; a text is for a person: the usage itself when that was asked for. `--state` is known where the usage names it. */
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
    return { once: values.once, ports, state: values.state };
  } catch (error) {
    return `${error instanceof Error ? error.message : String(error)}\n${usage}`;
  }
}
