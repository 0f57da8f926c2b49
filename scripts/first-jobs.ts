// The first jobs that `npm start` and `npm run start:paid` run, and the help that they print afterwards. Importing this file runs nothing.
import { join } from "node:path";
import type { ComputeRouter, JobInput, RunResult } from "../src/sdk/index.ts";
import { untrusted } from "../src/protocol/text.ts";
import { fitted } from "../src/worker/node/fitted.ts";
import { shellWord } from "../src/worker/node/program.ts";
import { type LocalLlm, TOY } from "./bring-up.ts";
import type { Coordinator } from "./coordinator-process.ts";

const JOB = `{"job_type":"TASK","user_id":"me","payload":{"task_type":"classify","input":"What a lovely day."}}`;

/** Where a coordinator is. */
type Place = Pick<Coordinator, "instance" | "url" | "socketUrl">;

/** How wide a result may be if there is no terminal. */
const UNKNOWN_WIDTH = 138;

/** How wide a result may be in so many columns, which are infinite without a terminal. */
export function resultWidth(columns: number): number {
  return Number.isFinite(columns) ? columns : UNKNOWN_WIDTH;
}

/**
 * What a newcomer can do next, with sentences that fit in so many columns. `state` is the folder of `--state`, where the state of one more worker has a place
 * too.
 */
export function banner(coordinators: readonly Place[], llm: LocalLlm, state: string, columns: number): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  return `
Both instances are up until Ctrl-C.

${rows(coordinators)}

${sentence(llmText(llm), columns)}

${sentence(`One more worker, with the LLM server of this machine if there is one${llm.kind === "toy" ? " (the toy then leaves LLM jobs to it)" : ""}:`, columns)}
    npm run worker -- --url ${first.socketUrl} --config-dir ${shellWord(join(state, "my-worker"))}

  A browser or a phone as one more worker:
    ${first.url}/worker

  Pair with a worker, for PRIVATE jobs:
    ${first.url}/pair

  A job of your own:
    curl -s ${first.url}/v1/jobs/commit/cheap -H 'content-type: application/json' -H 'prefer: wait=20' \\
      -d '${JOB}'
`;
}

/** What a newcomer can do next if jobs are paid. */
export function paidBanner(
  coordinators: readonly Place[],
  llm: LocalLlm,
  { facilitator, control, evmRpc, svmRpc }: Record<"facilitator" | "control" | "evmRpc" | "svmRpc", string>,
  columns: number,
): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  return `
Both instances are up until Ctrl-C, and their jobs must be paid.

${rows(coordinators)}

  facilitator   ${facilitator}
  chains        ${evmRpc} (EVM)   ${svmRpc} (SVM)
  payments      ${control}   see test/payment/README.md

${sentence(llmText(llm), columns)}

  Pay for a job of your own:
    REQUIRED=$(curl -s -o /dev/null -w '%header{payment-required}' -X POST ${first.url}/v1/jobs/commit/cheap)
    PAYMENT=$(curl -s ${control}/pay -d "{\\"header\\":\\"$REQUIRED\\"}" | node -p 'JSON.parse(fs.readFileSync(0)).value')
    curl -s ${first.url}/v1/jobs/commit/cheap -H "X-PAYMENT: $PAYMENT" -H 'content-type: application/json' -H 'prefer: wait=20' \\
      -d '${JOB}'
`;
}

/** A sentence of a banner. */
function sentence(text: string, columns: number): string {
  return fitted(`  ${text}`, columns, 2).join("\n");
}

/** Which LLM answers prompts, and how to get a better one. */
function llmText(llm: LocalLlm): string {
  return llm.kind === "real"
    ? `LLM answers are by ${llm.model} (${llm.runtime}).`
    : `LLM answers are ${TOY.about}. For real ones: ${llm.cure}, then start again.`;
}

function rows(coordinators: readonly Place[]): string {
  return coordinators.map(({ instance, url, socketUrl }) => `  ${instance}   ${url}   docs ${url}/docs   workers ${socketUrl}`).join("\n");
}

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

/** The columns of the name of a job. */
const LABEL = 13;

/** The result of a first job, for a person. */
export type FirstResult = { ok: boolean; lines: string[] };

/** Runs one job on one instance with the reference client, which checks the receipt. Its lines fit in so many columns, infinite without a terminal. */
export async function runFirstJob(router: ComputeRouter, { title, job }: FirstJob, columns: number, signal: AbortSignal): Promise<FirstResult> {
  const started = performance.now();
  const name = title.padEnd(LABEL);
  const told = (text: string): string[] => fitted(`${name}${untrusted(text)}`, columns, LABEL);
  try {
    const result = await router.run(job, { signal });
    const seconds = `${((performance.now() - started) / 1000).toFixed(1)} s`;
    const receipt = result.verified ? `verified, signed by ${result.receipt?.provider_pubkey.slice(0, 8)}…` : `NOT verified (${refusal(result)})`;
    const facts = [receipt, result.price, seconds, answeredBy(result)].filter((fact) => fact !== null);
    const output = shortened(result.output, resultWidth(columns) - LABEL);
    return { ok: result.verified, lines: [...told(facts.join("   ")), `${" ".repeat(LABEL)}${untrusted(output)}`] };
  } catch (error) {
    if (signal.aborted) throw error;
    return { ok: false, lines: told(`FAILED   ${error instanceof Error ? error.message : String(error)}`) };
  }
}

/** The model that answered an LLM job. The reader of a toy's answer must know that it is a toy. */
export function answeredBy({ result }: Pick<RunResult, "result">): string | null {
  const model = result === null ? undefined : Reflect.get(result, "model");
  return typeof model === "string" ? `by ${model}${model === TOY.model ? ", a toy" : ""}` : null;
}

function refusal({ verification }: RunResult): string {
  return verification.ok ? "" : verification.reason;
}

/** A text, or an object as JSON, on one line of at most `width` characters. */
export function shortened(output: unknown, width: number): string {
  const text = (typeof output === "string" ? output : JSON.stringify(output)).replaceAll(/\s+/g, " ").trim();
  const characters = [...text];
  return characters.length <= width ? text : `${characters.slice(0, Math.max(0, width - 1)).join("")}…`;
}
