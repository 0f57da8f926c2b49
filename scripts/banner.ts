import type { Coordinator } from "./coordinator-process.ts";

/** What a newcomer may do next. */
export function banner(coordinators: readonly Coordinator[]): string {
  const [first] = coordinators;
  if (first === undefined) return "";
  const rows = coordinators.map(({ instance, url, socketUrl }) => `  ${instance}   ${url}   docs ${url}/docs   workers ${socketUrl}`);
  return `
Both instances are up until Ctrl-C.

${rows.join("\n")}

  One more worker, with the LLM server of this machine if there is one:
    npm run worker -- --url ${first.socketUrl} --config-dir .state/my-worker

  A job of your own:
    curl -s ${first.url}/v1/jobs/commit/cheap -H 'content-type: application/json' -H 'prefer: wait=20' \\
      -d '{"job_type":"TASK","user_id":"me","payload":{"task_type":"classify","input":"What a lovely day."}}'
`;
}
