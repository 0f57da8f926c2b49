import { globSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const FILES = globSync(["src/**/*.ts", "scripts/*", "examples/*", "test/**/*.ts"], { exclude: (name) => name.includes("node_modules") });

/** The pages that speak of the tree as it is. CHANGELOG.md and docs/decisions speak of what was. */
const PAGES = globSync(["*.md", "docs/*.md", "src/tasks/README.md", "test/*/README.md"], { exclude: (name) => name === "CHANGELOG.md" });

/** Files that a reader writes. */
const OF_THE_READER = ["payer.mjs"];

/** Files that a page names in backticks and that are not there; a name may leave out the folders before it. */
function missing(page: string): string[] {
  const named = [...readFileSync(page, "utf8").matchAll(/`([a-z0-9/-]+\.(?:ts|mjs))`/g)].map(([, name = ""]) => name);
  return named.filter((name) => !OF_THE_READER.includes(name) && !FILES.some((file) => file === name || file.endsWith(`/${name}`)));
}

test.each(PAGES)("%s names only files that are there", (page) => {
  expect(missing(page)).toEqual([]);
});

test("docs/architecture.md lists every RPC of the hub and every event of dispatch in its table of entry points", () => {
  const table = /\n## The hub and its entry points\n[^]*?\n\n(\| Entry point[^]*?)\n\n/.exec(readFileSync("docs/architecture.md", "utf8"))?.[1] ?? "";
  const named = new Set([...table.matchAll(/`([A-Za-z_]+)`/g)].map(([, name]) => name));
  const [, rpc = ""] = /interface HubRpc \{([^]*?)\n\}/.exec(readFileSync("src/coordinator/hub/rpc.ts", "utf8")) ?? [];
  const [, events = ""] = /type DispatchEvent =([^]*?);\n\n/.exec(readFileSync("src/coordinator/dispatch/events.ts", "utf8")) ?? [];
  const entries = [...rpc.matchAll(/^  (\w+)\(/gm), ...events.matchAll(/type: "(\w+)"/g)].map(([, name]) => name);
  expect(entries.length).toBeGreaterThan(30);
  expect(entries.filter((name) => !named.has(name))).toEqual([]);
});

test("docs/architecture.md names every folder of the coordinator", () => {
  const page = readFileSync("docs/architecture.md", "utf8");
  const folders = globSync("src/coordinator/*/").map((folder) => `${folder.replaceAll("\\", "/").split("/")[2]}/`);
  expect(folders.length).toBeGreaterThan(8);
  expect(folders.filter((folder) => !page.includes(`  ${folder}`))).toEqual([]);
});
