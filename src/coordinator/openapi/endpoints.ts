// The endpoints of the OpenAPI document: parameters, bodies, answers and examples of each [API8].
import { JobType, Policy, type ResolvedPolicy } from "../../protocol/job.ts";
import { LIMITS, MAX_WAIT_SECONDS, TIMING } from "../../protocol/limits.ts";
import { commitPrice } from "../../protocol/pricing.ts";
import { atomicAmount } from "../payment/terms.ts";
import { headers, json, type Operation, type Parameter, type Paths, ref, type SchemaName, shared } from "./components.ts";
import { EXAMPLES } from "./examples.ts";
const faults = { "500": shared("Internal"), "503": shared("Overloaded") } as const;

function body(schema: SchemaName, description: string, examples: Record<string, unknown>): NonNullable<Operation["requestBody"]> {
  const named = Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }]));
  return { required: true, description, content: { "application/json": { schema: ref(schema), examples: named } } };
}

const userIdQuery: Parameter = {
  name: "user_id",
  in: "query",
  required: true,
  description: "The user whose pairings to list.",
  schema: ref("UserId"),
  example: EXAMPLES.user,
};

const userToken = (description: string): Parameter => ({
  name: "X-User-Token",
  in: "header",
  description: `1 to ${LIMITS.userTokenChars} printable ASCII characters. ${description}`,
  schema: { type: "string", minLength: 1, maxLength: LIMITS.userTokenChars },
});

const health: Operation = {
  operationId: "getHealth",
  tags: ["Service"],
  summary: "Is the coordinator up, and how many workers are connected",
  description: "Free.",
  responses: { "200": json("The coordinator is up.", "Health", { up: EXAMPLES.health }), ...faults },
};

const quote: Operation = {
  operationId: "getQuote",
  tags: ["Jobs"],
  summary: "What a job will cost and where to commit it",
  description: "Free. `AUTO` resolves to `FAST` for `LLM_INFER` and to `CHEAP` for `TASK`.",
  parameters: [
    { name: "job_type", in: "query", required: true, description: "Kind of the job.", schema: { type: "string", enum: JobType.options }, example: "LLM_INFER" },
    {
      name: "policy",
      in: "query",
      description: "Absent or empty means `AUTO`.",
      example: "AUTO",
      schema: { type: "string", enum: ["", ...Policy.options], default: "AUTO" },
    },
  ],
  responses: {
    "200": json("The price, and the endpoint to commit to.", "Quote", { quote: EXAMPLES.quote }),
    "400": json("`job_type` is missing or `policy` is not one of the three.", "Error", {
      missing: { error: "job_type is missing: it must be one of LLM_INFER, TASK" },
    }),
    "500": shared("Internal"),
  },
};

const models: Operation = {
  operationId: "listModels",
  tags: ["Service"],
  summary: "The models that connected workers answer with",
  description:
    "Free. OpenAI's list, and `workers_online` beside it. The names are what workers say of themselves: nobody checks which model really answers. May be a second old.",
  responses: { "200": json("The models; empty while no worker announces one.", "ModelList", { list: EXAMPLES.models }), ...faults },
};

