import { readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { expect, it } from "vitest";

const SRC = resolve(import.meta.dirname, "../../../src");

/** What a module needs at run time: its relative imports, followed, and the packages. `import type` and `export type` are erased. */
function runtimeImports(file: string, seen = new Map<string, Set<string>>()): Map<string, Set<string>> {
  const packages = new Set<string>();
  seen.set(relative(SRC, file), packages);
  for (const [, names = "", specifier = ""] of readFileSync(file, "utf8").matchAll(/^(?:import|export) (?!type )(?:([^;"=(]*?) from )?"([^"]+)";/gm)) {
    const named = /\{([^}]*)\}/
      .exec(names)?.[1]
      ?.split(",")
      .map((name) => name.trim())
      .filter(Boolean);
    if (named?.every((name) => name.startsWith("type "))) continue;
    if (!specifier.startsWith(".")) packages.add(specifier);
    else if (!seen.has(relative(SRC, resolve(dirname(file), specifier)))) runtimeImports(resolve(dirname(file), specifier), seen);
  }
  return seen;
}

it("at run time the SDK imports only its own files, the receipts, five files of the protocol without zod, noble, and a parser of event streams", () => {
  const modules = runtimeImports(resolve(SRC, "sdk/index.ts"));
  expect([...modules.keys()]).toContain("sdk/fallback.ts");
  expect([...modules.keys()].filter((file) => file.startsWith("protocol/")).toSorted()).toEqual([
    "protocol/json.ts",
    "protocol/limits.ts",
    "protocol/pricing.ts",
    "protocol/text.ts",
    "protocol/times.ts",
  ]);
  expect([...modules.keys()].filter((file) => !/^(?:sdk|receipt|protocol)\//.test(file))).toEqual([]);
  const packages = new Set([...modules.values()].flatMap((names) => [...names]));
  expect([...packages].toSorted()).toEqual(["@noble/ed25519", "@noble/hashes/sha2.js", "@noble/hashes/utils.js", "eventsource-parser"]);
});
