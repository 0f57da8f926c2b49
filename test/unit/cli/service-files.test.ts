import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { EXIT } from "../../../src/cli/command.ts";
import { TIMING } from "../../../src/protocol/limits.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "..", "contrib", "worker");
const UNIT = join(FOLDER, "compute-router-worker.service");

function unit(): Map<string, string> {
  const lines = readFileSync(UNIT, "utf8").split("\n");
  return new Map(lines.filter((line) => /^[A-Z]/.test(line)).map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]));
}

const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;

describe("the systemd unit", () => {
  it.runIf(hasSystemd)("is what systemd understands, every line of it", () => {
    const runtime = mkdtempSync(join(tmpdir(), "compute-router-unit-"));
    onTestFinished(() => rmSync(runtime, { recursive: true, force: true }));
    const { stdout, stderr, status } = spawnSync("systemd-analyze", ["--user", "verify", UNIT], {
      encoding: "utf8",
      env: { ...process.env, XDG_RUNTIME_DIR: runtime },
    });
    // Of an unknown key systemd says a word and goes on.
    expect({ said: (stdout + stderr).trim(), status }).toEqual({ said: "", status: 0 });
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

it("the Dockerfile copies nothing that its ignore file holds back, and all that is packed", () => {
  const docker = readFileSync(join(FOLDER, "Dockerfile"), "utf8");
  const copied = [...docker.matchAll(/^COPY (?!--)(.*) \S+$/gm)].flatMap(([, files]) => (files ?? "").split(" "));
  const kept = readFileSync(join(FOLDER, "Dockerfile.dockerignore"), "utf8").split("\n");
  expect(copied.length).toBeGreaterThan(5);
  for (const file of copied) expect(kept).toContain(`!${file}`);
  const { files }: { files: string[] } = JSON.parse(readFileSync(join(FOLDER, "..", "..", "package.json"), "utf8"));
  for (const file of files.filter((name) => !/^!|^dist/.test(name))) expect(copied).toContain(file.split("/")[0]);
});
