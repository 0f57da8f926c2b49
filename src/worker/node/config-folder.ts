import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";

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

/** Makes the folder, for its owner only, if it is not there. */
export function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}
