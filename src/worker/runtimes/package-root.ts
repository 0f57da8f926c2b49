import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseJson } from "./chat-answer.ts";

/** The folder of this package, found upwards from here, because this file runs from `src` and from `dist`. */
export function packageRoot(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (nameIn(join(folder, "package.json")) === "compute-router") return folder;
    if (folder === dirname(folder)) throw new Error("no package.json of compute-router above this file");
  }
}

function nameIn(file: string): unknown {
  const value = existsSync(file) ? parseJson(readFileSync(file, "utf8")) : undefined;
  return typeof value === "object" && value !== null && "name" in value ? value.name : undefined;
}
