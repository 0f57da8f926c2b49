// The whole OpenAPI document: its introduction and the table of all endpoints [API8]. `GET /openapi.json` and the page at /docs show it.
import { KiB, LIMITS, RATES } from "../../protocol/limits.ts";
import { DAY, MAX_WAIT_SECONDS, RETENTION, TIMING } from "../../protocol/times.ts";
import { componentSchemas, type Header, HEADERS, type JsonSchema, type Paths, type ResponseObject, SHARED } from "./components.ts";
import { cancel, commit, events, job, openAi, quote, userJobs } from "./job-endpoints.ts";
import {
  claim,
  create,
  docs,
  docsFile,
  favicon,
  health,
  homeFile,
  homePage,
  list,
  llmsText,
  model,
  models,
  openapi,
  pairFile,
  pairPage,
  workerFile,
  workerPage,
  x402Resources,
} from "./service-endpoints.ts";

/** The limits for clients. The figures come from the module that the coordinator enforces them with [LM]. */
const LIMIT_LINES = [
  `Request body: ${LIMITS.bodyBytes / KiB} KiB, at most ${LIMITS.jsonDepth} levels of nesting and ${LIMITS.jsonValues} values.`,
  `\`prompt\` and \`input\`: ${LIMITS.textBytes / KiB} KiB of UTF-8; a payload as the worker gets it: ${LIMITS.payloadBytes / KiB} KiB.`,
  `\`max_tokens\`: 1 to ${LIMITS.maxTokens}, default ${LIMITS.defaultMaxTokens}. A worker generates at most ${LIMITS.workerMaxTokens} tokens, unless its owner sets another limit.`,
  `\`user_id\`: 1 to ${LIMITS.userIdChars} characters, no control characters.`,
  `Waiting jobs: ${LIMITS.queuedJobsPerUser} per user, ${LIMITS.queuedJobs} in all.`,
  `\`wait\`: at most ${MAX_WAIT_SECONDS} s.`,
  `Event streams: ${LIMITS.streams} at the same time; the coordinator keeps ${LIMITS.streamTextBytes / KiB} KiB of text per job for them.`,
  `A job waits up to ${TIMING.claimWindow / 1_000} s for a worker, has at most ${LIMITS.attempts} attempts, and ends within ${TIMING.total / 1_000} s of its commit.`,
  `Requests per IP address (per /64 network for IPv6), unless the operator changed the limits: ${RATES.commitsPerMinute} commits per minute, or ${RATES.paidCommitsPerMinute} with a payment (of these, one whose payment is not verified or was known before counts for both), ${RATES.pollsPerTenSeconds} polls per 10 s, ${RATES.trustPerMinute} pairing requests per minute.`,
  `Retention after the end of a job: result ${RETENTION.result / DAY} days, receipt ${RETENTION.job / DAY} days.`,
];

const DESCRIPTION = `A seeker commits a job over HTTP; the coordinator hands it to a connected worker over WebSocket and returns the worker's result with a receipt that the worker signed.

Two instances run in parallel, one per chain, with the same API. They share no data: a job or a pairing of one instance does not exist on the other.

There are no accounts. A \`user_id\` works like a password: everyone who knows it can send PRIVATE jobs to the paired workers and list the pairings. So make it random and keep it secret.

Every error is \`{"error": "<string>"}\`, also for unknown paths (404 \`not_found\`) and methods (405 \`method_not_allowed\`, with \`Allow\`). A 5xx error has \`request_id\` too. The endpoints of OpenAI's API answer with OpenAI's error objects, except a 402, which has the form of x402. A job that fails is not an HTTP error: its \`status\` is \`failed\`, and \`result.error\` says why.

Workers connect by WebSocket to \`/\` of the same address. docs/protocol.md in the source repository describes that protocol.

Limits and times:

${LIMIT_LINES.map((line) => `- ${line}`).join("\n")}
`;

/** The OpenAPI 3.1 description of the REST API, from the schemas that the routes validate with [API8]. `version` is the version of the package. */
export function openApiDocument(version: string): OpenApiDocument {
  return {
    openapi: "3.1.0",
    info: {
      title: "Compute Router",
      version,
      summary: "Routes compute jobs to independently owned workers and returns results with worker-signed receipts.",
      description: DESCRIPTION,
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/", description: "The instance that served this document." }],
    security: [],
    tags: [
      { name: "Jobs", description: "Price, commit and poll a job." },
      { name: "OpenAI", description: "The models of the workers, and the same jobs, for clients of OpenAI's API." },
      { name: "Trust", description: "Pair a user with workers that may run PRIVATE jobs." },
      { name: "Service", description: "The instance itself." },
    ],
    paths: PATHS,
    components: { schemas: componentSchemas(), headers: HEADERS, responses: SHARED },
  };
}

/** The parts of an OpenAPI 3.1 document that ours has. */
export type OpenApiDocument = {
  openapi: "3.1.0";
  info: { title: string; version: string; summary: string; description: string; license: { name: string; identifier: string } };
  servers: { url: string; description: string }[];
  security: [];
  tags: { name: string; description: string }[];
  paths: Paths;
  components: { schemas: Record<string, JsonSchema>; headers: Record<string, Header>; responses: Record<string, ResponseObject> };
};

/** Every operation of the REST API, in the order of app.ts [API8]. */
export const PATHS: Paths = {
  "/v1/health": { get: health },
  "/v1/quote": { get: quote },
  "/v1/models": { get: models },
  "/v1/models/{id}": { get: model },
  "/v1/jobs/commit/fast": { post: commit("FAST") },
  "/v1/jobs/commit/cheap": { post: commit("CHEAP") },
  "/v1/chat/completions": { post: openAi("chat") },
  "/v1/completions": { post: openAi("completions") },
  "/v1/jobs": { get: userJobs },
  "/v1/jobs/{id}": { get: job, delete: cancel },
  "/v1/jobs/{id}/events": { get: events },
  "/v1/trust/create": { post: create },
  "/v1/trust/claim": { post: claim },
  "/v1/trust/list": { get: list },
  "/openapi.json": { get: openapi },
  "/llms.txt": { get: llmsText },
  "/.well-known/x402": { get: x402Resources },
  "/docs": { get: docs },
  "/docs/{file}": { get: docsFile },
  "/": { get: homePage },
  "/home/{file}": { get: homeFile },
  "/favicon.ico": { get: favicon },
  "/worker": { get: workerPage },
  "/worker/{file}": { get: workerFile },
  "/pair": { get: pairPage },
  "/pair/{file}": { get: pairFile },
};
