import * as z from "zod";
import { ErrorBody, NoTrustedWorker } from "../../protocol/errors.ts";
import { Health } from "../../protocol/health.ts";
import { CommitRequest, CommitResponse, Job, LlmPayload, TaskPayload, UserId } from "../../protocol/job.ts";
import { ModelList } from "../../protocol/models.ts";
import { PaymentRequired, PaymentRequirement } from "../../protocol/payment.ts";
import { Quote } from "../../protocol/quote.ts";
import { Receipt } from "../../protocol/receipt.ts";
import { Paired, PairingClaim, PairingCode, PairingCreate, TrustList } from "../../protocol/trust.ts";
import type { JsonSchema } from "./document.ts";

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
