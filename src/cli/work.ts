import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isoTime } from "../protocol/text.ts";
import { makeFolder } from "../worker/node/config-folder.ts";
import { DesktopWorker } from "../worker/node/desktop-worker.ts";
import { readOrMakeKeyFile } from "../worker/node/key-file.ts";
import { llmFinder, type LlmWish } from "../worker/node/llm-finder.ts";
import { lockWorker, workerId } from "../worker/node/worker-lock.ts";
import { jsonView, lineView, type WorkerView } from "../worker/node/worker-view.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { keyPlace } from "./key-option.ts";
import { coordinatorUrls } from "./url-option.ts";
import { packageVersion } from "./version.ts";

/** The options of `compute-router worker`, as they were said. */
export type WorkOptions = {
  url?: string | undefined;
  "llm-url"?: string | undefined;
  model?: string | undefined;
  runtime?: string | undefined;
  "model-file"?: string | undefined;
  "tasks-only"?: boolean | undefined;
  name?: string | undefined;
  network?: string | undefined;
  key?: string | undefined;
  "config-dir"?: string | undefined;
  json?: boolean | undefined;
};

/** Works until a signal or the coordinator ends it, then ends the process. */
export async function work(args: WorkOptions): Promise<void> {
  const { socket } = coordinatorUrls(args.url);
  const wish = wishOf(args);
  const { folder, keyFile } = keyPlace(args);
  const reading = readOrMakeKeyFile(keyFile);
  if (!reading.ok) throw new CliError(EXIT.key, reading.message);
  const { key } = reading;
  makeFolder(folder);
  const locking = lockWorker(folder, workerId(socket, key.publicKey));
  if (!locking.ok) throw new CliError(EXIT.key, locking.message);

  const view = viewFor(args.json === true, new URL(socket).host, key.publicKey);
  if (reading.made) view.say(`made a new key for this worker: ${keyFile}`);
  const desktop = new DesktopWorker({
    url: socket,
    key,
    folder,
    version: packageVersion(),
    onNote: (note) => view.note(note),
    ...(wish !== null && { findRuntime: llmFinder(wish, (line) => view.say(line)) }),
    ...(args.name !== undefined && { name: args.name }),
    ...(args.network !== undefined && { network: args.network }),
  });
  const release = onSignals(desktop, () => {
    view.close();
    locking.release();
  });
  desktop.start();
  const stop = await desktop.ended;
  release();
  await desktop.close();
  view.close();
  locking.release();
  // A socket that the other side never closes would hold the process.
  process.exit(stop.reason === "replaced" ? EXIT.replaced : stop.reason === "refused" || stop.reason === "other_network" ? EXIT.refused : EXIT.ok);
}

/** The LLM that is wanted; null for none. */
function wishOf(args: WorkOptions): LlmWish | null {
  const { runtime, model, "llm-url": llmUrl, "model-file": modelFile } = args;
  if (runtime !== undefined && runtime !== "embedded") throw new CliError(EXIT.usage, `--runtime: the only one is "embedded"; for a server say --llm-url`);
  if (modelFile !== undefined && runtime === undefined) throw new CliError(EXIT.usage, "--model-file is for --runtime embedded");
  if (modelFile !== undefined && !existsSync(modelFile)) throw new CliError(EXIT.usage, `--model-file: there is no file ${modelFile}`);
  if (runtime !== undefined && llmUrl !== undefined) throw new CliError(EXIT.usage, "say --runtime embedded or --llm-url, not both");
  if (args["tasks-only"] === true) {
    if (runtime !== undefined || llmUrl !== undefined || model !== undefined)
      throw new CliError(EXIT.usage, "--tasks-only leaves no use for --llm-url, --model or --runtime");
    return null;
  }
  if (runtime === "embedded") return { kind: "embedded", ...(modelFile !== undefined && { modelFile: resolve(modelFile) }) };
  return { kind: "found", ...(llmUrl !== undefined && { llmUrl }), ...(model !== undefined && { model }) };
}

function viewFor(json: boolean, host: string, publicKey: string): WorkerView {
  const { stdout } = process;
  // Whoever read the lines has gone: the work goes on.
  stdout.on("error", () => {});
  if (json || !stdout.isTTY) {
    const view = jsonView(stdout, () => isoTime(Date.now()));
    stdout.write(`${JSON.stringify({ time: isoTime(Date.now()), type: "starting", host, provider_pubkey: publicKey, pid: process.pid })}\n`);
    return view;
  }
  const color = process.env["NO_COLOR"] === undefined;
  return lineView(stdout, () => ({ host, publicKey, color, columns: stdout.columns }));
}

/** The first signal drains, the second ends at once. Returns what takes the listeners away. */
function onSignals(desktop: DesktopWorker, beforeExit: () => void): () => void {
  let asked = false;
  const listener = (signal: NodeJS.Signals) => {
    if (asked) {
      beforeExit();
      process.exit(signal === "SIGINT" ? 130 : 143);
    }
    asked = true;
    void desktop.drain();
  };
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, listener);
  return () => {
    for (const signal of signals) process.off(signal, listener);
  };
}
