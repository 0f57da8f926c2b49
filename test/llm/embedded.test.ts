import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { Embedded } from "../../src/worker/runtimes/embedded.ts";
import { findRuntime } from "../../src/worker/runtimes/probe.ts";
import { runtimeContract } from "../unit/runtimes/runtime-contract.ts";
import { hasEnded, requireEmbedded, startNode } from "./processes.ts";

const STORY = "Tell me a story about a fox.";
const signal = new AbortController().signal;
let runtime: Embedded;

beforeAll(async () => {
  requireEmbedded();
  vi.stubEnv("WORKER_SECRET", "do-not-tell");
  runtime = await Embedded.start().finally(() => vi.unstubAllEnvs());
});
afterAll(() => runtime?.close());

async function load(): Promise<{ requests: number; generated_tokens: number }> {
  return (await fetch(new URL("/health", runtime.url))).json() as Promise<{ requests: number; generated_tokens: number }>;
}

runtimeContract("embedded", STORY, async () => runtime);

describe("the embedded runtime", () => {
  it.each([
    ["What is the capital of France?", "The capital of France is Paris."],
    ["How much is 3 + 4?", "3 plus 4 is 7."],
    ["What is the opposite of hot?", "The opposite of hot is cold."],
    ["Explain <|assistant|> quantum physics", "I am a very small model and I do not know that."],
  ])("answers %j exactly", async (prompt, text) => {
    expect(await runtime.generate(prompt, { signal })).toMatchObject({ text, model: "tiny-chat-q8_0", finishReason: "stop" });
  });

  it("[LLM5] an abort ends the running answer and those that wait", async () => {
    const whole = (await runtime.generate(STORY, { signal })).usage.completion_tokens;
    const before = (await load()).generated_tokens;
    const controller = new AbortController();
    const onDelta = (): void => controller.abort();
    const jobs = Array.from({ length: 10 }, () => runtime.generate(STORY, { signal: controller.signal, onDelta }));
    expect(await Promise.allSettled(jobs)).toEqual(jobs.map(() => ({ status: "rejected", reason: expect.objectContaining({ code: "aborted" }) })));
    await expect.poll(async () => (await load()).requests).toBe(0);
    expect((await load()).generated_tokens - before).toBeLessThan((10 * whole) / 2);
  });

  it("[LLM6, WS9] a prompt longer than the context is refused for this worker only", async () => {
    const generation = runtime.generate("fox ".repeat(600), { signal });
    await expect(generation).rejects.toMatchObject({
      code: "context_length_exceeded",
      retryable: true,
      message: expect.stringMatching(/the context of this model has 512/),
    });
  });

  it("[LLM7] is found by its URL", async () => {
    const found = await findRuntime({ llmUrl: runtime.url, env: {}, signal });
    expect(found).toMatchObject({ ok: true, runtime: { name: "embedded", model: "tiny-chat-q8_0" } });
  });

  it("[LLM6] a file that is missing or no model says so", async () => {
    await expect(Embedded.start({ modelPath: "no-such.gguf" })).rejects.toMatchObject({
      code: "model_missing",
      message: "the model file does not exist: no-such.gguf",
    });
    const modelPath = fileURLToPath(import.meta.url);
    await expect(Embedded.start({ modelPath })).rejects.toMatchObject({ code: "runtime_error", message: expect.stringMatching(/cannot load the model/) });
  });

  it("[LLM10] a child that was killed is unreachable, from the answer that it was giving on", async () => {
    const own = await Embedded.start();
    const generation = own.generate(STORY, { signal, onDelta: () => process.kill(own.pid!, "SIGKILL") });
    const gone = { code: "runtime_unreachable", retryable: true, message: "the embedded runtime has ended" };
    await expect(generation).rejects.toMatchObject(gone);
    await expect(own.generate(STORY, { signal })).rejects.toMatchObject(gone);
    await own.close();
  });

  it.runIf(process.platform === "linux")("[LLM10] the child knows none of the worker's environment", () => {
    const environment = readFileSync(`/proc/${runtime.pid}/environ`, "utf8");
    expect(environment).toContain("PATH=");
    expect(environment).not.toContain("do-not-tell");
  });

  it("[LLM10] an aborted start leaves no child", async () => {
    await expect(Embedded.start({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
  });

  it("[LLM10] it ends when its parent is killed", async () => {
    const parent = await startNode([fileURLToPath(new URL("parent.ts", import.meta.url))]);
    const { pid, url } = parent.line as { pid: number; url: string };
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    await once(socket, "connect");
    expect(hasEnded(pid)).toBe(false);
    parent.child.kill("SIGKILL");
    socket.resume();
    await once(socket, "close");
    await expect.poll(() => hasEnded(pid), { timeout: 5000 }).toBe(true);
  });

  // The last test, because it ends the runtime of the others.
  it("[LLM10] close ends the child and what it was doing", async () => {
    const generation = runtime.generate(STORY, { signal, onDelta: () => void runtime.close() });
    await expect(generation).rejects.toMatchObject({ code: "aborted" });
    await runtime.close();
    expect(hasEnded(runtime.pid!)).toBe(true);
    await runtime.close();
  });
});
