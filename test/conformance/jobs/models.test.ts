// Jobs that name a model, and chats [JB10, JB12].
import { beforeAll, beforeEach, expect, test } from "vitest";
import { llm, newUser } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { within } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

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

const commit = (payload: object) => evm.api.commit({ job_type: "LLM_INFER", user_id: newUser(), payload: { prompt: "Hi", ...payload } }, "fast");

test("[JB10] a job for a model goes only to a worker that announced it, whatever the case; without a model, or with auto, to any", async () => {
  const others = await Promise.all(["ant:7b", "bee"].map((model) => fullWorker(evm.socketUrl, { models: [model] })));
  const cat = await fullWorker(evm.socketUrl, { models: ["Org/Cat-7B:latest", "cat"] });
  const ids = [await commit({ model: "org/cat-7b:LATEST" }), await commit({ model: "cat" })];
  for (const id of ids) {
    await cat.assigned(id);
    await cat.complete(id, "meow");
  }
  for (const id of ids) for (const other of others) expect(other.had(id)).toBe(false);
  const any = [await commit({ model: "auto" }), await commit({ model: null }), await commit({})];
  const workers = [...others, cat];
  await within(
    5_000,
    () => (any.every((id) => workers.some((worker) => worker.had(id))) ? true : undefined),
    () => "three workers with one job each",
  );
});

test("[JB10] a waiting job goes to the worker that announces its model later, on a socket that is there already too", async () => {
  const worker = await fullWorker(evm.socketUrl, { models: ["ant"] });
  const id = await commit({ model: "bee" });
  await worker.registerSigned({ features: ["ack"], models: ["ant", "bee"] });
  await worker.assigned(id);
});

test("[JB10] an unpaired worker of the model gets no PRIVATE job, nor does a paired worker of another model", async () => {
  const [paired, stranger] = [await fullWorker(evm.socketUrl, { models: ["ant"] }), await fullWorker(evm.socketUrl, { models: ["bee"] })];
  const user = newUser();
  const { pairing_code } = (await evm.api.post("/v1/trust/create", { user_id: user })).body;
  expect((await evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey: paired.pubkey })).status).toBe(200);
  const secret = (model: string) => evm.api.tryCommit({ ...llm(user, "Hi", { privacy_class: "PRIVATE" }), payload: { prompt: "Hi", model } });
  expect(await secret("bee")).toMatchObject({ status: 422, body: { error: "no_trusted_worker" } });
  const { job_id } = (await secret("ant")).body;
  await paired.assigned(String(job_id));
  expect(stranger.had(String(job_id))).toBe(false);
});

test("[JB12] a chat reaches the worker as its client wrote it, with the transcript as prompt; workers that apply it come first", async () => {
  const plain = await fullWorker(evm.socketUrl);
  const chatting = await fullWorker(evm.socketUrl, { features: ["ack", "chat"] });
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Say hello.", name: "ann" },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "Again." },
  ];
  const payload = { messages, temperature: 0.5, stop: ["\n\n"], seed: 7, response_format: { type: "text" }, unheard_of: [1] };
  // The worker without `chat` is the least recently used one.
  const id = await evm.api.commit({ job_type: "LLM_INFER", user_id: newUser(), payload });
  const assign = await chatting.assigned(id);
  expect(assign.payload).toEqual({
    job_type: "LLM_INFER",
    prompt: "System: Be brief.\n\nUser: Say hello.\n\nAssistant: Hello.\n\nUser: Again.\n\nAssistant:",
    ...payload,
  });
  expect(plain.had(id)).toBe(false);
  const next = await evm.api.commit({ job_type: "LLM_INFER", user_id: newUser(), payload: { messages } });
  expect((await plain.assigned(next)).payload).toMatchObject({ messages });
});

test("[JB12, LM1] the texts of all messages together have at most 256 KiB", async () => {
  const chat = (bytes: number) => {
    const messages = [...Array.from({ length: 3 }, () => ({ role: "user", content: "x".repeat(bytes / 4) })), { role: "user", content: "x".repeat(bytes / 4) }];
    return evm.api.tryCommit({ job_type: "LLM_INFER", user_id: newUser(), payload: { prompt: "short", messages } });
  };
  expect((await chat(256 * 1024)).status).toBe(201);
  expect(await chat(256 * 1024 + 4)).toMatchObject({ status: 413, body: { error: "payload_too_large" } });
});
