import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ResultFile } from "../../../src/worker/node/desktop-worker.ts";
import { lockWorker, workerId } from "../../../src/worker/node/worker-lock.ts";
import { temporaryFolder } from "./support/folder.ts";

describe("the lock of a worker", () => {
  it("stops a second process until it is released", () => {
    const folder = temporaryFolder();
    const first = lockWorker(folder, "id");
    expect(lockWorker(folder, "id")).toEqual({ ok: false, message: expect.stringContaining(`process ${process.pid} is already this worker`) });
    if (first.ok) first.release();
    expect(lockWorker(folder, "id").ok).toBe(true);
  });

  it("does not stop a process with another key or another coordinator", () => {
    const folder = temporaryFolder();
    const ids = [workerId("ws://a/", "k1"), workerId("ws://a/", "k2"), workerId("ws://b/", "k1")];
    expect(new Set(ids).size).toBe(3);
    expect(ids.map((id) => lockWorker(folder, id).ok)).toEqual([true, true, true]);
    expect(workerId("ws://A:80", "k1")).toBe(workerId("ws://a/", "k1"));
  });

  it("of a killed process is free", async () => {
    const folder = temporaryFolder();
    const source = join(import.meta.dirname, "../../../src/worker/node/worker-lock.ts");
    const script = `import { lockWorker } from ${JSON.stringify(source)}; console.log(lockWorker(${JSON.stringify(folder)}, "id").ok); setInterval(() => {}, 1000);`;
    const holder = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "pipe", "ignore"] });
    await once(holder.stdout, "data");
    expect(lockWorker(folder, "id").ok).toBe(false);
    holder.kill("SIGKILL");
    await once(holder, "exit");
    expect(lockWorker(folder, "id").ok).toBe(true);
  });
});

describe("the file of kept results", () => {
  const result = { jobId: "j", attempt: 1, frame: '{"type":"job_complete"}', completedAt: 5 };

  it("[WS10] returns what was saved, is readable by its owner only, and leaves no temporary file", () => {
    const folder = temporaryFolder();
    const file = join(folder, "r.json");
    new ResultFile(file).save([result]);
    expect(new ResultFile(file).load()).toEqual([result]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder)).toEqual(["r.json"]);
  });

  it("[WS10] is deleted when no result is kept", () => {
    const file = join(temporaryFolder(), "r.json");
    const results = new ResultFile(file);
    results.save([result]);
    results.save([]);
    results.save([]);
    expect(existsSync(file)).toBe(false);
    expect(results.load()).toEqual([]);
  });

  it.each([["{"], ["[]"], ['{"version":2,"results":[]}'], ['{"version":1,"results":[{}]}']])(
    "[WS10] cut or of another kind is as good as none: %s",
    (content) => {
      const file = join(temporaryFolder(), "r.json");
      writeFileSync(file, content);
      expect(new ResultFile(file).load()).toEqual([]);
    },
  );
});
