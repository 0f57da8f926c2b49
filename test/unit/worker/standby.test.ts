import { describe, expect, it } from "vitest";
import { type Look, standsBack } from "../../../src/worker/node/standby.ts";
import { type Connection, FakeCoordinator } from "./support/fake-coordinator.ts";
import { runHere } from "./support/cli-here.ts";
import { WorkerProcess } from "./support/cli-process.ts";
import { temporaryFolder } from "./support/folder.ts";
import { SlowLlm } from "./support/slow-llm.ts";

const PROMPT = { job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "Sing.", max_tokens: 500 } };
const BOTH = { capabilities: ["LLM_INFER", "TASK"], models: ["slow"] };
const TASKS = { capabilities: ["TASK"], models: [] };

describe("the decision of a standby worker", () => {
  const told = (workers: number): Look => ({ kind: "told", workers });

  it.each<[string, boolean | null, Look, boolean, boolean | null]>([
    ["nobody takes LLM jobs: it does", null, told(0), false, false],
    ["another one takes them: it stands back", null, told(1), false, true],
    ["it is the only one: it goes on", false, told(1), true, false],
    ["another one came: it stands back", false, told(2), true, true],
    ["the other one is still there", true, told(1), false, true],
    ["the other one has left: it takes them again", true, told(0), false, false],
    ["it does not stand in the number yet", false, told(0), true, false],
    ["no answer, nothing known: not decided", null, { kind: "failed" }, false, null],
    ["no answer while it stands back: so it stays", true, { kind: "failed" }, false, true],
    ["no answer while it takes them: so it stays", false, { kind: "failed" }, true, false],
    ["a coordinator that does not tell: it takes them", null, { kind: "unknown" }, false, false],
    ["a coordinator that does not tell any more: it takes them", true, { kind: "unknown" }, false, false],
  ])("[JB10] %s", (_title, before, look, counted, after) => {
    expect(standsBack(before, look, counted)).toBe(after);
  });
});

/** A standby worker process whose model is ready, at this coordinator. */
async function standby(coordinator: FakeCoordinator, llm: SlowLlm): Promise<{ process: WorkerProcess; worker: Connection }> {
  const process = new WorkerProcess(["--url", coordinator.url, "--standby", "--llm-url", llm.baseUrl, "--config-dir", temporaryFolder()]);
  const { worker, register } = await coordinator.registered();
  expect(register).toMatchObject(TASKS);
  return { process, worker };
}

/** Resolves when the worker has announced this. The model and the decision come in any order: before both are there it announces tasks again. */
async function announced(worker: Connection, profile: typeof BOTH | typeof TASKS): Promise<void> {
  let frame: Record<string, unknown> = {};
  while (String(frame["capabilities"]) !== String(profile.capabilities)) frame = await worker.receive("register", "job_progress");
  expect(frame).toMatchObject(profile);
}

describe("worker start --standby", () => {
  it("[JB10] [WS9] finishes the job that runs when another worker comes", async () => {
    const [coordinator, llm] = [await FakeCoordinator.start(), await SlowLlm.start()];
    coordinator.llmWorkers = 0;
    const { process, worker } = await standby(coordinator, llm);
    await announced(worker, BOTH);
    const job = worker.assign(PROMPT);
    await worker.receive("job_progress", "job_ack");
    coordinator.llmWorkers = 2;
    await announced(worker, TASKS);
    expect(await process.says("standby")).toMatchObject({ llm: "taken" });
    expect(await process.says("standby")).toMatchObject({ llm: "left" });
    llm.answers[0]?.finish();
    expect(await worker.receive("job_complete", "job_progress")).toMatchObject({ job_id: job.job_id, output: { model: "slow" } });
  });

  it("[JB10] takes LLM jobs at a coordinator of an older version, which does not say how many workers take them", async () => {
    const [coordinator, llm] = [await FakeCoordinator.start(), await SlowLlm.start()];
    const { process } = await standby(coordinator, llm);
    expect(await process.says("standby")).toMatchObject({ llm: "taken" });
  });

  it("is refused for a worker that takes tasks only", async () => {
    const { code, stderr } = await runHere(["worker", "--standby", "--tasks-only", "--config-dir", temporaryFolder()]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("--standby")]);
  });
});
