// Makes the page at /docs, and its Markdown for programs, from the OpenAPI document, when the pages are built [API8].
import type { JsonSchema, Operation, Parameter, Ref, ResponseObject } from "./components.ts";
import { escapeHtml } from "../../protocol/text.ts";
import type { OpenApiDocument } from "./document.ts";

/** One method of one path. */
export type Endpoint = { method: string; path: string; operation: Operation };

/** What the build gives the page: the `<head>` elements that all pages share, and the URL of the script. */
export type PageParts = { head: string; script: string };

/**
 * The page of an OpenAPI document for people [API8]. It loads nothing from other hosts, and every section has an anchor. It is complete
 * without JavaScript; the script in src/pages/docs shows the forms and sends their requests.
 */
export function docsPage(document: OpenApiDocument, { head, script }: PageParts): string {
  const groups = groupsOf(document);
  const schemas = Object.entries(document.components.schemas);
  const { title, version, summary, description } = document.info;
  return `<!doctype html>
<html lang="en">
<head>
${head}
<title>${escapeHtml(title)} API ${escapeHtml(version)}</title>
<meta name="description" content="${escapeHtml(summary)}">
<script type="module" src="${script}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<div class="page">
<nav aria-label="Contents">
<details id="contents">
<summary>Contents</summary>
${groups.map((group) => `<h2>${escapeHtml(group.name)}</h2>\n${links(group.endpoints.map(({ method, path, operation }) => ({ id: operation.operationId, label: `<span class="method">${method}</span> ${escapeHtml(path)}` })))}`).join("\n")}
<h2>Schemas</h2>
${links(schemas.map(([name]) => ({ id: `schema-${name}`, label: escapeHtml(name) })))}
</details>
</nav>
<main id="content">
<h1>${escapeHtml(title)} API</h1>
<p class="dim"><a href="/">Home</a> · <a href="/worker">Run a worker</a> · <a href="/pair">Pair a worker</a> · <a href="/openapi.json">OpenAPI document</a> · Version ${escapeHtml(version)}</p>
${blocks(description)}
<p>The curl commands use the address in <code>BASE_URL</code>. Where jobs cost money, curl alone cannot pay: use a wallet with <code>@x402/fetch</code>, or <code>compute-router run --payer</code>.</p>
<pre tabindex="0" aria-label="Address of the instance"><code id="base-url">BASE_URL="the address of this coordinator"</code></pre>
<noscript><p>This page has forms that send requests, but they need JavaScript. The curl commands do the same.</p></noscript>
${groups.map((group) => `<h2>${escapeHtml(group.name)}</h2>\n<p>${inline(group.description)}</p>\n${group.endpoints.map((endpoint) => section(endpoint, document)).join("\n")}`).join("\n")}
<h2>Schemas</h2>
${schemas.map(([name, schema]) => `<section id="schema-${name}"><h3>${name}</h3>${schemaHtml(schema)}</section>`).join("\n")}
</main>
</div>
</body>
</html>
`;
}

/** The endpoints by their tag, in the order of the document. */
function groupsOf(document: OpenApiDocument): { name: string; description: string; endpoints: Endpoint[] }[] {
  const endpoints = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Endpoint => ({ method: method.toUpperCase(), path, operation })),
  );
  return document.tags.map((tag) => ({ ...tag, endpoints: endpoints.filter(({ operation }) => operation.tags.includes(tag.name)) }));
}

function links(entries: { id: string; label: string }[]): string {
  return `<ul>${entries.map(({ id, label }) => `<li><a href="#${id}">${label}</a></li>`).join("")}</ul>`;
}

function section(endpoint: Endpoint, document: OpenApiDocument): string {
  const { method, path, operation } = endpoint;
  const media = operation.requestBody?.content["application/json"];
  const parts = [
    `<h3><a href="#${operation.operationId}"><span class="method">${method}</span> ${escapeHtml(path)}</a></h3>`,
    `<p><strong>${escapeHtml(operation.summary)}.</strong></p>`,
    blocks(operation.description),
    operation.parameters === undefined ? "" : `<h4>Parameters</h4>${parameterTable(operation.parameters)}`,
    media === undefined ? "" : `<h4>Body</h4><p>${typeOf(media.schema)}: ${inline(operation.requestBody?.description ?? "")}</p>`,
    `<h4>Try it</h4>${hasTextResponse(operation) ? form(endpoint) : ""}${code(curl(endpoint), "curl command")}`,
    `<h4>Responses</h4>${responseTable(operation, document)}`,
  ];
  return `<section id="${operation.operationId}">${parts.filter((part) => part !== "").join("\n")}</section>`;
}

