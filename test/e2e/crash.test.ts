import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Coordinator, freePort } from "../../scripts/coordinator-process.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { launchDesktopWorker } from "../support/desktop-worker.ts";
import { follow, shows } from "../support/followed.ts";
import { killRuntime } from "../support/kill-runtime.ts";
import { commit, ended, task } from "../support/rest.ts";
import { TalkingLlm } from "../support/talking-llm.ts";

describe("a coordinator that is killed", () => {
  let coordinator: Coordinator;
  const stateDir = temporaryFolder("crash");
  const settings = { TESTNET_MODE: "true" };
  beforeAll(async () => {
    coordinator = await startBundled({ instance: "evm", port: await freePort(), stateDir, settings });
  });
  afterAll(() => coordinator.stop());

  describe("beside a worker of ours", () => {
    let llm: TalkingLlm;
    beforeAll(async () => {
      llm = await TalkingLlm.start();
      const worker = launchDesktopWorker(coordinator.socketUrl, { llm: llm.url });
      await worker.note("online");
      await worker.note("runtime_ready");
    });

    it("[API6, JB9] in the middle of a text that the worker's LLM writes: its reader gets the whole text", async () => {
      const page = follow(coordinator.url, "Talk.");
      await llm.asked();
      llm.say("Before, ");
      await shows(page, "Before, ");
      await killRuntime(coordinator);
      llm.say("between, ");
      await shows(page, "Before, between, ");
      llm.say("after.");
      await shows(page, "Before, between, after.");
      llm.finish();
      await page.end;
      expect(page.told.map(({ type }) => type)).toContain("reset");
      expect(page.told.at(-1)).toMatchObject({ type: "done", result: { output: page.shown(), verified: true } });
    });

    it("[JB9] that is started again on its state knows every job, and our own workers come back by themselves", async () => {
      const ids = await Promise.all(
        Array.from({ length: 20 }, async (_, index) => commit(coordinator.url, "cheap", task(`Sentence number ${index}.`, "classify"))),
      );
      await coordinator.kill();
      coordinator = await startBundled({ instance: "evm", port: Number(new URL(coordinator.url).port), stateDir, settings });
      for (const id of ids) expect(await ended(coordinator.url, id)).toMatchObject({ id, status: "completed", receipt: { job_id: id } });
    });
  });
});
