import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { type FindOptions, findRuntime, type Found, KNOWN_RUNTIMES } from "../../../src/worker/runtimes/probe.ts";

import type { Runtime } from "../../../src/worker/runtimes/runtime.ts";
import { chunk, closedPort, event, json, type Received, serve, stream } from "./wire-server.ts";

const signal = new AbortController().signal;

const hanging = (): void => {};
const unreachable: typeof fetch = () => Promise.reject(new TypeError("fetch failed"));

type Machine = Partial<Record<number, (request: Received, response: ServerResponse) => unknown>>;

/** A machine where these ports are served: one real server, and requests to the known ports sent to it. Other ports are closed. */
async function machine(ports: Machine): Promise<{ fetch: typeof fetch; asked: string[] }> {
  const asked: string[] = [];
  const { origin } = await serve((request, response) => ports[Number(request.headers["x-port"])]?.(request, response));
  const closed = await closedPort();
  const redirected: typeof fetch = (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    asked.push(url.href);
    const served = Number(url.port) in ports;
    return fetch(`${served ? origin : `http://127.0.0.1:${closed}`}${url.pathname}`, {
      ...init,
      headers: { ...(init?.headers as Record<string, string>), "x-port": url.port },
    });
  };
  return { fetch: redirected, asked };
}

function serving(...models: unknown[]): (request: Received, response: ServerResponse) => unknown {
  const data = models.map((model) => (typeof model === "string" ? { id: model, object: "model" } : model));
  return ({ path }, response) => {
    if (path.endsWith("/models")) return json(response, 200, { object: "list", data });
    if (path.endsWith("/chat/completions")) return stream(response, event(chunk({ content: "Yes" }, "stop")));
    return json(response, 200, { version: "0.1", status: "ok" });
  };
}

/** A busy machine may take longer than the half second that is left to a runtime. */
const PATIENT_MS = 30_000;

async function find(ports: Machine, options: Partial<FindOptions> = {}): Promise<Found> {
  return findRuntime({ env: {}, signal, timeoutMs: PATIENT_MS, ...options, fetch: (await machine(ports)).fetch });
}

function runtimeOf(found: Found): Runtime {
  if (!found.ok) throw new Error(JSON.stringify(found));
  return found.runtime;
}

