// The whole OpenAPI document: its introduction, the table of all endpoints, and those about pairings and the service (health, models, pages) [API8].
import { LIMITS, MAX_WAIT_SECONDS, RATES, RETENTION, TIMING } from "../../protocol/limits.ts";
import {
  body,
  componentSchemas,
  FAULTS,
  type Header,
  HEADERS,
  headers,
  json,
  type JsonSchema,
  type Operation,
  type Parameter,
  type Paths,
  ref,
  type ResponseObject,
  SHARED,
  shared,
  userToken,
} from "./components.ts";
import { EXAMPLES } from "./examples.ts";
import { cancel, commit, events, job, openAi, quote, userJobs } from "./job-endpoints.ts";

const KiB = 1024;
const DAY = 24 * 60 * 60 * 1_000;

/** The limits for clients. The figures come from the module that the coordinator enforces them with [LM]. */
const LIMIT_LINES = [
  `Request body: ${LIMITS.bodyBytes / KiB} KiB, at most ${LIMITS.jsonDepth} levels of nesting.`,
  `\`prompt\` and \`input\`: ${LIMITS.textBytes / KiB} KiB of UTF-8.`,
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

Every error is \`{"error": "<string>"}\`, also for unknown paths (404 \`not_found\`) and methods (405 \`method_not_allowed\`, with \`Allow\`). A 5xx error has \`request_id\` too. A job that fails is not an HTTP error: its \`status\` is \`failed\`, and \`result.error\` says why.

Workers connect by WebSocket to \`/\` of the same address. docs/protocol.md describes that protocol.

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
      { name: "OpenAI", description: "The same jobs, for clients of OpenAI's API." },
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

const health: Operation = {
  operationId: "getHealth",
  tags: ["Service"],
  summary: "Whether the coordinator is up, and how many workers are connected",
  description: "Free.",
  responses: { "200": json("The coordinator is up.", "Health", { up: EXAMPLES.health }), ...FAULTS },
};

const models: Operation = {
  operationId: "listModels",
  tags: ["Service"],
  summary: "The models of the connected workers",
  description:
    "Free. The list has the form of OpenAI's, with `workers_online` added. Workers announce their model names themselves, and the coordinator cannot check them. The list may be one second old.",
  responses: { "200": json("The models. The list is empty if no connected worker announces one.", "ModelList", { list: EXAMPLES.models }), ...FAULTS },
};

const { openAiError } = EXAMPLES;

const model: Operation = {
  operationId: "getModel",
  tags: ["OpenAI"],
  summary: "A model of the connected workers, as in OpenAI's API",
  description: "Free. The object of `GET /v1/models`. Upper and lower case do not matter. Errors have OpenAI's form.",
  parameters: [
    {
      name: "id",
      in: "path",
      required: true,
      description: "The name of the model. It may have slashes and colons, percent-encoded or as they are.",
      example: "llama3.2:latest",
      schema: { type: "string" },
    },
  ],
  responses: {
    "200": json("The model.", "Model", { model: EXAMPLES.models.data[0] }),
    "404": json("No connected worker offers the model.", "OpenAiError", {
      "no worker": openAiError(
        "invalid_request_error",
        "model_not_found",
        "no connected worker offers this model; GET /v1/models lists those that are offered",
      ),
    }),
    "500": json("An internal error.", "OpenAiError", { internal: openAiError("server_error", "internal_error") }),
    "503": json("The coordinator is overloaded.", "OpenAiError", { overloaded: openAiError("server_error", "overloaded") }, "Retry-After"),
  },
};

const openapi: Operation = {
  operationId: "getOpenApi",
  tags: ["Service"],
  summary: "This description",
  description: "OpenAPI 3.1.",
  responses: {
    "200": { description: "The document.", headers: headers(), content: { "application/json": { schema: { type: "object" } } } },
    "500": shared("Internal"),
  },
};

const llmsText: Operation = {
  operationId: "getLlmsText",
  tags: ["Service"],
  summary: "What this address is and how to begin, for programs that read text",
  description: "In the form of llmstxt.org. `/docs/api.md` describes every endpoint as Markdown. Caches may keep it for five minutes.",
  responses: {
    "200": { description: "The text.", headers: headers("Vary"), content: { "text/plain": { schema: { type: "string" } } } },
    "404": json("The host name is malformed.", "Error", { host: { error: "not_found" } }),
    "500": shared("Internal"),
  },
};

const x402Resources: Operation = {
  operationId: "getX402Resources",
  tags: ["Service"],
  summary: "The endpoints that ask for a payment, for catalogs of x402 services",
  description: "The list is empty if jobs are free here. The terms of payment are in the 402 of each endpoint. Caches may keep it for five minutes.",
  responses: {
    "200": {
      description: "The endpoints.",
      headers: headers("Vary"),
      content: { "application/json": { schema: ref("X402Resources"), example: EXAMPLES.x402 } },
    },
    "404": json("The host name is malformed.", "Error", { host: { error: "not_found" } }),
    "500": shared("Internal"),
  },
};

/** A page for people. */
function page(id: string, summary: string, description: string): Operation {
  return {
    operationId: `get${id}Page`,
    tags: ["Service"],
    summary,
    description: `${description} With \`Upgrade: websocket\` this path, like every other path, is the worker socket.`,
    responses: pageResponses(),
  };
}

