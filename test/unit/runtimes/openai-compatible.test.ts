import type { ServerResponse } from "node:http";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { OpenAiCompatible } from "../../../src/worker/runtimes/openai-compatible.ts";
import type { GenerateOptions } from "../../../src/worker/runtimes/runtime.ts";
import { runtimeContract } from "./runtime-contract.ts";
import { chunk, closedPort, event, json, type Received, serve, stream, USAGE } from "./wire-server.ts";

const signal = new AbortController().signal;
const HELLO = [chunk({ role: "assistant" }), chunk({ content: "Grüß " }), chunk({ content: "Gott 😀" }), chunk({}, "stop"), USAGE, "[DONE]"];
const HELLO_TEXT = "Grüß Gott 😀";

function runtimeAt(baseUrl: string): OpenAiCompatible {
  return new OpenAiCompatible({ baseUrl, model: "m" });
}

async function answerOf(...events: unknown[]): Promise<ReturnType<OpenAiCompatible["generate"]>> {
  const { baseUrl } = await serve((_request, response) => stream(response, ...events.map((data) => event(data))));
  return runtimeAt(baseUrl).generate("Hello?", { signal });
}

async function answerWithin(maxTokens: number, ...events: unknown[]): ReturnType<OpenAiCompatible["generate"]> {
  const { baseUrl } = await serve((_request, response) => stream(response, ...events.map((data) => event(data))));
  return runtimeAt(baseUrl).generate("Hello?", { signal, maxTokens });
}

async function failureOf(answer: (response: ServerResponse) => unknown): Promise<unknown> {
  const { baseUrl } = await serve((_request, response) => answer(response));
  return runtimeAt(baseUrl)
    .generate("Hello?", { signal })
    .catch((error: unknown) => error);
}

/** A response whose body comes in exactly these pieces. A socket will not do: what lies in its buffers is joined. */
function inPieces(pieces: Uint8Array[]): typeof fetch {
  return async () => new Response(streamOf(pieces), { headers: { "content-type": "text/event-stream; charset=utf-8" } });
}

