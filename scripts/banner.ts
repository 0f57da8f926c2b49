import type { Coordinator } from "./coordinator-process.ts";
import type { LabProcess } from "./lab-process.ts";

const JOB = `{"job_type":"TASK","user_id":"me","payload":{"task_type":"classify","input":"What a lovely day."}}`;

/** What a newcomer may do next. */
export function banner(coordinators: readonly Coordinator[]): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  return `
Both instances are up until Ctrl-C.

${rows(coordinators)}

  One more worker, with the LLM server of this machine if there is one:
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
export function paidBanner(coordinators: readonly Coordinator[], { facilitator, control, evmRpc, svmRpc }: LabProcess): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  return `
Both instances are up until Ctrl-C, and want to be paid.

${rows(coordinators)}

  facilitator   ${facilitator}
  chains        ${evmRpc} (EVM)   ${svmRpc} (SVM)
  payments      ${control}   test/payment/README.md says what it can do

  Pay for a job of your own:
    REQUIRED=$(curl -s -o /dev/null -w '%header{payment-required}' -X POST ${first.url}/v1/jobs/commit/cheap)
    PAYMENT=$(curl -s ${control}/pay -d "{\\"header\\":\\"$REQUIRED\\"}" | node -p 'JSON.parse(fs.readFileSync(0)).value')
    curl -s ${first.url}/v1/jobs/commit/cheap -H "X-PAYMENT: $PAYMENT" -H 'content-type: application/json' -H 'prefer: wait=20' \\
      -d '${JOB}'
`;
}

function rows(coordinators: readonly Coordinator[]): string {
  return coordinators.map(({ instance, url, socketUrl }) => `  ${instance}   ${url}   docs ${url}/docs   workers ${socketUrl}`).join("\n");
}
