// What `npm start` and `npm run start:paid` share: both coordinators, the LLM of their workers (one of this machine, or else the toy model of this repository),
// and a worker on each.
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { parseJson } from "../src/protocol/json.ts";
import { installEmbedded, isEmbeddedInstalled } from "../src/worker/runtimes/embedded-install.ts";
import { type Attempt, cureFor, findRuntime } from "../src/worker/runtimes/probe.ts";
import type { Runtime } from "../src/worker/runtimes/runtime.ts";
import { buildCli } from "./build-cli.ts";
import { type Child, startChild } from "./child.ts";
import { assertPortFree, type Coordinator, type Instance, INSTANCES, ROOT, startCoordinator, StartFailure } from "./coordinator-process.ts";
import { datedJson } from "./log-time.ts";
import type { Session } from "./session.ts";

/** How both instances start. */
type BringUp = {
  /** The command for choosing other ports. */
  command: string;
  ports: Readonly<Record<Instance, number>>;
  /** Folder of the databases and of the workers' keys. */
  stateDir: string;
  settings: Readonly<Record<Instance, Record<string, string>>>;
};

/** @throws {StartFailure} when a port of an instance is taken */
export async function assertPortsFree({ command, ports }: Pick<BringUp, "command" | "ports">): Promise<void> {
  for (const instance of INSTANCES) await assertPortFree(ports[instance], `choose another: ${command} -- --${instance}-port N`);
}

/** The running coordinators, and the LLM of their workers. */
export type Up = { coordinators: Coordinator[]; llm: LocalLlm };

/** Starts both instances with a desktop worker each, ready for jobs. @throws {StartFailure} */
export async function bringUp(session: Session, options: BringUp): Promise<Up> {
  // First of all, because later work would keep this process busy and delay the answer.
  const look = await lookForLlm(session.signal);
  const choice = readyLlm(look, session);
  const coordinators = await Promise.all(INSTANCES.map((instance) => bringUpOne(session, options, instance, choice)));
  return { coordinators, llm: await choice };
}

/** Each resolves when that coordinator ended unexpectedly, with the reason. */
export function failuresOf(coordinators: readonly Coordinator[]): Promise<string>[] {
  return coordinators.map(async ({ instance, failed }) => `${instance}: ${await failed}`);
}

/**
 * What follows the jobs: with `--once` the end, with an exit code; otherwise everything stays up until Ctrl-C.
 * @throws {StartFailure} if one of `failures` comes
 */
export async function afterJobs(
  session: Session,
  { once, good, banner, failures }: { once: boolean; good: boolean; banner: string; failures: readonly Promise<string>[] },
): Promise<number> {
  if (once) return good ? 0 : 1;
  console.log(banner);
  session.markUp();
  throw new StartFailure(await Promise.race(failures));
}

async function bringUpOne(session: Session, { ports, stateDir, settings }: BringUp, instance: Instance, choice: Promise<LocalLlm>): Promise<Coordinator> {
  const coordinator = await startCoordinator({
    instance,
    port: ports[instance],
    stateDir: join(stateDir, instance),
    settings: settings[instance],
    guardsFrames: true,
    onStarting: () => session.say(instance, "starting the coordinator"),
    onLine: (line) => session.say(instance, datedJson(line)),
  });
  session.keep(coordinator);
  session.say(instance, `coordinator at ${coordinator.url}`);
  const llm = await choice;
  const worker = await startDemoWorker({
    ...{ coordinator, llm, folder: join(stateDir, `worker-${instance}`), onStart: session.keep },
    onLine: (line) => session.say(instance, line),
  });
  session.say(instance, `worker ${worker.publicKey.slice(0, 8)}… online with ${worker.model}${llm.kind === "toy" ? ", a toy" : ""}`);
  return coordinator;
}

/** How long the first answer may take, because the model may have to be loaded from a slow disk. */
const LOAD_TIMEOUT_MS = 180_000;

/**
 * How long each known runtime may take to answer. It is long, because there is only one search and the machine may be busy. A missing runtime refuses at once.
 */
const LOOK_TIMEOUT_MS = 3_000;

/** The model of this repository. It shows that everything works, and knows almost nothing. */
export const TOY = {
  model: "tiny-chat-q8_0",
  about: `by a toy model (0.56 M parameters: it answers "hi" with "The opposite of rich is poor.")`,
} as const;

/** What the search needs of the session that it runs in. */
type Progress = Pick<Session, "signal" | "say">;

/** The LLM of the workers. `cure` tells how to get a real one. */
export type LocalLlm = { kind: "real"; runtime: string; model: string } | { kind: "toy"; cure: string };

/** The result of the search: an LLM that has not answered yet, or the reason why there is none. */
type LlmLook = { ok: true; runtime: Runtime } | ({ ok: false } & Missing);

/** Searches for the LLM of this machine as a worker does: LLM_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST, the usual ports. */
export async function lookForLlm(signal: AbortSignal): Promise<LlmLook> {
  const found = await findRuntime({ env: process.env, signal, timeoutMs: LOOK_TIMEOUT_MS });
  return found.ok ? found : { ok: false, ...whatIsMissing(found.tried) };
}

