import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolder } from "../worker/node/config-folder.ts";
import { codeOf, placeOnce } from "../worker/node/key-file.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** Where the user id is kept. */
export function userIdFile(folder: string): string {
  return join(folder, "user-id");
}

/**
 * The user that the commands act for when `--user` is not said: 128 random bits, made once and kept, because pairings belong to it.
 * Whoever knows it can use them [TR1], so the file is its owner's only.
 */
export function keptUserId(folder: string): string {
  const file = userIdFile(folder);
  try {
    makeFolder(folder);
    placeOnce(file, `${randomBytes(16).toString("hex")}\n`);
    const id = readFileSync(file, "utf8").trim();
    if (id !== "") return id;
  } catch (error) {
    throw new CliError(EXIT.error, `cannot keep a user id in ${file} (${codeOf(error)}); use --user ID or --config-dir DIR`);
  }
  throw new CliError(EXIT.error, `${file} is empty; delete it, or use --user ID`);
}
