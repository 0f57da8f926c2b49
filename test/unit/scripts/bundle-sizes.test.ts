import { globSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { expect, test } from "vitest";
import { WITHOUT_GATE } from "../../../scripts/bundle-sizes.ts";

const COORDINATOR = join(import.meta.dirname, "../../../src/coordinator");

/** The values that a file of the coordinator imports or exports from each replaced module. Types leave nothing in a bundle. */
function importsOf(file: string): { module: string; name: string }[] {
  const statements = readFileSync(join(COORDINATOR, file), "utf8").matchAll(/^(?:import|export) (type )?\{([^}]*)\} from "(\.[^"]+)";/gm);
  return [...statements].flatMap(([, type, names = "", path = ""]) => {
    const module = relative(COORDINATOR, join(COORDINATOR, file, "..", path));
    if (type !== undefined || !Object.hasOwn(WITHOUT_GATE, module)) return [];
    const words = names.split(",").map((name) => name.trim());
    return words.filter((name) => name !== "" && !name.startsWith("type ")).map((name) => ({ module, name: name.replace(/ as .*/s, "") }));
  });
}

test("`npm run bundle:sizes` replaces modules by ones that export every name that other modules import from them", () => {
  const files = globSync("**/*.ts", { cwd: COORDINATOR }).filter((file) => !Object.hasOwn(WITHOUT_GATE, file));
  const imported = files.flatMap(importsOf);
  expect(new Set(imported.map(({ module }) => module))).toEqual(new Set(Object.keys(WITHOUT_GATE)));
  const missing = imported.filter(({ module, name }) => !new RegExp(`^export (?:const|class) ${name}\\b`, "m").test(WITHOUT_GATE[module] ?? ""));
  expect(missing).toEqual([]);
});
