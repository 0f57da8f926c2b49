import { resolve } from "node:path";
import { configFolder } from "../worker/node/config-folder.ts";
import { defaultKeyFile } from "../worker/node/key-file.ts";

/** The options that say where the worker's key is. */
export const KEY_ARGS = {
  key: { type: "string", valueHint: "file", description: "Key file; default worker.key in the configuration folder" },
  "config-dir": { type: "string", valueHint: "dir", description: "Configuration folder; default $XDG_CONFIG_HOME/compute-router or the system's own" },
} as const;

/** The configuration folder and the key file that the options name. */
export function keyPlace(args: { key?: string | undefined; "config-dir"?: string | undefined }): { folder: string; keyFile: string } {
  const configDir = args["config-dir"];
  const folder = configFolder(configDir === undefined ? {} : { configDir });
  return { folder, keyFile: args.key === undefined ? defaultKeyFile(folder) : resolve(args.key) };
}
