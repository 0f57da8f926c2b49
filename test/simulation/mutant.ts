import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { PlantedBug } from "./planted-bugs.ts";
import type { Core } from "./world.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const FOLDERS = ["src/protocol", "src/coordinator/dispatch"] as const;

/** A copy of the dispatch core with one bug planted, so that the code that ships needs no seam for it. */
export async function mutantOf(bug: PlantedBug): Promise<Core> {
  const home = join(ROOT, "node_modules/.cache/planted-bugs", `${process.pid}-${bug.name.replaceAll(/\W+/g, "-")}`);
  try {
    plant(bug, home);
    return (await import(/* @vite-ignore */ pathToFileURL(join(home, "src/coordinator/dispatch/index.mjs")).href)) as Core;
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function plant(bug: PlantedBug, home: string): void {
  const left = new Set(bug.edits);
  for (const folder of FOLDERS) {
    for (const name of readdirSync(join(ROOT, folder)).filter((file) => file.endsWith(".ts"))) {
      let source = readFileSync(join(ROOT, folder, name), "utf8");
      for (const edit of folder.endsWith("dispatch") ? bug.edits : []) {
        if (edit.file !== name) continue;
        const places = source.split(edit.from).length - 1;
        if (places !== 1) throw new Error(`"${bug.name}" must match once in ${name}, it matches ${places} times: ${edit.from}`);
        source = source.replace(edit.from, () => edit.to);
        left.delete(edit);
      }
      const target = join(home, folder, name.replace(/\.ts$/, ".mjs"));
      mkdirSync(dirname(target), { recursive: true });
      // Node strips no types below node_modules, so the copy is JavaScript.
      writeFileSync(target, stripTypeScriptTypes(source).replaceAll(/(from\s+"\.[^"]*)\.ts"/g, '$1.mjs"'));
    }
  }
  if (left.size > 0) throw new Error(`"${bug.name}" names a file that is not there`);
}