function streamOf(pieces: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

async function sent(options: { maxTokens?: number; contextTokens?: number; apiKey?: string }, job: Partial<GenerateOptions>): Promise<Received> {
  const { baseUrl, received } = await serve((_request, response) => stream(response, ...HELLO.map((data) => event(data))));
  await new OpenAiCompatible({ baseUrl, model: "m", ...options }).generate("Hello?", { signal, ...job });
  expect(received).toHaveLength(1);
  return received[0]!;
}

const error = (message: string, rest: object = {}): object => ({ error: { message, ...rest } });

const open = (response: ServerResponse, text: string): ServerResponse => {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(text);
  return response;
};

runtimeContract("openai-compatible on a local server", "Tell.", async () => {
  const words = Array.from({ length: 24 }, (_, index) => `w${index} `);
  const { baseUrl } = await serve((request, response) => {
    const limit: number = JSON.parse(request.body).max_tokens;
    const said = words.slice(0, limit);
    const usage = { prompt_tokens: 3, completion_tokens: said.length };
    stream(
      response,
      ...said.map((content) => event(chunk({ content }))),
      event(chunk({}, limit < words.length ? "length" : "stop")),
      event({ choices: [], usage }),
      event("[DONE]"),
    );
  });
  return runtimeAt(baseUrl);
});

describe("the request", () => {
  it("[LLM1] is a streamed chat completion", async () => {
    const request = await sent({}, {});
    expect(request).toMatchObject({ method: "POST", path: "/v1/chat/completions" });
    expect(request.headers).toMatchObject({ "content-type": "application/json" });
    expect(request.headers).not.toHaveProperty("authorization");
    expect(JSON.parse(request.body)).toEqual({
      model: "m",
      messages: [{ role: "user", content: "Hello?" }],
      max_tokens: 512,
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  it.each([
    [{}, { maxTokens: 9 }, 9],
    [{}, { maxTokens: 32768 }, 4096],
    [{ maxTokens: 100 }, { maxTokens: 101 }, 100],
    [{ maxTokens: 100 }, {}, 100],
    [{ maxTokens: 8000 }, { maxTokens: 7000 }, 7000],
    [{ contextTokens: 300 }, {}, 300],
  ])("[LLM4] limits %j and job %j give max_tokens %i", async (limits, job, expected) => {
    expect(JSON.parse((await sent(limits, job)).body).max_tokens).toBe(expected);
  });

  it("[JB12] has the messages of a chat in place of the prompt, and how the answer is sampled", async () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi" },
    ] as const;
    const chat = { messages: [...messages], temperature: 0, stop: ["."] };
    expect(JSON.parse((await sent({}, { chat })).body)).toMatchObject({ model: "m", ...chat });
  });

  it("[LLM9] carries the key as a bearer token", async () => {
    expect((await sent({ apiKey: "k" }, {})).headers.authorization).toBe("Bearer k");
  });

  it("[LLM9] follows no redirect", async () => {
    const other = await serve((_request, response) => stream(response, ...HELLO.map((data) => event(data))));
    const error = await failureOf((response) => response.writeHead(307, { location: `${other.baseUrl}/chat/completions` }).end());
    expect(error).toMatchObject({ code: "runtime_unreachable" });
    expect(other.received).toEqual([]);
  });
});

describe("the stream", () => {
  it.each(["\n", "\r\n", "\r"])("[LLM1] cut at every byte, lines ended by %j, with comments", async (newline) => {
    const bytes = Buffer.from(`: hello${newline}${newline}${HELLO.map((data) => `event: message${newline}${event(data, newline)}`).join(`: ping${newline}`)}`);
    const single = Array.from(bytes, (byte) => Uint8Array.of(byte));
    const cuts = [single, [bytes], ...Array.from(bytes, (_byte, cut) => [bytes.subarray(0, cut), bytes.subarray(cut)])];
    for (const [index, pieces] of cuts.entries()) {
      const runtime = new OpenAiCompatible({ baseUrl: "http://127.0.0.1/v1", model: "m", fetch: inPieces(pieces) });
      const generation = await runtime.generate("Hello?", { signal });
      expect({ index, ...generation }).toEqual({
        index,
        text: HELLO_TEXT,
        model: "m",
        usage: { prompt_tokens: 11, completion_tokens: 7 },
        finishReason: "stop",
      });
    }
  });

  it("[LLM1] a delta is passed on as soon as it arrives", async () => {
    const first = Promise.withResolvers<void>();
    const { baseUrl } = await serve(async (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(event(chunk({ content: "one" })));
      await first.promise;
      response.end(event(chunk({}, "stop")));
    });
    const generation = runtimeAt(baseUrl).generate("Hello?", { signal, onDelta: () => first.resolve() });
    expect((await generation).text).toBe("one");
  });

  it("[LLM2] hides reasoning under every name, and think tags split over chunks", async () => {
    const hidden = [
      chunk({ reasoning: "a long thought" }),
      chunk({ reasoning_content: "and one more", content: null }),
      chunk({ content: "<thi" }),
      chunk({ content: "nk>c</" }),
      chunk({ content: "think>\n\nYes" }),
      chunk({}, "stop"),
    ];
    const { text, usage } = await answerOf(...hidden, "[DONE]");
    expect(text).toBe("Yes");
    expect(usage.completion_tokens).toBe(Math.ceil("a long thoughtand one more<think>c</think>\n\nYes".length / 4));
  });

  it("[LLM2] shows hidden text as activity only", async () => {
    const { baseUrl } = await serve((_request, response) =>
      stream(response, ...[chunk({ reasoning: "a" }), chunk({ content: "b" }), chunk({}, "stop")].map((data) => event(data))),
    );
    const seen: string[] = [];
    await runtimeAt(baseUrl).generate("Hello?", { signal, onDelta: (delta) => seen.push(delta), onActivity: () => seen.push("*") });
    expect(seen).toEqual(["*", "*", "b", "*"]);
  });

  it("[LLM3] counts the tokens itself if the server gives no usage or an invalid one", async () => {
    const counted = { prompt_tokens: 2, completion_tokens: 4 };
    const without = HELLO.filter((data) => data !== USAGE);
    expect((await answerOf(...without)).usage).toEqual(counted);
    expect((await answerOf({ choices: [], usage: { prompt_tokens: "many" } }, ...without)).usage).toEqual(counted);
    expect((await answerOf({ ...(chunk({}) as object), usage: null }, ...without)).usage).toEqual(counted);
  });

  it("[LLM12] ends with finish_reason, with or without [DONE]", async () => {
    expect(await answerOf(chunk({ content: "a" }), chunk({}, "length"))).toMatchObject({ text: "a", finishReason: "length" });
    expect(await answerOf(chunk({ content: "a" }), chunk({}, "stop"), "[DONE]")).toMatchObject({ text: "a", finishReason: "stop" });
    const { baseUrl } = await serve((_request, response) => stream(response, event(chunk({ content: "a" }, "stop")).trimEnd()));
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal })).toMatchObject({ text: "a" });
  });

  const FINISHED = [chunk({ content: "a" }), chunk({}, "stop")];
  const COUNTED = { usage: { prompt_tokens: 11, completion_tokens: 7 } };

  it.each<[string, string]>([
    ["the usage without choices", event(COUNTED) + event("[DONE]")],
    ["the usage with null for choices", event({ ...COUNTED, choices: null })],
    ["the usage, and [DONE] with a blank", `${event({ ...COUNTED, choices: [] })}data: [DONE] \n\n`],
    ["the usage, and an error", event({ ...COUNTED, choices: [] }) + event({ error: "out of memory" })],
    ["the usage, and broken JSON", `${event({ ...COUNTED, choices: [] })}data: {"choi\n\n`],
  ])("[LLM3, LLM12] after the finish_reason nothing voids the answer: %s", async (_title, rest) => {
    const { baseUrl } = await serve((_request, response) => stream(response, FINISHED.map((data) => event(data)).join("") + rest));
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal })).toMatchObject({ text: "a", finishReason: "stop", ...COUNTED });
  });

  it("[LLM12] a connection that breaks after the finish_reason does not void the answer", async () => {
    const { baseUrl } = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(FINISHED.map((data) => event(data)).join(""), () => response.destroy());
    });
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal })).toMatchObject({ text: "a" });
  });

  it("[LLM6, LLM12] an empty object before the text is a ping, and no sign of life", async () => {
    const { baseUrl } = await serve((_request, response) => stream(response, ...[{}, {}, ...FINISHED].map((data) => event(data))));
    let signs = 0;
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal, onActivity: () => signs++ })).toMatchObject({ text: "a" });
    expect(signs).toBe(FINISHED.length);
  });

  it("[LLM6] a server that keeps the stream open after the finish_reason is not waited for, and its connection is closed", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const closed = Promise.withResolvers<void>();
    const { baseUrl } = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(FINISHED.map((data) => event(data)).join(""));
      response.once("close", closed.resolve);
    });
    // The time for the usage passes as soon as it has begun.
    const passing = setInterval(() => vi.advanceTimersByTime(500), 10);
    onTestFinished(() => clearInterval(passing));
    expect((await runtimeAt(baseUrl).generate("Hello?", { signal })).text).toBe("a");
    await closed.promise;
  });

  it("[LLM6] a server that keeps the stream open after [DONE] is not waited for", async () => {
    const closed = Promise.withResolvers<void>();
    const { baseUrl } = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(HELLO.map((data) => event(data)).join(""));
      response.once("close", closed.resolve);
    });
    expect((await runtimeAt(baseUrl).generate("Hello?", { signal })).text).toBe(HELLO_TEXT);
    await closed.promise;
  });

  it("[LLM1] an answer in JSON instead of a stream is accepted", async () => {
    const message = { role: "assistant", content: "<think>x</think>Yes", reasoning_content: "y" };
    const { baseUrl } = await serve((_request, response) =>
      json(response, 200, { choices: [{ index: 0, message, finish_reason: "length" }], usage: { prompt_tokens: 1, completion_tokens: 2 } }),
    );
    const deltas: string[] = [];
    const generation = await runtimeAt(baseUrl).generate("Hello?", { signal, onDelta: (delta) => deltas.push(delta) });
    expect(generation).toEqual({ text: "Yes", model: "m", usage: { prompt_tokens: 1, completion_tokens: 2 }, finishReason: "length" });
    expect(deltas).toEqual(["Yes"]);
  });
});

