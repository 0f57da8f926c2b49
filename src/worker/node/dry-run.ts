import { randomUUID } from "node:crypto";
import * as z from "zod";
import type { KeyPair } from "../../receipt/ed25519.ts";
import { verifyReceipt } from "../../receipt/receipt.ts";
import type { Runtime } from "../runtimes/runtime.ts";
import { createExecutor, seal, seedSigner } from "../session/index.ts";
import { ThreadedTasks } from "./threaded-tasks.ts";

/** The outcome of a job without a coordinator. `tokens` are those of an LLM's answer. */
export type DryRun = { ok: true; ms: number; tokens: number | null } | { ok: false; message: string };

const Frame = z.object({
  output: z.unknown(),
  receipt: z.object({ job_id: z.string(), provider_pubkey: z.string(), output_hash: z.string(), completed_at: z.string(), payment_ref: z.null() }),
  receipt_signature: z.string(),
});

/** Runs one small job as if it came from a coordinator, and checks the receipt. It is an LLM_INFER if there is a runtime, otherwise a TASK. */
export async function dryRun(key: KeyPair, runtime: Pick<Runtime, "generate"> | null, signal: AbortSignal): Promise<DryRun> {
  const tasks = new ThreadedTasks();
  const execute = createExecutor({ task: tasks.run, ...(runtime !== null && { llm: () => runtime }) });
  const jobId = randomUUID();
  const payload = runtime === null ? { task_type: "classify", input: "What a wonderful day" } : { prompt: "Say hello.", max_tokens: 32 };
  try {
    tasks.warmUp();
    const before = performance.now();
    const execution = await execute({ jobId, attempt: 1, jobType: runtime === null ? "TASK" : "LLM_INFER", payload }, { signal, onProgress: () => {} });
    const ms = Math.round(performance.now() - before);
    if (!execution.ok) return { ok: false, message: execution.message };
    const sealed = await seal(seedSigner(key), { jobId, attempt: 1 }, execution.output, new Date().toISOString());
    if (!sealed.ok) return { ok: false, message: sealed.message };
    const { output, receipt, receipt_signature: signature } = Frame.parse(JSON.parse(sealed.frame));
    const check = verifyReceipt({ ...receipt, signature }, output);
    return check.ok ? { ok: true, ms, tokens: execution.tokens } : { ok: false, message: `its receipt is not valid: ${check.reason}` };
  } finally {
    await tasks.close();
  }
}