const commit = (policy: ResolvedPolicy): Operation => ({
  operationId: policy === "FAST" ? "commitFast" : "commitCheap",
  tags: ["Jobs"],
  summary: `Commit a job to the ${policy} tier`,
  description: [
    `Costs \`${commitPrice(policy)}\` while payment gating is on, whatever the job type; free while the instance runs with \`TESTNET_MODE=true\`.`,
    "A payment is settled when a worker is claimed for the job, never before; a job that finds none is not charged. The same payment with the same body gives the same job again.",
    "A 201 is durable: the job ends as `completed` or `failed`, whatever breaks after it.",
    "A body without a JSON content type is still read as JSON. Unknown members of `payload` travel on to the worker.",
  ].join(" "),
  parameters: [
    {
      name: "X-PAYMENT",
      in: "header",
      description: `Signed payment; needed only while payment gating is on. Base64 of an x402 payload of version 2 or 1, at most ${LIMITS.paymentHeaderBytes} bytes.`,
      schema: { type: "string" },
    },
    {
      name: "PAYMENT-SIGNATURE",
      in: "header",
      description: "The name of `X-PAYMENT` in x402 version 2; either will do. Where both are sent, they must bring the same payment.",
      schema: { type: "string" },
    },
    {
      name: "Idempotency-Key",
      in: "header",
      description:
        "1 to 255 printable ASCII characters. The same key, user, endpoint and fields within 24 h give the first answer's `job_id` again and start no second job.",
      schema: { type: "string", minLength: 1, maxLength: LIMITS.idempotencyKeyChars },
      example: "order-4711-summary",
    },
    {
      name: "Prefer",
      in: "header",
      schema: { type: "string" },
      example: "wait=10",
      description: `\`wait=N\` holds the answer up to N seconds (at most ${MAX_WAIT_SECONDS}) for the end of the job, which is then in it (RFC 7240). Other preferences are ignored.`,
    },
    userToken("Needed for a PRIVATE job of a user whose first pairing code came with one."),
  ],
  requestBody: body("CommitRequest", "The job.", { task: EXAMPLES.task, llm: EXAMPLES.llm }),
  responses: {
    "201": json(
      "The job is stored. `job` is there only where `Prefer: wait=N` was applied, in the state it then had.",
      "CommitResponse",
      { "at once": EXAMPLES.accepted, "waited for": EXAMPLES.waited },
      "Preference-Applied",
      "PAYMENT-RESPONSE",
      "X-PAYMENT-RESPONSE",
    ),
    "400": json("The body, a field of it or the `Idempotency-Key` is missing or wrong.", "Error", {
      missing: { error: "Missing required fields: job_type, payload, user_id" },
    }),
    "401": shared("Unproven"),
    "402": json(
      [
        "Payment gating is on and no valid payment came; without one it is answered before the body is looked at. Nothing is charged.",
        "`invalid_payment: …` says what is wrong with it; `payment_already_used`: it was sent for something else before;",
        "`payment_failed: …`: the facilitator refused to settle it, in whose words `PAYMENT-RESPONSE` says why.",
      ].join(" "),
      "PaymentRequired",
      {
        unpaid: EXAMPLES.unpaid(policy),
        "other terms": EXAMPLES.unpaid(policy, `invalid_payment: X-PAYMENT: accepted.amount must be ${atomicAmount(commitPrice(policy))}`),
        "used for another job": EXAMPLES.unpaid(policy, "payment_already_used"),
        "not settled": EXAMPLES.unpaid(policy, "payment_failed: invalid_exact_evm_insufficient_balance"),
      },
      "PAYMENT-REQUIRED",
      "PAYMENT-RESPONSE",
      "X-PAYMENT-RESPONSE",
    ),
    "409": json("The `Idempotency-Key` was used for other fields or another endpoint.", "Error", { reused: { error: "idempotency_key_reused" } }),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "422": json("No paired worker that could run this PRIVATE job is connected. The job is stored as failed, nothing is charged.", "NoTrustedWorker", {
      refused: EXAMPLES.refused,
    }),
    "429": shared("RateLimited"),
    "500": shared("Internal"),
    "503": shared("Full"),
  },
});

const jobIdPath: Parameter = {
  name: "id",
  in: "path",
  required: true,
  description: "The `job_id` of the commit.",
  example: EXAMPLES.id,
  schema: { type: "string", format: "uuid" },
};

const job: Operation = {
  operationId: "getJob",
  tags: ["Jobs"],
  summary: "The state of a job, and its result and receipt once it has ended",
  description: "Free. Knowing the id is the only access control. `result` and `receipt` are null until the job has ended; a failed job has `result.error`.",
  parameters: [
    jobIdPath,
    {
      name: "wait",
      in: "query",
      example: 10,
      schema: { type: "integer", minimum: 0 },
      description: `Seconds to hold the answer for the end of the job; more than ${MAX_WAIT_SECONDS} counts as ${MAX_WAIT_SECONDS}. After that the present state is answered.`,
    },
  ],
  responses: {
    "200": json(
      "The job; with the settlement of its payment once there is one.",
      "Job",
      { completed: EXAMPLES.completed, pending: EXAMPLES.pending, failed: EXAMPLES.failed },
      "PAYMENT-RESPONSE",
      "X-PAYMENT-RESPONSE",
    ),
    "400": json("`wait` is not a whole number.", "Error", { wait: { error: "wait must be a whole number of seconds (more than 25 counts as 25)" } }),
    "404": shared("NotFound"),
    "429": shared("RateLimited"),
    ...faults,
  },
};