function parameterTable(parameters: Parameter[]): string {
  const rows = parameters.map((parameter) => [
    `<code>${escapeHtml(parameter.name)}</code>`,
    parameter.in,
    typeOf(parameter.schema),
    parameter.required === true ? "yes" : "no",
    inline(parameter.description),
  ]);
  return table(["Name", "In", "Type", "Required", "Notes"], rows);
}

function responseTable(operation: Operation, document: OpenApiDocument): string {
  const resolved = Object.entries(operation.responses).map(([status, response]) => ({ status, response: resolve(response, document) }));
  const rows = resolved.map(({ status, response }) => [
    status,
    inline(response.description),
    Object.values(response.content ?? {})
      .map((media) => typeOf(media.schema))
      .join(" "),
  ]);
  const shown = resolved.flatMap(({ status, response }) => examplesOf(response).map(({ label, value }) => exampleBlock(`${status} ${label}`.trim(), value)));
  return table(["Status", "When", "Body"], rows) + shown.join("\n");
}

function resolve(response: ResponseObject | Ref, document: OpenApiDocument): ResponseObject {
  if (!("$ref" in response)) return response;
  const found = document.components.responses[response.$ref.split("/").at(-1) ?? ""];
  if (found === undefined) throw new Error(`the document has no ${response.$ref}`);
  return found;
}

function examplesOf(response: ResponseObject): { label: string; value: unknown }[] {
  return Object.values(response.content ?? {}).flatMap((media) => [
    ...(media.example === undefined ? [] : [{ label: "", value: media.example }]),
    ...Object.values(media.examples ?? {}).map(({ summary = "", value }) => ({ label: summary, value })),
  ]);
}

function exampleBlock(label: string, value: unknown): string {
  return `<details><summary>Example: ${escapeHtml(label)}</summary>${code(typeof value === "string" ? value : JSON.stringify(value, null, 2), `Example of ${label}`)}</details>`;
}

/** A command to paste into a shell. It has every required parameter, and the first example as body. */
export function curl({ method, path, operation }: Endpoint): string {
  let url = path;
  const query = new URLSearchParams();
  const headers: string[] = [];
  for (const { name, in: place, required, example: value } of operation.parameters ?? []) {
    if (required !== true) continue;
    if (place === "path") url = url.replace(`{${name}}`, String(value));
    if (place === "query") query.set(name, String(value));
    if (place === "header") headers.push(`-H '${name}: ${String(value)}'`);
  }
  const address = `"$BASE_URL${url}${query.size > 0 ? `?${query.toString()}` : ""}"`;
  const [first] = Object.values(operation.requestBody?.content["application/json"].examples ?? {});
  const json = first && JSON.stringify(first.value, null, 2).replaceAll("'", String.raw`'\''`);
  // curl itself sends POST with a body, and GET without one.
  const isUsual = method === (json === undefined ? "GET" : "POST");
  const isStream = successTypes(operation)[0] === "text/event-stream";
  const parts = [`curl ${isStream ? "-N " : ""}${isUsual ? "" : `-X ${method} `}${address}`, ...headers];
  if (json !== undefined) parts.push("-H 'Content-Type: application/json'", `-d '${json}'`);
  return parts.join(" \\\n  ");
}

/** The media types of the answer that has what was asked for. */
function successTypes({ responses }: Operation): string[] {
  const success = Object.entries(responses).find(([status]) => status.startsWith("2"))?.[1];
  return success === undefined || "$ref" in success ? [] : Object.keys(success.content ?? {});
}

/** True if a form can show the response: JSON or an event stream, not a page or an image. */
function hasTextResponse(operation: Operation): boolean {
  return successTypes(operation).some((type) => type === "application/json" || type === "text/event-stream");
}

