import { describe, expect, test } from "vitest";
import { NAMED } from "../../../src/coordinator/openapi/components.ts";
import { openApiDocument } from "../../../src/coordinator/openapi/document.ts";
import { curl } from "../../../src/coordinator/openapi/page.ts";
import { verifyReceipt } from "../../../src/receipt/index.ts";
import { Job } from "../../../src/protocol/job.ts";

const document = openApiDocument("2.0.0");
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
);

/** Every example with the schema that it is an example of. */
const examples = operations.flatMap(({ path, operation }) => {
  const bodies = operation.requestBody === undefined ? [] : [["request", operation.requestBody] as const];
  const answers = Object.entries(operation.responses).map(([status, answer]) => {
    const name = "$ref" in answer ? (answer.$ref.split("/").at(-1) ?? "") : null;
    return [status, name === null ? answer : document.components.responses[name]] as const;
  });
  return [...bodies, ...answers].flatMap(([where, part]) =>
    Object.entries(part && "content" in part ? (part.content ?? {}) : {}).flatMap(([type, media]) => {
      if (type !== "application/json") return [];
      const values = [...(media.example === undefined ? [] : [media.example]), ...Object.values(media.examples ?? {}).map(({ value }) => value)];
      return values.map((value) => ({ where: `${path} ${where}`, schema: media.schema.$ref?.split("/").at(-1) ?? "", value }));
    }),
  );
});

describe("OpenAPI document", () => {
  test("[API8] every example matches its schema", () => {
    expect(examples.length).toBeGreaterThan(30);
    for (const { where, schema, value } of examples) {
      const found = Object.entries(NAMED).find(([name]) => name === schema)?.[1];
      expect(found, `${where}: ${schema}`).toBeDefined();
      expect(found?.safeParse(value).error, where).toBeUndefined();
    }
  });

  test("[API8] the requests of /docs name no model, which an instance may not have", () => {
    const requests = examples.filter(({ where }) => where.endsWith(" request"));
    const models = requests.flatMap(({ value }) => /"model":"([^"]*)"/.exec(JSON.stringify(value))?.[1] ?? []);
    expect(models).toEqual(["auto", "auto"]);
  });

  test("[API8] every JSON body is a named schema with an example", () => {
    for (const { path, operation } of operations.filter(({ path }) => path.startsWith("/v1/"))) {
      for (const [status, answer] of Object.entries(operation.responses)) {
        if (status === "204" || ("content" in answer && answer.content !== undefined && "text/event-stream" in answer.content)) continue;
        expect(
          examples.some(({ where }) => where === `${path} ${status}`),
          `${path} ${status}`,
        ).toBe(true);
      }
    }
  });

  test("[API8] no member has a `default`, which generators of types make a member that a request must have", () => {
    expect(JSON.stringify(document.components.schemas)).not.toContain('"default":');
  });

  test("[API6] the example of an event stream ends with a Job", () => {
    const answer = document.paths["/v1/jobs/{id}/events"]?.get?.responses["200"];
    const text = String(answer && "content" in answer ? answer.content?.["text/event-stream"]?.example : "");
    const events = [...text.matchAll(/^id: \d+\nevent: (\w+)\ndata: (.*)\n\n/gm)].map(([, name, data = ""]) => ({ name, data }));
    expect(events.map(({ name }) => name)).toEqual(["status", "delta", "delta", "status", "done"]);
    expect(Job.safeParse(JSON.parse(events.at(-1)?.data ?? "")).error).toBeUndefined();
  });

  test("[RC1] the receipt of the example verifies", () => {
    const jobs = examples.filter(({ schema }) => schema === "Job").map(({ value }) => Job.parse(value));
    const receipts = jobs.filter(({ receipt }) => receipt !== null);
    expect(receipts).toHaveLength(1);
    for (const { receipt, result } of receipts) expect(receipt && verifyReceipt(receipt, result)).toEqual({ ok: true });
  });

  test("[API8] every reference has a target", () => {
    const text = JSON.stringify(document);
    for (const [, pointer = ""] of text.matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const target = pointer
        .split("/")
        .reduce<unknown>((node, name) => (typeof node === "object" && node !== null ? Reflect.get(node, name) : undefined), document);
      expect(target, pointer).toBeDefined();
    }
  });

  test("[API8] no schema of an answer is closed: members may be added", () => {
    expect(JSON.stringify(document.components.schemas)).not.toContain('"additionalProperties":false');
  });

  test("[API8] the curl command of an operation has its method, its body and each parameter that it requires", () => {
    expect(operations.length).toBeGreaterThan(15);
    for (const { method, path, operation } of operations) {
      const command = curl({ method, path, operation });
      const sent = /-X (\w+)/.exec(command)?.[1] ?? (command.includes(" -d ") ? "POST" : "GET");
      expect(sent, command).toBe(method);
      expect(command.includes(" -d "), command).toBe(operation.requestBody !== undefined);
      for (const { name, required, in: place, example } of operation.parameters ?? []) {
        if (required !== true) continue;
        expect(example, `${method} ${path} ${name}`).toBeDefined();
        const text = String(example);
        expect(command, name).toContain({ header: `-H '${name}: ${text}'`, path: text, query: `${name}=${encodeURIComponent(text)}` }[place]);
      }
    }
    const cancel = operations.find(({ operation }) => operation.operationId === "cancelJob");
    expect(cancel && curl(cancel)).toBe(
      `curl -X DELETE "$BASE_URL/v1/jobs/0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90" \\\n  -H 'X-Cancel-Token: 5f0c2b7e9a4d41e8b3c65f0c2b7e9a4d'`,
    );
  });
});
