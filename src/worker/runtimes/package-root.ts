import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The folder of this package, found upwards from here, because this file runs from `src` and from `dist`. */
export function packageRoot(): string {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (nameIn(join(folder, "package.json")) === "compute-router") return folder;
    if (folder === dirname(folder)) throw new Error("no package.json of compute-router above this file");
  }
}

function nameIn(file: string): unknown {
  try {
    return (JSON.parse(readFileSync(file, "utf8")) as { name?: unknown }).name;
  } catch {
    return undefined;
  }
}
