import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";

/** What decides where the configuration lives. */
export type ConfigPlace = { configDir?: string; env?: NodeJS.ProcessEnv; platform?: NodeJS.Platform; home?: string };

/**
 * The folder of keys and state: `--config-dir`, else `$XDG_CONFIG_HOME/compute-router`, else what the system has for this:
 * `~/.config`, `~/Library/Application Support` (macOS) or `%APPDATA%` (Windows).
 */
export function configFolder({ configDir, env = process.env, platform = process.platform, home = homedir() }: ConfigPlace = {}): string {
  if (configDir !== undefined) return resolve(configDir);
  // A relative path there must be ignored, says the XDG specification.
  const xdg = env["XDG_CONFIG_HOME"];
  if (xdg !== undefined && isAbsolute(xdg)) return join(xdg, "compute-router");
  if (platform === "win32") return join(env["APPDATA"] ?? join(home, "AppData", "Roaming"), "compute-router");
  if (platform === "darwin") return join(home, "Library", "Application Support", "compute-router");
  return join(home, ".config", "compute-router");
}

/** Makes the folder and those above it, for their owner only, if they are not there. Throws the system's error. */
export function makeFolder(folder: string): void {
  // Not `recursive: true`: where the parent is there but takes no folder and says ENOENT, as /proc does, Node tries again for ever.
  const missing: string[] = [];
  for (let at = resolve(folder); !existsSync(at) && at !== dirname(at); at = dirname(at)) missing.unshift(at);
  for (const at of missing) {
    try {
      mkdirSync(at, { mode: 0o700 });
    } catch (error) {
      // Another process was faster.
      if (!existsSync(at)) throw error;
    }
  }
}

/** Writes a file of one owner in one step: it has the old content or the new one, and a write that fails leaves nothing behind. Throws the system's error. */
export function replaceFile(file: string, content: string): void {
  const draft = `${file}.new`;
  try {
    writeFileSync(draft, content, { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}
