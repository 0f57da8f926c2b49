// The job endpoints of the OpenAPI document: quote, commit, poll and follow, with their parameters, bodies and responses [API8].
import { JobType, Policy, type ResolvedPolicy } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { commitPrice } from "../../protocol/pricing.ts";
import { MAX_WAIT_SECONDS, TIMING } from "../../protocol/times.ts";
import { atomicAmount } from "../payment/terms.ts";
import { body, FAULTS, headers, json, type Operation, type Parameter, type PaymentInfo, ref, shared, userToken } from "./components.ts";
import { EXAMPLES } from "./examples.ts";

/** `GET /v1/quote` */
export const quote: Operation = {
  operationId: "getQuote",
  tags: ["Jobs"],
  summary: "The price of a job, and the endpoint to commit it to",
  description: "Free. `AUTO` resolves to `FAST` for `LLM_INFER` and to `CHEAP` for `TASK`.",
  parameters: [
    {
      name: "job_type",
      in: "query",
      required: true,
      description: "The type of the job.",
      schema: { type: "string", enum: JobType.options },
      example: "LLM_INFER",
    },
    {
      name: "policy",
      in: "query",
      description: "If it is absent or empty, `AUTO` is used.",
      example: "AUTO",
      schema: { type: "string", enum: ["", ...Policy.options], default: "AUTO" },
    },
    {
      name: "model",
      in: "query",
      description:
        "A model of an `LLM_INFER`: the quote then has `model` and the number of connected `workers` that offer it. The price is the same for all models.",
      example: "auto",
      schema: { type: "string", maxLength: LIMITS.modelNameChars },
    },
  ],
  responses: {
    "200": json("The price, and the endpoint to commit to.", "Quote", { quote: EXAMPLES.quote }),
    "400": json("`job_type` is missing or wrong, `policy` is not one of the three values, or `model` is not the name of a model of an `LLM_INFER`.", "Error", {
      missing: { error: "job_type is missing: it must be one of LLM_INFER, TASK" },
    }),
    ...FAULTS,
  },
};

/** The headers of a request that makes a job. */
const commitParameters: Parameter[] = [
  {
    name: "X-PAYMENT",
    in: "header",
    description: `The signed payment, needed only while payment gating is on: an x402 payload of version 2 or 1 as JSON in base64, at most ${LIMITS.paymentHeaderBytes} bytes.`,
    schema: { type: "string" },
  },
  {
    name: "PAYMENT-SIGNATURE",
    in: "header",
    description: "The name of `X-PAYMENT` in x402 version 2. One of the two is enough. If a request has both, they must contain the same payment.",
    schema: { type: "string" },
  },
  {
    name: "Idempotency-Key",
    in: "header",
    description:
      "1 to 255 printable ASCII characters. A second request within 24 h with the same key, user, endpoint and fields returns the `job_id` of the first one and starts no second job.",
    schema: { type: "string", minLength: 1, maxLength: LIMITS.idempotencyKeyChars },
    example: "order-4711-summary",
  },
  {
    name: "Prefer",
    in: "header",
    schema: { type: "string" },
    example: "wait=10",
    description: `With \`wait=N\` the response waits up to N seconds (at most ${MAX_WAIT_SECONDS}) for the end of the job, and contains the job (RFC 7240). Other preferences are ignored.`,
  },
  userToken("Needed for a PRIVATE job if the first pairing code of the user was made with a token."),
];

function paymentInfo(policy: ResolvedPolicy): PaymentInfo {
  return { price: { mode: "fixed", currency: "USD", amount: commitPrice(policy).slice(1) }, protocols: [{ x402: {} }] };
}