describe("[LLM7] without a chosen URL", () => {
  it("asks all known runtimes at 127.0.0.1 and says how to get one", async () => {
    const found = await find({});
    expect(found).toEqual({
      ok: false,
      tried: KNOWN_RUNTIMES.map(({ name, baseUrl }) => ({ name, url: baseUrl, why: "not running" })),
      hint: "install Ollama (https://ollama.com) and run: ollama pull llama3.2 — or use --llm-url <url> or --runtime embedded",
    });
    expect(KNOWN_RUNTIMES.map(({ baseUrl }) => new URL(baseUrl).hostname)).toEqual(KNOWN_RUNTIMES.map(() => "127.0.0.1"));
  });

  it.each([
    [11434, "ollama"],
    [8080, "llama.cpp"],
    [1234, "lm-studio"],
    [8000, "vllm"],
    [12434, "docker-model-runner"],
  ])("port %i is %s, and it answers", async (port, name) => {
    const runtime = runtimeOf(await find({ [port]: serving("m1", "m2") }));
    expect(runtime).toMatchObject({ name, model: "m1", models: ["m1", "m2"] });
    expect((await runtime.generate("Hello?", { signal })).text).toBe("Yes");
  });

  it("chooses the first of the list, even if it answers last", async () => {
    const others = Promise.withResolvers<void>();
    const ports: Machine = {
      11434: async (request, response) => {
        await others.promise;
        return serving("slow")(request, response);
      },
      1234: async (request, response) => {
        await serving("quick")(request, response);
        if (request.path === "/v1/models") others.resolve();
      },
    };
    expect(runtimeOf(await find(ports))).toMatchObject({ name: "ollama", model: "slow" });
  });

  it("asks all at the same time, and gives each 500 ms", async () => {
    const { fetch } = await machine({ 11434: hanging, 8080: hanging, 1234: hanging, 8000: hanging });
    const started = performance.now();
    const found = await findRuntime({ env: {}, signal, fetch });
    expect(performance.now() - started).toBeLessThan(1500);
    expect(found).toMatchObject({ ok: false, tried: [{ why: "no answer in 500 ms" }, { why: "no answer in 500 ms" }, {}, {}, { why: "not running" }, {}, {}] });
  });

  it("skips one that is still loading, is another program, or has no model", async () => {
    const ports: Machine = {
      11434: serving(),
      8080: (_request, response) => json(response, 503, { error: { message: "Loading model" } }),
      1234: (_request, response) => json(response, 200, { hello: 1 }),
      8000: (_request, response) => response.writeHead(404).end("<html>"),
    };
    expect(await find(ports)).toMatchObject({
      tried: [
        { why: "has no model" },
        { why: "is loading its model" },
        { why: "answers, but is not an OpenAI-compatible server" },
        { why: "answers HTTP 404" },
        {},
        {},
        {},
      ],
      hint: "run: ollama pull llama3.2",
    });
    expect(runtimeOf(await find({ ...ports, 5001: serving("k") })).name).toBe("koboldcpp");
    expect(await find({ 8080: ports[8080]! })).toMatchObject({ hint: "wait until the model is loaded" });
  });

  it("an Ollama without a model, whose list is null: says how to get one", async () => {
    const empty: Machine = { 11434: (_request, response) => json(response, 200, { object: "list", data: null }) };
    expect(await find(empty)).toMatchObject({ tried: [{ why: "has no model" }, {}, {}, {}, {}, {}, {}], hint: "run: ollama pull llama3.2" });
  });

  it.each([
    ["box:9999", "http://box:9999/v1"],
    ["0.0.0.0", "http://127.0.0.1:11434/v1"],
    ["0.0.0.0:7000", "http://127.0.0.1:7000/v1"],
    [":7000", "http://127.0.0.1:7000/v1"],
    ["box:80", "http://box/v1"],
    ["[::]:7000", "http://127.0.0.1:7000/v1"],
    ["::", "http://127.0.0.1:11434/v1"],
    ["::1", "http://[::1]:11434/v1"],
    ['"127.0.0.1:7000"', "http://127.0.0.1:7000/v1"],
    [" '0.0.0.0' ", "http://127.0.0.1:11434/v1"],
    ["http://box", "http://box/v1"],
    ["https://box/ollama/", "https://box/ollama/v1"],
  ])("OLLAMA_HOST=%s moves Ollama's entry to %s", async (host, url) => {
    const found = await findRuntime({ env: { OLLAMA_HOST: host }, signal, fetch: unreachable });
    expect(found).toMatchObject({ tried: [{ name: "ollama", url }, { name: "llama.cpp" }, {}, {}, {}, {}, {}] });
  });

  it("an aborted search rejects", async () => {
    await expect(find({}, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
  });
});

describe("[LLM7] with a chosen URL", () => {
  it.each([
    ["--llm-url", { llmUrl: "http://127.0.0.1:9/v1/", env: { LLM_BASE_URL: "http://127.0.0.1:8/v1" } }],
    ["LLM_BASE_URL", { env: { LLM_BASE_URL: "127.0.0.1:9", OPENAI_BASE_URL: "http://127.0.0.1:8/v1" } }],
    ["OPENAI_BASE_URL", { llmUrl: "", env: { OPENAI_BASE_URL: "http://127.0.0.1:9/", OLLAMA_HOST: "127.0.0.1:8" } }],
  ])("%s wins, and nothing else is asked", async (_title, options) => {
    const { fetch, asked } = await machine({ 9: serving({ id: "m", owned_by: "vllm", max_model_len: 300 }), 11434: serving("other") });
    const runtime = runtimeOf(await findRuntime({ ...options, signal, fetch }));
    expect(runtime).toMatchObject({ name: "vllm", model: "m" });
    expect(asked).toEqual(["http://127.0.0.1:9/v1/models"]);
  });

  it("says what is wrong with it, and repeats no password", async () => {
    const down = await find({ 11434: serving("m") }, { llmUrl: "http://127.0.0.1:9/v1" });
    expect(down).toEqual({
      ok: false,
      tried: [{ name: "openai-compatible", url: "http://127.0.0.1:9/v1", why: "not running" }],
      hint: expect.stringContaining("omit --llm-url"),
    });
    for (const llmUrl of ["ftp://box", "http://", "http://me:secret@box/v1"]) {
      const found = await find({}, { llmUrl });
      expect(found).toMatchObject({ ok: false, tried: [{ why: expect.stringContaining("is not an http(s) URL") }] });
      expect(JSON.stringify(found)).not.toContain("secret");
    }
  });

  it.each([
    ["ENOTFOUND", "cannot be reached: no host has that name (ENOTFOUND)"],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", expect.stringMatching(/^cannot be reached: its TLS certificate is not signed by .* \(DEPTH_ZERO_SELF_SIGNED_CERT\)$/)],
    ["ECONNREFUSED", "not running"],
    [undefined, "cannot be reached"],
  ])("a request that fails with %s says so", async (code, why) => {
    const failing: typeof fetch = () => Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code }) }));
    expect(await findRuntime({ llmUrl: "https://box", env: {}, signal, fetch: failing })).toMatchObject({ tried: [{ why }] });
  });

  it("an answer that breaks off says so", async () => {
    const breaking = (_request: Received, response: ServerResponse): unknown =>
      response.writeHead(200, { "content-length": 9 }).write("{", () => response.destroy());
    expect(await find({ 9: breaking }, { llmUrl: "http://127.0.0.1:9" })).toMatchObject({
      tried: [{ why: expect.stringMatching(/^cannot be used: .* broke/) }],
    });
  });

  it.each(["top\nsecret", "“secret”"])("[LLM9] a key that no header can carry is not sent, and the reason does not repeat it: %j", async (key) => {
    const found = await find({ 9: serving("m") }, { llmUrl: "http://127.0.0.1:9", env: { LLM_API_KEY: key } });
    expect(found).toMatchObject({ tried: [{ why: expect.stringMatching(/^was not asked: LLM_API_KEY has a character/) }] });
    expect(JSON.stringify(found)).not.toContain("secret");
    expect(await find({ 9: serving("m") }, { llmUrl: "http://127.0.0.1:9", env: { LLM_API_KEY: "k\n" } })).toMatchObject({ ok: true });
  });

  it("[LLM9] LLM_API_KEY is sent there, and never to the known runtimes; OPENAI_API_KEY is never sent", async () => {
    const keys: (string | undefined)[] = [];
    const noting = (request: Received, response: ServerResponse): unknown => {
      keys.push(request.headers.authorization);
      return serving("m")(request, response);
    };
    const env = { LLM_API_KEY: "k", OPENAI_API_KEY: "paid" };
    const chosen = runtimeOf(await find({ 9: noting }, { llmUrl: "http://127.0.0.1:9/v1", env }));
    await chosen.generate("Hello?", { signal });
    expect(keys.splice(0)).toEqual(["Bearer k", "Bearer k"]);
    await runtimeOf(await find({ 11434: noting }, { env })).generate("Hello?", { signal });
    expect(keys).toEqual([undefined, undefined, undefined]);
    // Without a key of its own the worker sends none, least of all the one that strangers would use up.
    const keyless = runtimeOf(await find({ 9: noting }, { env: { OPENAI_BASE_URL: "http://127.0.0.1:9/v1", OPENAI_API_KEY: "paid" } }));
    await keyless.generate("Hello?", { signal });
    expect(keys.splice(0)).toEqual(Array.from({ length: 5 }));
    for (const status of [401, 403])
      expect(await find({ 9: (_request, response) => json(response, status, {}) }, { llmUrl: "http://127.0.0.1:9" })).toMatchObject({
        tried: [{ why: "requires a key: set LLM_API_KEY" }],
      });
  });

  it("[LLM9] no question is redirected: neither that for the models nor that for the context", async () => {
    const other = await serve((_request, response) => json(response, 200, { data: [{ id: "m" }], default_generation_settings: { n_ctx: 9 } }));
    const redirecting = (request: Received, response: ServerResponse): unknown =>
      request.path === "/props" || !request.path.startsWith("/v1/")
        ? response.writeHead(307, { location: `${other.origin}${request.path}` }).end()
        : serving({ id: "m", owned_by: "llamacpp" })(request, response);
    const options = { llmUrl: "http://127.0.0.1:9/v1", env: { LLM_API_KEY: "k" } };
    const runtime = runtimeOf(await find({ 9: redirecting }, options));
    await runtime.warmUp(signal);
    expect(runtime.contextTokens).toBeUndefined();
    expect(await find({ 9: redirecting }, { ...options, llmUrl: "http://127.0.0.1:9/moved" })).toMatchObject({
      tried: [{ why: "answers with a redirect (HTTP 307), which the worker does not follow" }],
      hint: "check that URL, its server and LLM_API_KEY, or omit --llm-url to search this machine",
    });
    expect(other.received).toEqual([]);
  });
});

