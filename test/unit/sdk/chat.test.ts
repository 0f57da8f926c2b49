import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { describe, expect, it, onTestFinished } from "vitest";
import { ComputeRouter, NoSuchModelError, NotFoundError, openaiCompatible } from "../../../src/sdk/index.ts";
import { rejection, reply } from "./support/faults.ts";
import { MODEL, RouterServer } from "./support/router-server.ts";

const CHAT = [
  { role: "system", content: "Answer in one word." },
  { role: "user", content: "What color is the sky?" },
] as const;
const payloadOf = (router: RouterServer): unknown => JSON.parse(router.to("/v1/jobs/commit").at(-1)?.body ?? "{}").payload;

describe("chat", () => {
  it("[JB12] sends the messages and every option of the answer under the names of the wire", async () => {
    const router = await RouterServer.start();
    const { output, verified } = await router.client().chat(CHAT, {
      ...{ model: "tiny:1B", maxTokens: 20, temperature: 0, topP: 0.5, stop: ["\n"], seed: 7 },
      ...{ presencePenalty: -2, frequencyPenalty: 2, responseFormat: { type: "json_object" }, policy: "CHEAP" },
    });
    expect({ output, verified }).toEqual({ output: `Echo: ${JSON.stringify(CHAT)}`, verified: true });
    expect(payloadOf(router)).toEqual({
      ...{ job_type: "LLM_INFER", messages: CHAT, model: "tiny:1B", max_tokens: 20, temperature: 0, top_p: 0.5, stop: ["\n"], seed: 7 },
      ...{ presence_penalty: -2, frequency_penalty: 2, response_format: { type: "json_object" } },
    });
    expect(router.to("/v1/jobs/commit")[0]?.path).toBe("/v1/jobs/commit/cheap");
  });

  it("one text is one message of the user", async () => {
    const router = await RouterServer.start();
    await router.client().chat("hi");
    expect(payloadOf(router)).toEqual({ job_type: "LLM_INFER", messages: [{ role: "user", content: "hi" }] });
  });

  it("[JB10, JB12] llm takes the same options, and run, stream and submit take a job with the members", async () => {
    const router = await RouterServer.start();
    await router.client().llm("hi", { model: "auto", topP: 1 });
    expect(payloadOf(router)).toEqual({ job_type: "LLM_INFER", prompt: "hi", model: "auto", top_p: 1 });
    const job = { job_type: "LLM_INFER", messages: CHAT, model: MODEL.id, seed: 1 } as const;
    await router.client().run(job);
    expect(payloadOf(router)).toEqual(job);
    for await (const event of router.client().stream(job)) expect(event.type).not.toBe("reset");
    await router.client().submit({ ...job, prompt: "for workers that know no chat" });
    expect(payloadOf(router)).toEqual({ ...job, prompt: "for workers that know no chat" });
  });

  it.each<[string, object]>([
    ["messages", []],
    ["messages", { messages: "hi" }],
    ["messages[0]", { messages: ["hi"] }],
    ["messages[1].role", { messages: [CHAT[0], { role: "tool", content: "x" }] }],
    ["messages[0].content", { messages: [{ role: "user", content: [{ type: "text", text: "x" }] }] }],
    [
      "messages",
      {
        messages: [
          { role: "user", content: "ü".repeat(70_000) },
          { role: "user", content: "ü".repeat(70_000) },
        ],
      },
    ],
    ["messages", { messages: Array.from({ length: 2_001 }, () => CHAT[0]) }],
    ["model", { messages: CHAT, model: "a b" }],
    ["model", { messages: CHAT, model: "a".repeat(201) }],
    ["temperature", { messages: CHAT, temperature: 2.1 }],
    ["temperature", { messages: CHAT, temperature: Number.NaN }],
    ["top_p", { messages: CHAT, top_p: -0.1 }],
    ["stop", { messages: CHAT, stop: [""] }],
    ["stop", { messages: CHAT, stop: Array.from({ length: 17 }, () => "x") }],
    ["seed", { messages: CHAT, seed: 0.5 }],
    ["presence_penalty", { messages: CHAT, presence_penalty: 3 }],
    ["frequency_penalty", { messages: CHAT, frequency_penalty: "1" }],
    ["response_format", { messages: CHAT, response_format: "json" }],
    ["response_format.type", { messages: CHAT, response_format: { type: "xml" } }],
    ["response_format.json_schema", { messages: CHAT, response_format: { type: "json_schema" } }],
    ["response_format.json_schema", { messages: CHAT, response_format: { type: "json_schema", json_schema: "{}" } }],
  ])("[API2, JB12] run names job.%s before anything is sent (%#)", async (field, members) => {
    const router = await RouterServer.start();
    const job = { job_type: "LLM_INFER", ...(Array.isArray(members) ? { messages: members } : members) } as never;
    expect(await rejection(router.client().run(job))).toMatchObject({ name: "InvalidOptionError", option: `job.${field}` });
    expect(router.received).toEqual([]);
  });

  it("names its own options, and takes null as left out", async () => {
    const router = await RouterServer.start();
    expect(await rejection(router.client().chat(CHAT, { topP: 2 }))).toMatchObject({ option: "topP" });
    expect(await rejection(router.client().chat([]))).toMatchObject({ option: "messages" });
    expect(await rejection(router.client().chat(""))).toMatchObject({ option: "messages" });
    const members = { model: null, temperature: null, top_p: null, stop: null, seed: null, response_format: null } as never;
    await router.client().run({ job_type: "LLM_INFER", messages: CHAT, ...Object(members) });
    const options = { model: null, maxTokens: null, stop: null, responseFormat: null } as never;
    await router.client().chat(CHAT, options);
    expect(payloadOf(router)).toEqual({ job_type: "LLM_INFER", messages: CHAT });
  });

  it("[JB10] a model that nobody offers is a NoSuchModelError with those that are online", async () => {
    const router = await RouterServer.start();
    const error = await rejection(router.client().chat(CHAT, { model: "huge:900b" }));
    expect(error).toBeInstanceOf(NoSuchModelError);
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ code: "no_such_model", reason: "no_such_model", models: [MODEL.id], status: 404, idempotencyKey: null });
    router.fail("POST /v1/jobs/commit", reply(404, { error: "no_such_model", models: ["ok", "<script>", 5] }));
    expect(await rejection(router.client().chat(CHAT))).toMatchObject({ models: ["ok"] });
  });

  it("a fallback gets the chat and its options, but never a job that asks for another model", async () => {
    const asked: unknown[] = [];
    const server = createServer((request, response) => {
      void text(request).then((body) => {
        asked.push(JSON.parse(body));
        response.setHeader("content-type", "application/json").end(JSON.stringify({ choices: [{ message: { content: "blue" } }] }));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const address = server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    const fallback = [openaiCompatible({ baseUrl: `http://127.0.0.1:${port}/v1`, model: "small" })];
    const client = new ComputeRouter({ baseUrl: "http://127.0.0.1:1", fallback, maxRetries: 0 });
    expect(await client.chat(CHAT, { temperature: 0 })).toMatchObject({ output: "blue", source: `fallback:127.0.0.1:${port}` });
    await client.llm("hi", { model: "SMALL" });
    expect(asked).toEqual([
      { model: "small", messages: CHAT, temperature: 0, stream: false },
      { model: "small", messages: [{ role: "user", content: "hi" }], stream: false },
    ]);
    expect(await rejection(client.chat(CHAT, { model: "large" }))).toMatchObject({ name: "RouterConnectionError" });
  });
});

describe("models", () => {
  it("[JB10] resolves to the list of the router", async () => {
    const router = await RouterServer.start();
    expect(await router.client().models()).toEqual({ object: "list", data: [MODEL], workers_online: 1 });
  });

  it("[JB10] a name that could be markup is a ProtocolError", async () => {
    const router = await RouterServer.start({ models: [{ ...MODEL, id: "<img src=x>" }] });
    expect(await rejection(router.client().models())).toMatchObject({ name: "ProtocolError", reason: "unexpected_shape" });
  });

  it("[JB10] a quote says how many workers offer a model", async () => {
    const router = await RouterServer.start();
    expect(await router.client().quote("LLM_INFER", "FAST", { model: "Tiny:1b" })).toMatchObject({ price: "$0.010", model: "Tiny:1b", workers: 2 });
    expect(router.to("/v1/quote")[0]?.query.get("model")).toBe("Tiny:1b");
    expect(await router.client().quote("LLM_INFER")).not.toHaveProperty("model");
    expect(await rejection(router.client().quote("LLM_INFER", "FAST", { model: "a b" }))).toMatchObject({ option: "model" });
  });
});
