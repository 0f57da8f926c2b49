// The run of a job on the worker: executes it, a TASK in a thread of its own, then hashes, signs and packs its output. On a job's way: between `job_ack` and
// `job_complete` [WS9, WS10].
import { readChat } from "../../protocol/chat.ts";
import { isShallowJson, isWellFormedJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { utf8Length } from "../../protocol/text.ts";
import { type KeyPair, signText } from "../../receipt/ed25519.ts";
import { canonicalize, receiptFields, receiptText } from "../../receipt/receipt.ts";
import type { TaskAnswer } from "../../tasks/index.ts";
import { type Runtime, RuntimeError } from "../runtimes/runtime.ts";
import type { Run } from "./state.ts";

/** The output of a job: text, or an object. */
export type Output = string | Record<string, unknown>;

/** The outcome of a run. `tokens` are those of an LLM's answer. */
export type Execution = { ok: true; output: Output; tokens: number | null } | { ok: false; error: string; message: string; retryable: boolean };

/** What a run gets besides its job. */
export type Hooks = {
  signal: AbortSignal;
  /** Visible text, or an empty string as a sign of life. */
  onProgress: (delta: string) => void;
};

/** Executes jobs. Never rejects. */
export type Executor = (run: Run, hooks: Hooks) => Promise<Execution>;

/** Executes one TASK. The built-in logic takes up to a second of CPU, so a desktop worker runs it in a thread. */
export type TaskExecutor = (taskType: string, input: string, signal: AbortSignal) => Promise<Record<string, unknown>> | Record<string, unknown>;

/** Makes the executor of a worker. It calls `llm` for each job, because a runtime may start and stop at any time. */
export function createExecutor(parts: { task: TaskExecutor; llm?: () => Pick<Runtime, "generate"> | undefined }): Executor {
  return async (run, hooks) => {
    try {
      return run.jobType === "TASK" ? await runTaskJob(parts.task, run, hooks) : await runLlmJob(parts.llm?.(), run, hooks);
    } catch (fault) {
      if (fault instanceof RuntimeError) return { ok: false, error: fault.code, message: fault.message, retryable: fault.retryable };
      // The message of an unexpected error may repeat text of the job. Its name does not.
      return { ok: false, error: "worker_error", message: fault instanceof Error ? fault.name : "unexpected error", retryable: true };
    }
  };
}

async function runTaskJob(task: TaskExecutor, run: Run, { signal }: Hooks): Promise<Execution> {
  const output = await task(String(run.payload["task_type"]), String(run.payload["input"]), signal);
  return { ok: true, output, tokens: null };
}

async function runLlmJob(llm: Pick<Runtime, "generate"> | undefined, run: Run, { signal, onProgress }: Hooks): Promise<Execution> {
  if (llm === undefined) return { ok: false, error: "runtime_unreachable", message: "the LLM runtime is no longer available", retryable: true };
  const maxTokens = run.payload["max_tokens"];
  const generation = await llm.generate(String(run.payload["prompt"]), {
    jobId: run.jobId,
    signal,
    ...(typeof maxTokens === "number" && Number.isInteger(maxTokens) && maxTokens > 0 && { maxTokens }),
    chat: readChat(run.payload),
    onDelta: onProgress,
    onActivity: () => onProgress(""),
  });
  const { completion_tokens, prompt_tokens } = generation.usage;
  const { finishReason: finish_reason, model, text: output } = generation;
  return { ok: true, output: { finish_reason, model, output, usage: { completion_tokens, prompt_tokens } }, tokens: completion_tokens };
}

/** A thread that runs tasks, as its platform starts it. */
export type TaskThread = {
  post: (call: { taskType: string; input: string }) => void;
  /** Ends it at once; a promise resolves when it has ended. */
  end: () => Promise<unknown> | void;
};

/** What a platform reports of a thread. */
export type ThreadHooks = {
  onAnswer: (answer: TaskAnswer) => void;
  /** The thread is lost, perhaps between two tasks. It may be reported more than once. */
  onLost: () => void;
};

/**
 * Runs the built-in tasks in a thread. They are synchronous and take seconds for a long text on a phone. On the thread of the session, heartbeats and cancels
 * would wait, and a task could not be aborted. The thread stays for the next task.
 */
export class ThreadedTasks {
  readonly #spawn: (hooks: ThreadHooks) => TaskThread;
  #thread: TaskThread | null = null;
  /** Settles the task that runs. */
  #settle: (answer: TaskAnswer) => void = () => {};

  constructor(spawn: (hooks: ThreadHooks) => TaskThread) {
    this.#spawn = spawn;
  }

  /** Starts the thread, so that the first task does not wait for it. */
  warmUp(): void {
    this.#thread ??= this.#start();
  }

  /** Runs a task and returns its output. Rejects if the task throws, the thread is lost, or the task is aborted. One task at a time. */
  readonly run = (taskType: string, input: string, signal: AbortSignal): Promise<Record<string, unknown>> =>
    new Promise((resolve, reject) => {
      const thread = (this.#thread ??= this.#start());
      const onAbort = () => void this.#end(thread, "aborted");
      this.#settle = (answer) => {
        signal.removeEventListener("abort", onAbort);
        if (answer.ok) resolve(answer.output);
        else reject(Object.assign(new Error(`the task failed: ${answer.name}`), { name: answer.name }));
      };
      signal.addEventListener("abort", onAbort);
      thread.post({ taskType, input });
    });

  /** Ends the thread. */
  async close(): Promise<void> {
    if (this.#thread !== null) await this.#end(this.#thread, "closed");
  }

  #start(): TaskThread {
    const thread = this.#spawn({
      onAnswer: (answer) => {
        if (this.#thread === thread) this.#settle(answer);
      },
      onLost: () => void this.#end(thread, "thread lost"),
    });
    return thread;
  }

  /** Ends a thread, unless it is no longer the current one, and the task that it runs. */
  #end(thread: TaskThread, name: string): Promise<unknown> | void {
    if (this.#thread !== thread) return;
    this.#thread = null;
    this.#settle({ ok: false, name });
    return thread.end();
  }
}

