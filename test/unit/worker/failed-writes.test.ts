import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, linkSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { keptUserId } from "../../../src/cli/seeker.ts";
import { keyPair } from "../../../src/receipt/ed25519.ts";
import { makeFolder, placeOnce, replaceFile } from "../../../src/worker/node/atomic-files.ts";
import { readKeyFile, readOrMakeKeyFile, rotateKeyFile } from "../../../src/worker/node/key-file.ts";
import { firstStatus, StatusFile, statusReport } from "../../../src/worker/node/worker-status.ts";

import { CLI } from "../../support/cli.ts";
import { runHere } from "./support/cli-here.ts";
import { temporaryFolder } from "./support/folder.ts";

const MODULE = join(import.meta.dirname, "..", "..", "..", "src", "worker", "node", "atomic-files.ts");
const KEYS = join(MODULE, "..", "key-file.ts");
const hasProc = existsSync("/proc/self");

/** Runs a command line in a process that may write no byte to a file. It meets EFBIG as one on a full disk meets ENOSPC. */
function onFullDisk(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const script = `trap '' XFSZ; ulimit -f 0; exec "$0" "$@"`;
  return spawnSync("sh", ["-c", script, process.execPath, ...args], { encoding: "utf8", env: { PATH: process.env["PATH"], NO_COLOR: "1" } });
}

describe.skipIf(process.platform === "win32")("on a full disk", () => {
  it("[TR1] the user id of an earlier command is still known", () => {
    const folder = temporaryFolder();
    const id = keptUserId(folder);
    expect(onFullDisk(CLI, "user", "--config-dir", folder)).toMatchObject({ status: 0, stdout: `${id}\n` });
    expect(readdirSync(folder)).toEqual(["user-id"]);
  });
});

it.skipIf(process.platform === "win32")("a user id that is there and cannot be read: the error says so", () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "user-id"));
  expect(() => keptUserId(folder)).toThrow(`cannot read the user id in ${join(folder, "user-id")} (EISDIR)`);
});

describe("a write that fails leaves nothing behind", () => {
  it("a key file that a full disk cuts short", () => {
    const folder = temporaryFolder();
    // A process that may write no byte to a file meets EFBIG as one on a full disk meets ENOSPC.
    const script = `const { placeOnce } = await import(${JSON.stringify(MODULE)}); try { placeOnce(${JSON.stringify(join(folder, "worker.key"))}, "00"); } catch (error) { console.log(error.code); }`;
    const run = spawnSync("sh", ["-c", `trap '' XFSZ; ulimit -f 0; exec "$0" --input-type=module -e "$1" | cat`, process.execPath, script], {
      encoding: "utf8",
    });
    expect(run.stdout).toBe("EFBIG\n");
    expect(readdirSync(folder)).toEqual([]);
  });

  it("a key file where its place is a folder", () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "worker.key"));
    expect(placeOnce(join(folder, "worker.key"), "00")).toBe(false);
    expect(() => replaceFile(join(folder, "worker.key"), "00")).toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
    expect(readdirSync(folder)).toEqual(["worker.key"]);
  });

  it("a rotation whose old key has no place", () => {
    const folder = temporaryFolder();
    const old = keyPair(new Uint8Array(32).fill(9));
    writeFileSync(join(folder, "worker.key"), "old", { mode: 0o600 });
    writeFileSync(join(folder, `worker.key.${old.publicKey.slice(0, 16)}`), "taken");
    expect(() => rotateKeyFile(join(folder, "worker.key"), old)).toThrow("EEXIST");
    expect(readdirSync(folder)).toHaveLength(2);
  });
});