/** An answer of this many words, one in each chunk, that nobody stops. */
function words(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `w${index} `);
}

describe("finish_reason", () => {
  it.each([
    ["stop", "stop"],
    ["eos_token", "stop"],
    ["STOP", "stop"],
    ["end_turn", "stop"],
    ["length", "length"],
    ["max_tokens", "length"],
  ])("[LLM12] %s reads as %s", async (word, finishReason) => {
    expect(await answerOf(chunk({ content: "a" }), chunk({}, word), "[DONE]")).toMatchObject({ text: "a", finishReason });
  });

  it.each<[string, unknown, { code: string; message: RegExp }]>([
    ["a content filter", chunk({}, "content_filter"), { code: "content_refused", message: /content filter/ }],
    ["a filter of another name", chunk({}, "SAFETY"), { code: "content_refused", message: /content filter/ }],
    ["a tool call", chunk({}, "tool_calls"), { code: "runtime_error", message: /not complete: .*"tool_calls"/ }],
    ["a server that gives up", chunk({}, "abort"), { code: "runtime_error", message: /not complete: .*"abort"/ }],
    ["an unknown word", chunk({}, `x${"y".repeat(500)}`), { code: "runtime_error", message: /^.{1,120}$/ }],
    ["an empty word", chunk({}, ""), { code: "runtime_error", message: /without a finish_reason/ }],
    ["[DONE] alone", "[DONE]", { code: "runtime_error", message: /without a finish_reason/ }],
  ])("[LLM12] an incomplete answer is not a result: %s", async (_title, last, expected) => {
    const failure = await answerOf(chunk({ content: "half" }), last, "[DONE]").catch((error: unknown) => error);
    expect(failure).toMatchObject({ name: "RuntimeError", code: expected.code, retryable: true, message: expect.stringMatching(expected.message) });
  });

  it("[LM1] a body of more than 8 MiB is not read to its end, and no other try can help", async () => {
    const failure = await failureOf((response) => {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(" ".repeat(9 * 1024 * 1024));
    });
    expect(failure).toMatchObject({ code: "output_too_large", retryable: false });
  });

  it("[LLM12] JSON without a finish_reason is an incomplete answer", async () => {
    const failure = await failureOf((response) => json(response, 200, { choices: [{ index: 0, message: { content: "Yes" } }] }));
    expect(failure).toMatchObject({ code: "runtime_error", message: expect.stringMatching(/without a finish_reason/) });
  });
});

