// The building blocks of the OpenAPI document: its types, schemas, headers and shared responses [API8]. The schemas are
// generated from those that the routes validate with.
import * as z from "zod";
import { ChatCompletionRequest, CompletionRequest, OpenAiError } from "../../protocol/chat.ts";
import { CommitRequest, CommitResponse, Job, LlmPayload, Receipt, TaskPayload, UserId } from "../../protocol/job.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { Model, ModelList } from "../../protocol/models.ts";
import {
  ErrorBody,
  Health,
  JobPage,
  JobSummary,
  NoSuchModel,
  NoTrustedWorker,
  Paired,
  PairingClaim,
  PairingCode,
  PairingCreate,
  PaymentRequired,
  PaymentRequirement,
  Quote,
  TrustList,
  X402Resources,
} from "../../protocol/rest.ts";

/** The parts of JSON Schema that our schemas use. */
export type JsonSchema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  pattern?: string;
  const?: unknown;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  description?: string;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
  items?: JsonSchema;
  oneOf?: JsonSchema[];
  anyOf?: JsonSchema[];
};

/** A reference to an entry of `components`. */
export type Ref = { $ref: string };

/** A query, path or header parameter of an operation. */
export type Parameter = {
  name: string;
  in: "query" | "path" | "header";
  required?: boolean;
  description: string;
  schema: JsonSchema;
  example?: unknown;
};

/** A response header. */
export type Header = { description: string; schema: JsonSchema };

/** A body in one media type. */
export type Media = { schema: JsonSchema; example?: unknown; examples?: Record<string, { summary?: string; value: unknown }> };

/** One response of an operation. */
export type ResponseObject = { description: string; headers?: Record<string, Header | Ref>; content?: Record<string, Media> };

/** What catalogs of paid services read about an operation, as x402scan's "Discovery & Registration Spec" has it. The real price is in the 402. */
export type PaymentInfo = { price: { mode: "fixed"; currency: "USD"; amount: string }; protocols: [{ x402: Record<string, never> }] };

/** One method of one path. */
export type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  "x-payment-info"?: PaymentInfo;
  parameters?: Parameter[];
  requestBody?: { required: true; description: string; content: { "application/json": Media } };
  responses: Record<string, ResponseObject | Ref>;
};

/** The operations of each path of the REST API. */
export type Paths = Record<string, { get?: Operation; post?: Operation; delete?: Operation }>;

const text: JsonSchema = { type: "string" };

/** The response headers, by name. */
export const HEADERS = {
  "X-Request-Id": { description: "The id of this request in the logs of the coordinator.", schema: { type: "string", format: "uuid" } },
  "Access-Control-Allow-Origin": { description: "Any origin may read every response, without credentials.", schema: { type: "string", const: "*" } },
  "Cache-Control": { description: "`no-store`: jobs, payments and pairings are never cached.", schema: text },
  "Retry-After": { description: "Seconds to wait before the next attempt.", schema: { type: "integer", minimum: 1 } },
  "PAYMENT-REQUIRED": { description: "The payment requirements in the form of x402 version 2: JSON in base64.", schema: text },
  "PAYMENT-RESPONSE": {
    description:
      "The result of the payment: the x402 SettleResponse as JSON in base64. Absent while the payment is not settled. If a failed job was paid, or a job is paid from the balance of failed ones, `extensions.credit` has `amount`, `asset` and the `balance`.",
    schema: text,
  },
  "X-PAYMENT-RESPONSE": { description: "The same value under its x402 version 1 name.", schema: text },
  Vary: { description: "The request headers on which the response depends.", schema: text },
  "X-Job-Id": { description: "The id of the job behind the answer.", schema: { type: "string", format: "uuid" } },
  "X-Cancel-Token": {
    description: "The token that cancels the job: send it with `DELETE /v1/jobs/{id}`. Everyone who has it can cancel the job.",
    schema: text,
  },
  "Preference-Applied": { description: "`wait=N` with the seconds that were granted (RFC 7240).", schema: text },
} as const satisfies Record<string, Header>;

const COMMON_HEADERS = ["X-Request-Id", "Access-Control-Allow-Origin", "Cache-Control"] as const;

