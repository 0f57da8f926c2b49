// The configuration file of a worker (`worker.json`), and its folder.
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import * as z from "zod";
import { parseJson } from "../../protocol/json.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { makeFolder, replaceFile } from "./atomic-files.ts";
import { codeOf } from "./error-code.ts";
import { ownCommand, shellWord } from "./program.ts";

const Url = z.string().refine((text) => URL.canParse(text) && /^wss?:$/.test(new URL(text).protocol), "must be a ws: or wss: URL");

/** The settings that `compute-router worker init` writes and `worker start` reads. It has no secrets: the key has its own file. Paths begin at its folder. */
export const WorkerConfig = z.strictObject({
  version: z.literal(1),
  coordinators: z.array(z.strictObject({ url: Url, network: z.string().min(1).optional() })).min(1),
  name: z.string().min(1).optional(),
  /** `find` searches for an OpenAI-compatible server, at `url` or on this machine. */
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
/** Type of the schema with the same name. */
export type WorkerConfig = z.infer<typeof WorkerConfig>;

/** Result of reading a configuration file; `config` is null if there is no file. */
type ConfigResult = { ok: true; config: WorkerConfig | null } | { ok: false; message: string };

/** The configuration file of a worker. */
export function configFile(folder: string): string {
  return join(folder, "worker.json");
}

/** Reads a configuration file. */
export function readConfig(file: string): ConfigResult {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { ok: true, config: null };
    return { ok: false, message: `cannot read ${file}: ${error instanceof Error ? error.message : "unknown error"}` };
  }
  const cure = `correct it, or replace it: ${ownCommand(`worker init --force${folderOption({ folder: dirname(file) })}`)}`;
  // A byte order mark is not JSON, but editors of Windows write one.
  const json = parseJson(text.replace(/^\uFEFF/, ""));
  if (json === undefined) return { ok: false, message: `${file} is not JSON; ${cure}` };
  const parsed = WorkerConfig.safeParse(json);
  if (parsed.success) return { ok: true, config: parsed.data };
  return { ok: false, message: `${file} is not a valid configuration: ${problemsText(parsed.error)}; ${cure}` };
}

/** The first problem and the unknown members: a misspelled member is missing and unknown. */
function problemsText({ issues }: z.ZodError): string {
  const told = issues.filter(({ code }, at) => at === 0 || code === "unrecognized_keys");
  return told.map(({ path, message }) => `${path.length === 0 ? "" : `${path.join(".")}: `}${message}`).join("; ");
}

/** Writes the configuration in one step. Throws the system's error. */
export function writeConfig(file: string, config: WorkerConfig): void {
  makeFolder(dirname(file));
  replaceFile(file, `${JSON.stringify(config, null, 2)}\n`);
}

/** The facts that decide the folder of the configuration. */
type ConfigPlace = { configDir?: string | undefined; env?: NodeJS.ProcessEnv; platform?: NodeJS.Platform; home?: string };

/**
 * The folder of keys and state: `--config-dir`, else `$XDG_CONFIG_HOME/compute-router`, else the usual folder of the system:
 * `~/.config`, `~/Library/Application Support` (macOS) or `%APPDATA%` (Windows).
 */
export function configFolder({ configDir, env = process.env, platform = process.platform, home = homedir() }: ConfigPlace = {}): string {
  if (configDir !== undefined) return resolve(configDir);
  // The XDG specification requires that a relative path is ignored.
  const xdg = env["XDG_CONFIG_HOME"];
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, "compute-router");
  if (platform === "win32") return join(env["APPDATA"] ?? join(home, "AppData", "Roaming"), "compute-router");
  if (platform === "darwin") return join(home, "Library", "Application Support", "compute-router");
  return join(home, ".config", "compute-router");
}

/** The option for a folder in a command that a message suggests; empty for the usual folder. */
export function folderOption({ folder }: { folder: string }): string {
  return folder === configFolder() ? "" : ` --config-dir ${shellWord(folder)}`;
}