describe("a server that ignores max_tokens", () => {
  it("[LLM4] is cut after max_tokens pieces, and its stream is closed", async () => {
    const left = Promise.withResolvers<void>();
    const { baseUrl } = await serve((_request, response) => {
      response.once("close", left.resolve);
      open(
        response,
        words(100)
          .map((content) => event(chunk({ content })))
          .join(""),
      );
    });
    const deltas: string[] = [];
    const generation = await runtimeAt(baseUrl).generate("Hello?", { signal, maxTokens: 7, onDelta: (delta) => deltas.push(delta) });
    expect(generation).toEqual({ text: words(7).join(""), model: "m", usage: { prompt_tokens: 2, completion_tokens: 7 }, finishReason: "length" });
    expect(deltas.join("")).toBe(generation.text);
    await left.promise;
  });

  it("[LLM4] is cut by --max-tokens too, whatever the job says", async () => {
    const { baseUrl } = await serve((_request, response) =>
      stream(response, ...words(50).map((content) => event(chunk({ content }))), event(chunk({}, "stop"))),
    );
    const runtime = new OpenAiCompatible({ baseUrl, model: "m", maxTokens: 3 });
    expect(await runtime.generate("Hello?", { signal, maxTokens: 1000 })).toMatchObject({ text: "w0 w1 w2 ", finishReason: "length" });
  });

  it("[LLM4] hidden text counts", async () => {
    const { baseUrl } = await serve((_request, response) =>
      stream(
        response,
        ...words(5).map((reasoning) => event(chunk({ reasoning }))),
        ...words(9).map((content) => event(chunk({ content }))),
        event(chunk({}, "stop")),
      ),
    );
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal, maxTokens: 8 })).toMatchObject({ text: "w0 w1 w2 ", finishReason: "length" });
  });

  it("[LLM4] is cut by the usage that it sends in the stream", async () => {
    const told = (content: string, completion_tokens: number): object => ({
      ...(chunk({ content }) as object),
      usage: { prompt_tokens: 4, completion_tokens },
    });
    expect(await answerWithin(10, told("aaaa ", 5), told("bbbb ", 10), told("cccc ", 15), chunk({}, "stop"))).toEqual({
      ...{ text: "aaaa bbbb ", model: "m", usage: { prompt_tokens: 4, completion_tokens: 10 }, finishReason: "length" },
    });
  });

  it("[LLM4] is cut in proportion to its usage if it does not stream", async () => {
    const content = "0123456789".repeat(10);
    const body = { choices: [{ index: 0, message: { content }, finish_reason: "stop" }], usage: { prompt_tokens: 1, completion_tokens: 50 } };
    const { baseUrl } = await serve((_request, response) => json(response, 200, body));
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal, maxTokens: 5 })).toEqual({
      ...{ text: "0123456789", model: "m", usage: { prompt_tokens: 1, completion_tokens: 5 }, finishReason: "length" },
    });
  });

  it("[LLM4] text that a server sends only at the end is not cut", async () => {
    const chunks = [...words(5).map((content) => chunk({ content })), chunk({ content: "end" }), chunk({}, "length"), USAGE, "[DONE]"];
    expect(await answerWithin(5, ...chunks)).toMatchObject({ text: `${words(5).join("")}end`, finishReason: "length", usage: { completion_tokens: 7 } });
  });

  it("[LM1] 2 MB in a few pieces are output_too_large, and are not read to the end", async () => {
    const left = Promise.withResolvers<void>();
    const piece = "x".repeat(64 * 1024);
    const { baseUrl } = await serve((_request, response) => {
      response.once("close", left.resolve);
      open(response, Array.from({ length: 32 }, () => event(chunk({ content: piece }))).join(""));
    });
    await expect(runtimeAt(baseUrl).generate("Hello?", { signal })).rejects.toMatchObject({ code: "output_too_large", retryable: false });
    await left.promise;
  });

  it.each([2, 9])("[LM1] %i MB in one JSON are output_too_large", async (megabytes) => {
    const body = { choices: [{ index: 0, message: { content: "x".repeat(megabytes * 1024 * 1024) }, finish_reason: "stop" }] };
    expect(await failureOf((response) => json(response, 200, body))).toMatchObject({ code: "output_too_large", retryable: false });
  });
});

