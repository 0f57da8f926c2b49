// Which LLM the workers of `npm start` answer with: one of this machine if there is one, else the toy model of this repository.
import { installEmbedded, isEmbeddedInstalled } from "../src/worker/runtimes/embedded-install.ts";
import { type Attempt, cureFor, findRuntime } from "../src/worker/runtimes/probe.ts";
import type { Runtime } from "../src/worker/runtimes/runtime.ts";
import { StartFailure } from "./coordinator-process.ts";
import type { Session } from "./bring-up.ts";

/** A model that has to be loaded from a slow disk may take this long for its first answer. */
const LOAD_TIMEOUT_MS = 180_000;

/** How long each known runtime has to answer: this is the only look, and a busy machine must not lose its LLM by it. One that is not there refuses at once. */
const LOOK_TIMEOUT_MS = 3_000;

/** The model of this repository: it shows that everything works, and knows next to nothing. */
export const TOY = {
  model: "tiny-chat-q8_0",
  about: `a toy's (0.56 M parameters: it answers "hi" with "The opposite of rich is poor.")`,
} as const;

/** The LLM of the workers. `cure` says how to get a real one. */
export type LocalLlm = { kind: "real"; runtime: string; model: string } | { kind: "toy"; cure: string };

/** What a look for the LLM of this machine gave: one that has yet to answer, or what is missing. */
export type LlmLook = { ok: true; runtime: Runtime } | ({ ok: false } & Missing);

/** Looks for the LLM of this machine where a worker does: LLM_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST, the usual ports. */
export async function lookForLlm(signal: AbortSignal): Promise<LlmLook> {
  const found = await findRuntime({ env: process.env, signal, timeoutMs: LOOK_TIMEOUT_MS });
  return found.ok ? found : { ok: false, ...whatIsMissing(found.tried) };
}

/**
 * Has the LLM that was found answer once. Where there is none the toy is made ready: then, and only then, the embedded runtime is installed if need be.
 *
 * @throws {StartFailure} when the embedded runtime cannot be installed
 */
export async function readyLlm(look: LlmLook, session: Session): Promise<LocalLlm> {
  const missing = look.ok ? await warmUp(look.runtime, session) : look;
  if (look.ok && missing === null) return { kind: "real", runtime: look.runtime.name, model: look.runtime.model };
  session.say("", `${missing?.what}: the toy model answers`);
  await install(session);
  return { kind: "toy", cure: missing?.cure ?? "" };
}

/** Why there is no LLM, and what to do. */
type Missing = { what: string; cure: string };

/** Null when it has answered. */
async function warmUp(runtime: Runtime, { say, signal }: Session): Promise<Missing | null> {
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
  // One that somebody chose is the only one that is tried.
  if (first === undefined || tried.length > 1) return { what: "no LLM on this machine", cure: cureFor(tried) };
  return { what: `no LLM at ${first.url} (${first.why})`, cure: cureFor(tried).replace("that URL", first.url) };
}

async function install({ say, signal }: Session): Promise<void> {
  if (isEmbeddedInstalled()) return;
  const installed = await installEmbedded((line) => say("", line), { signal });
  if (!installed.ok) throw new StartFailure(installed.message);
}
