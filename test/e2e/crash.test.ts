import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Coordinator, freePort } from "../../scripts/coordinator-process.ts";
import { startBundled } from "../support/bundle.ts";
import { temporaryFolder } from "../support/coordinator.ts";
import { launchDesktopWorker } from "../support/desktop-worker.ts";
import { follow, shows } from "../support/followed.ts";
import { killRuntime } from "../support/kill-runtime.ts";
import { PlainWorker } from "../support/plain-worker.ts";
import { commit, ended, get, task } from "../support/rest.ts";
import { TalkingLlm } from "../support/talking-llm.ts";
import { until } from "../support/until.ts";

describe("a coordinator that is killed", () => {
  let coordinator: Coordinator;
  const stateDir = temporaryFolder("crash");
  const settings = { TESTNET_MODE: "true" };
  beforeAll(async () => {
    coordinator = await startBundled({ instance: "evm", port: await freePort(), stateDir, settings });
  });
  afterAll(() => coordinator.stop());

  it("[JB9, WS10] during a job takes the result of the worker that comes back, and a job that waited is done too", async () => {
    const worker = new PlainWorker(coordinator.socketUrl, { acks: true });
    await worker.connect();
    const running = await commit(coordinator.url, "cheap", task("The one that runs."));
    await worker.assigned(running);
    const waiting = await commit(coordinator.url, "cheap", task("The one that waits."));

    await killRuntime(coordinator);
    await until("end of the socket", () => worker.closed ?? undefined);
    expect((await get(`${coordinator.url}/v1/jobs/${running}`)).body).toMatchObject({ id: running, result: null });
    expect(await worker.connect()).toMatchObject({ status: "ok" });

    worker.complete(running, { summary: "done", word_count: 1 });
    expect(await worker.frame("job_complete_ack", (frame) => frame.job_id === running)).toMatchObject({ status: "accepted" });
    await worker.assigned(waiting);
    worker.complete(waiting, { summary: "done too", word_count: 2 });
    expect(await ended(coordinator.url, running)).toMatchObject({ status: "completed", result: { summary: "done", word_count: 1 } });
    expect(await ended(coordinator.url, waiting)).toMatchObject({ status: "completed", result: { summary: "done too", word_count: 2 } });
    worker.close();
  });

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
