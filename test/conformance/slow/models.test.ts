// Models that nobody offers [JB10]: the first minute of a coordinator is over before they are refused.
import { beforeAll, expect, test } from "vitest";
import { newUser } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { pass } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

test(
  "[JB10] a model of nobody is no_such_model, with the models that are online, PRIVATE or not; one that has just left is waited for",
  { timeout: 90_000 },
  async () => {
    const commit = (model: string, changes: object = {}) =>
      evm.api.tryCommit({ job_type: "LLM_INFER", user_id: newUser(), payload: { prompt: "Hi", model }, ...changes });
    expect((await commit("cat")).status).toBe(201);
    await pass(61_000);
    const ant = await fullWorker(evm.socketUrl, { models: ["Ant", "bee"] });
    const refusal = { status: 404, body: { error: "no_such_model", models: ["Ant", "bee"] } };
    expect(await commit("cat")).toMatchObject(refusal);
    expect(await commit("cat", { privacy_class: "PRIVATE" })).toMatchObject(refusal);
    expect(await commit("bee", { privacy_class: "PRIVATE" })).toMatchObject({ status: 422 });
    ant.close();
    expect((await commit("ANT")).status).toBe(201);
  },
);