/** `POST /v1/jobs/commit/fast` and `/cheap` */
export const commit = (policy: ResolvedPolicy): Operation => ({
  operationId: policy === "FAST" ? "commitFast" : "commitCheap",
  tags: ["Jobs"],
  summary: `Commit a job to the ${policy} tier`,
  description: [
    `Costs \`${commitPrice(policy)}\` while payment gating is on, whatever the job type; free while the instance runs with \`TESTNET_MODE=true\`.`,
    "A payment is settled when the coordinator has claimed a worker for the job, never before, so a job without a worker costs nothing. The same payment with the same body returns the same job again.",
    "After a 201 the job is stored durably: it ends as `completed` or `failed`, even if the coordinator restarts.",
    "The body is read as JSON with any content type. Unknown members of `payload` are passed to the worker.",
  ].join(" "),
  "x-payment-info": paymentInfo(policy),
  parameters: commitParameters,
  requestBody: body("CommitRequest", "The job.", { task: EXAMPLES.task, llm: EXAMPLES.llm, private: EXAMPLES.privateLlm }),
  responses: {
    "201": json(
      "The job is stored. `job` is present only if `Prefer: wait=N` was applied; it shows the job at the time of the response.",
      "CommitResponse",
      { "at once": EXAMPLES.accepted, "waited for": EXAMPLES.waited },
      "Preference-Applied",
      "X-Cancel-Token",
      "PAYMENT-RESPONSE",
      "X-PAYMENT-RESPONSE",
    ),
    "400": json("The body, a field of it or the `Idempotency-Key` is missing or wrong.", "Error", {
      missing: { error: "Missing required fields: job_type, payload, user_id" },
    }),
    "401": shared("TokenRequired"),
    "402": json(
      [
        "Payment gating is on, and the request has no valid payment. A request without a payment gets this response before its body is checked. Nothing is charged, unless the reason says that the payment was used before.",
        "`invalid_payment: …` says what is wrong with the payment. `payment_already_used`: the payment was used for another job.",
        "`payment_failed: …`: the facilitator refused to settle the payment; `PAYMENT-RESPONSE` has its reason.",
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
    "404": json(
      "No worker offers the `model` of the payload, nor did one in the last minutes; `models` are those that are online. No job was stored, and nothing was charged.",
      "NoSuchModel",
      { "unknown model": EXAMPLES.noSuchModel },
    ),
    "409": json("The `Idempotency-Key` was used for other fields or another endpoint.", "Error", { reused: { error: "idempotency_key_reused" } }),
    "413": shared("TooLarge"),
    "415": shared("Encoded"),
    "422": json("No paired worker that can run this PRIVATE job is connected. The job is stored as failed, and nothing is charged.", "NoTrustedWorker", {
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

/** `GET /v1/jobs/{id}` */
export const job: Operation = {
  operationId: "getJob",
  tags: ["Jobs"],
  summary: "The state of a job, and its result and receipt once it has ended",
  description: "Free. The id is the only access control. `result` and `receipt` are null until the job has ended. A failed job has `result.error`.",
  parameters: [
    jobIdPath,
    {
      name: "wait",
      in: "query",
      example: 10,
      schema: { type: "integer", minimum: 0 },
      description: `How many seconds the response waits for the end of the job, at most ${MAX_WAIT_SECONDS}. Then it has the current state of the job.`,
    },
  ],
  responses: {
    "200": json(
      "The job. The payment headers are present once its payment is settled.",
      "Job",
      { completed: EXAMPLES.completed, pending: EXAMPLES.pending, failed: EXAMPLES.failed },
      "PAYMENT-RESPONSE",
      "X-PAYMENT-RESPONSE",
    ),
    "400": json("`wait` is not a whole number.", "Error", { wait: { error: "wait must be a whole number of seconds (more than 25 counts as 25)" } }),
    "404": shared("NotFound"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

/** `GET /v1/jobs` [JB14] */
export const userJobs: Operation = {
  operationId: "listJobs",
  tags: ["Jobs"],
  summary: "The jobs of a user, newest first",
  description: [
    "Free. It needs the `X-User-Token` that the user has bound with the first pairing code: a plain `user_id` is known to every paired worker.",
    "Jobs that were committed before that are not in the list. A job has its id, type, status and times only.",
  ].join(" "),
  parameters: [
    { name: "user_id", in: "query", required: true, description: "The user whose jobs to list.", schema: ref("UserId"), example: EXAMPLES.user },
    {
      name: "limit",
      in: "query",
      description: "The most jobs of the response.",
      example: LIMITS.jobsListed,
      schema: { type: "integer", minimum: 1, maximum: LIMITS.jobsPerPage, default: LIMITS.jobsListed },
    },
    {
      name: "before",
      in: "query",
      description: "Only jobs before this: the `next` of a response, or a time (ISO 8601 in UTC).",
      example: "2026-10-01T12:00:00.000Z",
      schema: { type: "string" },
    },
    { ...userToken("The token that was sent with the first pairing code of the user."), required: true, example: "9f2c4b1e7d6a" },
  ],
  responses: {
    "200": json("The jobs, and where the next page begins.", "JobPage", { page: EXAMPLES.page }),
    "400": json("`user_id`, `limit`, `before` or the token is missing or wrong.", "Error", { missing: { error: "Missing required query parameter: user_id" } }),
    "401": json("The user has bound no token, or the request does not have it.", "Error", { "no token": { error: "user_token_required" } }),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

const { openAiError } = EXAMPLES;

/** `POST /v1/chat/completions` and `POST /v1/completions` [API9] */
export const openAi = (api: "chat" | "completions"): Operation => ({
  operationId: api === "chat" ? "createChatCompletion" : "createCompletion",
  tags: ["OpenAI"],
  summary: api === "chat" ? "A chat completion, as in OpenAI's API" : "A completion, as in OpenAI's API",
  description: [
    "The same as a job on the FAST tier, at its price, in the form of OpenAI's API: its clients need only another base URL. The response waits for the job's end.",
    "`model` is a model of `GET /v1/models`, or `auto`. Tools, images, sound, `n` above 1 and `logprobs` are refused. `Authorization` gives no access; a request without `user` that comes again with the same payment needs the same one.",
    "Errors have OpenAI's form, except a 402, which is that of `/v1/jobs/commit/fast`. Once a job exists, the response has `x-job-id` and `x-should-retry: false`.",
    "An error after the payment was submitted has the second one too, because the money may have moved.",
    "A client that leaves cancels its job, if no worker has started it.",
  ].join(" "),
  "x-payment-info": paymentInfo("FAST"),
  parameters: commitParameters.filter(({ name }) => name !== "Prefer" && name !== "X-User-Token"),
  requestBody:
    api === "chat"
      ? body("ChatCompletionRequest", "The request, as in OpenAI's API.", { chat: EXAMPLES.chat })
      : body("CompletionRequest", "The request, as in OpenAI's API.", { completion: EXAMPLES.completion }),
  responses: {
    "200": {
      description: "The completion; with `stream` its chunks as server-sent events. `compute_router` has the job's id, its receipt and the attempt.",
      headers: headers("X-Job-Id", "X-Cancel-Token", "PAYMENT-RESPONSE", "X-PAYMENT-RESPONSE"),
      content: { "application/json": { schema: { type: "object" } }, "text/event-stream": { schema: { type: "string" } } },
    },
    "400": json("The request asks for something that is not supported, or a member of it is wrong.", "OpenAiError", {
      "wrong request": openAiError("invalid_request_error", "invalid_request", "n must be 1, got 2", "n"),
      "too long": openAiError("invalid_request_error", "context_length_exceeded", "the job failed: context_length_exceeded"),
    }),
    "402": json("Payment gating is on, and the request has no valid payment.", "PaymentRequired", { unpaid: EXAMPLES.unpaid("FAST") }, "PAYMENT-REQUIRED"),
    "404": json("No worker offers the model.", "OpenAiError", {
      "no worker": openAiError(
        "invalid_request_error",
        "no_such_model",
        'no_such_model: no connected worker offers this model; with "auto" any may answer; models online: llama3.2:latest, Qwen3-8B',
        "model",
      ),
    }),
    "409": json("The `Idempotency-Key` was used for another request.", "OpenAiError", {
      reused: openAiError("invalid_request_error", "idempotency_key_reused"),
    }),
    "413": json("The texts are too large.", "OpenAiError", { "too large": openAiError("invalid_request_error", "payload_too_large") }),
    "415": json("The body is compressed.", "OpenAiError", {
      compressed: openAiError("invalid_request_error", "invalid_request", "Content-Encoding is not supported"),
    }),
    "429": json("Too many requests.", "OpenAiError", { "too many": openAiError("rate_limit_error", "rate_limited") }, "Retry-After"),
    "500": json("An internal error.", "OpenAiError", { internal: openAiError("server_error", "internal_error") }),
    "503": json(
      "No worker was there for the job, or the job failed.",
      "OpenAiError",
      {
        "no worker": openAiError("server_error", "no_eligible_worker", "the job failed: no_eligible_worker"),
        "queue full": openAiError("server_error", "queue_full"),
      },
      "Retry-After",
    ),
    "504": json("The job took too long.", "OpenAiError", { "too long": openAiError("server_error", "deadline_exceeded", "the job failed: deadline_exceeded") }),
  },
});

/** `DELETE /v1/jobs/{id}` */
export const cancel: Operation = {
  operationId: "cancelJob",
  tags: ["Jobs"],
  summary: "Cancel a job",
  description: [
    "Ends a job that has not ended: it fails with `cancelled`, and its worker is told to stop. A job that has ended stays as it is.",
    "If no money has moved, none will. If it may be moving now, what has moved becomes a credit of its payer. If it has moved, it becomes a credit too, unless a connected worker has started the job: then it is spent.",
    "Counts as a commit for the rates.",
  ].join(" "),
  parameters: [
    jobIdPath,
    {
      name: "X-Cancel-Token",
      in: "header",
      required: true,
      description: "The `X-Cancel-Token` of the commit's 201.",
      example: "5f0c2b7e9a4d41e8b3c65f0c2b7e9a4d",
      schema: { type: "string", pattern: "^[0-9a-f]{32}$" },
    },
  ],
  responses: {
    "200": json(
      "The job as it is now. The payment headers are present once its payment is settled.",
      "Job",
      { cancelled: EXAMPLES.cancelled },
      "PAYMENT-RESPONSE",
      "X-PAYMENT-RESPONSE",
    ),
    "404": json("The job does not exist, its retention time is over, or the token is missing or wrong.", "Error", { unknown: { error: "Job not found" } }),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};

/** `GET /v1/jobs/{id}/events` */
export const events: Operation = {
  operationId: "followJob",
  tags: ["Jobs"],
  summary: "The state and the text of a job while it runs, as server-sent events",
  description: [
    "Free. The id is the only access control. Each event has an `id` and JSON as `data`:",
    "`status` `{status, attempt}`; `delta` `{attempt, seq, delta}` (text of the LLM); `reset` `{attempt}` (discard the text: another worker starts again, or text was lost);",
    "and at the end `done`, whose data is the Job.",
    `A comment is sent every ${TIMING.streamComment / 1_000} s. If a stream ends without \`done\`, open it again with the id of the last event. An EventSource does this by itself.`,
  ].join(" "),
  parameters: [
    jobIdPath,
    {
      name: "Last-Event-ID",
      in: "header",
      description: "The id of the last event that you read. The stream continues after it, or starts with a `reset` and all text so far.",
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
    "204": { description: "`Last-Event-ID` is the id of `done`, so there are no more events.", headers: headers() },
    "404": shared("NotFound"),
    "429": shared("RateLimited"),
    ...FAULTS,
  },
};