const events: Operation = {
  operationId: "followJob",
  tags: ["Jobs"],
  summary: "The state and the text of a job as they come, as server-sent events",
  description: [
    "Free. Knowing the id is the only access control. Each event has an `id` and JSON as `data`:",
    "`status` `{status, attempt}`, `delta` `{attempt, seq, delta}` (text of an LLM), `reset` `{attempt}` (drop the text: another worker begins anew, or some was lost),",
    "and at the end `done`, whose data is the Job.",
    `A comment comes every ${TIMING.streamComment / 1_000} s. A stream that ends without \`done\` is to be opened again, with the last id; an EventSource does so by itself.`,
  ].join(" "),
  parameters: [
    jobIdPath,
    {
      name: "Last-Event-ID",
      in: "header",
      description: "The id of the last event that was read: what comes after it is sent, or a `reset` and what there is.",
      schema: { type: "string" },
      example: "1790856001250003",
    },
  ],
  responses: {
    "200": {
      description: "The events, until the job has ended.",
      headers: headers(),
      content: { "text/event-stream": { schema: { type: "string" }, example: EXAMPLES.events } },
    },
    "204": { description: "`Last-Event-ID` is that of `done`: there is nothing more.", headers: headers() },
    "404": shared("NotFound"),
    ...faults,
  },
};

const create: Operation = {
  operationId: "createPairingCode",
  tags: ["Trust"],
  summary: "A code by which a worker becomes trusted for a user",
  description: `Free. The code is valid for one hour, once. At most ${LIMITS.openPairingCodes} open codes per user.`,
  parameters: [
    userToken("Sent with the first code ever of a user, it is needed from then on for codes, lists and PRIVATE jobs of that user; only its hash is kept."),
  ],
  requestBody: body("PairingCreate", "The user.", { user: EXAMPLES.create }),
  responses: {
    "201": json("A fresh code.", "PairingCode", { code: EXAMPLES.code }),
    "400": json("`user_id` or the token is missing or wrong.", "Error", { missing: { error: "Missing required fields: user_id" } }),
    "401": shared("Unproven"),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...faults,
  },
};

const claim: Operation = {
  operationId: "claimPairingCode",
  tags: ["Trust"],
  summary: "A worker claims a code and becomes trusted for its user",
  description: "Free; called by a worker. Codes are read in upper case. Of several claims of one code one wins.",
  requestBody: body("PairingClaim", "The code and the worker's public key.", { claim: EXAMPLES.claim }),
  responses: {
    "200": json("The worker is trusted for this user.", "Paired", { paired: EXAMPLES.paired }),
    "400": json("The code cannot be claimed, or a field is missing or wrong.", "Error", {
      "code unknown": { error: "invalid_code" },
      "code used": { error: "already_claimed" },
      "code older than an hour": { error: "expired" },
      "signature is not the key's": { error: "invalid_signature" },
      "field wrong": { error: 'provider_pubkey must be 64 hex characters, got "abc"' },
    }),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...faults,
  },
};

