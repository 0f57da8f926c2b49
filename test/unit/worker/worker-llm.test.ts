import { describe, expect, it, onTestFinished } from "vitest";
import { configFile, writeConfig } from "../../../src/worker/node/worker-config.ts";
import { announcedNames } from "../../../src/worker/runtimes/runtime.ts";
import { until } from "../../support/until.ts";
import { shared } from "./support/ends.ts";
import { temporaryFolder } from "./support/folder.ts";
import { type Connection, FakeCoordinator } from "./support/fake-coordinator.ts";
import { WorkerProcess } from "./support/cli-process.ts";
import { type Answering, SlowLlm } from "./support/slow-llm.ts";

const PROMPT = { job_type: "LLM_INFER", payload: { job_type: "LLM_INFER", prompt: "Sing.", max_tokens: 500 } };

type Set = { llm: SlowLlm; process: WorkerProcess; workers: Connection[]; folder: string };

/** A worker process with an LLM, registered at this many coordinators. */
async function start(count = 1, args: string[] = [], folder = temporaryFolder()): Promise<Set> {
  const llm = await SlowLlm.start();
  const coordinators = await Promise.all(Array.from({ length: count }, () => FakeCoordinator.start()));
  const urls = coordinators.flatMap(({ url }) => ["--url", url]);
  const process = new WorkerProcess([...urls, "--llm-url", llm.baseUrl, "--config-dir", folder, ...args]);
  const workers = await Promise.all(coordinators.map(async (coordinator) => (await coordinator.registered()).worker));
  // The announcement comes when the model has answered once [WS3].
  for (const worker of workers) expect(await worker.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"], models: ["slow"] });
  return { llm, process, workers, folder };
}

function only([worker, more]: readonly Connection[]): Connection {
  if (worker === undefined || more !== undefined) throw new Error("not one worker");
  return worker;
}

function answer(llm: SlowLlm, at = 0): Promise<Answering> {
  return until(`answer ${at}`, () => llm.answers[at]);
}

describe("an LLM job of the worker process", () => {
  const alone = shared(() => start());

  it("[SPEC, JB7] streams visible text only, and reports usage and how the answer ended", async () => {
    const { llm, workers } = alone();
    const worker = only(workers);
    worker.assign(PROMPT);
    await worker.receive("job_ack");
    const first = await worker.receive("job_progress");
    expect(first["delta"]).not.toContain("hidden");
    (await answer(llm)).finish();
    const complete = await worker.completed("job_progress");
    expect(complete["output"]).toEqual({
      finish_reason: "stop",
      model: "slow",
      output: expect.stringMatching(/^(la )+$/),
      usage: { completion_tokens: 5, prompt_tokens: 3 },
    });
  });

  it.each([
    ["--max-tokens", 4, ["--max-tokens", "4"]],
    ["max_tokens of worker.json", 3, []],
  ])("[LLM4, JB7] a runtime that never ends is cut by %s", async (_title, most, args) => {
    const folder = temporaryFolder();
    writeConfig(configFile(folder), { version: 1, coordinators: [{ url: "ws://127.0.0.1:1/" }], llm: { kind: "find" }, max_tokens: 3 });
    const { llm, workers } = await start(1, args, folder);
    const worker = only(workers);
    worker.assign(PROMPT);
    const running = await answer(llm);
    // The runtime's first token is hidden text, which counts too.
    expect((await worker.completed("job_ack", "job_progress"))["output"]).toEqual({
      finish_reason: "length",
      model: "slow",
      output: "la ".repeat(most - 1),
      usage: { completion_tokens: most, prompt_tokens: 2 },
    });
    expect(await running.cut).toBe(true);
  });

  it("[WS11] cancelled: the stream to the runtime is closed, so that it stops generating; the next job runs", async () => {
    const { llm, workers } = alone();
    const worker = only(workers);
    const at = llm.answers.length;
    const job = worker.assign(PROMPT);
    const running = await answer(llm, at);
    worker.send({ type: "job_cancel", job_id: job.job_id, attempt: 1, reason: "cancelled" });
    expect(await running.cut).toBe(true);
    const next = worker.assign(PROMPT);
    (await answer(llm, at + 1)).finish();
    expect(await worker.completed("job_ack", "job_progress")).toMatchObject({ job_id: next.job_id });
  });

  it("[WS8] at its deadline the stream to the runtime is closed and the job fails", async () => {
    const { llm, workers } = alone();
    const worker = only(workers);
    const at = llm.answers.length;
    worker.assign({ ...PROMPT, deadline: new Date(Date.now() + 1_000).toISOString() });
    const running = await answer(llm, at);
    expect(await worker.receive("job_failed", "job_ack", "job_progress")).toMatchObject({ error: "deadline_exceeded", retryable: false });
    expect(await running.cut).toBe(true);
  });

  it("[LM1] an answer of 2 MB: output_too_large, and no frame over the limit", async () => {
    const { llm, workers } = alone();
    const worker = only(workers);
    const { opening } = llm;
    llm.opening = "x".repeat(2 * 1024 * 1024);
    onTestFinished(() => void (llm.opening = opening));
    const at = llm.answers.length;
    worker.assign(PROMPT);
    const running = await answer(llm, at);
    expect(await worker.receive("job_failed", "job_ack", "job_progress")).toMatchObject({ error: "output_too_large", retryable: false });
    expect(await running.cut).toBe(true);
  });

  it("[WS9, WS3] the runtime dies in the middle: the job may be retried, LLM_INFER is withdrawn, and announced again when the runtime is back", async () => {
    const { llm, workers } = alone();
    const worker = only(workers);
    worker.assign(PROMPT);
    await worker.receive("job_progress", "job_ack");
    llm.kill();
    // First of all no more of them: whoever has failed is free for the next job.
    const withdrawn = await worker.receive("register", "job_progress");
    expect(withdrawn).toMatchObject({ capabilities: ["TASK"], models: [] });
    // It says nothing of leases and needs no new proof: the registration stands.
    expect(withdrawn).not.toHaveProperty("resume");
    expect(withdrawn).not.toHaveProperty("signature");
    expect(await worker.receive("job_failed")).toMatchObject({ error: "runtime_error", retryable: true });
    // Announced is only the model that answers [JB10].
    llm.models = ["slow", "other"];
    await llm.listen();
    expect(await worker.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"], models: ["slow"] });
  });

  // The last one, because it ends the process.
  it("[WS11] a second signal closes the stream and ends the process at once", async () => {
    const { llm, process, workers } = alone();
    const at = llm.answers.length;
    only(workers).assign(PROMPT);
    const running = await answer(llm, at);
    process.kill("SIGTERM");
    await only(workers).receive("drain", "job_ack", "job_progress");
    expect(await process.killAgain("SIGTERM")).toEqual({ code: 143, signal: null });
    expect(await running.cut).toBe(true);
  });
});

describe("an LLM job that cannot be answered", () => {
  it("[WS9, WS3] a prompt that is too long: context_length_exceeded; the context was announced", async () => {
    const llm = await SlowLlm.start();
    llm.context = 512;
    const coordinator = await FakeCoordinator.start();
    const process = new WorkerProcess(["--url", coordinator.url, "--llm-url", llm.baseUrl, "--config-dir", temporaryFolder()]);
    const { worker } = await coordinator.registered();
    expect(await worker.receive("register")).toMatchObject({ capabilities: ["LLM_INFER", "TASK"], context: 512 });
    worker.assign({ ...PROMPT, payload: { prompt: "x".repeat(10_000) } });
    expect(await worker.receive("job_failed", "job_ack")).toMatchObject({
      error: "context_length_exceeded",
      message: expect.stringContaining("does not fit"),
      retryable: true,
    });
    expect(await process.says("job_failed")).toMatchObject({ error: "context_length_exceeded" });
  });
});

describe("the announced names of a model", () => {
  it("[JB10] Ollama's X:latest is X too, and a job that names X runs", async () => {
    const llm = await SlowLlm.start();
    llm.models = ["llama3.2:latest", "qwen3:8b"];
    const coordinator = await FakeCoordinator.start();
    const process = new WorkerProcess(["--url", coordinator.url, "--llm-url", llm.baseUrl, "--config-dir", temporaryFolder()]);
    const { worker } = await coordinator.registered();
    expect(await worker.receive("register")).toMatchObject({ models: ["llama3.2:latest", "llama3.2"] });
    expect(await process.says("runtime_ready")).toMatchObject({ model: "llama3.2:latest" });
    worker.assign({ ...PROMPT, payload: { ...PROMPT.payload, model: "llama3.2" } });
    (await answer(llm)).finish();
    expect((await worker.completed("job_ack", "job_progress"))["output"]).toMatchObject({ model: "llama3.2:latest" });
  });

  it("[JB10] X is left out if it names another model of the server; every other tag is announced alone", () => {
    expect(announcedNames({ model: "a:latest", models: ["a:latest", "a"] })).toEqual(["a:latest"]);
    expect(announcedNames({ model: "a:8b", models: ["a:8b"] })).toEqual(["a:8b"]);
    expect(announcedNames({ model: ":latest", models: [":latest"] })).toEqual([":latest"]);
  });
});

describe("a worker of two coordinators", () => {
  const both = shared(() => start(2));

  it("[WS9] runs one LLM job at a time: the second begins, and is acknowledged, when the first has ended", async () => {
    const { llm, workers } = both();
    const [first, second] = workers;
    if (first === undefined || second === undefined) throw new Error("not two workers");
    const at = llm.answers.length;
    first.assign(PROMPT);
    const running = await answer(llm, at);
    const waiting = second.assign(PROMPT);
    running.finish();
    await first.completed("job_ack", "job_progress");
    expect(await second.receive("job_ack")).toMatchObject({ job_id: waiting.job_id });
    (await answer(llm, at + 1)).finish();
    await second.completed("job_progress");
  });

  it("[WS9] rejects the second as busy if the first takes longer than 3 s; a task runs meanwhile", async () => {
    const { llm, workers } = both();
    const [first, second] = workers;
    if (first === undefined || second === undefined) throw new Error("not two workers");
    const at = llm.answers.length;
    first.assign(PROMPT);
    const running = await answer(llm, at);
    const refused = second.assign(PROMPT);
    expect(await second.receive("job_reject")).toEqual({ type: "job_reject", job_id: refused.job_id, reason: "busy" });
    second.assign();
    await second.completed("job_ack");
    expect(llm.answers).toHaveLength(at + 1);
    running.finish();
    await first.completed("job_ack", "job_progress");
  });

  it("[WS9] begins the second when the first is cancelled in the middle", async () => {
    const { llm, workers } = both();
    const [first, second] = workers;
    if (first === undefined || second === undefined) throw new Error("not two workers");
    const at = llm.answers.length;
    const job = first.assign(PROMPT);
    const running = await answer(llm, at);
    second.assign(PROMPT);
    first.send({ type: "job_cancel", job_id: job.job_id, attempt: 1, reason: "cancelled" });
    expect(await running.cut).toBe(true);
    await second.receive("job_ack");
    (await answer(llm, at + 1)).finish();
    await second.completed("job_progress");
  });

  // The last one, because it ends the process.
  it("[WS4] goes on for one if the other refuses it, and its exit code at the end shows that", async () => {
    const { process, workers } = both();
    const [first, second] = workers;
    first?.close(4001);
    expect(await process.says("stopped")).toMatchObject({ reason: "replaced" });
    second?.assign();
    await second?.completed("job_ack");
    process.kill("SIGTERM");
    await second?.receive("drain");
    // Not acknowledged, the result stays on disk; a coordinator that says it has drained is believed.
    second?.send({ type: "drained" });
    expect((await process.exited).code).toBe(4);
  });
});