/** A form for one request. It is hidden until the script runs, because it cannot work without the script. */
function form({ method, path, operation }: Endpoint): string {
  const { operationId: id, parameters: list = [], requestBody } = operation;
  const examples = Object.entries(requestBody?.content["application/json"].examples ?? {});
  return `<form class="try" hidden data-method="${method}" data-path="${escapeHtml(path)}" aria-label="Try ${method} ${escapeHtml(path)}">
${list
  .filter((parameter) => parameter.in !== "header")
  .map((parameter) => field(id, parameter))
  .join("\n")}
${bodyField(id, examples)}
${list
  .filter((parameter) => parameter.in === "header")
  .map((parameter) => field(id, parameter))
  .join("\n")}
<p><button type="submit">Send</button> <span role="status"></span></p>
<div class="response" hidden>${code("", "Response")}<details><summary>Headers</summary>${code("", "Response headers")}</details></div>
</form>`;
}

/** A field with a label for one parameter. A required field contains its example, and so does `Prefer`: without it a commit shows an id, and not the job. */
function field(operationId: string, { name, in: place, required, schema, example: value }: Parameter): string {
  const id = `${operationId}-${name}`;
  const label = `<label for="${id}"><code>${escapeHtml(name)}</code> <span class="dim">${place}${required === true ? ", required" : ""}</span></label>`;
  const shared = `id="${id}" name="${escapeHtml(name)}" data-in="${place}"`;
  if (schema.enum !== undefined) {
    const choices = new Set([...(required === true ? [] : [""]), ...schema.enum.map(String)]);
    const options = [...choices].map((choice) => `<option${required === true && choice === value ? " selected" : ""}>${escapeHtml(choice)}</option>`);
    return `<div class="field">${label}<select ${shared}>${options.join("")}</select></div>`;
  }
  const text = value === undefined ? "" : escapeHtml(typeof value === "string" ? value : JSON.stringify(value));
  const content = required === true ? `required value="${text}"` : name === "Prefer" ? `value="${text}"` : `placeholder="${text}"`;
  return `<div class="field">${label}<input ${shared} ${content} autocomplete="off" autocapitalize="off" spellcheck="false"></div>`;
}

/** A field for the request body, with a list of its examples. */
function bodyField(operationId: string, examples: [name: string, example: { value: unknown }][]): string {
  const texts = examples.map(([name, { value }]) => ({ name, text: JSON.stringify(value, null, 2) }));
  const [first] = texts;
  if (first === undefined) return "";
  const id = `${operationId}-body`;
  const options = texts.map(({ name, text }) => `<option value="${escapeHtml(text)}">${escapeHtml(name)}</option>`).join("");
  const chooser = `<div class="field"><label for="${id}-example">Example</label><select id="${id}-example" class="examples">${options}</select></div>`;
  const rows = first.text.split("\n").length + 1;
  return `${texts.length > 1 ? chooser : ""}
<div class="field"><label for="${id}">Body <span class="dim">JSON</span></label><textarea id="${id}" name="body" data-in="body" rows="${rows}" autocapitalize="off" spellcheck="false">${escapeHtml(first.text)}</textarea></div>`;
}

