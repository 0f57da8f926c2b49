// Writes docs/openapi.json, and the texts that the coordinator serves: that document, and what a 402 tells discovery services. With `--check` it fails if
// a file differs [API8, PY4].
import { readFileSync, writeFileSync } from "node:fs";
import { bazaarResourceServerExtension, declareDiscoveryExtension } from "@x402/extensions/bazaar";
import { declarePaymentIdentifierExtension } from "@x402/extensions/payment-identifier";
import type { JsonSchema } from "../src/coordinator/openapi/components.ts";
import { openApiDocument } from "../src/coordinator/openapi/document.ts";
import { EXAMPLES } from "../src/coordinator/openapi/examples.ts";
import { answerOf, type OpenAiApi } from "../src/coordinator/routes/openai-format.ts";
import { UNSUPPORTED_MEMBERS } from "../src/protocol/chat.ts";

const root = new URL("..", import.meta.url);
const { version }: { version: string } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
const document = openApiDocument(version);
const json = `${JSON.stringify(document, null, 2)}\n`;
// Made here and not in the coordinator: the text never changes, and no isolate has to build it at its start.
const extensions = {
  bazaar: {
    commit: bazaar(
      EXAMPLES.task,
      { ...compact("CommitRequest"), examples: [EXAMPLES.task, EXAMPLES.llm] },
      { example: EXAMPLES.waited, schema: compact("CommitResponse") },
    ),
    // Any model, because nobody knows which ones are online when this is read.
    chat: bazaar({ ...EXAMPLES.chat, model: "auto", stream: false }, compact("ChatCompletionRequest"), { example: answer("chat") }),
    completions: bazaar(EXAMPLES.completion, compact("CompletionRequest"), { example: answer("completions") }),
  },
  "payment-identifier": declarePaymentIdentifierExtension(false),
};

const files = {
  "docs/openapi.json": json,
  // As text inside a module, because imports of text mean different things to wrangler, vite and tsc.
  "src/coordinator/openapi/generated.ts": `// Written by scripts/openapi.ts; do not edit.

/** docs/openapi.json, without the white space. */
export const OPENAPI_JSON: string =
  ${literal(JSON.stringify(document))};
`,
  "src/coordinator/payment/extensions.ts": `// Written by scripts/openapi.ts; do not edit.

/**
 * The \`extensions\` of every 402, as JSON text: \`bazaar\` describes the endpoint to discovery services; \`payment-identifier\` offers an
 * idempotency key [PY4].
 */
export const EXTENSIONS_JSON: string =
  ${literal(JSON.stringify(extensions))};
`,
};

const check = process.argv.includes("--check");
for (const [path, text] of Object.entries(files)) {
  const file = new URL(path, root);
  if (!check) writeFileSync(file, text);
  else if (readOrEmpty(file) !== text) {
    console.error(`${path} is not what the schemas say: run \`node scripts/openapi.ts\``);
    process.exitCode = 1;
  }
}

/** What discovery services read about an endpoint. */
function bazaar(input: object, inputSchema: Record<string, unknown>, output: { example: object; schema?: Record<string, unknown> }): unknown {
  const declared = declareDiscoveryExtension({ bodyType: "json", input: { ...input }, inputSchema, output });
  return bazaarResourceServerExtension.enrichDeclaration?.(declared.bazaar, { method: "POST", adapter: {} });
}

/** An answer of OpenAI's API, as its route makes it. */
function answer(api: OpenAiApi): Record<string, unknown> {
  const created = Date.parse(EXAMPLES.answered.created_at) / 1_000;
  return answerOf({ api, jobId: EXAMPLES.id, model: "auto", created }, { job: { ...EXAMPLES.answered }, attempt: 1 });
}

/**
 * A schema of the document for a response header: with the schemas that it refers to in place of the references, and short, because proxies limit headers.
 * So it says nothing for readers, nothing of null as a value, nothing of rare options, and not what is inside a receipt.
 */
function compact(name: string): Record<string, unknown> {
  const dropped = new Set([
    "description",
    "format",
    "default",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "stop",
    "top_p",
    "tool_calls",
    ...UNSUPPORTED_MEMBERS,
  ]);
  const text = JSON.stringify(document.components.schemas[name], (key, value: JsonSchema | false | undefined) => {
    if (dropped.has(key) || (key === "additionalProperties" && value !== false)) return undefined;
    if (typeof value !== "object") return value;
    const [only, second] = value.anyOf ?? [];
    if (second?.type === "null") return only;
    if (value.$ref === undefined) return value;
    return value.$ref.endsWith("/Receipt") ? { type: "object" } : compact(value.$ref.split("/").at(-1) ?? "");
  });
  return JSON.parse(text);
}

/** A string in single quotes, as the formatter would have it: what is in it is full of double ones. */
function literal(text: string): string {
  const escaped = JSON.stringify(text)
    .slice(1, -1)
    .replaceAll("'", String.raw`\'`);
  return `'${escaped.replaceAll(/\\(.)/g, (pair, char) => (char === '"' ? char : pair))}'`;
}

function readOrEmpty(file: URL): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