const list: Operation = {
  operationId: "listProviders",
  tags: ["Trust"],
  summary: "The workers that a user has paired with",
  description: "Free. Newest first, each worker once.",
  parameters: [userIdQuery, userToken("Needed for a user whose first pairing code came with one.")],
  responses: {
    "200": json("The paired workers; empty for a user without any.", "TrustList", { list: EXAMPLES.list }),
    "400": json("`user_id` is missing or wrong.", "Error", { missing: { error: "Missing required query parameter: user_id" } }),
    "401": shared("Unproven"),
    "429": shared("RateLimited"),
    ...faults,
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

/** A page for people, and the files that it is made of. */
function page(id: string, summary: string, description: string): Operation {
  return {
    operationId: `get${id}Page`,
    tags: ["Service"],
    summary,
    description: `${description} With \`Upgrade: websocket\` the path is a worker socket, like every other one.`,
    responses: pageAnswers(),
  };
}

function pageAnswers(): Operation["responses"] {
  return {
    "200": { description: "The page.", headers: headers(), content: { "text/html": { schema: { type: "string" } } } },
    "304": { description: "The page is as `If-None-Match` says.", headers: headers() },
    "404": json("This instance was deployed without pages.", "Error", { none: { error: "not_found" } }),
    "500": shared("Internal"),
  };
}

function pageFile(id: string, description: string, example: string): Operation {
  return {
    operationId: `get${id}File`,
    tags: ["Service"],
    summary: "A file of that page",
    description,
    parameters: [{ name: "file", in: "path", required: true, description: "Its name.", example, schema: { type: "string" } }],
    responses: {
      "200": { description: "The file.", headers: headers(), content: { "*/*": { schema: { type: "string" } } } },
      "304": { description: "The file is as `If-None-Match` says.", headers: headers() },
      "404": json("There is no such file.", "Error", { unknown: { error: "not_found" } }),
      "500": shared("Internal"),
    },
  };
}

const docs: Operation = {
  operationId: "getDocs",
  tags: ["Service"],
  summary: "This description as a page",
  description: "For people. Its forms send requests to this instance, and to no other address.",
  responses: pageAnswers(),
};
const docsFile = pageFile("Docs", "Script and style. Their names carry a hash of their content, so they never change.", "page-0123456789ab.js");

const homePage: Operation = {
  operationId: "getHomePage",
  tags: ["Service"],
  summary: "What this address is, for browsers",
  description: [
    "For people: what this is, how many workers are online, a first command, and where to go. Only for requests whose `Accept` names `text/html`; for all",
    "others the path is unknown. With `Upgrade: websocket` it is the worker socket.",
  ].join(" "),
  responses: {
    "200": { description: "The page.", headers: headers("Vary"), content: { "text/html": { schema: { type: "string" } } } },
    "304": { description: "The page is as `If-None-Match` says.", headers: headers("Vary") },
    "404": json("The request does not ask for HTML, or this instance was deployed without pages.", "Error", { none: { error: "not_found" } }, "Vary"),
    "500": shared("Internal"),
  },
};
const homeFile = pageFile("Home", "Script and style. Their names carry a hash of their content, so they never change.", "page-0123456789ab.js");

const favicon: Operation = {
  operationId: "getFavicon",
  tags: ["Service"],
  summary: "The icon of this service",
  description: "For browsers, which ask for it by themselves.",
  responses: {
    "200": { description: "A PNG of 192 × 192 pixels.", headers: headers(), content: { "image/png": { schema: { type: "string" } } } },
    "304": { description: "The icon is as `If-None-Match` says.", headers: headers() },
    "404": json("This instance was deployed without pages.", "Error", { none: { error: "not_found" } }),
    "500": shared("Internal"),
  },
};

const workerPage = page("Worker", "A worker for browsers and phones", "For people: whoever opens it can let this device do TASK jobs.");
const workerFile = pageFile("Worker", "Scripts, style, icons and manifest. Those with a hash in their name never change.", "manifest.webmanifest");
const pairPage = page(
  "Pair",
  "The user's side of a pairing",
  "For people: make a code for a worker, as letters and as a QR code, and see whom you are paired with.",
);
const pairFile = pageFile("Pair", "Script and style. Those with a hash in their name never change.", "index.html");

/** Every operation of the REST surface, in the order of app.ts [API8]. */
export const PATHS: Paths = {
  "/v1/health": { get: health },
  "/v1/quote": { get: quote },
  "/v1/models": { get: models },
  "/v1/jobs/commit/fast": { post: commit("FAST") },
  "/v1/jobs/commit/cheap": { post: commit("CHEAP") },
  "/v1/jobs/{id}": { get: job },
  "/v1/jobs/{id}/events": { get: events },
  "/v1/trust/create": { post: create },
  "/v1/trust/claim": { post: claim },
  "/v1/trust/list": { get: list },
  "/openapi.json": { get: openapi },
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
