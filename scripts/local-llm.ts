// Decides which LLM the workers of `npm start` use: one of this machine, or else the toy model of this repository.
import { installEmbedded, isEmbeddedInstalled } from "../src/worker/runtimes/embedded-install.ts";
import { type Attempt, cureFor, findRuntime } from "../src/worker/runtimes/probe.ts";
import type { Runtime } from "../src/worker/runtimes/runtime.ts";
import { StartFailure } from "./coordinator-process.ts";

/** How long the first answer may take, because the model may have to be loaded from a slow disk. */
const LOAD_TIMEOUT_MS = 180_000;

/** How long each known runtime may take to answer. It is long, because there is only one search and the machine may be busy. A missing runtime refuses at once. */
const LOOK_TIMEOUT_MS = 3_000;

/** The model of this repository. It shows that everything works, and knows almost nothing. */
export const TOY = {
  model: "tiny-chat-q8_0",
  about: `a toy's (0.56 M parameters: it answers "hi" with "The opposite of rich is poor.")`,
} as const;

/** What the search needs of the session that it runs in: the signal of Ctrl-C, and a way to print a line. */
type Progress = { readonly signal: AbortSignal; readonly say: (who: string, line: string) => void };

/** The LLM of the workers. `cure` tells how to get a real one. */
export type LocalLlm = { kind: "real"; runtime: string; model: string } | { kind: "toy"; cure: string };

/** The result of the search: an LLM that has not answered yet, or the reason why there is none. */
export type LlmLook = { ok: true; runtime: Runtime } | ({ ok: false } & Missing);

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
    return { what: `${model} by ${name} gave no first answer (${why})`, cure: `have ${name} answer a prompt with ${model}` };
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