/** The answers of a page. `missing` says when it is 404, `more` names further headers. */
function pageResponses(missing = "This instance was deployed without pages.", ...more: Parameters<typeof headers>): Operation["responses"] {
  return {
    "200": { description: "The page.", headers: headers(...more), content: { "text/html": { schema: { type: "string" } } } },
    "304": { description: "The page still matches `If-None-Match`.", headers: headers(...more) },
    "404": json(missing, "Error", { none: { error: "not_found" } }, ...more),
    "500": shared("Internal"),
  };
}

/** The files of a page: scripts, styles, icons. */
function pageFile(id: string, description: string, example: string): Operation {
  return {
    operationId: `get${id}File`,
    tags: ["Service"],
    summary: "A file of that page",
    description,
    parameters: [{ name: "file", in: "path", required: true, description: "The name of the file.", example, schema: { type: "string" } }],
    responses: {
      "200": { description: "The file.", headers: headers(), content: { "*/*": { schema: { type: "string" } } } },
      "304": { description: "The file still matches `If-None-Match`.", headers: headers() },
      "404": json("There is no such file.", "Error", { unknown: { error: "not_found" } }),
      "500": shared("Internal"),
    },
  };
}

const docs: Operation = {
  operationId: "getDocs",
  tags: ["Service"],
  summary: "This description as a page",
  description: "For people. The forms of the page send requests to this instance only.",
  responses: pageResponses(),
};
const docsFile = pageFile(
  "Docs",
  "`api.md` is this description as Markdown. The names of script and style contain a hash of their content, so they never change.",
  "api.md",
);

const homePage: Operation = {
  operationId: "getHomePage",
  tags: ["Service"],
  summary: "What this address is, for browsers",
  description: [
    "For people: what this service is, how many workers are online, a first command, and links. Only requests whose `Accept` names `text/html` get the page;",
    "all others get 404. With `Upgrade: websocket` this path is the worker socket.",
  ].join(" "),
  responses: pageResponses("The request does not ask for HTML, or this instance was deployed without pages.", "Vary"),
};
const homeFile = pageFile("Home", "Script and style. Their names contain a hash of their content, so they never change.", "page-0123456789ab.js");

const favicon: Operation = {
  operationId: "getFavicon",
  tags: ["Service"],
  summary: "The icon of this service",
  description: "For browsers, which request it by themselves.",
  responses: {
    "200": { description: "A PNG of 192 × 192 pixels.", headers: headers(), content: { "image/png": { schema: { type: "string" } } } },
    "304": { description: "The icon still matches `If-None-Match`.", headers: headers() },
    "404": json("This instance was deployed without pages.", "Error", { none: { error: "not_found" } }),
    "500": shared("Internal"),
  },
};

const workerPage = page("Worker", "A worker for browsers and phones", "For people: with this page a phone or a computer does TASK jobs.");
const workerFile = pageFile("Worker", "Scripts, style, icons and manifest. A file with a hash in its name never changes.", "manifest.webmanifest");
const pairPage = page(
  "Pair",
  "The user's side of a pairing",
  "For people: make a pairing code for a worker, as text and as a QR code, and see the workers that you are paired with.",
);
const pairFile = pageFile("Pair", "Script and style. A file with a hash in its name never changes.", "index.html");

const userIdQuery: Parameter = {
  name: "user_id",
  in: "query",
  required: true,
  description: "The user whose pairings to list.",
  schema: ref("UserId"),
  example: EXAMPLES.user,
};

/** `POST /v1/trust/create` */
const create: Operation = {
  operationId: "createPairingCode",
  tags: ["Trust"],
  summary: "A pairing code, with which a worker becomes trusted for a user",
  description: `Free. The code can be claimed once, within one hour. A user has at most ${LIMITS.openPairingCodes} open codes.`,
  parameters: [
    userToken(
      "If the very first code of a user is made with a token, every later code, list and PRIVATE job of that user needs the same token. Only its hash is stored.",
    ),
  ],
  requestBody: body("PairingCreate", "The user.", { user: EXAMPLES.create }),
  responses: {
    "201": json("A new code.", "PairingCode", { code: EXAMPLES.code }),
    "400": json("`user_id` or the token is missing or wrong.", "Error", { missing: { error: "Missing required fields: user_id" } }),
    "401": shared("TokenRequired"),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

/** `POST /v1/trust/claim` */
const claim: Operation = {
  operationId: "claimPairingCode",
  tags: ["Trust"],
  summary: "A worker claims a code and becomes trusted for its user",
  description: "Free; called by a worker. Upper and lower case do not matter. If several workers claim one code, exactly one succeeds.",
  requestBody: body("PairingClaim", "The code and the worker's public key.", { claim: EXAMPLES.claim }),
  responses: {
    "200": json("The worker is trusted for this user.", "Paired", { paired: EXAMPLES.paired }),
    "400": json("The code cannot be claimed, or a field is missing or wrong.", "Error", {
      "code unknown": { error: "invalid_code" },
      "code used": { error: "already_claimed" },
      "code older than an hour": { error: "expired" },
      "signature is wrong": { error: "invalid_signature" },
      "field wrong": { error: 'provider_pubkey must be 64 hex characters, got "abc"' },
    }),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

/** `GET /v1/trust/list` */
const list: Operation = {
  operationId: "listProviders",
  tags: ["Trust"],
  summary: "The workers that a user has paired with",
  description: "Free. The newest pairing comes first, and each worker is listed once.",
  parameters: [userIdQuery, userToken("Needed if the first pairing code of the user was made with a token.")],
  responses: {
    "200": json("The paired workers. The list is empty for a user without pairings.", "TrustList", { list: EXAMPLES.list }),
    "400": json("`user_id` is missing or wrong.", "Error", { missing: { error: "Missing required query parameter: user_id" } }),
    "401": shared("TokenRequired"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
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
