import { untrusted } from "../src/worker/node/printable.ts";
import type { ComputeRouter, JobInput, RunResult } from "../src/sdk/index.ts";
import { TOY } from "./local-llm.ts";

const PROSE = `The lighthouse at Skarvet was built in 1871, after three ships were lost on the same reef in a single winter. For ninety years a keeper and
his family lived on the rock, trimming the lamp, winding the clockwork that turned it, and rowing to the mainland for flour and paraffin whenever the sea
allowed it. The light was automated in 1961, and the last keeper moved to a village from which he could still see it turn. Volunteers restored the house
two summers ago: they found the keeper's logbooks dry and readable behind a panel, every night of ninety years accounted for. Visitors now climb the tower
from May to September, and the money they leave pays for the paint. It is a wonderful place, lovingly looked after, and the view from the gallery is superb.`;

const INVOICE = `FROM: Nordlicht Paper GmbH <billing@nordlicht-paper.example>
Subject: Re: Re: invoice!! (2nd reminder)

Invoice No: NP-2026-00417     date 2026-03-14
Customer: Harbour Print Studio
  pos 1:  A3 cotton paper, 250 g   qty 12   unit EUR 18.50   = EUR 222.00
  pos 2:  ink, "deep blue"         qty 3    unit EUR 41.00   = EUR 123.00
shipping .......... EUR 9.90
TOTAL DUE: EUR 354.90   by 2026-04-13
call +49 40 5550 1234 w/ questions, thx`;

/** A first job to run. */
export type FirstJob = { title: string; job: JobInput };

/** One real job of every kind. */
export const FIRST_JOBS: readonly FirstJob[] = [
  { title: "LLM_INFER", job: { job_type: "LLM_INFER", prompt: "What is the capital of France?", max_tokens: 64 } },
  { title: "summarize", job: { job_type: "TASK", task_type: "summarize", input: PROSE } },
  { title: "classify", job: { job_type: "TASK", task_type: "classify", input: PROSE } },
  { title: "extract_json", job: { job_type: "TASK", task_type: "extract_json", input: INVOICE } },
];

/** How a first job went, for a person. */
export type FirstResult = { ok: boolean; lines: string[] };

/** Runs one job on one instance through the reference client, which checks the receipt. */
export async function runFirstJob(router: ComputeRouter, { title, job }: FirstJob, width: number, signal: AbortSignal): Promise<FirstResult> {
  const started = performance.now();
  const name = title.padEnd(12);
  try {
    const result = await router.run(job, { signal });
    const seconds = `${((performance.now() - started) / 1000).toFixed(1)} s`;
    const receipt = result.verified ? `verified, signed by ${result.receipt?.provider_pubkey.slice(0, 8)}…` : `NOT verified (${refusal(result)})`;
    const facts = [receipt, result.price, seconds, answeredBy(result)].filter((fact) => fact !== null);
    return { ok: result.verified, lines: [`${name} ${untrusted(facts.join("   "))}`, `${" ".repeat(13)}${untrusted(shortened(result.output, width - 13))}`] };
  } catch (error) {
    if (signal.aborted) throw error;
    return { ok: false, lines: [`${name} FAILED   ${untrusted(error instanceof Error ? error.message : String(error))}`] };
  }
}

/** Which model answered an LLM job: whoever reads a toy's answer must know that it is one. */
export function answeredBy({ result }: Pick<RunResult, "result">): string | null {
  const model = result === null ? undefined : Reflect.get(result, "model");
  return typeof model === "string" ? `by ${model}${model === TOY.model ? ", a toy" : ""}` : null;
}

function refusal({ verification }: RunResult): string {
  return verification.ok ? "" : verification.reason;
}

/** A text as it is, an object as JSON, on one line of at most `width` characters. */
export function shortened(output: unknown, width: number): string {
  const text = (typeof output === "string" ? output : JSON.stringify(output)).replaceAll(/\s+/g, " ").trim();
  const characters = [...text];
  return characters.length <= width ? text : `${characters.slice(0, width - 1).join("")}…`;
}
