import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { EXIT } from "../../../src/cli/command.ts";
import { TIMING } from "../../../src/protocol/times.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const FOLDER = join(ROOT, "contrib", "worker");
const COORDINATOR = join(ROOT, "contrib", "coordinator");
const UNIT = join(FOLDER, "compute-router-worker.service");

function unit(file: string = UNIT): Map<string, string> {
  const lines = readFileSync(file, "utf8").split("\n");
  return new Map(lines.filter((line) => /^[A-Z]/.test(line)).map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;

/** What systemd says about a unit; nothing is well. Of an unknown key it says a word and goes on. */
function verdict(file: string, ...scope: string[]): { said: string; status: number | null } {
  const runtime = mkdtempSync(join(tmpdir(), "compute-router-unit-"));
  onTestFinished(() => rmSync(runtime, { recursive: true, force: true }));
  const { stdout, stderr, status } = spawnSync("systemd-analyze", [...scope, "verify", file], {
    encoding: "utf8",
    env: { ...process.env, XDG_RUNTIME_DIR: runtime },
  });
  return { said: (stdout + stderr).trim(), status };
}

describe("the systemd unit", () => {
  it.runIf(hasSystemd)("is what systemd understands, every line of it", () => {
    expect(verdict(UNIT, "--user")).toEqual({ said: "", status: 0 });
  });

  it("does not start again what ended for its owner to act, and leaves a job the time that it may take", () => {
    const settings = unit();
    expect(settings.get("RestartPreventExitStatus")).toBe([EXIT.usage, EXIT.key, EXIT.replaced, EXIT.refused].join(" "));
    expect(Number(settings.get("TimeoutStopSec")) * 1000).toBeGreaterThan(TIMING.total);
    expect(settings.get("ExecStart")).toBe("/usr/bin/env compute-router worker start");
  });
});

it("the launchd agent runs the same command and leaves a job the time that it may take", () => {
  const plist = readFileSync(join(FOLDER, "org.compute-router.worker.plist"), "utf8");
  const program = /<key>ProgramArguments<\/key>\s*<array>([\s\S]*?)<\/array>/.exec(plist)?.[1] ?? "";
  expect([...program.matchAll(/<string>(.*?)<\/string>/g)].map(([, word]) => word)).toEqual(["/usr/bin/env", "compute-router", "worker", "start"]);
  expect(Number(/<key>ExitTimeOut<\/key>\s*<integer>(\d+)</.exec(plist)?.[1]) * 1000).toBeGreaterThan(TIMING.total);
});

describe("the systemd unit of the coordinator", () => {
  const file = join(COORDINATOR, "compute-router@.service");

  it.runIf(hasSystemd)("is what systemd understands, every line of it, wherever Node is", () => {
    const folder = mkdtempSync(join(tmpdir(), "compute-router-unit-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const here = join(folder, "compute-router@evm.service");
    writeFileSync(here, readFileSync(file, "utf8").replace("/usr/bin/node", process.execPath));
    expect(verdict(here)).toEqual({ said: "", status: 0 });
  });

  it("runs `npm run serve`, without npm between", () => {
    const settings = unit(file);
    const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
    expect(scripts["serve"]?.endsWith(" scripts/serve.ts")).toBe(true);
    expect(settings.get("ExecStart")).toMatch(/^\/usr\/bin\/node scripts\/serve\.ts %i --state \/var\/lib\/compute-router\/%i$/);
    expect(settings.get("StateDirectory")).toBe("compute-router/%i");
  });
});

function copiedBy(folder: string): { copied: string[]; kept: string[] } {
  const docker = readFileSync(join(folder, "Dockerfile"), "utf8");
  const copied = [...docker.matchAll(/^COPY (?!--)(.*) \S+$/gm)].flatMap(([, files]) => (files ?? "").split(" "));
  return { copied, kept: readFileSync(join(folder, "Dockerfile.dockerignore"), "utf8").split("\n") };
}

it.each([FOLDER, COORDINATOR])("the Dockerfile in %s copies nothing that its ignore file holds back", (folder) => {
  const { copied, kept } = copiedBy(folder);
  expect(copied.length).toBeGreaterThan(5);
  for (const file of copied) expect(kept).toContain(`!${file}`);
});

it("the Dockerfile of the worker copies all that is packed", () => {
  const { copied } = copiedBy(FOLDER);
  const { files }: { files: string[] } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  for (const file of files.filter((name) => !/^!|^dist/.test(name))) expect(copied).toContain(file.split("/")[0]);
});

it("the Dockerfile of the worker copies all that its build runs", () => {
  const { copied } = copiedBy(FOLDER);
  const { scripts }: { scripts: Record<string, string> } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const [, build = ""] = /^RUN (npm run \w+) /m.exec(readFileSync(join(FOLDER, "Dockerfile"), "utf8")) ?? [];
  expect(build).toBe("npm run build");
  // A script of npm may run others.
  const commands = (line: string): string[] => [
    line,
    ...[...line.matchAll(/npm run (?:--silent )?([\w:]+)/g)].flatMap(([, name = ""]) => commands(scripts[name] ?? "")),
  ];
  const folders = commands(build).flatMap((line) => [...line.matchAll(/\b(\w+)\/[\w./-]+/g)].map(([, folder]) => folder));
  expect(new Set(folders)).toEqual(new Set(["scripts", "src"]));
  for (const folder of folders) expect(copied).toContain(folder);
});

it("the documented nginx waits for an answer as long as a job may take", () => {
  const [, seconds] = /^ +proxy_read_timeout (\d+)s;/m.exec(readFileSync(join(ROOT, "docs", "self-hosting.md"), "utf8")) ?? [];
  expect(Number(seconds) * 1_000).toBeGreaterThan(TIMING.total);
});