/**
 * Lets the LLM that was found answer once. If there is none, it prepares the toy, and only then installs the embedded runtime if that is missing.
 *
 * @throws {StartFailure} if the embedded runtime cannot be installed
 */
export async function readyLlm(look: LlmLook, progress: Progress): Promise<LocalLlm> {
  const missing = look.ok ? await warmUp(look.runtime, progress) : look;
  if (look.ok && missing === null) return { kind: "real", runtime: look.runtime.name, model: look.runtime.model };
  progress.say("", `${missing?.what}: the toy model answers`);
  await install(progress);
  return { kind: "toy", cure: missing?.cure ?? "" };
}

/** Why there is no LLM, and what to do. */
type Missing = { what: string; cure: string };

/** Waits for the first answer; null if it came. */
async function warmUp(runtime: Runtime, { say, signal }: Progress): Promise<Missing | null> {
  const { name, model } = runtime;
  say("", `found ${model} by ${name}, waiting for its first answer`);
  try {
    await runtime.warmUp(AbortSignal.any([signal, AbortSignal.timeout(LOAD_TIMEOUT_MS)]));
    return null;
  } catch (error) {
    if (signal.aborted) throw error;
    const why = error instanceof Error ? error.message : "unexpected error";
    return { what: `${model} by ${name} gave no first answer (${why})`, cure: `check that ${name} answers a prompt with ${model}` };
  } finally {
    await runtime.close();
  }
}

function whatIsMissing(tried: readonly Attempt[]): Missing {
  const [first] = tried;
  // If the user chose a URL, only that one was tried.
  if (first === undefined || tried.length > 1) return { what: "no LLM on this machine", cure: cureFor(tried) };
  return { what: `no LLM at ${first.url} (${first.why})`, cure: cureFor(tried).replace("that URL", first.url) };
}

async function install({ say, signal }: Progress): Promise<void> {
  if (isEmbeddedInstalled()) return;
  const installed = await installEmbedded((line) => say("", line), { signal });
  if (!installed.ok) throw new StartFailure(installed.message);
}

/** Long enough for the second search of the worker, 30 s after the first. */
const READY_TIMEOUT_MS = 90_000;
const MODEL = join("runtimes", "llama", "models", `${TOY.model}.gguf`);

const Note = z.discriminatedUnion("type", [
  z.object({ type: z.literal("starting"), provider_pubkey: z.string() }),
  z.object({ type: z.literal("online") }),
  z.object({ type: z.literal("runtime_ready"), model: z.string() }),
  z.object({ type: z.literal("runtime_lost"), model: z.string() }),
  z.object({ type: z.literal("runtime_missing"), hint: z.string() }),
  z.object({ type: z.literal("standby"), llm: z.enum(["left", "taken"]) }),
]);

/** A desktop worker that is online for all kinds of jobs. */
type DemoWorker = { publicKey: string; model: string };

/** How to start it. */
type DemoOptions = {
  coordinator: Pick<Coordinator, "instance" | "socketUrl">;
  /** Folder of its key. */
  folder: string;
  llm: LocalLlm;
  onStart: (child: Child) => void;
  /** Lines for a person, once it is ready. */
  onLine: (line: string) => void;
};

/**
 * Starts a desktop worker and resolves when it is ready for every kind of job. The toy is a standby: a worker with a real LLM replaces it.
 * @throws {StartFailure}
 */
export async function startDemoWorker({ coordinator, folder, llm, onStart, onLine }: DemoOptions): Promise<DemoWorker> {
  const place = ["--url", coordinator.socketUrl, "--config-dir", folder, "--json"];
  let publicKey = "";
  let ready: (worker: DemoWorker) => void = () => {};
  let refuse: (failure: StartFailure) => void = () => {};
  const isReady = new Promise<DemoWorker>((resolve, reject) => ([ready, refuse] = [resolve, reject]));
  let model: string | null = null;
  let online = false;
  let leaves = false;
  let isGone = false;
  const runtime = llm.kind === "toy" ? ["--runtime", "embedded", "--model-file", MODEL, "--standby"] : [];
  const child = startChild([buildCli(), "worker", ...place, ...runtime], {
    cwd: ROOT,
    onLine: (line) => {
      const note = Note.safeParse(parseJson(line)).data;
      if (note?.type === "starting") publicKey = note.provider_pubkey;
      else if (note?.type === "online") online = true;
      else if (note?.type === "runtime_ready") {
        if (isGone) onLine(`${note.model} is back`);
        else if (model !== null) onLine(`${note.model} takes the LLM jobs now, instead of ${model}`);
        model = note.model;
        isGone = false;
      } else if (note?.type === "runtime_lost") {
        isGone = true;
        onLine(`${note.model} is no longer available: no LLM jobs until it is back`);
      }
      // Not for a real LLM: it has just answered, and on a busy machine the worker may miss it once.
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
  const worker = await Promise.race([isReady, gone, late]);
  void child.exited.then((exit) => onLine(`its worker has ended (${exit}): jobs wait for another worker, or start again`));
  return worker;
}