/** One line of Markdown: text and `code`. */
function inline(markdown: string): string {
  return escapeHtml(markdown).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

/** The Markdown of a description: paragraphs and lists. */
function blocks(markdown: string): string {
  return markdown
    .trim()
    .split(/\n{2,}/)
    .map((block) => {
      const lines = block.split("\n");
      if (!lines.every((line) => line.startsWith("- "))) return `<p>${inline(block)}</p>`;
      return `<ul>${lines.map((line) => `<li>${inline(line.slice(2))}</li>`).join("")}</ul>`;
    })
    .join("\n");
}

/** A code block that scrolls, by keyboard too. */
function code(text: string, label: string): string {
  return `<pre tabindex="0" aria-label="${escapeHtml(label)}"><code>${escapeHtml(text)}</code></pre>`;
}

/**
 * A table that scrolls if it is too wide, by keyboard too. On a narrow screen its cells stand below each other, each with the name of its column. The cells are
 * HTML.
 */
function table(columns: string[], rows: string[][]): string {
  const head = columns.map((column) => `<th scope="col">${column}</th>`).join("");
  const body = rows.map((row) => `<tr>${row.map((cell, i) => `<td data-column="${columns[i] ?? ""}">${cell}</td>`).join("")}</tr>`).join("\n");
  return `<div class="scroll" tabindex="0" role="group" aria-label="Table: ${columns.join(", ")}"><table><thead><tr>${head}</tr></thead><tbody>\n${body}\n</tbody></table></div>`;
}

/** A schema in one table cell: its type or the name of its schema, and its limits. */
function typeOf(schema: JsonSchema): string {
  if (schema.$ref !== undefined) {
    const name = escapeHtml(schema.$ref.split("/").at(-1) ?? "");
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (schema.const !== undefined) return `<code>${escapeHtml(JSON.stringify(schema.const))}</code>`;
  if (schema.enum !== undefined) return schema.enum.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(" or ");
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) return choices.map(typeOf).join(" or ");
  if (schema.items !== undefined) return `array of ${typeOf(schema.items)}`;
  const base = [schema.type ?? "any"].flat().join(" or ");
  const bounds = [
    schema.format && `(${schema.format})`,
    schema.pattern && `matching <code>${escapeHtml(schema.pattern)}</code>`,
    schema.minimum !== undefined && `from ${schema.minimum}`,
    // zod gives every integer the maximum of a double, which tells a reader nothing.
    schema.maximum !== undefined && schema.maximum < Number.MAX_SAFE_INTEGER && `to ${schema.maximum}`,
    schema.minLength !== undefined && `at least ${schema.minLength} character${schema.minLength === 1 ? "" : "s"}`,
    schema.maxLength !== undefined && `at most ${schema.maxLength} characters`,
  ];
  return [base, ...bounds.filter((bound) => typeof bound === "string")].join(" ");
}

/** A whole schema: a table of its members, one table for each alternative. */
function schemaHtml(schema: JsonSchema): string {
  const description = schema.description === undefined ? "" : `<p>${inline(schema.description)}</p>`;
  if (schema.oneOf !== undefined) return description + schema.oneOf.map((choice, i) => `<h4>Form ${i + 1}</h4>${schemaHtml(choice)}`).join("\n");
  if (schema.properties === undefined) return `${description}<p>${typeOf(schema)}</p>`;
  const rows = Object.entries(schema.properties).flatMap(([name, member]) => memberRows(name, member, schema.required?.includes(name) ?? false));
  const open = typeof schema.additionalProperties === "object" ? '<p class="dim">Other members are kept.</p>' : "";
  return `${description}${table(["Member", "Type", "Required", "Notes"], rows)}${open}`;
}

/** The row of a member, and the rows of the members inside it. */
function memberRows(name: string, member: JsonSchema, required: boolean): string[][] {
  const notes = [
    member.description && inline(member.description),
    member.default !== undefined && `Default <code>${escapeHtml(JSON.stringify(member.default))}</code>.`,
  ];
  const row = [`<code>${escapeHtml(name)}</code>`, typeOf(member), required ? "yes" : "no", notes.filter((note) => typeof note === "string").join(" ")];
  const [inner, prefix] = member.items?.properties === undefined ? [member, name] : [member.items, `${name}[]`];
  const innerRows = Object.entries(inner.properties ?? {}).flatMap(([child, schema]) =>
    memberRows(`${prefix}.${child}`, schema, inner.required?.includes(child) ?? false),
  );
  return [row, ...innerRows];
}

/** The OpenAPI document as one page of Markdown. */
export function apiMarkdown(document: OpenApiDocument): string {
  const { title, version, summary, description } = document.info;
  const groups = groupsOf(document).map((group) => {
    const texts = group.endpoints.filter(({ operation }) => isForPrograms(operation)).map((endpoint) => markdownOf(endpoint, document));
    return `## ${group.name}\n\n${group.description}\n\n${texts.join("\n\n")}`;
  });
  const intro = `# ${title} API ${version}\n\n> ${summary}\n\n${description.trim()}\n\nThe schemas of requests and answers are in [/openapi.json](/openapi.json).`;
  return `${[intro, ...groups].join("\n\n")}\n`;
}

/** False for pages, scripts and icons. */
function isForPrograms(operation: Operation): boolean {
  return successTypes(operation).some((type) => ["application/json", "text/event-stream", "text/plain"].includes(type));
}

function markdownOf({ method, path, operation }: Endpoint, document: OpenApiDocument): string {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const [example] = Object.values(requestBody?.content["application/json"].examples ?? {});
  const parts = [
    `### ${method} ${path}`,
    `${summary}. ${description}`,
    parameters.map((one) => `- \`${one.name}\` (${one.in}${one.required === true ? ", required" : ""}): ${one.description}`).join("\n"),
    example === undefined ? "" : `Body, for example:\n\n\`\`\`json\n${JSON.stringify(example.value)}\n\`\`\``,
    Object.entries(responses)
      .map(([status, response]) => `- ${status}: ${resolve(response, document).description}`)
      .join("\n"),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}
