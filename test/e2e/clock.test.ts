// A wall clock that is set back while a coordinator runs. The clock of the process that watches workerd is set; that of the machine goes on.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { freePort } from "../../scripts/coordinator-process.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { finallyDo } from "../support/finally.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { runtimesOf } from "../support/process-tree.ts";
import { commit, ended, get, task } from "../support/rest.ts";
import { until } from "../support/until.ts";

const SETTABLE = new URL("../support/settable-clock.mjs", import.meta.url).href;

describe.each([{ serves: true }, { serves: false }])("the clock goes back under a coordinator with %o", ({ serves }) => {
  it("[JB9] workerd is started again once, which is logged, and keeps what was acknowledged", async () => {
    vi.stubEnv("NODE_OPTIONS", `--import=${SETTABLE}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const lines: string[] = [];
    const onLine = (line: string): void => void lines.push(line);
    const options = {
      instance: "evm",
      port: await freePort(),
      stateDir: temporaryFolder("clock"),
      settings: { TESTNET_MODE: "true" },
      serves,
      onLine,
    } as const;
    const coordinator = await startBundled(options);
    finallyDo(() => coordinator.stop());
    const { url, socketUrl, pid } = coordinator;
    const told = (): string[] => lines.filter((line) => line.includes("system clock"));
    const waiting = await commit(url, "cheap", task("The one that waits."));
    const [before] = runtimesOf(pid);

    process.kill(pid, "SIGUSR2");
    const after = await until("another workerd", () => runtimesOf(pid).find((runtime) => runtime.pid !== before?.pid));
    expect(told()).toEqual(["the system clock went back by 3600 s: workerd is ended and started again, because its timers would wait for so long"]);
    await until("healthy coordinator", async () => ((await get(`${url}/v1/health`).catch(() => null))?.status === 200 ? true : undefined));
    const worker = new PlainWorker(socketUrl, { acks: true });
    finallyDo(() => worker.close());
    await worker.connect();
    await worker.assigned(waiting);
    worker.complete(waiting, { summary: "done", word_count: 1 });
    expect(await ended(url, waiting)).toMatchObject({ status: "completed" });
    expect(runtimesOf(pid).map((runtime) => runtime.pid)).toEqual([after.pid]);
    expect(told()).toHaveLength(1);
  });
});
