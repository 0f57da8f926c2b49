// The tests that every LLM runtime must pass.
import { describe, expect, it } from "vitest";
import { type Runtime, RuntimeError } from "../../../src/worker/runtimes/runtime.ts";

/** What every runtime promises. `start` gives one whose model answers `prompt` with at least twenty tokens. */
export function runtimeContract(name: string, prompt: string, start: () => Promise<Runtime>): void {
  const never = new AbortController().signal;

  describe(`runtime contract: ${name}`, () => {
    it("[LLM2] deltas join to exactly the text", async () => {
      const runtime = await start();
      const deltas: string[] = [];
      const { text, finishReason, model } = await runtime.generate(prompt, { signal: never, onDelta: (delta) => deltas.push(delta) });
      expect(deltas.length).toBeGreaterThan(5);
      expect(deltas.join("")).toBe(text);
      expect(deltas).not.toContain("");
      expect(finishReason).toBe("stop");
      expect(model).toBe(runtime.model);
      expect(runtime.models).toContain(runtime.model);
    });

    it("[LLM3] usage counts prompt and answer", async () => {
      const { usage } = await (await start()).generate(prompt, { signal: never });
      expect(usage.prompt_tokens).toBeGreaterThan(0);
      expect(usage.completion_tokens).toBeGreaterThanOrEqual(20);
      expect(Object.keys(usage).toSorted()).toEqual(["completion_tokens", "prompt_tokens"]);
    });

    it("[LLM4] maxTokens ends the answer with length", async () => {
      const runtime = await start();
      const whole = await runtime.generate(prompt, { signal: never });
      const part = await runtime.generate(prompt, { signal: never, maxTokens: 5 });
      expect(part).toMatchObject({ finishReason: "length", usage: { completion_tokens: 5 } });
      expect(whole.text.startsWith(part.text)).toBe(true);
      expect(part.text.length).toBeLessThan(whole.text.length);
    });

    it("[LLM5] an abort before and during the answer rejects with aborted", async () => {
      const runtime = await start();
      await expect(runtime.generate(prompt, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
      const controller = new AbortController();
      let deltas = 0;
      const onDelta = (): void => {
        deltas += 1;
        controller.abort();
      };
      const generation = runtime.generate(prompt, { signal: controller.signal, onDelta });
      await expect(generation).rejects.toBeInstanceOf(RuntimeError);
      await expect(generation).rejects.toMatchObject({ code: "aborted", retryable: true });
      expect(deltas).toBe(1);
      expect((await runtime.generate(prompt, { signal: never })).finishReason).toBe("stop");
    });

    it("two answers at once are equal", async () => {
      const runtime = await start();
      const both = await Promise.all([1, 2].map(() => runtime.generate(prompt, { signal: never })));
      expect(both[0]).toEqual(both[1]);
    });

    it("warms up; a callback that throws ends the answer with that error", async () => {
      const runtime = await start();
      await runtime.warmUp(never);
      const bug = new Error("bug of the caller");
      const onDelta = (): never => {
        throw bug;
      };
      await expect(runtime.generate(prompt, { signal: never, onDelta })).rejects.toBe(bug);
    });
  });
}
