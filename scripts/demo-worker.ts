import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { type Child, startChild } from "./child.ts";
import { type Coordinator, StartFailure } from "./coordinator-process.ts";
import { ROOT } from "./instance.ts";
import { type LocalLlm, TOY } from "./local-llm.ts";

/** Long enough for a second look of the worker, 30 s after the first. */
const READY_TIMEOUT_MS = 90_000;
const MODEL = join("runtimes", "llama", "models", `${TOY.model}.gguf`);

const Note = z.discriminatedUnion("type", [
  z.object({ type: z.literal("starting"), provider_pubkey: z.string() }),
  z.object({ type: z.literal("online") }),
  z.object({ type: z.literal("runtime_ready"), model: z.string() }),
  z.object({ type: z.literal("runtime_missing"), hint: z.string() }),
  z.object({ type: z.literal("standby"), llm: z.enum(["left", "taken"]) }),
]);

/** A desktop worker that is online for all kinds of jobs. */
export type DemoWorker = { publicKey: string; model: string };

/** How to start it. */
export type DemoOptions = {
  coordinator: Coordinator;
  /** Folder of its key. */
  folder: string;
  llm: LocalLlm;
  onStart: (child: Child) => void;
  /** Lines for a person, once it is ready. */
  onLine: (line: string) => void;
};

/** Starts a desktop worker; resolves when it is ready for every kind of job. The toy is a standby: a worker with a real LLM replaces it. @throws {StartFailure} */
export async function startDemoWorker({ coordinator, folder, llm, onStart, onLine }: DemoOptions): Promise<DemoWorker> {
  const place = ["--url", coordinator.socketUrl, "--config-dir", folder, "--json"];
  let publicKey = "";
  let ready: (worker: DemoWorker) => void = () => {};
  let refuse: (failure: StartFailure) => void = () => {};
  const isReady = new Promise<DemoWorker>((resolve, reject) => ([ready, refuse] = [resolve, reject]));
  let model: string | null = null;
  let online = false;
  let leaves = false;
  const runtime = llm.kind === "toy" ? ["--runtime", "embedded", "--model-file", MODEL, "--standby"] : [];
  const child = startChild([join("src", "cli", "main.ts"), "worker", ...place, ...runtime], {
    cwd: ROOT,
    onLine: (line) => {
      const note = readNote(line);
      if (note?.type === "starting") publicKey = note.provider_pubkey;
      else if (note?.type === "online") online = true;
      else if (note?.type === "runtime_ready") model = note.model;
      // A real one has just answered: on a busy machine the worker may miss it once.
      else if (note?.type === "runtime_missing" && llm.kind === "toy")
        refuse(new StartFailure(`the worker of ${coordinator.instance} has no LLM: ${note.hint}`));
      else if (note?.type === "standby" && (note.llm === "left") !== leaves) {
        leaves = note.llm === "left";
        onLine(leaves ? "another worker takes LLM jobs: the toy leaves them to it" : "no other worker takes LLM jobs: the toy takes them again");
      }
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
