import type { JsonSchema, Operation, Parameter, Ref, ResponseObject } from "./components.ts";
import type { OpenApiDocument } from "./document.ts";

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

function resolve(answer: ResponseObject | Ref, document: OpenApiDocument): ResponseObject {
  if (!("$ref" in answer)) return answer;
  const found = document.components.responses[answer.$ref.split("/").at(-1) ?? ""];
  if (found === undefined) throw new Error(`${answer.$ref} points nowhere`);
  return found;
}

function examples(answer: ResponseObject): [label: string, value: unknown][] {
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

/** Text as it must stand in HTML, in attributes too. */
export function escapeHtml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
}

/** One line of the Markdown that descriptions use: text and `code`. */
function inline(markdown: string): string {
  return escapeHtml(markdown).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

/** Paragraphs and lists of the Markdown that descriptions use. */
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

/** A block of code that scrolls, by keyboard too. */
function code(text: string, label: string): string {
  return `<pre tabindex="0" aria-label="${escapeHtml(label)}"><code>${escapeHtml(text)}</code></pre>`;
}

/** A table; cells are HTML already. */
function table(columns: string[], rows: string[][]): string {
  const head = columns.map((column) => `<th scope="col">${column}</th>`).join("");
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("\n");
  return `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>\n${body}\n</tbody></table></div>`;
}

/** What a schema says in one cell: its type, what it points to, its bounds. */
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
    // zod bounds every integer by what a double can hold; that is no news.
    schema.maximum !== undefined && schema.maximum < Number.MAX_SAFE_INTEGER && `to ${schema.maximum}`,
    schema.minLength !== undefined && `at least ${schema.minLength} character${schema.minLength === 1 ? "" : "s"}`,
    schema.maxLength !== undefined && `at most ${schema.maxLength} characters`,
  ];
  return [base, ...bounds.filter((bound) => typeof bound === "string")].join(" ");
}

/** A schema in full: its members as a table, each alternative with one of its own. */
function schemaHtml(schema: JsonSchema): string {
  const description = schema.description === undefined ? "" : `<p>${inline(schema.description)}</p>`;
  if (schema.oneOf !== undefined) return description + schema.oneOf.map((choice, i) => `<h4>Form ${i + 1}</h4>${schemaHtml(choice)}`).join("\n");
  if (schema.properties === undefined) return `${description}<p>${typeOf(schema)}</p>`;
  const rows = Object.entries(schema.properties).flatMap(([name, member]) => memberRows(name, member, schema.required?.includes(name) ?? false));
  const open = typeof schema.additionalProperties === "object" ? '<p class="dim">Other members are kept.</p>' : "";
  return `${description}${table(["Member", "Type", "Required", "Notes"], rows)}${open}`;
}

/** The row of a member, and those of an object right inside it. */
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

/** The whole style of the documentation page: system fonts, light and dark by the reader's setting, nothing from outside. */
const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d5d9e0, #363c47); --soft: light-dark(#f4f6f9, #191d24); --dim: light-dark(#545e6f, #a3adbd); --link: light-dark(#0b57c2, #8ab8ff); }
* { box-sizing: border-box; }
body { margin: 0; font: 1rem/1.6 system-ui, sans-serif; color: light-dark(#171b22, #e6e9ee); background: light-dark(#fff, #101318); }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem 1rem; background: var(--soft); }
.page { display: grid; grid-template-columns: minmax(0, 1fr); max-width: 76rem; margin: 0 auto; padding: 0 1.25rem 4rem; }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li { margin: .15rem 0; }
nav h2 { font-size: .85rem; margin: 1rem 0 .25rem; padding: 0; border: 0; color: var(--dim); }
@media (min-width: 60rem) { .page { grid-template-columns: 17rem minmax(0, 1fr); gap: 3rem; } nav { position: sticky; top: 0; max-height: 100vh; overflow: auto; padding: 1rem 0; } }
h1 { line-height: 1.2; margin: 2rem 0 .5rem; }
h2 { margin: 3rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { margin: 2rem 0 .5rem; font-size: 1.1rem; }
h4 { margin: 1.25rem 0 .25rem; font-size: 1rem; }
code, pre { font: .875rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
:not(pre) > code { background: var(--soft); padding: .1em .3em; border-radius: .25rem; overflow-wrap: anywhere; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .4rem; padding: .75rem 1rem; overflow: auto; margin: .5rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
summary { cursor: pointer; }
.method { font-weight: 700; }
.dim { color: var(--dim); }
`.trim();
