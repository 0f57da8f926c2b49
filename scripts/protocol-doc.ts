// Writes the generated parts of docs/protocol.md: the frames, from the schemas that the coordinator parses with, one whole conversation, and the limits.
// `--check` fails when the committed file differs.
import { readFileSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { LIMITS, RATES } from "../src/protocol/limits.ts";
import { MAX_WAIT_SECONDS, RETENTION, RETRY_AFTER, TIMING } from "../src/protocol/times.ts";
import { COORDINATOR_FRAMES, registerText, WORKER_FRAMES } from "../src/protocol/worker-messages.ts";
import { keyPair, signReceipt, signText } from "../src/receipt/index.ts";
import { receiptText } from "../src/receipt/receipt.ts";

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

/** One schema in short form: `"ok"`, `string[]`, `{ job_id, attempt }`. */
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

/** One job from the challenge to the acknowledgement. The key, the nonce and the times are fixed, so the bytes are always the same. */
function conversation(): string {
  const key = keyPair(new Uint8Array(32).fill(7));
  const challenge = { type: "challenge", nonce: "0123456789abcdef".repeat(4), network: "eip155:10143", host: "127.0.0.1:4010" };
  const signed = registerText({ ...challenge, pubkey: key.publicKey });
  const job = { job_id: "5d0f2a34-6c1e-4f0b-9a57-3e8f1c2b7d90", attempt: 1 };
  const output = { sentiment: "positive", confidence: 1 };
  const { signature, ...receipt } = signReceipt(key, job.job_id, output, "2026-01-01T12:00:10.250Z");
  const registration = { provider_pubkey: key.publicKey, provider_type: "DESKTOP", capabilities: ["TASK"], features: ["ack"], resume: [] };
  const payload = { job_type: "TASK", task_type: "classify", input: "Grüße, I love it 😀" };
  const lines: [string, unknown][] = [
    ["◀", challenge],
    ["=", `signed: ${JSON.stringify(signed)}`],
    ["▶", { type: "register", ...registration, signature: signText(signed, key.secret) }],
    [
      "◀",
      {
        ...{ type: "register_ack", status: "ok", worker_id: "0c1d6a52-77f4-4b39-8f0e-9d2b6c5a4e31", authenticated: true, tier: "Open" },
        ...{ heartbeat_interval_ms: 10_000, time: "2026-01-01T12:00:00.000Z" },
      },
    ],
    ["▶", { type: "heartbeat" }],
    ["◀", { type: "heartbeat_ack" }],
    [
      "◀",
      {
        ...{ type: "job_assign", job_id: job.job_id, job_type: "TASK", payload, policy: "CHEAP", privacy_class: "PUBLIC" },
        ...{ attempt: job.attempt, deadline: "2026-01-01T12:03:10.000Z" },
      },
    ],
    ["▶", { type: "job_ack", ...job }],
    ["=", `hashed: ${JSON.stringify(output)}`],
    ["=", `signed: ${receiptText(receipt)}`],
    ["▶", { type: "job_complete", ...job, output, receipt, receipt_signature: signature }],
    ["◀", { type: "job_complete_ack", job_id: job.job_id, status: "accepted" }],
  ];
  return ["```", ...lines.map(([mark, said]) => `${mark} ${typeof said === "string" ? said : JSON.stringify(said)}`), "```"].join("\n");
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

/** A number as people write it, with its unit where the name or the meaning says that it counts bytes. */
function quantity(name: string, value: number, meaning: string): string {
  if (!/byte/i.test(name) && !meaning.startsWith("Bytes ")) return value.toLocaleString("en-US");
  const units: [string, number][] = [
    ["GiB", 1024 ** 3],
    ["MiB", 1024 ** 2],
    ["KiB", 1024],
  ];
  const [unit, size] = units.find(([, bytes]) => value >= bytes) ?? ["bytes", 1];
  return `${value / size} ${unit}`;
}

/** The comments of the members, by group and name. A comment belongs to the line below it, so that no member gets the words of another one. */
function meanings(): Map<string, string> {
  const said = new Map<string, string>();
  let group = "";
  let words = "";
  const sources = ["limits.ts", "times.ts"].map((name) => readFileSync(new URL(`../src/protocol/${name}`, import.meta.url), "utf8"));
  for (const line of sources.join("\n").split("\n")) {
    group = /^export const (\w+)/.exec(line)?.[1] ?? group;
    const name = /^ {2}(\w+):/.exec(line)?.[1] ?? /^export const (MAX_WAIT_SECONDS)/.exec(line)?.[1];
    if (name !== undefined && words !== "") said.set(`${group}.${name}`, words.replaceAll(/\{@link ([^}]*)\}/g, "$1").replaceAll("|", "\\|"));
    const [, end, more] = /^ *(?:(\*\/)|\* (.*))$/.exec(line) ?? [];
    if (more !== undefined) words = `${words} ${more}`.trim();
    else if (end !== undefined) words = words.replace(/\.$/, "");
    else words = /^ *\/\*\* (.*?)\.? \*\/$/.exec(line)?.[1] ?? "";
  }
  return said;
}

function limits(): string {
  const said = meanings();
  const table = (group: string, members: Record<string, number>, written: (name: string, value: number, meaning: string) => string) =>
    Object.entries(members).map(([name, value]) => {
      const meaning = said.get(`${group}.${name}`);
      if (meaning === undefined) throw new Error(`src/protocol says nothing about ${group}.${name}`);
      return `| \`${group}.${name}\` | ${written(name, value, meaning)} | ${meaning} |`;
    });
  return [
    "| Limit | Value | Meaning |",
    "| --- | --- | --- |",
    ...table("LIMITS", LIMITS, quantity),
    ...table("RATES", RATES, (...limit) => `${quantity(...limit)} (setting)`),
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
const after = filled(filled(filled(before, "frames", frames()), "conversation", conversation()), "limits", limits());
if (!process.argv.includes("--check")) writeFileSync(FILE, after);
else if (after !== before) {
  console.error("docs/protocol.md is behind its schemas; run: node scripts/protocol-doc.ts");
  process.exit(1);
}
