// The endpoints of the OpenAPI document about pairings and the service: health, models, descriptions and pages [API8].
import { LIMITS } from "../../protocol/limits.ts";
import { body, FAULTS, headers, json, type Operation, type Parameter, ref, shared, userToken } from "./components.ts";
import { EXAMPLES } from "./examples.ts";

/** `GET /v1/health` */
export const health: Operation = {
  operationId: "getHealth",
  tags: ["Service"],
  summary: "Whether the coordinator is up, and how many workers are connected",
  description: "Free.",
  responses: { "200": json("The coordinator is up.", "Health", { up: EXAMPLES.health }), ...FAULTS },
};

/** `GET /v1/models` */
export const models: Operation = {
  operationId: "listModels",
  tags: ["OpenAI"],
  summary: "The models of the connected workers",
  description:
    "Free. The list has the form of OpenAI's, with `workers_online` added. Workers announce their model names themselves, and the coordinator cannot check them. The list may be about a second old, and five seconds while the coordinator is slow.",
  responses: { "200": json("The models. The list is empty if no connected worker announces one.", "ModelList", { list: EXAMPLES.models }), ...FAULTS },
};

const { openAiError } = EXAMPLES;

/** `GET /v1/models/{id}` */
export const model: Operation = {
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

/** `GET /openapi.json` */
export const openapi: Operation = {
  operationId: "getOpenApi",
  tags: ["Service"],
  summary: "This description",
  description: "OpenAPI 3.1.",
  responses: {
    "200": { description: "The document.", headers: headers(), content: { "application/json": { schema: { type: "object" } } } },
    "500": shared("Internal"),
  },
};

/** `GET /llms.txt` */
export const llmsText: Operation = {
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

/** `GET /.well-known/x402` */
export const x402Resources: Operation = {
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

/** `GET /docs` */
export const docs: Operation = {
  operationId: "getDocs",
  tags: ["Service"],
  summary: "This description as a page",
  description: "For people. The forms of the page send requests to this instance only.",
  responses: pageResponses(),
};

/** `GET /docs/{file}` */
export const docsFile = pageFile(
  "Docs",
  "`api.md` is this description as Markdown. The names of script and style contain a hash of their content, so they never change.",
  "api.md",
);

/** `GET /` */
export const homePage: Operation = {
  operationId: "getHomePage",
  tags: ["Service"],
  summary: "What this address is, for browsers",
  description: [
    "For people: what this service is, how many workers are online, a first command, and links. Only requests whose `Accept` names `text/html` get the page;",
    "all others get 404. With `Upgrade: websocket` this path is the worker socket.",
  ].join(" "),
  responses: pageResponses("The request does not ask for HTML, or this instance was deployed without pages.", "Vary"),
};

/** `GET /home/{file}` */
export const homeFile = pageFile("Home", "Script and style. Their names contain a hash of their content, so they never change.", "page-0123456789ab.js");

/** `GET /favicon.ico` */
export const favicon: Operation = {
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

/** `GET /worker` */
export const workerPage = page("Worker", "A worker for browsers and phones", "For people: with this page a phone or a computer does TASK jobs.");

/** `GET /worker/{file}` */
export const workerFile = pageFile("Worker", "Scripts, style, icons and manifest. A file with a hash in its name never changes.", "manifest.webmanifest");

/** `GET /pair` */
export const pairPage = page(
  "Pair",
  "The user's side of a pairing",
  "For people: make a pairing code for a worker, as text and as a QR code, and see the workers that you are paired with.",
);

/** `GET /pair/{file}` */
export const pairFile = pageFile("Pair", "Script and style. A file with a hash in its name never changes.", "index.html");

const userIdQuery: Parameter = {
  name: "user_id",
  in: "query",
  required: true,
  description: "The user whose pairings to list.",
  schema: ref("UserId"),
  example: EXAMPLES.user,
};

/** `POST /v1/trust/create` */
export const create: Operation = {
  operationId: "createPairingCode",
  tags: ["Trust"],
  summary: "A pairing code, with which a worker becomes trusted for a user",
  description: `Free. The code can be claimed once, within one hour. A user has at most ${LIMITS.openPairingCodes} open codes, while \`RATE_LIMITS\` is on.`,
  parameters: [
    userToken(
      "If the very first code of a user is made with a token, every later code, list and PRIVATE job of that user needs the same token. Only its hash is stored.",
    ),
  ],
  requestBody: body("PairingCreate", "The user.", { user: EXAMPLES.create }),
  responses: {
    "201": json("A new code.", "PairingCode", { code: EXAMPLES.code }),
    "400": json("`user_id` or the token is missing or wrong, or `user_id` has a form that is reserved for OpenAI requests without `user`.", "Error", {
      missing: { error: "Missing required fields: user_id" },
    }),
    "401": shared("TokenRequired"),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "429": shared("RateLimited"),
    ...FAULTS,
    "503": shared("NoRoom"),
  },
};

/** `POST /v1/trust/claim` */
export const claim: Operation = {
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
export const list: Operation = {
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
