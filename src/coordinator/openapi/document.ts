// The whole OpenAPI document: its introduction, endpoints and components [API8].
import { LIMITS, MAX_WAIT_SECONDS, RATES, RETENTION, TIMING } from "../../protocol/limits.ts";
import { componentSchemas, type Header, HEADERS, type JsonSchema, type Paths, type ResponseObject, SHARED } from "./components.ts";
import { PATHS } from "./endpoints.ts";

const KiB = 1024;
const DAY = 24 * 60 * 60 * 1_000;

/** What a client must keep within, from the one module that enforces it [LM]. */
const LIMIT_LINES = [
  `Request body: ${LIMITS.bodyBytes / KiB} KiB, nesting ${LIMITS.jsonDepth} deep.`,
  `\`prompt\` and \`input\`: ${LIMITS.textBytes / KiB} KiB of UTF-8.`,
  `\`max_tokens\`: 1 to ${LIMITS.maxTokens}, ${LIMITS.defaultMaxTokens} where it is left out; a worker gives at most ${LIMITS.workerMaxTokens}, unless its owner says otherwise.`,
  `\`user_id\`: 1 to ${LIMITS.userIdChars} characters, no control characters.`,
  `Waiting jobs: ${LIMITS.queuedJobsPerUser} per user, ${LIMITS.queuedJobs} in all.`,
  `\`wait\`: ${MAX_WAIT_SECONDS} s.`,
  `Event streams: ${LIMITS.streams} at once; ${LIMITS.streamTextBytes / KiB} KiB of text of a job are kept for them.`,
  `A job waits ${TIMING.claimWindow / 1_000} s for a worker, has at most ${LIMITS.attempts} attempts, and ends within ${TIMING.total / 1_000} s of its commit.`,
  `Requests of one IP (an IPv6 /64), unless the operator set others: ${RATES.commitsPerMinute} commits a minute, ${RATES.pollsPerTenSeconds} polls in 10 s, ${RATES.trustPerMinute} pairing requests a minute.`,
  `Kept after a job's end: result ${RETENTION.result / DAY} days, receipt ${RETENTION.job / DAY} days.`,
];

const DESCRIPTION = `A seeker commits a job over HTTP; the coordinator hands it to a connected worker over WebSocket and returns the worker's result with a receipt that the worker signed.

Two instances run in parallel, one per chain, with the same API and nothing in common: a job or a pairing made on one is unknown to the other.

There are no accounts. A \`user_id\` is a capability: whoever knows it can submit PRIVATE jobs to the paired workers and read the pairings, so make it random and keep it secret.

Every error is \`{"error": "<string>"}\`, unknown paths (404 \`not_found\`) and methods (405 \`method_not_allowed\`, with \`Allow\`) included; from 500 up it has \`request_id\` too. A job that fails is not an HTTP error: it is polled as \`failed\` with \`result.error\`.

Workers connect by WebSocket on \`/\` of the same address; that protocol is described in docs/protocol.md.

Limits and times:

${LIMIT_LINES.map((line) => `- ${line}`).join("\n")}
`;

/** The OpenAPI 3.1 description of the REST surface, from the schemas that the routes validate with [API8]. `version` is the package's. */
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
      { name: "Trust", description: "Pair a user with workers that may run PRIVATE jobs." },
      { name: "Service", description: "The instance itself." },
    ],
    paths: PATHS,
    components: { schemas: componentSchemas(), headers: HEADERS, responses: SHARED },
  };
}

/** A whole OpenAPI 3.1 document, as far as ours goes. */
export type OpenApiDocument = {
  openapi: "3.1.0";
  info: { title: string; version: string; summary: string; description: string; license: { name: string; identifier: string } };
  servers: { url: string; description: string }[];
  security: [];
  tags: { name: string; description: string }[];
  paths: Paths;
  components: { schemas: Record<string, JsonSchema>; headers: Record<string, Header>; responses: Record<string, ResponseObject> };
};
