import { describe, expect, test } from "vitest";
import { brokenLaws } from "../../../scripts/source-laws.ts";

/** The problems of a tree: each file by its path, with its lines. */
const problems = (files: Readonly<Record<string, readonly string[]>>) =>
  brokenLaws(new Map(Object.entries(files).map(([path, lines]) => [path, lines.map((line) => `${line}\n`).join("")])));

/** The problems of two files of the coordinator, of which one has this line with the path of the other. */
const problemsOf = (from: string, to: string, line: (path: string) => string) =>
  problems({ [`src/coordinator/${from}`]: [line(`${"../".repeat(from.split("/").length - 1) || "./"}${to}`)], [`src/coordinator/${to}`]: [] });

const lines = (count: number, first = "// What it is for.") => [first, ...Array.from({ length: count - 1 }, () => "let a;")];

describe("the laws of the source tree", () => {
  test.each([
    ["a route", "the store", "routes/job.ts", "store/jobs.ts"],
    ["the hub", "the core", "hub/worker-hub.ts", "dispatch/index.ts"],
    ["payment", "the chains", "payment/terms.ts", "chain/addresses.ts"],
    ["the settings", "the interface of the hub", "config.ts", "hub/rpc.ts"],
    ["a file", "its own folder", "hub/worker-hub.ts", "hub/sockets.ts"],
  ])("%s may import %s", (_, __, from, to) => {
    expect(problemsOf(from, to, (path) => `import { a } from "${path}";`)).toEqual([]);
  });

  test.each([
    ["the hub", "a route", "hub/worker-hub.ts", "routes/job.ts"],
    ["payment", "the HTTP side", "payment/terms.ts", "http/context.ts"],
    ["a chain", "payment", "chain/addresses.ts", "payment/terms.ts"],
    ["the hub", "a file inside the core", "hub/worker-hub.ts", "dispatch/reduce.ts"],
    ["the core", "the store", "dispatch/reduce.ts", "store/jobs.ts"],
    ["the core", "a constant of the shell", "dispatch/reduce.ts", "tuning.ts"],
    ["a route", "the hub itself", "routes/job.ts", "hub/worker-hub.ts"],
    ["the interface of the hub", "the hub", "hub/rpc.ts", "hub/sockets.ts"],
    ["the log", "the settings", "log.ts", "config.ts"],
    ["a folder that the law does not know", "the log", "extras/a.ts", "log.ts"],
  ])("%s may not import %s", (_, __, from, to) => {
    const broken = [`src/coordinator/${from} imports src/coordinator/${to}: the law of the folders forbids it`];
    for (const line of [
      (path: string) => `import type { A } from "${path}";`,
      (path: string) => `} from "${path}";`,
      (path: string) => `export * from "${path}";`,
      (path: string) => `import "${path}";`,
      (path: string) => `type A = import("${path}").A;`,
    ])
      expect(problemsOf(from, to, line)).toEqual(broken);
  });

  test.each([
    ["payment/terms.ts", "hono/http-exception"],
    ["routes/job.ts", "drizzle-orm/d1"],
    ["http/context.ts", "cloudflare:workers"],
  ])("%s may not import the package %s", (file, name) => {
    expect(problems({ [`src/coordinator/${file}`]: [`import { a } from "${name}";`] })).toEqual([
      `src/coordinator/${file} imports ${name}: the law of the folders forbids it`,
    ]);
  });

  test("files that import each other in a circle are printed with their imports, types too", () => {
    const circle = {
      "src/sdk/a.ts": ['import { b } from "./b.ts";'],
      "src/sdk/b.ts": ['import type { C } from "./c.ts";', 'import { d } from "./d.ts";'],
      "src/sdk/c.ts": ['export type { A } from "./a.ts";'],
      "src/sdk/d.ts": [],
    };
    const edges = ["    src/sdk/a.ts → src/sdk/b.ts", "    src/sdk/b.ts → src/sdk/c.ts", "    src/sdk/c.ts → src/sdk/a.ts"];
    expect(problems(circle)).toEqual([`a circle of 3 files:\n${edges.join("\n")}`]);
  });

  test("an import of a file that is not there is found", () => {
    expect(problems({ "src/cli/a.ts": ['import { b } from "./b.ts";'] })).toEqual(["src/cli/a.ts imports src/cli/b.ts, which does not exist"]);
  });

  test("a file may have 400 lines and no more", () => {
    expect(problems({ "src/sdk/errors.ts": lines(400), "scripts/a.mjs": lines(400) })).toEqual([]);
    expect(problems({ "src/sdk/errors.ts": lines(401), "scripts/a.mjs": lines(401) })).toEqual([
      "src/sdk/errors.ts has 401 lines: split it into chapters of at most 400",
      "scripts/a.mjs has 401 lines: split it into chapters of at most 400",
    ]);
  });

  test("a comment is at most as wide as the code", () => {
    const wide = "x".repeat(158);
    for (const comment of [`// ${wide}`, `  /** ${wide} */`, ` * ${wide}`])
      expect(problems({ "src/cli/a.ts": [comment] })).toEqual([`src/cli/a.ts:1 is a comment of ${comment.length} characters: wrap it at 160`]);
    expect(problems({ "src/cli/a.ts": [`// ${wide.slice(1)}`, `const text = "${wide}";`] })).toEqual([]);
  });

  test("a file of more than 60 lines says first what it is for; a doc comment counts if it describes an entry of the package", () => {
    expect(
      problems({ "src/a.ts": lines(60, "let a;"), "src/b.ts": lines(61), "src/c.ts": ["/**", " * An entry.", " * @module", " */", ...lines(70)] }),
    ).toEqual([]);
    const advice = "has 61 lines: its first line must say what it is for, as a // comment";
    expect(problems({ "src/a.ts": lines(61, "let a;"), "src/b.ts": lines(61, "/** A. */"), "src/c.ts": lines(61, "//") })).toEqual(
      ["src/a.ts", "src/b.ts", "src/c.ts"].map((file) => `${file} ${advice}`),
    );
    expect(problems({ "src/a.ts": ["/** The type. */", ...lines(60), "/** @module */"] })).toEqual([
      `src/a.ts has 62 lines: its first line must say what it is for, as a // comment`,
    ]);
  });
});
