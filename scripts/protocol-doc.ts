/**
 * Writes the generated parts of docs/protocol.md: the frames, from the schemas that the coordinator parses with, and the limits.
 * `--check` fails when the committed file differs.
 */
import { readFileSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { LIMITS, MAX_WAIT_SECONDS, RATES, RETENTION, RETRY_AFTER, TIMING } from "../src/protocol/limits.ts";
import { COORDINATOR_FRAMES, WORKER_FRAMES } from "../src/protocol/worker-messages.ts";

const FILE = new URL("../docs/protocol.md", import.meta.url);

type JsonSchema = {
  $ref?: string;
  $defs?: Record<string, JsonSchema>;
  type?: string | string[];
  const?: unknown;
  enum?: unknown[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
};

/** One schema as a reader writes it: `"ok"`, `string[]`, `{ job_id, attempt }`. */
function shape(schema: JsonSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" \\| ");
  const options = (schema.anyOf ?? schema.oneOf)?.filter((option) => option.type !== "null");
  if (options) return options.map(shape).join(" \\| ");
  if (schema.type === "array") return `${shape(schema.items ?? {})}[]`;
  if (schema.type === "object") return schema.properties ? `{ ${Object.keys(schema.properties).join(", ")} }` : "object";
  const types = [schema.type].flat().filter((type) => type !== undefined && type !== "null");
  return types.length > 0 ? types.join(" \\| ") : "any";
}

function rows(direction: string, frames: Record<string, z.ZodType>): string[] {
  return Object.values(frames).flatMap((frame) => {
    const root: JsonSchema = JSON.parse(JSON.stringify(z.toJSONSchema(frame, { io: "input", unrepresentable: "any", reused: "inline" })));
    // A schema with an id becomes a reference to its own definition.
    const schema = root.$defs?.[root.$ref?.split("/").at(-1) ?? ""] ?? root;
    return (schema.oneOf ?? [schema]).map((variant) => {
      const members = Object.entries(variant.properties ?? {}).filter(([name]) => name !== "type");
      const nullable = (member: JsonSchema) => member.anyOf?.some((option) => option.type === "null") === true;
      const list = members.map(([name, member]) => {
        const optional = !(variant.required ?? []).includes(name) || nullable(member);
        return `\`${name}\`${optional ? "?" : ""}: ${shape(member)}`;
      });
      return `| ${direction} | \`${String(variant.properties?.type?.const)}\` | ${list.join(", ") || "–"} |`;
    });
  });
}

function frames(): string {
  return [
    "| Direction | `type` | Members |",
    "| --- | --- | --- |",
    ...rows("worker → coordinator", WORKER_FRAMES),
    ...rows("coordinator → worker", COORDINATOR_FRAMES),
  ].join("\n");
}

function duration(ms: number): string {
  const units: [string, number][] = [
    ["d", 86_400_000],
    ["h", 3_600_000],
    ["min", 60_000],
    ["s", 1_000],
  ];
  const [unit, size] = units.find(([, length]) => ms % length === 0 && ms >= length) ?? ["ms", 1];
  return `${ms / size} ${unit}`;
}

function quantity(name: string, value: number): string {
  if (!name.endsWith("Bytes")) return value.toLocaleString("en-US");
  return value >= 1024 * 1024 ? `${value / 1024 / 1024} MiB` : `${value / 1024} KiB`;
}

/** What the module says of its members, by group and name; one without words of its own shares those of the member before it. */
function meanings(): Map<string, string> {
  const said = new Map<string, string>();
  let group = "";
  let words = "";
  for (const line of readFileSync(new URL("../src/protocol/limits.ts", import.meta.url), "utf8").split("\n")) {
    group = /^export const (\w+)/.exec(line)?.[1] ?? group;
    words = /^ *\/\*\* (.*?)\.? \*\/$/.exec(line)?.[1] ?? words;
    const name = /^ {2}(\w+):/.exec(line)?.[1] ?? /^export const (MAX_WAIT_SECONDS)/.exec(line)?.[1];
    if (name !== undefined) said.set(`${group}.${name}`, words.replaceAll(/\{@link ([^}]*)\}/g, "$1").replaceAll("|", "\\|"));
  }
  return said;
}

function limits(): string {
  const said = meanings();
  const table = (group: string, members: Record<string, number>, written: (name: string, value: number) => string) =>
    Object.entries(members).map(([name, value]) => {
      const meaning = said.get(`${group}.${name}`);
      if (meaning === undefined) throw new Error(`src/protocol/limits.ts says nothing about ${group}.${name}`);
      return `| \`${group}.${name}\` | ${written(name, value)} | ${meaning} |`;
    });
  return [
    "| Limit | Value | Meaning |",
    "| --- | --- | --- |",
    ...table("LIMITS", LIMITS, quantity),
    ...table("RATES", RATES, (_, value) => `${value} (setting)`),
    ...table("TIMING", TIMING, (_, value) => duration(value)),
    `| \`MAX_WAIT_SECONDS\` | ${MAX_WAIT_SECONDS} s | ${said.get("MAX_WAIT_SECONDS.MAX_WAIT_SECONDS")} |`,
    ...table("RETENTION", RETENTION, (_, value) => `${duration(value)} (setting)`),
    ...Object.entries(RETRY_AFTER).map(([name, value]) => `| \`RETRY_AFTER.${name}\` | ${value} s | \`Retry-After\` of \`${name}\` |`),
  ].join("\n");
}

function filled(text: string, region: string, content: string): string {
  const marks = new RegExp(`(<!-- ${region} -->\n)[^]*?(<!-- /${region} -->)`);
  if (!marks.test(text)) throw new Error(`docs/protocol.md has no region ${region}`);
  return text.replace(marks, (_, open: string, close: string) => `${open}${content}\n${close}`);
}

const before = readFileSync(FILE, "utf8");
const after = filled(filled(before, "frames", frames()), "limits", limits());
if (!process.argv.includes("--check")) writeFileSync(FILE, after);
else if (after !== before) {
  console.error("docs/protocol.md is behind its schemas; run: node scripts/protocol-doc.ts");
  process.exit(1);
}
