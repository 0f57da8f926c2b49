import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { embeddedFolder } from "../../src/worker/runtimes/embedded-install.ts";
import { OpenAiCompatible } from "../../src/worker/runtimes/openai-compatible.ts";
import { finallyDo } from "../support/finally.ts";
import { connectElsewhere } from "../support/other-address.ts";
import { hasEnded, requireEmbedded, startNode } from "./processes.ts";

const STORY = "Tell me a story about a fox.";
const signal = new AbortController().signal;

/** The server of the tests that leave it running. */
let url: string;

beforeAll(async () => {
  requireEmbedded();
  ({ url } = await start([], finallyDo));
});

async function start(args: string[], atEnd?: (duty: () => void) => void): Promise<{ child: ChildProcess; url: string }> {
  const { child, line } = await startNode([join(embeddedFolder(), "server.mjs"), ...args], atEnd);
  expect(line).toEqual({ ready: true, url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/v1$/), model: "tiny-chat-q8_0", context: 512 });
  return { child, url: (line as { url: string }).url };
}

async function post(url: string, body: unknown): Promise<{ status: number; body: string }> {
  const response = await fetch(`${url}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  return { status: response.status, body: await response.text() };
}

const ask = (content: string): object => ({ messages: [{ role: "user", content }] });

describe("server.mjs", () => {
  it("speaks OpenAI: models, plain and streamed answers, and errors", async () => {
    expect(await (await fetch(`${url}/models`)).json()).toMatchObject({ object: "list", data: [{ id: "tiny-chat-q8_0", object: "model" }] });
    expect(await (await fetch(new URL("/health", url))).json()).toEqual({ status: "ok", requests: 0, generated_tokens: 0 });
    expect(await connectElsewhere(Number(new URL(url).port))).toBe("ECONNREFUSED");

    const plain = await post(url, { ...ask("How much is 3 + 4?"), max_tokens: 20 });
    expect(JSON.parse(plain.body)).toMatchObject({
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "3 plus 4 is 7." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 13, completion_tokens: 9, total_tokens: 22 },
    });
    const turns = [
      { role: "user", content: "Hello" },
      { role: "assistant", content: "Hello!" },
      { role: "user", content: [{ type: "text", text: "How much is 3 + 4?" }] },
    ];
    expect(JSON.parse((await post(url, { messages: turns })).body).usage.prompt_tokens).toBeGreaterThan(13);
    expect(JSON.parse((await post(url, { ...ask(STORY), stop: ["fox"] })).body)).toMatchObject({
      choices: [{ finish_reason: "stop", message: { content: expect.stringMatching(/little $/) } }],
    });

    const streamed = (await post(url, { ...ask("How much is 3 + 4?"), stream: true })).body;
    expect(streamed).not.toContain('"usage"');
    expect(streamed.endsWith("data: [DONE]\n\n")).toBe(true);

    for (const bad of [
      "nope",
      "[]",
      {},
      { messages: [] },
      { messages: [{ role: "user" }] },
      { messages: [{ role: "x", content: "y" }] },
      { ...ask("x"), max_tokens: 0 },
      { ...ask("x"), temperature: "hot" },
      { ...ask("x"), stop: [1] },
    ]) {
      const { status, body } = await post(url, bad);
      expect({ bad, status, body: JSON.parse(body) }).toMatchObject({ bad, status: 400, body: { error: { code: "invalid_request_error" } } });
    }
    expect((await post(url, { ...ask("x"), padding: "x".repeat(5 * 1024 * 1024) })).status).toBe(400);
    expect((await fetch(`${url}/chat/completions`)).status).toBe(404);
    expect((await fetch(`${url}/chat/completions`, { method: "POST", body: "{}" })).status).toBe(400);
  });

  it("[LLM10] answers nobody who names another host", async () => {
    const sent = request(`${url}/models`, { headers: { host: "evil.example" } }).end();
    const [response] = await once(sent, "response");
    expect(response.statusCode).toBe(403);
    await text(response);
  });

  it("[LLM10] SIGTERM lets the running answer finish, then ends with 0; Ctrl-C is the parent's affair", async () => {
    const { child, url: own } = await start(["--managed"]);
    const ended = once(child, "exit");
    child.kill("SIGINT");
    let deltas = 0;
    const onDelta = (): void => {
      deltas += 1;
      if (deltas === 1) child.kill("SIGTERM");
    };
    const { finishReason, usage } = await new OpenAiCompatible({ baseUrl: own, model: "tiny-chat-q8_0" }).generate(STORY, { signal, onDelta });
    expect(finishReason).toBe("stop");
    expect(usage.completion_tokens).toBeGreaterThan(60);
    expect(await ended).toEqual([0, null]);
  });

  it("[LLM10] ends when its parent is gone, also while native code hangs", async () => {
    // The main thread hangs as llama.cpp would make it: no event reaches it any more.
    const hang = `import { isMainThread } from "node:worker_threads";
      if (isMainThread) process.on("SIGUSR2", () => { process.stdout.write('{"hangs":true}\\n', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)); });`;
    const parent = `import { spawn } from "node:child_process";
      const child = spawn(process.execPath, ["--import", ${JSON.stringify(`data:text/javascript,${encodeURIComponent(hang)}`)}, ${JSON.stringify(join(embeddedFolder(), "server.mjs"))}, "--managed"], { stdio: ["pipe", "pipe", "ignore"] });
      child.stdout.pipe(process.stdout);
      process.stdout.write(JSON.stringify({ pid: child.pid }) + "\\n");`;
    const { child, line } = await startNode(["--input-type=module", "--eval", parent]);
    const { pid } = line as { pid: number };
    onTestFinished(() => void (hasEnded(pid) || process.kill(pid, "SIGKILL")));
    const lines = createInterface({ input: child.stdout ?? expect.unreachable() })[Symbol.asyncIterator]();
    expect((await lines.next()).value).toContain('"ready":true');
    process.kill(pid, "SIGUSR2");
    expect((await lines.next()).value).toBe('{"hangs":true}');
    child.kill("SIGKILL");
    await expect.poll(() => hasEnded(pid), { timeout: 20_000 }).toBe(true);
  });

  it("[LLM6] a model that is missing ends it with 1 and a reason", async () => {
    const { child, line } = await startNode([join(embeddedFolder(), "server.mjs"), "--model", "no-such.gguf"]);
    expect(line).toEqual({ ready: false, error: expect.any(String) });
    if (child.exitCode === null) await once(child, "exit");
    expect(child.exitCode).toBe(1);
  });
});