describe("a prompt and max_tokens that do not fit together", () => {
  it("[LLM4] is sent again without max_tokens, and the worker cuts the answer", async () => {
    const { baseUrl, received } = await serve((request, response) => {
      if (JSON.parse(request.body).max_tokens !== undefined) {
        return json(response, 400, error("maximum context length is 100 tokens and your request has 90 input tokens", { code: 400 }));
      }
      return stream(response, ...words(50).map((content) => event(chunk({ content }))), event(chunk({}, "length")));
    });
    expect(await runtimeAt(baseUrl).generate("Hello?", { signal, maxTokens: 20 })).toMatchObject({ text: words(20).join(""), finishReason: "length" });
    expect(received.map(({ body }) => JSON.parse(body).max_tokens)).toEqual([20, undefined]);
  });

  it("[LLM6] a prompt that does not fit by itself is context_length_exceeded, in a stream too", async () => {
    const inStream = { error: { message: "the request exceeds the available context size", code: 400, type: "exceed_context_size_error" } };
    expect(await answerOf(inStream).catch((failure: unknown) => failure)).toMatchObject({ code: "context_length_exceeded", retryable: true });
  });
});

describe("abort", () => {
  it.each(["abort", "close"])("[LLM5] %s closes the stream, which the server sees", async (way) => {
    const left = Promise.withResolvers<void>();
    const { baseUrl } = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" }).write(event(chunk({ content: "one" })));
      response.once("close", left.resolve);
    });
    const runtime = runtimeAt(baseUrl);
    const controller = new AbortController();
    const onDelta = (): void => (way === "abort" ? controller.abort() : void runtime.close());
    await expect(runtime.generate("Hello?", { signal: controller.signal, onDelta })).rejects.toMatchObject({ code: "aborted" });
    await left.promise;
  });

  it("[LLM5] ends a request that has no answer yet", async () => {
    const controller = new AbortController();
    const left = Promise.withResolvers<void>();
    const { baseUrl } = await serve((_request, response) => {
      response.once("close", left.resolve);
      controller.abort();
    });
    await expect(runtimeAt(baseUrl).generate("Hello?", { signal: controller.signal })).rejects.toMatchObject({ code: "aborted" });
    await left.promise;
  });

  it("[LLM5] nothing is sent after close", async () => {
    const { baseUrl, received } = await serve((_request, response) => stream(response));
    const runtime = runtimeAt(baseUrl);
    await runtime.close();
    await expect(runtime.generate("Hello?", { signal })).rejects.toMatchObject({ code: "aborted" });
    expect(received).toEqual([]);
  });
});

