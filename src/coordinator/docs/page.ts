import type { Answer, OpenApiDocument, Operation, Parameter, Ref } from "./document.ts";
import { blocks, code, escapeHtml, inline, table } from "./html.ts";
import { schemaHtml, typeOf } from "./schema-html.ts";
import { STYLE } from "./style.ts";

type Endpoint = { method: string; path: string; operation: Operation };

/** The human page of an OpenAPI document: HTML and CSS only, nothing from outside, every section with an anchor [API8]. */
export function docsPage(document: OpenApiDocument): string {
  const endpoints = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Endpoint => ({ method: method.toUpperCase(), path, operation })),
  );
  const groups = document.tags.map((tag) => ({ ...tag, endpoints: endpoints.filter(({ operation }) => operation.tags.includes(tag.name)) }));
  const schemas = Object.entries(document.components.schemas);
  const { title, version, summary, description } = document.info;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)} API ${escapeHtml(version)}</title>
<meta name="description" content="${escapeHtml(summary)}">
<link rel="icon" href="/favicon.ico" type="image/png">
<style>${STYLE}</style>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<div class="page">
<nav aria-label="Contents">
${groups.map((group) => `<h2>${escapeHtml(group.name)}</h2>\n${links(group.endpoints.map(({ method, path, operation }) => [operation.operationId, `<span class="method">${method}</span> ${escapeHtml(path)}`]))}`).join("\n")}
<h2>Schemas</h2>
${links(schemas.map(([name]) => [`schema-${name}`, escapeHtml(name)]))}
</nav>
<main id="content">
<h1>${escapeHtml(title)} API</h1>
<p class="dim">Version ${escapeHtml(version)} · <a href="/openapi.json">OpenAPI document</a></p>
${blocks(description)}
<p>The examples ask an instance at <code>BASE_URL</code>:</p>
${code("BASE_URL=http://localhost:4010", "Address of the instance")}
${groups.map((group) => `<h2>${escapeHtml(group.name)}</h2>\n<p>${inline(group.description)}</p>\n${group.endpoints.map((endpoint) => section(endpoint, document)).join("\n")}`).join("\n")}
<h2>Schemas</h2>
${schemas.map(([name, schema]) => `<section id="schema-${name}"><h3>${name}</h3>${schemaHtml(schema)}</section>`).join("\n")}
</main>
</div>
</body>
</html>
`;
}

function links(entries: [id: string, label: string][]): string {
  return `<ul>${entries.map(([id, label]) => `<li><a href="#${id}">${label}</a></li>`).join("")}</ul>`;
}

function section(endpoint: Endpoint, document: OpenApiDocument): string {
  const { method, path, operation } = endpoint;
  const media = operation.requestBody?.content["application/json"];
  const parts = [
    `<h3><a href="#${operation.operationId}"><span class="method">${method}</span> ${escapeHtml(path)}</a></h3>`,
    `<p><strong>${escapeHtml(operation.summary)}.</strong></p>`,
    blocks(operation.description),
    operation.parameters === undefined ? "" : `<h4>Parameters</h4>${parameters(operation.parameters)}`,
    media === undefined ? "" : `<h4>Body</h4><p>${typeOf(media.schema)}: ${inline(operation.requestBody?.description ?? "")}</p>`,
    `<h4>Try it</h4>${code(curl(endpoint), "curl command")}`,
    `<h4>Answers</h4>${answers(operation, document)}`,
  ];
  return `<section id="${operation.operationId}">${parts.filter((part) => part !== "").join("\n")}</section>`;
}

function parameters(list: Parameter[]): string {
  const rows = list.map((parameter) => [
    `<code>${escapeHtml(parameter.name)}</code>`,
    parameter.in,
    typeOf(parameter.schema),
    parameter.required === true ? "yes" : "no",
    inline(parameter.description),
  ]);
  return table(["Name", "In", "Type", "Required", "Notes"], rows);
}

function answers(operation: Operation, document: OpenApiDocument): string {
  const resolved = Object.entries(operation.responses).map(([status, answer]) => ({ status, answer: resolve(answer, document) }));
  const rows = resolved.map(({ status, answer }) => [
    status,
    inline(answer.description),
    Object.values(answer.content ?? {})
      .map((media) => typeOf(media.schema))
      .join(" "),
  ]);
  const shown = resolved.flatMap(({ status, answer }) => examples(answer).map(([label, value]) => example(`${status} ${label}`.trim(), value)));
  return table(["Status", "When", "Body"], rows) + shown.join("\n");
}

function resolve(answer: Answer | Ref, document: OpenApiDocument): Answer {
  if (!("$ref" in answer)) return answer;
  const found = document.components.responses[answer.$ref.split("/").at(-1) ?? ""];
  if (found === undefined) throw new Error(`${answer.$ref} points nowhere`);
  return found;
}

function examples(answer: Answer): [label: string, value: unknown][] {
  return Object.values(answer.content ?? {}).flatMap((media): [string, unknown][] => [
    ...(media.example === undefined ? [] : ([["", media.example]] satisfies [string, unknown][])),
    ...Object.values(media.examples ?? {}).map(({ summary, value }): [string, unknown] => [summary ?? "", value]),
  ]);
}

function example(label: string, value: unknown): string {
  return `<details><summary>Example: ${escapeHtml(label)}</summary>${code(typeof value === "string" ? value : JSON.stringify(value, null, 2), `Example of ${label}`)}</details>`;
}

/** A command that can be pasted into a shell: every required parameter filled in, the first example as body. */
function curl({ path, operation }: Endpoint): string {
  let url = path;
  const query = new URLSearchParams();
  for (const { name, in: place, required, example: value } of operation.parameters ?? []) {
    if (required !== true) continue;
    if (place === "path") url = url.replace(`{${name}}`, String(value));
    if (place === "query") query.set(name, String(value));
  }
  const address = `"$BASE_URL${url}${query.size > 0 ? `?${query.toString()}` : ""}"`;
  const [first] = Object.values(operation.requestBody?.content["application/json"].examples ?? {});
  if (first === undefined) return `curl ${address}`;
  const json = JSON.stringify(first.value, null, 2).replaceAll("'", String.raw`'\''`);
  return `curl ${address} \\\n  -H 'Content-Type: application/json' \\\n  -d '${json}'`;
}
