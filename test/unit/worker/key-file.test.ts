import { execFile } from "node:child_process";
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { placeOnce } from "../../../src/worker/node/atomic-files.ts";
import { configFolder } from "../../../src/worker/node/worker-config.ts";
import { readKeyFile, readOrMakeKeyFile } from "../../../src/worker/node/key-file.ts";
import { temporaryFolder } from "./support/folder.ts";

describe("the key file", () => {
  it("[SPEC] is created on the first run, readable by its owner only, and read on the next run", () => {
    const file = join(temporaryFolder(), "new", "worker.key");
    const first = readOrMakeKeyFile(file);
    const second = readOrMakeKeyFile(file);
    if (!first.ok || !second.ok) throw new Error("no key");
    expect([first.made, second.made]).toEqual([true, false]);
    expect(second.key).toEqual(first.key);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(statSync(join(file, "..")).mode & 0o777).toBe(0o700);
    expect(readFileSync(file, "utf8")).toMatch(/^[0-9a-f]{64}\n$/);
  });

  it("[SPEC] the seed is that of RFC 8032: test vector 1", () => {
    const file = join(temporaryFolder(), "k");
    writeFileSync(file, "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60\n", { mode: 0o600 });
    expect(readKeyFile(file)).toMatchObject({ ok: true, key: { publicKey: "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a" } });
  });

  it.each([[0o640], [0o604], [0o660], [0o644]])("is refused when others can read it (%o), with the fix", (mode) => {
    const file = join(temporaryFolder(), "k");
    readOrMakeKeyFile(file);
    chmodSync(file, mode);
    expect(readOrMakeKeyFile(file)).toEqual({ ok: false, reason: "open_to_others", message: expect.stringContaining(`chmod 600 '${file}'`) });
  });

  it.each([[""], ["abc"], ["0".repeat(63)], [`${"0".repeat(64)}\n${"0".repeat(64)}`], ["-----BEGIN PRIVATE KEY-----"]])(
    "is refused, and kept, when it holds something else: %j",
    (content) => {
      const file = join(temporaryFolder(), "k");
      writeFileSync(file, content, { mode: 0o600 });
      expect(readOrMakeKeyFile(file)).toMatchObject({ ok: false, reason: "malformed" });
      expect(readFileSync(file, "utf8")).toBe(content);
    },
  );

  it("two processes create the same file: the first one stays, and no temporary file is left", () => {
    const folder = temporaryFolder();
    const file = join(folder, "k");
    expect(placeOnce(file, "one")).toBe(true);
    expect(placeOnce(file, "two")).toBe(false);
    expect(readFileSync(file, "utf8")).toBe("one");
    expect(readdirSync(folder)).toEqual(["k"]);
  });

  it("four first runs at the same time have one key", async () => {
    const file = join(temporaryFolder(), "deep", "worker.key");
    const source = join(import.meta.dirname, "../../../src/worker/node/key-file.ts");
    const script = `import { readOrMakeKeyFile } from ${JSON.stringify(source)}; const r = readOrMakeKeyFile(${JSON.stringify(file)}); console.log(r.ok ? r.key.publicKey : r.message);`;
    const run = promisify(execFile);
    const runs = await Promise.all(Array.from({ length: 4 }, () => run(process.execPath, ["--input-type=module", "-e", script])));
    const keys = new Set(runs.map(({ stdout }) => stdout.trim()));
    expect([...keys]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)]);
    expect(existsSync(file)).toBe(true);
  });
});

describe("the configuration folder", () => {
  it.each([
    ["linux", {}, "/h/.config/compute-router"],
    ["linux", { XDG_CONFIG_HOME: "/x" }, "/x/compute-router"],
    ["linux", { XDG_CONFIG_HOME: "relative" }, "/h/.config/compute-router"],
    ["darwin", {}, "/h/Library/Application Support/compute-router"],
    ["darwin", { XDG_CONFIG_HOME: "/x" }, "/x/compute-router"],
    ["win32", { APPDATA: "/a" }, "/a/compute-router"],
  ] as const)("on %s with %o is %s", (platform, env, folder) => {
    expect(configFolder({ platform, env, home: "/h" })).toBe(folder);
  });

  it("is the one that --config-dir names", () => {
    expect(configFolder({ configDir: "/c", env: { XDG_CONFIG_HOME: "/x" } })).toBe("/c");
  });
});
