import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startChild } from "../../scripts/child.ts";
import { ROOT } from "../../scripts/instance.ts";
import { freePort } from "../../scripts/port.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { descendants, stillRunning } from "../support/process-tree.ts";
import { get } from "../support/rest.ts";
import { until } from "../support/until.ts";

const stateDir = temporaryFolder("start");

async function start(...args: string[]) {
  const [evm, svm] = [await freePort(), await freePort()];
  const child = startChild([join(ROOT, "scripts", "start.ts"), "--evm-port", String(evm), "--svm-port", String(svm), "--state", stateDir, ...args], {
    cwd: ROOT,
  });
  return { child, evm, svm, text: () => child.lines.join("\n") };
}

describe("npm start", () => {
  it("--once brings up both instances with a worker each, runs a verified job of every kind on both, and exits 0", async () => {
    const { child, text } = await start("--once");
    expect(await child.exited, text()).toBe(0);
    for (const kind of ["LLM_INFER", "summarize", "classify", "extract_json"]) {
      expect(
        child.lines.filter((line) => line.trim().startsWith(`${kind} `) && / verified, signed by [0-9a-f]{8}…/.test(line)),
        text(),
      ).toHaveLength(2);
    }
    expect(text()).toContain("8 of 8 jobs done and verified");
  });

  it("stays up with a banner until Ctrl-C, and then leaves no child behind", async () => {
    const { child, evm, svm, text } = await start();
    await until("banner", () => (text().includes("up until Ctrl-C") && text().includes("curl") ? true : undefined), text);
    expect(text()).toContain(`npm run worker -- --url ws://127.0.0.1:${evm}/`);
    for (const port of [evm, svm]) expect((await get(`http://127.0.0.1:${port}/v1/health`)).body).toMatchObject({ status: "ok", workers_online: 1 });
    const children = descendants(child.pid).map(({ pid }) => pid);
    process.kill(child.pid, "SIGINT");
    expect(await child.exited, text()).toBe(0);
    expect(stillRunning(children)).toEqual([]);
  });

  it.runIf(existsSync("/proc/self"))("a state folder that cannot be made ends it at once, and says so", async () => {
    const [evm, svm] = [await freePort(), await freePort()];
    const args = ["--evm-port", String(evm), "--svm-port", String(svm), "--state", "/proc/nope"];
    const child = startChild([join(ROOT, "scripts", "start.ts"), ...args], { cwd: ROOT });
    expect(await child.exited).toBe(1);
    expect(child.lines.filter((line) => line.startsWith("cannot write to /proc/nope"))).toHaveLength(1);
  });

  it("says which port is taken, and starts nothing", async () => {
    const [evm, svm] = [await freePort(), await freePort()];
    const { createServer } = await import("node:http");
    const server = createServer().listen(svm, "127.0.0.1");
    const child = startChild([join(ROOT, "scripts", "start.ts"), "--evm-port", String(evm), "--svm-port", String(svm), "--state", stateDir], { cwd: ROOT });
    expect(await child.exited).toBe(1);
    expect(child.lines).toEqual([`port ${svm} of 127.0.0.1 is taken: end what listens there, or choose another: npm start -- --svm-port N`]);
    server.close();
  });
});
