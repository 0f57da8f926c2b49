import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { embeddedFolder, INSTALL_COMMAND, installEmbedded, isEmbeddedInstalled, npmCommand } from "../../../src/worker/runtimes/embedded-install.ts";
import { closedPort, json, serve } from "./wire-server.ts";

const VERSION = "3.0.0";
let tarball: Buffer;

function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), "compute-router-"));
}

/** A package folder like runtimes/llama, whose one dependency is a small package named node-llama-cpp. */
function packageFolder(): string {
  const folder = temporaryFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const own = { name: "llama", version: "1.0.0", dependencies: { "node-llama-cpp": VERSION } };
  const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
  const packages = { "": own, "node_modules/node-llama-cpp": { version: VERSION, integrity } };
  writeFileSync(join(folder, "package.json"), JSON.stringify(own));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify({ name: "llama", version: "1.0.0", lockfileVersion: 3, requires: true, packages }));
  vi.stubEnv("npm_config_cache", join(folder, "cache"));
  onTestFinished(() => void vi.unstubAllEnvs());
  return folder;
}

/** A real registry on loopback that knows the one package. */
async function registry(): Promise<void> {
  const { origin } = await serve(({ path }, response) => {
    if (path.endsWith(".tgz")) return response.end(tarball);
    const version = { name: "node-llama-cpp", version: VERSION, dist: { tarball: `${origin}/node-llama-cpp.tgz` } };
    return json(response, 200, { name: "node-llama-cpp", "dist-tags": { latest: VERSION }, versions: { [VERSION]: version } });
  });
  vi.stubEnv("npm_config_registry", origin);
}

function entries(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name !== "cache")
    .toSorted();
}

const COMPLETE = ["node_modules", "package-lock.json", "package.json"];
const ABSENT = ["package-lock.json", "package.json"];

beforeAll(() => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, "package"));
  writeFileSync(join(folder, "package", "package.json"), JSON.stringify({ name: "node-llama-cpp", version: VERSION }));
  // As `npm pack` would make it, which takes half a second.
  execFileSync("tar", ["-czf", "package.tgz", "package"], { cwd: folder });
  tarball = readFileSync(join(folder, "package.tgz"));
  rmSync(folder, { recursive: true });
});

describe("installEmbedded", () => {
  it("[LLM11] installs once, and prints what it does; it replaces half an install and an old version, and deletes what one left that was killed, not one that may still run", async () => {
    const folder = packageFolder();
    await registry();
    expect(isEmbeddedInstalled(folder)).toBe(false);
    const [killed, running] = [join(folder, ".install-killed"), join(folder, ".install-running")];
    for (const stage of [killed, running]) mkdirSync(join(stage, "node_modules"), { recursive: true });
    const dayBefore = Date.now() / 1_000 - 25 * 3_600;
    utimesSync(killed, dayBefore, dayBefore);
    const installed = join(folder, "node_modules", "node-llama-cpp");
    mkdirSync(installed, { recursive: true });
    writeFileSync(join(installed, "package.json"), JSON.stringify({ name: "node-llama-cpp", version: VERSION }));
    expect(isEmbeddedInstalled(folder)).toBe(false);
    writeFileSync(join(folder, "node_modules", ".package-lock.json"), "{}");
    writeFileSync(join(installed, "package.json"), JSON.stringify({ name: "node-llama-cpp", version: "2.0.0" }));
    writeFileSync(join(installed, "old"), "");
    expect(isEmbeddedInstalled(folder)).toBe(false);
    const lines: string[] = [];
    expect(await installEmbedded((line) => lines.push(line), { folder })).toEqual({ ok: true });
    expect(isEmbeddedInstalled(folder)).toBe(true);
    expect(existsSync(join(installed, "old"))).toBe(false);
    expect(entries(folder)).toEqual([".install-running", ...COMPLETE]);
    expect(lines.splice(0)).toEqual(["installing llama.cpp (about 100 MB)", "llama.cpp is installed"]);
    expect(await installEmbedded((line) => lines.push(line), { folder })).toEqual({ ok: true });
    expect(lines).toEqual([]);
  });

  it("[LLM11] two installations at the same time both succeed", async () => {
    const folder = packageFolder();
    await registry();
    expect(await Promise.all([installEmbedded(() => {}, { folder }), installEmbedded(() => {}, { folder })])).toEqual([{ ok: true }, { ok: true }]);
    expect(entries(folder)).toEqual(COMPLETE);
  });

  it("[LLM11] without a network it says so and leaves nothing", async () => {
    const folder = packageFolder();
    vi.stubEnv("npm_config_registry", `http://127.0.0.1:${await closedPort()}`);
    expect(await installEmbedded(() => {}, { folder })).toEqual({ ok: false, reason: "offline", message: expect.stringContaining(INSTALL_COMMAND) });
    expect(entries(folder)).toEqual(ABSENT);
  });

  it("[LLM11] an abort ends npm and leaves nothing", async () => {
    const folder = packageFolder();
    const controller = new AbortController();
    const { origin } = await serve(() => controller.abort());
    vi.stubEnv("npm_config_registry", origin);
    expect(await installEmbedded(() => {}, { folder, signal: controller.signal })).toMatchObject({ ok: false, reason: "aborted" });
    expect(entries(folder)).toEqual(ABSENT);
  });

  it("[LLM11] without npm it says so", async () => {
    const folder = packageFolder();
    vi.stubEnv("PATH", folder);
    expect(await installEmbedded(() => {}, { folder })).toMatchObject({ ok: false, reason: "npm_missing" });
  });

  it("[LLM11] for a broken package it shows the message of npm", async () => {
    const folder = packageFolder();
    await registry();
    writeFileSync(join(folder, "package-lock.json"), JSON.stringify({ name: "llama", version: "1.0.0", lockfileVersion: 3, packages: {} }));
    expect(await installEmbedded(() => {}, { folder })).toEqual({ ok: false, reason: "failed", message: expect.stringMatching(/^npm ci failed: ./) });
  });
});

describe("the package of the embedded runtime", () => {
  it("has a lockfile that names no registry", () => {
    const lockfile: { packages: Record<string, { integrity?: string; link?: boolean }> } = JSON.parse(
      readFileSync(join(embeddedFolder(), "package-lock.json"), "utf8"),
    );
    expect(JSON.stringify(lockfile)).not.toMatch(/"resolved"/);
    for (const [path, entry] of Object.entries(lockfile.packages))
      expect({ path, pinned: path === "" || entry.integrity !== undefined }).toEqual({ path, pinned: true });
  });
});

it("npm and npx start without a shell: on Windows as the scripts that are beside Node, elsewhere as programs of the PATH", () => {
  const folder = temporaryFolder();
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const node = join(folder, "node.exe");
  expect(npmCommand("npx", node)).toEqual(["npx"]);
  const bin = join(folder, "node_modules", "npm", "bin");
  mkdirSync(bin, { recursive: true });
  for (const name of ["npm", "npx"] as const) {
    const script = join(bin, `${name}-cli.js`);
    writeFileSync(script, "");
    expect(npmCommand(name, node)).toEqual([node, script]);
  }
});
