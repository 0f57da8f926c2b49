// The embedded runtime: llama.cpp in a child process, behind the same interface as every other LLM. On a job's way: the run of an LLM_INFER.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import * as z from "zod";
import { parseJson } from "../../protocol/json.ts";
import { embeddedFolder, INSTALL_COMMAND, isEmbeddedInstalled } from "./embedded-install.ts";
import { OpenAiCompatible } from "./openai-compatible.ts";
import { type GenerateOptions, type Generation, type Runtime, RuntimeError } from "./runtime.ts";

const LOAD_TIMEOUT_MS = 120_000;
const CLOSE_TIMEOUT_MS = 3000;
const EXIT_GRACE_MS = 200;
/** One is fastest on a machine that does other work too. */
const THREADS = "1";
/** The environment variables of the child. It runs native code on prompts of strangers, so it gets none of the worker's secrets. */
const CHILD_ENV = ["PATH", "HOME", "LANG", "TMPDIR", "TEMP", "TMP", "SystemRoot"];

const ReadyLine = z.discriminatedUnion("ready", [
  z.object({ ready: z.literal(true), url: z.string(), model: z.string(), context: z.number() }),
  z.object({ ready: z.literal(false), error: z.string() }),
]);

/** Options of the embedded runtime. */
export type EmbeddedOptions = {
  /** A GGUF file. Default: the very small model of this package, which only shows that everything works. */
  modelPath?: string;
  /** The most tokens for one job. */
  maxTokens?: number;
  /** Aborts the start, not the running runtime. */
  signal?: AbortSignal;
};

/** llama.cpp in a child process with its own port. The child ends whenever this process ends, for any reason, also if it hangs. */
export class Embedded implements Runtime {
  readonly name = "embedded";
  readonly model: string;
  readonly models: readonly string[];
  readonly contextTokens: number | undefined;
  /** The base URL of its OpenAI-compatible server. */
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #server: OpenAiCompatible;
  #closed = false;

  private constructor(child: ChildProcess, url: string, server: OpenAiCompatible) {
    this.url = url;
    this.model = server.model;
    this.models = server.models;
    this.contextTokens = server.contextTokens;
    this.#child = child;
    this.#server = server;
  }

  /** Starts the child and resolves when the model is loaded. Rejects with RuntimeError; its code is `model_missing` if the file does not exist. */
  static async start(options: EmbeddedOptions = {}): Promise<Embedded> {
    const folder = embeddedFolder();
    const modelPath = options.modelPath ?? join(folder, "models", "tiny-chat-q8_0.gguf");
    if (!existsSync(modelPath)) throw new RuntimeError("model_missing", `the model file does not exist: ${modelPath}`);
    if (!isEmbeddedInstalled(folder)) throw new RuntimeError("runtime_unreachable", `the embedded runtime is not installed; run: ${INSTALL_COMMAND}`);
    const child = spawnServer(folder, ["--model", modelPath, "--threads", THREADS]);
    try {
      const { url, model, context } = await readyLine(child, options.signal);
      const limits = { contextTokens: context, ...(options.maxTokens !== undefined && { maxTokens: options.maxTokens }) };
      return new Embedded(child, url, new OpenAiCompatible({ baseUrl: url, name: "embedded", model, ...limits }));
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  /** The process id of the child. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  async generate(prompt: string, options: GenerateOptions): Promise<Generation> {
    this.#checkAlive();
    try {
      return await this.#server.generate(prompt, options);
    } catch (error) {
      if (error instanceof RuntimeError && error.code === "aborted") throw error;
      // The socket of a dying child breaks a moment before its exit is reported.
      if (!hasEnded(this.#child)) await once(this.#child, "exit", { signal: AbortSignal.timeout(EXIT_GRACE_MS) }).catch(() => {});
      this.#checkAlive();
      throw error;
    }
  }

  get hasEnded(): boolean {
    return this.#closed || hasEnded(this.#child);
  }

  async warmUp(signal: AbortSignal): Promise<void> {
    this.#checkAlive();
    return this.#server.warmUp(signal);
  }

  /** Ends the child, also one that hangs, and resolves when it has exited. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#server.close();
    if (hasEnded(this.#child)) return;
    const gone = new Promise<void>((resolve) => this.#child.once("exit", () => resolve()));
    const force = setTimeout(() => this.#child.kill("SIGKILL"), CLOSE_TIMEOUT_MS);
    this.#child.stdin?.end();
    await gone;
    clearTimeout(force);
  }

  /** Throws if the child has ended. Another program may use its port by now, and must not get the prompt. */
  #checkAlive(): void {
    if (this.hasEnded) throw new RuntimeError("runtime_unreachable", "the embedded runtime has ended");
  }
}

function spawnServer(folder: string, args: string[]): ChildProcess {
  const env = Object.fromEntries(CHILD_ENV.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));
  const child = spawn(process.execPath, [join(folder, "server.mjs"), "--managed", ...args], { stdio: ["pipe", "pipe", "ignore"], env, windowsHide: true });
  // A dead child closes the pipe; its exit event reports that.
  child.stdin?.on("error", () => {});
  // A child that hangs ends 3 s after its pipe has closed, and one that is stopped does not notice that.
  const end = () => void child.kill("SIGKILL");
  process.once("exit", end);
  child.once("exit", () => process.off("exit", end));
  return child;
}

async function readyLine(child: ChildProcess, signal?: AbortSignal): Promise<{ url: string; model: string; context: number }> {
  const timeout = AbortSignal.timeout(LOAD_TIMEOUT_MS);
  const lines = createInterface({ input: child.stdout!, signal: AbortSignal.any(signal ? [signal, timeout] : [timeout]) });
  const failed = new Promise<never>((_, reject) =>
    child.once("error", (cause) => reject(new RuntimeError("runtime_unreachable", "cannot start a child process", { cause }))),
  );
  const read = async () => {
    for await (const line of lines) {
      const said = ReadyLine.safeParse(parseJson(line));
      if (!said.success) continue;
      if (said.data.ready) return said.data;
      throw new RuntimeError("runtime_error", `llama.cpp cannot load the model: ${said.data.error}`);
    }
    if (signal?.aborted) throw new RuntimeError("aborted", "the start of the embedded runtime was aborted");
    if (timeout.aborted) throw new RuntimeError("runtime_unreachable", `the embedded runtime was not ready after ${LOAD_TIMEOUT_MS / 1000} s`);
    throw new RuntimeError("runtime_unreachable", "the embedded runtime ended before it was ready");
  };
  return Promise.race([read(), failed]);
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
