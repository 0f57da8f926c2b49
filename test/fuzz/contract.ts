// Checks an answer against the OpenAPI document, for npm run fuzz.
import { readFileSync } from "node:fs";
import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { Answer, Ask } from "./ask.ts";

type Content = Record<string, { schema?: object }>;
type Response = { $ref?: string; content?: Content; headers?: Record<string, unknown> };
type Operation = { responses: Record<string, Response> };
type Document = { paths: Record<string, Record<string, Operation>>; components: { responses: Record<string, Response> } };

const ID = "https://compute-router/openapi.json";
const document: Document = JSON.parse(readFileSync("docs/openapi.json", "utf8"));
const ajv = new Ajv2020({ strict: false, allErrors: false });
addFormats.default(ajv);
// The document as a whole, so that references resolve within it.
ajv.addSchema({ $id: ID, ...document });

const validators = new Map<string, ValidateFunction>();

/** Whether an answer is one that the OpenAPI document promises for this request; null if so, else what is wrong with it. */
export function objection({ method, path }: Ask, answer: Answer): string | null {
  const { status, headers, body } = answer;
  if (status >= 500) return `status ${status}: ${body.slice(0, 200)}`;
  for (const name of ["x-request-id", "access-control-allow-origin"]) if (headers[name] === undefined) return `no ${name} at ${status}: ${body.slice(0, 200)}`;
  if (method === "OPTIONS" && status === 204) return body === "" ? null : "a body at 204";
  const type = headers["content-type"] ?? "";
  const pathname = path.split("?")[0] ?? "";
  const { template, operation } = operationOf(method, pathname);
  if (operation === undefined) return errorOnly(answer, [404, 405, 413, 414, 431]);
  const response = resolved(operation.responses[String(status)]);
  if (response === undefined) return `status ${status} is not in the document: ${body.slice(0, 200)}`;
  for (const name of Object.keys(response.headers ?? {})) {
    // Those that depend on the request are described as such.
    if (/^(PAYMENT-RESPONSE|X-PAYMENT-RESPONSE|Preference-Applied)$/.test(name)) continue;
    if (headers[name.toLowerCase()] === undefined) return `no ${name} at ${status}`;
  }
  if (method === "HEAD") return body === "" ? null : "a body for HEAD";
  const content = Object.keys(response.content ?? {})[0] ?? "application/json";
  if (content !== "*/*" && !type.startsWith(content)) return `content-type ${type} at ${status}, not ${content}`;
  if (content !== "application/json") return null;
  return mismatch(`${template} ${method} ${status}`, response.content?.[content]?.schema, body);
}

function operationOf(method: string, pathname: string): { template: string; operation: Operation | undefined } {
  const verb = method === "HEAD" ? "get" : method.toLowerCase();
  for (const [template, operations] of Object.entries(document.paths)) {
    const pattern = new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`);
    if (pattern.test(pathname)) return { template, operation: operations[verb] };
  }
  return { template: "", operation: undefined };
}

function resolved(response: Response | undefined): Response | undefined {
  const name = response?.$ref?.split("/").at(-1);
  return name === undefined ? response : document.components.responses[name];
}

function errorOnly({ status, body, headers }: Answer, statuses: readonly number[]): string | null {
  if (!statuses.includes(status)) return `status ${status} for what is not in the document: ${body.slice(0, 200)}`;
  if (status === 405 && headers.allow === undefined) return "405 without Allow";
  if (body === "") return null;
  return mismatch("error", { $ref: `#/components/schemas/Error` }, body);
}

function mismatch(name: string, schema: object | undefined, body: string): string | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return `no JSON: ${body.slice(0, 200)}`;
  }
  if (schema === undefined) return null;
  let validate = validators.get(name);
  if (validate === undefined) {
    const absolute: object = JSON.parse(JSON.stringify(schema).replaceAll('"#/', `"${ID}#/`));
    validators.set(name, (validate = ajv.compile(absolute)));
  }
  return validate(value) ? null : `${name}: ${ajv.errorsText(validate.errors)} in ${body.slice(0, 300)}`;
}