/** The text of a `job_complete` frame, or why this output can never be delivered. */
type Sealed = { ok: true; frame: string } | { ok: false; error: "output_too_large" | "invalid_output"; message: string };

/**
 * Hashes and signs an output and packs it into a frame [WS10, RC1, RC2]. Members are sorted as in RFC 8785, so that the sent bytes and the hashed bytes are
 * the same. `completedAt` is ISO 8601.
 */
export async function seal(signer: Signer, job: { jobId: string; attempt: number }, output: Output, completedAt: string): Promise<Sealed> {
  const text = JSON.stringify(output);
  const bytes = utf8Length(text);
  if (bytes > LIMITS.outputBytes) return { ok: false, error: "output_too_large", message: `the output has ${bytes} bytes, the limit is ${LIMITS.outputBytes}` };
  // The frame adds one level, and the coordinator accepts frames of a depth of 32.
  if (!isShallowJson(text, LIMITS.jsonDepth - 1)) return { ok: false, error: "invalid_output", message: "the output nests too deeply" };
  if (!isWellFormedJson(output)) return { ok: false, error: "invalid_output", message: "the output is not well-formed Unicode" };
  const sorted = canonicalize(JSON.parse(text));
  const receipt = receiptFields(signer.publicKey, job.jobId, sorted, completedAt);
  const signature = await signer.sign(receiptText(receipt));
  const frame = {
    type: "job_complete",
    job_id: job.jobId,
    attempt: job.attempt,
    output: sorted,
    output_hash: receipt.output_hash,
    receipt,
    receipt_signature: signature,
  };
  return { ok: true, frame: JSON.stringify(frame) };
}

/** A worker's key. Its secret may be unreadable (WebCrypto in a browser). */
export type Signer = {
  /** 64 lowercase hex characters. */
  readonly publicKey: string;
  /** Base64 ed25519 signature over the UTF-8 of `text`. */
  sign(text: string): string | Promise<string>;
};

/** A signer that keeps its seed in memory. */
export function seedSigner(key: KeyPair): Signer {
  return { publicKey: key.publicKey, sign: (text) => signText(text, key.secret) };
}