/** References to the headers of every response, and to `more`. */
export function headers(...more: (keyof typeof HEADERS)[]): Record<string, Ref> {
  return Object.fromEntries([...COMMON_HEADERS, ...more].map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** A response with a JSON body of a named schema. The keys of `examples` are their labels. */
export function json(description: string, schema: SchemaName, examples: Record<string, unknown>, ...more: (keyof typeof HEADERS)[]): ResponseObject {
  const entries = Object.entries(examples);
  const [only] = entries;
  const shown =
    entries.length === 1 && only !== undefined
      ? { example: only[1] }
      : { examples: Object.fromEntries(entries.map(([summary, value]) => [summary.replaceAll(/\W+/g, "_"), { summary, value }])) };
  return { description, headers: headers(...more), content: { "application/json": { schema: ref(schema), ...shown } } };
}

const request_id = "3f0f6f7e-5c0e-4b0f-8a55-6f1d2f3b4c5d";

/** The responses that several operations share, by their name in the document. */
export const SHARED = {
  NotFound: json("The job does not exist, or its retention time is over.", "Error", { unknown: { error: "Job not found" } }),
  TooLarge: json("The body, the prompt or the input is larger than its limit.", "Error", { large: { error: "payload_too_large" } }),
  Encoded: json("The body is compressed.", "Error", { gzip: { error: "Content-Encoding is not supported" } }),
  TokenRequired: json("The first pairing code of this user was made with a token, and the request does not have that token.", "Error", {
    token: { error: "user_token_required" },
  }),
  RateLimited: json(
    "The client sent too many requests of this kind, and `RATE_LIMITS` is on. The request was not processed, and nothing was charged.",
    "Error",
    { rate: { error: "rate_limited" } },
    "Retry-After",
  ),
  Internal: json("An internal error. `request_id` finds its details in the logs of the coordinator.", "Error", {
    fault: { error: "internal_error", request_id },
  }),
  Overloaded: json(
    "The service is overloaded or cannot reach its storage at the moment.",
    "Error",
    { busy: { error: "overloaded", request_id } },
    "Retry-After",
  ),
  NoRoom: json(
    "`storage_full`: the coordinator accepts nothing more to store at present. `overloaded`: it is overloaded or cannot reach its storage.",
    "Error",
    { "storage is full": { error: "storage_full", request_id }, busy: { error: "overloaded", request_id } },
    "Retry-After",
  ),
  Full: json(
    [
      "`queue_full`: too many jobs are waiting. `storage_full`: the coordinator accepts nothing more to store at present. `facilitator_unavailable`: the facilitator could not verify the payment.",
      "`too_many_held_payments`: this payer has too many payments whose jobs still wait for a worker. In these cases no job was stored and nothing was charged.",
      "`overloaded`: the coordinator got no answer in time or cannot reach its storage, so the job may have been stored. Send the same payment or `Idempotency-Key` again to get its `job_id`.",
    ].join(" "),
    "Error",
    {
      "queue is full": { error: "queue_full", request_id },
      "storage is full": { error: "storage_full", request_id },
      "facilitator is not reachable": { error: "facilitator_unavailable", request_id },
      "too many held payments": { error: "too_many_held_payments", request_id },
      "no answer in time": { error: "overloaded", request_id },
    },
    "Retry-After",
  ),
} as const satisfies Record<string, ResponseObject>;

/** A reference to a shared response. */
export function shared(name: keyof typeof SHARED): Ref {
  return { $ref: `#/components/responses/${name}` };
}

/** The schemas of all request and response bodies, by their name in the document [API8]. */
export const NAMED = {
  CommitRequest,
  LlmPayload,
  TaskPayload,
  UserId,
  CommitResponse,
  Job,
  JobPage,
  JobSummary,
  Receipt,
  Quote,
  Health,
  Model,
  ModelList,
  PairingCreate,
  PairingCode,
  PairingClaim,
  Paired,
  TrustList,
  PaymentRequired,
  PaymentRequirement,
  NoSuchModel,
  NoTrustedWorker,
  X402Resources,
  ChatCompletionRequest,
  CompletionRequest,
  OpenAiError,
  Error: ErrorBody,
} as const;

/** The name of a schema in the document. */
export type SchemaName = keyof typeof NAMED;

/** A reference to a named schema. */
export function ref(name: SchemaName): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** Every named schema as JSON Schema. All are converted as input, because a response may get more members later. */
export function componentSchemas(): Record<string, JsonSchema> {
  // Not zod's global registry: schemas of other modules must not change the document.
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(NAMED)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, {
    io: "input",
    uri: (id) => `#/components/schemas/${id}`,
    override: ({ jsonSchema }) => {
      delete jsonSchema.propertyNames;
      // `format` already says what `pattern` says.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return Object.fromEntries(Object.keys(NAMED).map((name) => [name, plain(schemas[name])]));
}

/** A schema without `$schema` and `$id`. Inside another document, `$id` would change the meaning of the references. */
function plain(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema, (name, value: unknown) => (name === "$schema" || name === "$id" ? undefined : value)));
}

/** The error responses of every endpoint that asks the hub or the database. */
export const FAULTS = { "500": shared("Internal"), "503": shared("Overloaded") } as const;

/** A JSON request body of a named schema, with examples by name. */
export function body(schema: SchemaName, description: string, examples: Record<string, unknown>): NonNullable<Operation["requestBody"]> {
  const named = Object.fromEntries(Object.entries(examples).map(([name, value]) => [name, { value }]));
  return { required: true, description, content: { "application/json": { schema: ref(schema), examples: named } } };
}

/** The header `X-User-Token` [TR2]. */
export const userToken = (description: string): Parameter => ({
  name: "X-User-Token",
  in: "header",
  description: `1 to ${LIMITS.userTokenChars} printable ASCII characters. ${description}`,
  schema: { type: "string", minLength: 1, maxLength: LIMITS.userTokenChars },
});