describe("a rotation", () => {
  it("that was killed after it had kept the old key, and before it placed the new one, can be done again", () => {
    const folder = temporaryFolder();
    const file = join(folder, "worker.key");
    const first = readOrMakeKeyFile(file);
    if (!first.ok) throw new Error("no key");
    linkSync(file, `${file}.${first.key.publicKey.slice(0, 16)}`);
    const { key, oldFile } = rotateKeyFile(file, first.key);
    expect(readKeyFile(file)).toMatchObject({ ok: true, key });
    expect(readKeyFile(oldFile)).toMatchObject({ ok: true, key: first.key });
    expect(key.publicKey).not.toBe(first.key.publicKey);
    expect(readdirSync(folder)).toHaveLength(2);
  });

  it("whose old key has no place is refused in one line", async () => {
    const folder = temporaryFolder();
    const first = readOrMakeKeyFile(join(folder, "worker.key"));
    if (!first.ok) throw new Error("no key");
    writeFileSync(join(folder, `worker.key.${first.key.publicKey.slice(0, 16)}`), "taken");
    const { code, stderr } = await runHere(["worker", "key", "rotate", "--yes", "--config-dir", folder]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: `cannot replace the key in ${join(folder, "worker.key")} (EEXIST)\n` });
  });
});

describe("a file system without links", () => {
  // FAT on Linux, Android, exFAT on Windows.
  it("that says EPERM, EACCES or EISDIR can have a key file, which is never replaced and can be rotated", () => {
    const folder = temporaryFolder();
    const codes = ["EPERM", "EACCES", "EISDIR"];
    // A process of its own, in which every link fails.
    const script = `
      import fs from "node:fs";
      import { syncBuiltinESMExports } from "node:module";
      let code = "";
      fs.linkSync = () => { throw Object.assign(new Error("no links"), { code }); };
      syncBuiltinESMExports();
      const { readKeyFile, readOrMakeKeyFile, rotateKeyFile } = await import(${JSON.stringify(KEYS)});
      for (code of ${JSON.stringify(codes)}) {
        const file = ${JSON.stringify(folder)} + "/" + code + "/worker.key";
        const [first, again] = [readOrMakeKeyFile(file), readOrMakeKeyFile(file)];
        console.log(code, first.made, again.made, first.key.publicKey === again.key.publicKey);
        const { key, oldFile } = rotateKeyFile(file, first.key);
        console.log(readKeyFile(file).key.publicKey === key.publicKey, readKeyFile(oldFile).key.publicKey === first.key.publicKey);
      }`;
    const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(stdout + stderr).toBe(codes.map((code) => `${code} true false true\ntrue true\n`).join(""));
    for (const code of codes) expect(readdirSync(join(folder, code))).toHaveLength(2);
  });
});

describe("a status file", () => {
  it("whose folder is no longer there does not stop the worker", () => {
    const place = join(temporaryFolder(), "gone");
    writeFileSync(place, "now a file");
    const file = new StatusFile(place);
    const about = { pid: 1, startedAt: 0, now: 0, publicKey: "00", name: null, metrics: null, urls: [] };
    expect(() => file.write(statusReport(firstStatus([]), about))).not.toThrow();
    expect(() => file.remove()).not.toThrow();
  });
});

describe("a folder", () => {
  it("is made with those above it, for its owner only", () => {
    const folder = join(temporaryFolder(), "a", "b");
    makeFolder(folder);
    makeFolder(folder);
    chmodSync(folder, 0o700);
    expect(existsSync(folder)).toBe(true);
  });

  it.runIf(hasProc)("that cannot be made is an error at once, not an endless loop", () => {
    expect(() => makeFolder("/proc/nope/deeper")).toThrow("ENOENT");
  });

  it.runIf(hasProc)("of a worker that cannot be made ends it with one line", async () => {
    const { code, stderr } = await runHere(["worker", "start", "--tasks-only", "--config-dir", "/proc/nope"]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: "cannot create the key file /proc/nope/worker.key (ENOENT); use --key FILE or --config-dir DIR\n" });
  });

  it.runIf(hasProc)("of a worker that is there but cannot be written to, too", async () => {
    const key = join(temporaryFolder(), "worker.key");
    const { code, stderr } = await runHere(["worker", "start", "--tasks-only", "--key", key, "--config-dir", "/proc/self"]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: "cannot write to /proc/self (ENOENT); use --config-dir DIR\n" });
  });

  it.runIf(hasProc)("of a worker with its key elsewhere, too", async () => {
    const key = join(temporaryFolder(), "worker.key");
    const { code, stderr } = await runHere(["worker", "start", "--tasks-only", "--key", key, "--config-dir", "/proc/nope"]);
    expect({ code, stderr }).toEqual({ code: 3, stderr: "cannot write to /proc/nope (ENOENT); use --config-dir DIR\n" });
  });
});