describe("[LLM8] the model", () => {
  it.each<[string, unknown[], string | undefined, string | undefined]>([
    ["is the first", ["a", "b"], undefined, "a"],
    ["is the wanted one", ["a", "b"], "b", "b"],
    ["may leave :latest out", ["llama3.2:1b", "llama3.2:latest"], "llama3.2", "llama3.2:latest"],
    ["can chat", ["nomic-embed-text:latest", "BAAI/bge-m3", "qwen3:4b"], undefined, "qwen3:4b"],
    ["runs on this machine", ["gpt-oss:120b-cloud", "glm-5:cloud", "qwen3:4b"], undefined, "qwen3:4b"],
    ["runs elsewhere if asked for by name", ["gpt-oss:120b-cloud"], "gpt-oss:120b-cloud", "gpt-oss:120b-cloud"],
    ["is missing", ["a", "b"], "c", undefined],
    ["may be named by the file alone", ["/srv/a.gguf", "/srv/b.gguf"], "b.gguf", "b.gguf"],
    ["is judged by its own name, not by the folder it lies in", ["/home/whisper/models/qwen3.gguf"], undefined, "qwen3.gguf"],
    ["is missing when none can chat", ["nomic-embed-text"], undefined, undefined],
  ])("%s", async (_title, models, model, expected) => {
    const found = await find({ 11434: serving(...models) }, model === undefined ? {} : { model });
    expect(found.ok ? found.runtime.model : undefined).toBe(expected);
  });

  it("missing: the hint says how to get it", async () => {
    const ollama = await find({ 11434: serving("a") }, { model: "c" });
    expect(ollama).toMatchObject({ tried: [{ why: 'has no model "c"; it has a' }, {}, {}, {}, {}, {}, {}], hint: "run: ollama pull c" });
    expect(await find({ 1234: serving("a") }, { model: "c" })).toMatchObject({
      hint: 'load the model in lm-studio (has no model "c"; it has a), or name another one with --model',
    });
    expect(runtimeOf(await find({ 11434: serving("a"), 1234: serving("c") }, { model: "c" }))).toMatchObject({ name: "lm-studio", model: "c" });
  });

  it.each([
    ["llama3.2:1b", "llama3.2:1b"],
    ["/home/anna/models/Qwen3-4B-Q4_K_M.gguf", "Qwen3-4B-Q4_K_M.gguf"],
    ["../models/tiny.gguf", "tiny.gguf"],
    ["C:\\Users\\Anna\\models\\phi-4.gguf", "phi-4.gguf"],
    ["\\\\server\\share/mixed\\m.gguf", "m.gguf"],
    ["meta-llama/Llama-3.2-1B-Instruct", "Llama-3.2-1B-Instruct"],
    ["hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "Llama-3.2-1B-Instruct-GGUF:Q4_K_M"],
    ["/srv/llama-3/", "llama-3"],
    ["/srv/llama-3/.", "llama-3"],
    ["/", "unnamed"],
  ])("[JB7] %s is reported as %s, and requested by its own name", async (id, name) => {
    const asked: unknown[] = [];
    const noting = (request: Received, response: ServerResponse): unknown => {
      if (request.path.endsWith("/chat/completions")) asked.push(JSON.parse(request.body).model);
      return serving(id, `other/${name}`)(request, response);
    };
    const runtime = runtimeOf(await find({ 8080: noting }));
    expect({ model: runtime.model, models: runtime.models }).toEqual({ model: name, models: [name] });
    expect((await runtime.generate("Hello?", { signal })).model).toBe(name);
    expect(asked).toEqual([id]);
  });

  it("[JB7] the message about a missing model contains no path", async () => {
    const found = await find({ 8080: serving("/home/anna/a.gguf", "/home/anna/b.gguf") }, { model: "c" });
    expect(found).toMatchObject({ tried: [{}, { why: 'has no model "c"; it has a.gguf, b.gguf' }, {}, {}, {}, {}, {}] });
  });

  it("[LLM4] its context and --max-tokens limit the tokens", async () => {
    const limits: number[] = [];
    const noting = (request: Received, response: ServerResponse): unknown => {
      if (request.path.endsWith("/chat/completions")) limits.push(JSON.parse(request.body).max_tokens);
      return serving({ id: "m", owned_by: "llamacpp", meta: { n_ctx_train: 300 } })(request, response);
    };
    for (const options of [{}, { maxTokens: 40 }]) await runtimeOf(await find({ 8080: noting }, options)).generate("Hello?", { signal });
    expect(limits).toEqual([300, 40]);
  });

  it.each<[string, number, unknown, Record<string, unknown>, number | undefined]>([
    ["llama.cpp", 8080, { id: "m", meta: { n_ctx_train: 131_072 } }, { "/props": { default_generation_settings: { n_ctx: 4096 } } }, 4096],
    ["llama.cpp without /props", 8080, { id: "m", meta: { n_ctx_train: 2048 } }, {}, 2048],
    ["vLLM", 8000, { id: "m", max_model_len: 8192 }, {}, 8192],
    ["LM Studio", 1234, "m", { "/api/v0/models": { data: [{ id: "o" }, { id: "m", loaded_context_length: 6000 }] } }, 6000],
    ["Ollama, loaded", 11434, "m", { "/api/ps": { models: [{ name: "m", context_length: 4096 }] }, "/api/show": { parameters: "num_ctx 9" } }, 4096],
    [
      "Ollama with another model loaded",
      11434,
      "m",
      {
        "/api/ps": {
          models: [
            { name: "o", context_length: 9 },
            { name: "m", context_length: 4096 },
          ],
        },
        "/api/show": { parameters: "num_ctx 9" },
      },
      4096,
    ],
    ["an older Ollama", 11434, "m", { "/api/ps": { models: [{ name: "m" }] }, "/api/show": { parameters: 'stop "x"\nnum_ctx    16384\n' } }, 16_384],
    ["Ollama that does not tell", 11434, "m", { "/api/ps": { models: [] }, "/api/show": { parameters: "temperature 1" } }, undefined],
    ["a runtime that reports something invalid", 8080, "m", { "/props": { default_generation_settings: { n_ctx: "much" } } }, undefined],
  ])("[LLM13] the context of %s", async (_title, port, model, native, expected) => {
    const telling = (request: Received, response: ServerResponse): unknown => {
      const body = native[request.path];
      if (request.path === "/api/show") expect(JSON.parse(request.body)).toEqual({ model: "m" });
      if (body !== undefined) return json(response, 200, body);
      return /^\/(props|api\/(ps|show|v0))/.test(request.path) ? json(response, 404, {}) : serving(model)(request, response);
    };
    const runtime = runtimeOf(await find({ [port]: telling }));
    await runtime.warmUp(signal);
    expect(runtime.contextTokens).toBe(expected);
  });
});
