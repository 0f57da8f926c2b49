import { beforeAll, describe, expect, it } from "vitest";

import type { Job } from "../../src/protocol/job.ts";
import { ModelList } from "../../src/protocol/models.ts";
import type { CoordinatorHere } from "../support/coordinator-here.ts";
import { shareCoordinator } from "../support/coordinator.ts";
import { launchDesktopWorker } from "../support/desktop-worker.ts";
import { commit, ended, get } from "../support/rest.ts";
import { TalkingLlm } from "../support/talking-llm.ts";
import { until } from "../support/until.ts";

const TOY = "tiny-chat-q8_0";

describe("the toy beside a real LLM", () => {
  let coordinator: CoordinatorHere;

  beforeAll(async () => {
    coordinator = await shareCoordinator("evm");
  });

  /** The models on offer, once the list is this one. */
  async function listed(...ids: string[]): Promise<void> {
    let last: unknown;
    await until(
      `models ${ids.join(", ")}`,
      async () => {
        last = (await get(`${coordinator.url}/v1/models`)).body;
        const { data, workers_online } = ModelList.parse(last);
        return workers_online === ids.length && String(data.map(({ id }) => id)) === String(ids) ? true : undefined;
      },
      () => JSON.stringify(last),
    );
  }

  async function answer(prompt: string): Promise<Job> {
    return ended(coordinator.url, await commit(coordinator.url, "fast", { job_type: "LLM_INFER", payload: { prompt } }));
  }

  it("[JB10] LLM jobs go to the real one while it is there, and to the toy after it has left", async () => {
    const toy = launchDesktopWorker(coordinator.socketUrl, { llm: true, args: ["--standby"] });
    await toy.note("runtime_ready");
    await listed(TOY);
    expect(await answer("hi")).toMatchObject({ status: "completed", result: { model: TOY, output: "The opposite of rich is poor." } });
    const llm = await TalkingLlm.start();
    llm.says = "Here is a real answer.";
    const real = launchDesktopWorker(coordinator.socketUrl, { llm: llm.url });
    await real.note("runtime_ready");
    await listed("talker");
    for (let count = 1; count <= 3; count++) {
      expect(await answer("hi")).toMatchObject({ status: "completed", result: { model: "talker", output: llm.says } });
      expect(llm.prompts).toBe(count);
    }
    await real.child.stop();
    // Committed before the toy is back: it waits for it, and is not lost.
    expect(await answer("hi")).toMatchObject({ status: "completed", result: { model: TOY } });
    const said = toy.notes.filter(({ type }) => type === "standby");
    expect(said.map(({ llm: jobs }) => jobs)).toEqual(["taken", "left", "taken"]);
    expect(said[1]?.["coordinator"]).toBe(new URL(coordinator.url).host);
    await toy.child.stop();
  });

  it("[JB10] [WS3] of two standby workers one takes the jobs", async () => {
    const llms = [await TalkingLlm.start(), await TalkingLlm.start()];
    const both = llms.map((llm) => {
      llm.says = "I was standing by.";
      return launchDesktopWorker(coordinator.socketUrl, { llm: llm.url, args: ["--standby"] });
    });
    await Promise.all(both.map((worker) => worker.note("runtime_ready")));
    await listed("talker");
    expect(await answer("hi")).toMatchObject({ status: "completed", result: { model: "talker" } });
  });
});
