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
export type Answer = { description: string; headers?: Record<string, Header | Ref>; content?: Record<string, Media> };

/** One method of one path. */
export type Operation = {
  operationId: string;
  tags: string[];
  summary: string;
  description: string;
  parameters?: Parameter[];
  requestBody?: { required: true; description: string; content: { "application/json": Media } };
  responses: Record<string, Answer | Ref>;
};

/** A whole OpenAPI 3.1 document, as far as ours goes. */
export type OpenApiDocument = {
  openapi: "3.1.0";
  info: { title: string; version: string; summary: string; description: string; license: { name: string; identifier: string } };
  servers: { url: string; description: string }[];
  security: [];
  tags: { name: string; description: string }[];
  paths: Record<string, { get?: Operation; post?: Operation }>;
  components: { schemas: Record<string, JsonSchema>; headers: Record<string, Header>; responses: Record<string, Answer> };
};
