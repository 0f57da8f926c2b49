// The SDK's cancel, abort, chat and models against a real coordinator [JB10, JB12, JB13].
import { beforeAll, beforeEach, expect, test } from "vitest";
import { ComputeRouter } from "../../../src/sdk/index.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { within } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

const PROMPT = { job_type: "LLM_INFER", prompt: "Hi" } as const;
let evm: Subject;

beforeAll(async () => {
  evm = await share();
});

beforeEach(async () => {
  await within(
    10_000,
    async () => ((await evm.api.get("/v1/health")).body.workers_online === 0 ? true : undefined),
    () => "the last test's workers to leave",
  );
});

test("[JB13] cancel of the SDK ends a waiting job, in another client too; the payment says nothing on a free instance", async () => {
  const handle = await new ComputeRouter({ baseUrl: evm.url }).submit(PROMPT);
  const end = { cancelled: true, job: { id: handle.jobId, status: "failed", result: { error: "cancelled" } }, charged: null, credit: null };
  expect(await new ComputeRouter({ baseUrl: evm.url }).cancel(handle)).toMatchObject(end);
});

test("[JB13] an abort of the SDK's signal stops the worker of a running job", async () => {
  const worker = await fullWorker(evm.socketUrl);
  const abort = new AbortController();
  const client = new ComputeRouter({ baseUrl: evm.url });
  const started = Promise.withResolvers<string>();
  const run = client.run(PROMPT, { signal: abort.signal, onUpdate: ({ id, status }) => status === "running" && started.resolve(id) });
  run.catch(() => {});
  worker.ack(await worker.frame("job_assign"));
  const id = await started.promise;
  abort.abort(new Error("enough"));
  await expect(run).rejects.toThrow("enough");
  expect(await worker.frame("job_cancel")).toMatchObject({ job_id: id, reason: "cancelled" });
  await expect(client.waitFor(id)).rejects.toMatchObject({ code: "job_failed", reason: "cancelled", jobId: id });
});

test("[JB10, JB12] chat and models of the SDK: the model's worker gets the messages, and a quote counts its workers", async () => {
  const worker = await fullWorker(evm.socketUrl, { models: ["Ant:7b"], features: ["ack", "chat"] });
  const client = new ComputeRouter({ baseUrl: evm.url });
  // The list may be a second old.
  const { data } = await within(
    5_000,
    async () => client.models().then((list) => (list.data.length > 0 ? list : undefined)),
    () => "the model in the list",
  );
  expect(data).toMatchObject([{ id: "Ant:7b", workers: 1 }]);
  expect(await client.quote("LLM_INFER", "CHEAP", { model: "ant:7B" })).toMatchObject({ price: "$0.005", model: "ant:7B", workers: 1 });
  expect(await client.quote("LLM_INFER", "CHEAP", { model: "bee" })).toMatchObject({ workers: 0 });
  const messages = [{ role: "user", content: "Hello?" }] as const;
  const answer = client.chat(messages, { model: "ANT:7b", temperature: 0, stop: "\n" });
  const { job_id, payload } = await worker.frame("job_assign");
  expect(payload).toMatchObject({ messages, model: "ANT:7b", temperature: 0, stop: "\n", prompt: "Hello?" });
  await worker.complete(String(job_id), { output: "Hi!", model: "Ant:7b" });
  expect(await answer).toMatchObject({ output: "Hi!", verified: true });
});