describe("failures", () => {
  it.each<[number, object | string, { code: string; retryable: boolean; message: RegExp }]>([
    [400, error("bad prompt"), { code: "runtime_error", retryable: false, message: /refuses the prompt \(HTTP 400: bad prompt\)/ }],
    [400, error("too long", { type: "exceed_context_size_error" }), { code: "context_length_exceeded", retryable: true, message: /too long/ }],
    [400, error("too long", { code: "context_length_exceeded" }), { code: "context_length_exceeded", retryable: true, message: /too long/ }],
    [
      400,
      error("This model's maximum context length is 4096 tokens. However, you requested 9000 tokens", { type: "BadRequestError", code: 400 }),
      { code: "context_length_exceeded", retryable: true, message: /4096 tokens/ },
    ],
    [
      400,
      error("The decoder prompt (length 9000) is longer than the maximum model length of 4096.", { code: 400 }),
      { code: "context_length_exceeded", retryable: true, message: /9000/ },
    ],
    [
      500,
      error("the number of tokens to keep from the initial prompt is greater than the context length"),
      { code: "context_length_exceeded", retryable: true, message: /context length/ },
    ],
    // vLLM until 2025 and SGLang write the members of the error at the top.
    [
      400,
      { object: "error", message: "This model's maximum context length is 4096 tokens.", type: "BadRequestError", param: null, code: 400 },
      { code: "context_length_exceeded", retryable: true, message: /4096 tokens/ },
    ],
    [
      400,
      { object: "error", message: "max_tokens must be at least 1, got -344.", type: "BadRequestError", param: null, code: 400 },
      { code: "context_length_exceeded", retryable: true, message: /got -344/ },
    ],
    [
      404,
      { object: "error", message: "The model `m` does not exist.", type: "NotFoundError", param: null, code: 404 },
      { code: "model_missing", retryable: true, message: /no model "m"/ },
    ],
    [
      400,
      error("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"),
      { code: "context_length_exceeded", retryable: true, message: /n_keep \(15028\)/ },
    ],
    [
      422,
      { error: "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 9000 `inputs` tokens", error_type: "validation" },
      { code: "context_length_exceeded", retryable: true, message: /<= 2048/ },
    ],
    [
      422,
      { error: "Input validation error: `inputs` must have less than 4096 tokens. Given: 9000", error_type: "validation" },
      { code: "context_length_exceeded", retryable: true, message: /4096 tokens/ },
    ],
    [400, { detail: "Request length 71599 + 2048 is greater than max_seq_len 65536" }, { code: "context_length_exceeded", retryable: true, message: /71599/ }],
    [400, error("prompt is too long: 9000 tokens > 4096 maximum"), { code: "context_length_exceeded", retryable: true, message: /9000/ }],
    [403, error("not yours"), { code: "runtime_error", retryable: true, message: /worker \(HTTP 403\): set LLM_API_KEY$/ }],
    [401, error("wrong key: sk-a***z"), { code: "runtime_error", retryable: true, message: /worker \(HTTP 401\): set LLM_API_KEY$/ }],
    [404, error("model 'm' not found"), { code: "model_missing", retryable: true, message: /no model "m"/ }],
    [400, error("nope", { code: "model_not_found" }), { code: "model_missing", retryable: true, message: /no model "m"/ }],
    [404, "<html>nothing</html>", { code: "runtime_error", retryable: true, message: /no chat completion at \/v1\/chat\/completions \(HTTP 404\)/ }],
    [422, { detail: [{ input: "Hello?" }] }, { code: "runtime_error", retryable: false, message: /HTTP 422\)/ }],
    [429, error("slow down"), { code: "runtime_error", retryable: true, message: /429: slow down/ }],
    [500, { error: "out of memory" }, { code: "runtime_error", retryable: true, message: /500: out of memory/ }],
    [503, error("Loading model", { type: "unavailable_error" }), { code: "runtime_error", retryable: true, message: /loading its model/ }],
  ])("[LLM6] HTTP %i %j", async (status, body, expected) => {
    const failure = await failureOf((response) => (typeof body === "string" ? response.writeHead(status).end(body) : json(response, status, body)));
    expect(failure).toMatchObject({
      name: "RuntimeError",
      code: expected.code,
      retryable: expected.retryable,
      message: expect.stringMatching(expected.message),
    });
  });

  it("[LLM6] a message of the server is shortened to one line", async () => {
    const failure = await failureOf((response) => json(response, 500, error(`a\n${"b".repeat(5000)}`)));
    expect(failure).toMatchObject({ message: expect.stringMatching(/^.{1,260}$/) });
  });

  it.each<[string, (response: ServerResponse) => unknown]>([
    ["an error", (response) => json(response, 500, error(`${"b".repeat(190)} sk-secret-key is not known`))],
    ["an error in the stream", (response) => stream(response, event(error("sk-secret-key is not known")))],
  ])("[LLM6] the key is not repeated from %s", async (_title, answer) => {
    const { baseUrl } = await serve((_request, response) => answer(response));
    const generation = new OpenAiCompatible({ baseUrl, model: "m", apiKey: "sk-secret-key" }).generate("Hello?", { signal });
    await expect(generation).rejects.toMatchObject({ code: "runtime_error", message: expect.stringMatching(/\(the key/) });
    await expect(generation).rejects.toMatchObject({ message: expect.not.stringContaining("sk-s") });
  });

  it("[LLM6] an empty answer to a prompt that fills the context is one that does not fit", async () => {
    const usage = { prompt_tokens: 4_096, completion_tokens: 0 };
    const { baseUrl } = await serve((_request, response) => json(response, 200, { choices: [{ message: { content: "" }, finish_reason: "length" }], usage }));
    const answerOf = (contextTokens: number) => new OpenAiCompatible({ baseUrl, model: "m", contextTokens }).generate("Hello?", { signal });
    await expect(answerOf(4_096)).rejects.toMatchObject({ code: "context_length_exceeded" });
    await expect(answerOf(8_192)).rejects.toMatchObject({ code: "runtime_error" });
  });

  it("[LLM6] no server at the port", async () => {
    await expect(runtimeAt(`http://127.0.0.1:${await closedPort()}/v1`).generate("Hello?", { signal })).rejects.toMatchObject({
      code: "runtime_unreachable",
      retryable: true,
    });
  });

  const one = event(chunk({ content: "one" }));

  it.each<[string, (response: ServerResponse) => unknown, RegExp]>([
    ["a stream that ends early", (response) => open(response, one).end(), /ended without a finish_reason/],
    ["a stream that ends inside an event", (response) => open(response, `${one}data: {"choi`).end(), /ended without a finish_reason/],
    ["a stream without any event", (response) => open(response, ": nothing\n\n").end(), /ended without a finish_reason/],
    [
      "a connection that breaks",
      (response) => response.writeHead(200, { "content-type": "text/event-stream" }).write(one, () => response.destroy()),
      /broke in the middle/,
    ],
    ["broken JSON in the stream", (response) => open(response, `${one}data: {"choi\n\n`).end(), /broken JSON/],
    ["other JSON in the stream", (response) => open(response, event({ hello: 1 })).end(), /not a chat completion/],
    ["an error in the stream", (response) => open(response, one + event(error("out of memory"))).end(), /reports: out of memory/],
    ["JSON that breaks off", (response) => response.writeHead(200, { "content-type": "application/json" }).end('{"choices":['), /broken JSON/],
    ["an error with status 200", (response) => json(response, 200, { error: "no" }), /reports: no/],
    ["a web page", (response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>"), /text\/html: this is not an OpenAI-compatible server/],
    ["an empty answer", (response) => stream(response, event(chunk({ content: " \n" }, "stop"))), /empty answer/],
    ["no choices at all", (response) => json(response, 200, { choices: [] }), /ended without a finish_reason/],
  ])("[LLM6] %s", async (_title, answer, message) => {
    expect(await failureOf(answer)).toMatchObject({ name: "RuntimeError", code: "runtime_error", retryable: true, message: expect.stringMatching(message) });
  });

  it("[LLM6] only reasoning, cut by the limit: the same model would use up the same tokens again, so it is not tried again", async () => {
    const failure = await failureOf((response) => stream(response, event(chunk({ content: "<think>hm" }, "length"))));
    expect(failure).toMatchObject({ code: "runtime_error", retryable: false, answered: true });
    expect(failure).toHaveProperty("message", "the model returned no visible text within 512 tokens, so the job needs a larger max_tokens");
  });

  it("[LLM6] a warm-up needs an answer, which may have no text", async () => {
    const { baseUrl, received } = await serve((_request, response) => stream(response, event(chunk({}, "length"))));
    await runtimeAt(baseUrl).warmUp(signal);
    expect(JSON.parse(received[0]!.body).max_tokens).toBe(1);
    const loading = await serve((_request, response) => json(response, 503, error("Loading model")));
    await expect(runtimeAt(loading.baseUrl).warmUp(signal)).rejects.toMatchObject({ code: "runtime_error", retryable: true });
  });
});
