import type { Coordinator } from "./coordinator-process.ts";
import type { LabProcess } from "./lab-process.ts";
import { type LocalLlm, TOY } from "./local-llm.ts";

const JOB = `{"job_type":"TASK","user_id":"me","payload":{"task_type":"classify","input":"What a lovely day."}}`;

/** What a newcomer may do next. */
export function banner(coordinators: readonly Coordinator[], llm: LocalLlm): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  return `
Both instances are up until Ctrl-C.

${rows(coordinators)}

  ${llmLine(llm)}

  One more worker, with the LLM server of this machine if there is one${llm.kind === "toy" ? " (the toy then leaves LLM jobs to it)" : ""}:
    npm run worker -- --url ${first.socketUrl} --config-dir .state/my-worker

  A browser or a phone as one more worker:
    ${first.url}/worker

  Pair with a worker, for PRIVATE jobs:
    ${first.url}/pair

  A job of your own:
    curl -s ${first.url}/v1/jobs/commit/cheap -H 'content-type: application/json' -H 'prefer: wait=20' \\
      -d '${JOB}'
`;
}

/** What may be done next where jobs are paid. */
export function paidBanner(coordinators: readonly Coordinator[], llm: LocalLlm, { facilitator, control, evmRpc, svmRpc }: LabProcess): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  return `
Both instances are up until Ctrl-C, and want to be paid.

${rows(coordinators)}

  facilitator   ${facilitator}
  chains        ${evmRpc} (EVM)   ${svmRpc} (SVM)
  payments      ${control}   test/payment/README.md says what it can do

  ${llmLine(llm)}

  Pay for a job of your own:
    REQUIRED=$(curl -s -o /dev/null -w '%header{payment-required}' -X POST ${first.url}/v1/jobs/commit/cheap)
    PAYMENT=$(curl -s ${control}/pay -d "{\\"header\\":\\"$REQUIRED\\"}" | node -p 'JSON.parse(fs.readFileSync(0)).value')
    curl -s ${first.url}/v1/jobs/commit/cheap -H "X-PAYMENT: $PAYMENT" -H 'content-type: application/json' -H 'prefer: wait=20' \\
      -d '${JOB}'
`;
}

/** What answers prompts, and how to get something better. */
function llmLine(llm: LocalLlm): string {
  return llm.kind === "real"
    ? `LLM answers are by ${llm.model} (${llm.runtime}).`
    : `LLM answers are ${TOY.about}. For real ones: ${llm.cure}, then start again.`;
}

function rows(coordinators: readonly Coordinator[]): string {
  return coordinators.map(({ instance, url, socketUrl }) => `  ${instance}   ${url}   docs ${url}/docs   workers ${socketUrl}`).join("\n");
}
