/** Writes docs/openapi.json and the files that the coordinator serves from it. With `--check` it fails if a file differs [API8]. */
import { readFileSync, writeFileSync } from "node:fs";
import { openApiDocument } from "../src/coordinator/openapi/document.ts";

const root = new URL("..", import.meta.url);
const { version }: { version: string } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));
const document = openApiDocument(version);
const json = `${JSON.stringify(document, null, 2)}\n`;

const files = {
  "docs/openapi.json": json,
  // As text inside a module, because imports of text mean different things to wrangler, vite and tsc.
  "src/coordinator/openapi/generated.ts": `// Written by scripts/openapi.ts; do not edit.

/** docs/openapi.json, without the white space. */
export const OPENAPI_JSON: string =
  ${literal(JSON.stringify(document))};
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
