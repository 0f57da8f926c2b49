import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { lockOwner, processTag, takeFileLock, thisProcess } from "../../../src/worker/node/worker-lock.ts";

import { temporaryFolder } from "./support/folder.ts";

const SOURCE = join(import.meta.dirname, "../../../src/worker/node/worker-lock.ts");

/** A process that takes the lock `name` whenever it reads a line, and answers whether it has it; it keeps what it has. */
function contender(folder: string): { child: ChildProcess; ready: Promise<void>; take: () => Promise<boolean> } {
  const script = `
    import { createInterface } from "node:readline";
    import { takeFileLock } from ${JSON.stringify(SOURCE)};
    console.log("ready");
    for await (const _ of createInterface({ input: process.stdin })) console.log(takeFileLock(${JSON.stringify(folder)}, "name").ok);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => String((await lines.next()).value);
  return {
    child,
    ready: next().then(() => {}),
    take: async () => {
      child.stdin.write("take\n");
      return (await next()) === "true";
    },
  };
}

describe("a file lock", () => {
  it("stops others with the same name until it is released, and says who has it", () => {
    const folder = temporaryFolder();
    const first = takeFileLock(folder, "name");
    expect(takeFileLock(folder, "name")).toEqual({ ok: false, owner: process.pid });
    expect(takeFileLock(folder, "name-2").ok).toBe(true);
    expect(lockOwner(folder, "name")).toBe(process.pid);
    if (first.ok) first.release();
    expect(lockOwner(folder, "name")).toBeNull();
    expect(takeFileLock(folder, "name").ok).toBe(true);
  });

  it("of a killed process goes to exactly one of many processes that ask for it at once", async () => {
    const folder = temporaryFolder();
    const contenders = Array.from({ length: 5 }, () => contender(folder));
    await Promise.all(contenders.map(({ ready }) => ready));
    for (let round = 0; round < 4; round++) {
      const alive = contenders.slice(round);
      const answers = await Promise.all(alive.map(({ take }) => take()));
      expect(answers.filter(Boolean).length).toBeLessThanOrEqual(1);
      // Whoever asks alone gets it, unless somebody has it already.
      const taken = answers.some(Boolean) || (await alive[0]?.take()) === true;
      expect(taken).toBe(true);
      const owner = alive.find(({ child }) => child.pid === lockOwner(folder, "name"));
      if (owner === undefined) throw new Error("nobody has the lock");
      owner.child.kill("SIGKILL");
      await once(owner.child, "exit");
      contenders.splice(contenders.indexOf(owner), 1);
      contenders.unshift(owner);
    }
  });

  it.runIf(process.platform === "linux")("of a process whose number another one has now is free", () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, `name.${processTag({ pid: process.pid, started: "1" })}.aa.lock`), "");
    expect(takeFileLock(folder, "name").ok).toBe(true);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it.runIf(process.platform === "linux")("of a process whose number a process of another user has now is free", () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, `name.${processTag({ pid: process.pid, started: "1" })}.aa.lock`), "");
    const kill = vi.spyOn(process, "kill").mockImplementation(() => {
      throw Object.assign(new Error("kill EPERM"), { code: "EPERM" });
    });
    onTestFinished(() => kill.mockRestore());
    expect(takeFileLock(folder, "name").ok).toBe(true);
    expect(takeFileLock(folder, "name")).toEqual({ ok: false, owner: process.pid });
    expect(kill).toHaveBeenCalledWith(process.pid, 0);
  });

  it("from before the start of the system is free, also if another process has the number now and the system does not state when it started", () => {
    const folder = temporaryFolder();
    const claim = join(folder, `name.${processTag({ pid: process.pid, started: null })}.aa.lock`);
    writeFileSync(claim, "");
    expect(takeFileLock(folder, "name")).toEqual({ ok: false, owner: process.pid });
    const before = Date.now() / 1000 - uptime() - 3_600;
    utimesSync(claim, before, before);
    expect(takeFileLock(folder, "name").ok).toBe(true);
    expect(readdirSync(folder)).toHaveLength(1);
  });

  it("ignores files with other names, and does not change them", () => {
    const folder = temporaryFolder();
    const others = ["name.lock", "name.x-y.aa.lock", `other.${processTag(thisProcess())}.aa.lock`, `name.${processTag(thisProcess())}.aa.json`];
    for (const file of others) writeFileSync(join(folder, file), "");
    const lock = takeFileLock(folder, "name");
    expect(lock.ok).toBe(true);
    if (lock.ok) lock.release();
    expect(readdirSync(folder).toSorted()).toEqual(others.toSorted());
  });
});
