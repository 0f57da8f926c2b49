import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { copySources } from "../../support/source-copy.ts";

it("the program is built again when a source has changed, without what is left of the build before, and otherwise left alone", () => {
  const { folder, remove } = copySources("cli");
  onTestFinished(remove);
  const target = join(folder, "dist", "cli");
  const source = join(folder, "src", "worker", "node", "program.ts");
  const build = () => {
    execFileSync(process.execPath, ["scripts/build-cli.ts"], { cwd: folder });
    return readdirSync(target).map((name) => `${name} ${statSync(join(target, name)).ctimeMs}`);
  };
  const version = () => execFileSync(process.execPath, [join(target, "main.js"), "--version"], { encoding: "utf8" });

  const first = build();
  expect(build()).toEqual(first);

  writeFileSync(source, readFileSync(source, "utf8").replace(".version;", '.version + "-edited";'));
  writeFileSync(join(target, "stray.js"), "");
  const edited = build();
  // Otherwise `npx compute-router` says "Permission denied" after an update of the clone.
  if (process.platform !== "win32") expect(statSync(join(target, "main.js")).mode & 0o111).not.toBe(0);
  expect(version()).toMatch(/^\d+\.\d+\.\d+-edited\n$/);
  expect(edited).toHaveLength(first.length);

  rmSync(join(target, "main.js"));
  expect(build()).toHaveLength(first.length);
});
