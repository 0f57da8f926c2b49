import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { ownCommand } from "./command-name.ts";
import { makeFolder, replaceFile } from "./config-folder.ts";

const Url = z.string().refine((text) => URL.canParse(text) && /^wss?:$/.test(new URL(text).protocol), "must be a ws: or wss: URL");

/** The settings that `compute-router worker init` writes and `worker start` reads. No secrets: the key is in a file of its own. */
export const WorkerConfig = z.strictObject({
  version: z.literal(1),
  coordinators: z.array(z.strictObject({ url: Url, network: z.string().min(1).optional() })).min(1),
  name: z.string().min(1).optional(),
  /** `find` looks for an OpenAI-compatible server, at `url` or on this machine. */
  llm: z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("find"), url: z.string().min(1).optional(), model: z.string().min(1).optional() }),
    z.strictObject({ kind: z.literal("embedded"), model_file: z.string().min(1).optional() }),
    z.strictObject({ kind: z.literal("none") }),
  ]),
  /** The most tokens of one answer. */
  max_tokens: z.int().min(1).max(LIMITS.maxTokens).optional(),
  /** Key file, if it is not `worker.key` beside this file. */
  key: z.string().min(1).optional(),
  metrics: z.string().min(1).optional(),
});
/** See the schema of the same name. */
export type WorkerConfig = z.infer<typeof WorkerConfig>;

/** A configuration file, read; `config` is null when there is none. */
export type ConfigReading = { ok: true; config: WorkerConfig | null } | { ok: false; message: string };

/** Where the configuration of a worker is. */
export function configFile(folder: string): string {
  return join(folder, "worker.json");
}

/** Reads a configuration file. */
export function readConfig(file: string): ConfigReading {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return { ok: true, config: null };
    return { ok: false, message: `cannot read ${file}: ${error instanceof Error ? error.message : "unknown error"}` };
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { ok: false, message: `${file} is not JSON; correct it, or delete it and run: ${ownCommand("worker init")}` };
  }
  const parsed = WorkerConfig.safeParse(json);
  if (parsed.success) return { ok: true, config: parsed.data };
  const issue = parsed.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? "" : `${issue.path.join(".")}: `;
  return {
    ok: false,
    message: `${file} is not understood: ${where}${issue?.message ?? "unknown error"}; correct it, or delete it and run: ${ownCommand("worker init")}`,
  };
}

/** Writes it in one step. Throws the system's error. */
export function writeConfig(file: string, config: WorkerConfig): void {
  makeFolder(dirname(file));
  replaceFile(file, `${JSON.stringify(config, null, 2)}\n`);
}
