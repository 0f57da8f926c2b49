// node test/payment/lab.ts: the money world as one process. Prints one JSON line when ready; ends at SIGTERM, SIGINT, or when the parent closes its stdin.
import { fstatSync } from "node:fs";
import { parseArgs } from "node:util";
import { type LabOptions, startLab } from "./start-lab.ts";

const USAGE = `node test/payment/lab.ts [--evm-port N] [--svm-port N] [--facilitator-port N] [--control-port N] [--block-time S] [--blockhash-ttl MS] [--confirm MS]
  [--payers N] [--no-evm] [--no-svm]
A port of 0, the default, is a free one.`;

function parse(args: string[]): LabOptions {
  const { values } = parseArgs({
    args,
    allowNegative: true,
    options: {
      "evm-port": { type: "string", default: "0" },
      "svm-port": { type: "string", default: "0" },
      "facilitator-port": { type: "string", default: "0" },
      "control-port": { type: "string", default: "0" },
      "block-time": { type: "string" },
      "blockhash-ttl": { type: "string", default: "60000" },
      confirm: { type: "string", default: "0" },
      payers: { type: "string", default: "8" },
      evm: { type: "boolean", default: true },
      svm: { type: "boolean", default: true },
    },
  });
  const number = (name: Exclude<keyof typeof values, "evm" | "svm">): number => {
    const value = Number(values[name]);
    if (!(value >= 0) || (name.endsWith("port") && !(Number.isInteger(value) && value <= 65_535))) throw new Error(`--${name} ${values[name]} is not possible`);
    return value;
  };
  const payers = number("payers");
  return {
    evm: values.evm && { port: number("evm-port"), blockTime: values["block-time"] === undefined ? null : number("block-time"), payers },
    svm: values.svm && { port: number("svm-port"), blockhashTtlMs: number("blockhash-ttl"), confirmMs: number("confirm"), payers },
    facilitator: { port: number("facilitator-port") },
    controlPort: number("control-port"),
  };
}

/** Resolves when it is time to end. */
function ending(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve());
    const stdin = fstatSync(0);
    // A terminal or /dev/null says nothing about a parent.
    if (stdin.isFIFO() || stdin.isSocket()) process.stdin.once("end", resolve).once("error", resolve).resume();
  });
}

async function main(): Promise<number> {
  let options: LabOptions;
  try {
    options = parse(process.argv.slice(2));
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`);
    return 2;
  }
  const ended = ending();
  const lab = await startLab(options);
  console.log(JSON.stringify(lab.description));
  await ended;
  await lab.stop();
  return 0;
}

try {
  process.exit(await main());
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
}
