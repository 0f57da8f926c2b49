// The schemas of the OpenAPI document, generated from those that the routes validate with [API8].
import * as z from "zod";
import {
  ErrorBody,
  Health,
  NoTrustedWorker,
  Paired,
  PairingClaim,
  PairingCode,
  PairingCreate,
  PaymentRequired,
  PaymentRequirement,
  Quote,
  TrustList,
} from "../../protocol/rest.ts";
import { CommitRequest, CommitResponse, Job, LlmPayload, Receipt, TaskPayload, UserId } from "../../protocol/job.ts";
import { ModelList } from "../../protocol/models.ts";

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

/** A pointer into `components`. */
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

/** A header of an answer. */
export type Header = { description: string; schema: JsonSchema };

/** A body in one media type. */
export type Media = { schema: JsonSchema; example?: unknown; examples?: Record<string, { summary?: string; value: unknown }> };

/** One answer of an operation. */
export type ResponseObject = { description: string; headers?: Record<string, Header | Ref>; content?: Record<string, Media> };

/** One method of one path. */
export type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  parameters?: Parameter[];
  requestBody?: { required: true; description: string; content: { "application/json": Media } };
  responses: Record<string, ResponseObject | Ref>;
};

/** What each path of the REST surface offers. */
export type Paths = Record<string, { get?: Operation; post?: Operation }>;

const text: JsonSchema = { type: "string" };

/** Headers of answers, by name. */
export const HEADERS: Record<string, Header> = {
  "X-Request-Id": { description: "The coordinator's own id of this request, for its logs.", schema: { type: "string", format: "uuid" } },
  "Access-Control-Allow-Origin": { description: "Any origin may read every answer; no credentials.", schema: { type: "string", const: "*" } },
  "Cache-Control": { description: "`no-store`: jobs, payments and pairings are never cached.", schema: text },
  "Retry-After": { description: "Seconds after which to try again.", schema: { type: "integer", minimum: 1 } },
  "PAYMENT-REQUIRED": { description: "What is wanted, as x402 version 2 has it: base64 of JSON.", schema: text },
  "PAYMENT-RESPONSE": { description: "What became of the payment: base64 of the x402 SettleResponse. Not there while it is not settled.", schema: text },
  "X-PAYMENT-RESPONSE": { description: "The same under its name in x402 version 1.", schema: text },
  Vary: { description: "`Accept`: what the answer depends on.", schema: text },
  "Preference-Applied": { description: "`wait=N` with the seconds that were granted (RFC 7240).", schema: text },
};

const EVERYWHERE = ["X-Request-Id", "Access-Control-Allow-Origin", "Cache-Control"] as const;

/** Pointers to the headers that every answer has, and to `more`. */
export function headers(...more: (keyof typeof HEADERS)[]): Record<string, Ref> {
  return Object.fromEntries([...EVERYWHERE, ...more].map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** An answer with a JSON body of a named schema; several examples go by their labels. */
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

/** Answers that several operations share, by the name they have in the document. */
export const SHARED = {
  NotFound: json("No such job, or retention has deleted it.", "Error", { unknown: { error: "Job not found" } }),
  TooLarge: json("The body, the prompt or the input is over its limit.", "Error", { large: { error: "payload_too_large" } }),
  Encoded: json("The body is compressed.", "Error", { gzip: { error: "Content-Encoding is not supported" } }),
  Unproven: json("The user was bound to a token by its first pairing code, and the request has not brought that token.", "Error", {
    token: { error: "user_token_required" },
  }),
  RateLimited: json(
    "Too many requests of this kind by this client, while `RATE_LIMITS` is on. Nothing was looked at or charged.",
    "Error",
    { rate: { error: "rate_limited" } },
    "Retry-After",
  ),
  Internal: json("A fault of the service. Nothing about it is told but the id under which it was logged.", "Error", {
    fault: { error: "internal_error", request_id },
  }),
  Overloaded: json("The service cannot answer just now.", "Error", { busy: { error: "overloaded", request_id } }, "Retry-After"),
  Full: json(
    [
      "`queue_full`: too much is waiting already. `facilitator_unavailable`: nobody could be asked whether the payment is good.",
      "`too_many_held_payments`: that many payments of this payer wait for their workers already. In all three no job was stored and nothing was charged.",
      "`overloaded`: the answer was lost, and perhaps a job was stored; the same payment or `Idempotency-Key` again finds out.",
    ].join(" "),
    "Error",
    {
      "too much is waiting": { error: "queue_full", request_id },
      "facilitator out of reach": { error: "facilitator_unavailable", request_id },
      "payer has too many waiting": { error: "too_many_held_payments", request_id },
      "out of reach": { error: "overloaded", request_id },
    },
    "Retry-After",
  ),
} as const satisfies Record<string, ResponseObject>;

/** A pointer to a shared answer. */
export function shared(name: keyof typeof SHARED): Ref {
  return { $ref: `#/components/responses/${name}` };
}

/** The schemas that the routes validate with or answer in, by the name they have in the document [API8]. */
export const NAMED = {
  CommitRequest,
  LlmPayload,
  TaskPayload,
  UserId,
  CommitResponse,
  Job,
  Receipt,
  Quote,
  Health,
  ModelList,
  PairingCreate,
  PairingCode,
  PairingClaim,
  Paired,
  TrustList,
  PaymentRequired,
  PaymentRequirement,
  NoTrustedWorker,
  Error: ErrorBody,
} as const;

/** The name of a schema in the document. */
export type SchemaName = keyof typeof NAMED;

/** A pointer to a named schema. */
export function ref(name: SchemaName): { $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** Every named schema as JSON Schema. All are read as input: an answer may gain members, so none is closed. */
export function componentSchemas(): Record<string, JsonSchema> {
  // Not zod's global registry: who else has been imported must not change the document.
  const registry = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(NAMED)) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, {
    io: "input",
    uri: (id) => `#/components/schemas/${id}`,
    override: ({ jsonSchema }) => {
      delete jsonSchema.propertyNames;
      // `format` says it, shorter.
      if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
    },
  });
  return Object.fromEntries(Object.keys(NAMED).map((name) => [name, plain(schemas[name])]));
}

/** Without what makes it a document of its own: inside another, `$id` would change what the pointers point at. */
function plain(schema: unknown): JsonSchema {
  return JSON.parse(JSON.stringify(schema, (name, value: unknown) => (name === "$schema" || name === "$id" ? undefined : value)));
}
