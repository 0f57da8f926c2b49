import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { type Child, startChild } from "./child.ts";
import { type Coordinator, StartFailure } from "./coordinator-process.ts";
import { ROOT } from "./instance.ts";

const READY_TIMEOUT_MS = 60_000;
const MODEL = join("runtimes", "llama", "models", "tiny-chat-q8_0.gguf");

const Note = z.discriminatedUnion("type", [
  z.object({ type: z.literal("starting"), provider_pubkey: z.string() }),
  z.object({ type: z.literal("online") }),
  z.object({ type: z.literal("runtime_ready"), model: z.string() }),
  z.object({ type: z.literal("runtime_missing"), hint: z.string() }),
]);

/** A desktop worker that is online for all kinds of jobs. */
export type DemoWorker = { publicKey: string; model: string };

/** Starts a desktop worker on the embedded runtime with the tiny model; resolves when it is ready for every kind of job. @throws {StartFailure} */
export async function startDemoWorker(coordinator: Coordinator, folder: string, onStart: (child: Child) => void): Promise<DemoWorker> {
  const place = ["--url", coordinator.socketUrl, "--config-dir", folder, "--json"];
  let publicKey = "";
  let ready: (worker: DemoWorker) => void = () => {};
  let refuse: (failure: StartFailure) => void = () => {};
  const isReady = new Promise<DemoWorker>((resolve, reject) => ([ready, refuse] = [resolve, reject]));
  let model: string | null = null;
  let online = false;
  const child = startChild([join("src", "cli", "main.ts"), "worker", ...place, "--runtime", "embedded", "--model-file", MODEL], {
    cwd: ROOT,
    onLine: (line) => {
      const note = readNote(line);
      if (note?.type === "starting") publicKey = note.provider_pubkey;
      else if (note?.type === "online") online = true;
      else if (note?.type === "runtime_ready") model = note.model;
      else if (note?.type === "runtime_missing") refuse(new StartFailure(`the worker of ${coordinator.instance} has no LLM: ${note.hint}`));
      if (online && model !== null) ready({ publicKey, model });
    },
  });
  onStart(child);
  const said = (): string => child.lines.join("\n");
  const gone = child.exited.then((exit) => {
    throw new StartFailure(`the worker of ${coordinator.instance} ended (${exit})\n${said()}`);
  });
  const late = delay(READY_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new StartFailure(`the worker of ${coordinator.instance} was not ready after ${READY_TIMEOUT_MS / 1000} s\n${said()}`);
  });
  for (const loser of [gone, late]) loser.catch(() => {});
  return Promise.race([isReady, gone, late]);
}

function readNote(line: string): z.infer<typeof Note> | undefined {
  try {
    return Note.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}
