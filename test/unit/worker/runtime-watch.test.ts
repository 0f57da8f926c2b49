import { describe, expect, it, onTestFinished } from "vitest";
import { MODEL_NAME_RULE } from "../../../src/protocol/text.ts";
import { OpenAiCompatible } from "../../../src/worker/runtimes/openai-compatible.ts";
import type { Found } from "../../../src/worker/runtimes/probe.ts";
import { type Runtime, RuntimeError } from "../../../src/worker/runtimes/runtime.ts";
import { until } from "../../support/until.ts";
import { type RuntimeNote, RuntimeWatch } from "../../../src/worker/node/runtime-watch.ts";

type Scripted = Runtime & { closed: number; warm: number; failWith: RuntimeError | null };

function runtime(model: string): Scripted {
  return {
    name: "ollama",
    model,
    models: [model],
    closed: 0,
    warm: 0,
    failWith: null,
    async generate() {
      if (this.failWith !== null) throw this.failWith;
      return { text: "t", model, usage: { prompt_tokens: 1, completion_tokens: 1 }, finishReason: "stop" };
    },
    async warmUp() {
      this.warm++;
      if (this.failWith !== null) throw this.failWith;
    },
    async close() {
      this.closed++;
    },
  };
}

/** A runtime that answers its first prompt and then nothing any more, but for the signs of life that the test gives. */
function hanging(model: string): Scripted & { activity: () => void } {
  return {
    ...runtime(model),
    activity: () => {},
    generate(_prompt, { signal, onActivity }) {
      this.activity = onActivity ?? this.activity;
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new RuntimeError("aborted", "the generation was aborted"))));
    },
  };
}

const missing: Found = { ok: false, tried: [], hint: "run: ollama pull x" };

function watch(script: Found[], isBusy = () => false, comebackMs?: number, now?: () => number): { watch: RuntimeWatch; notes: RuntimeNote[] } {
  const notes: RuntimeNote[] = [];
  const find = () => Promise.resolve(script.shift() ?? missing);
  const times = { intervalMs: 3_600_000, ...(comebackMs !== undefined && { comebackMs }), ...(now !== undefined && { now }) };
  const made = new RuntimeWatch({ find, isBusy, onNote: (note) => notes.push(note), ...times });
  onTestFinished(() => made.close());
  return { watch: made, notes };
}

describe("the watch over the LLM runtime", () => {
  it("announces a runtime only after it has answered once", async () => {
    const tiny = runtime("tiny");
    const { watch: watched, notes } = watch([{ ok: true, runtime: tiny }]);
    await watched.start();
    expect(tiny.warm).toBe(1);
    expect(notes).toEqual([{ type: "runtime_ready", runtime: "ollama", model: "tiny" }]);
  });

  it("[JB10] says when it announces a model that no job can ask for by its name", async () => {
    const { watch: watched, notes } = watch([{ ok: true, runtime: runtime("My Model.Q4.gguf") }]);
    await watched.start();
    const hint = `jobs cannot ask for "My Model.Q4.gguf" by its name, which ${MODEL_NAME_RULE}: rename the model`;
    expect(notes).toEqual([{ type: "runtime_ready", runtime: "ollama", model: "My Model.Q4.gguf", hint }]);
  });

  it("a runtime that does not answer is reported once as missing, and announced when it answers", async () => {
    const tiny = runtime("tiny");
    tiny.failWith = new RuntimeError("runtime_error", "out of memory");
    const { watch: watched, notes } = watch([
      { ok: true, runtime: tiny },
      { ok: true, runtime: tiny },
      { ok: true, runtime: tiny },
    ]);
    await watched.start();
    await watched.start();
    tiny.failWith = null;
    await watched.start();
    expect(notes.map((note) => note.type)).toEqual(["runtime_missing", "runtime_ready"]);
  });

  it("the same runtime found again changes nothing and is not warmed up again", async () => {
    const first = runtime("tiny");
    const again = runtime("tiny");
    const { watch: watched, notes } = watch([
      { ok: true, runtime: first },
      { ok: true, runtime: again },
      { ok: true, runtime: first },
    ]);
    await watched.start();
    await watched.start();
    await watched.start();
    expect(watched.runtime).toBe(first);
    expect([first.closed, again.closed, again.warm, notes.length]).toEqual([0, 1, 0, 1]);
  });

  it("a runtime that ended while no job ran is lost, and the one that is found in its place is taken, although it looks the same", async () => {
    const first: Scripted & { hasEnded: boolean } = { ...runtime("tiny"), hasEnded: false };
    const second = runtime("tiny");
    const { watch: watched, notes } = watch([
      { ok: true, runtime: first },
      { ok: true, runtime: second },
    ]);
    await watched.start();
    first.hasEnded = true;
    await watched.start();
    expect(watched.runtime).toBe(second);
    expect([first.closed, second.closed, second.warm]).toEqual([1, 0, 1]);
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready", "runtime_lost", "runtime_ready"]);
  });

  it("if another model is found, it replaces the old runtime, which is closed", async () => {
    const small = runtime("small");
    const large = runtime("large");
    const { watch: watched } = watch([
      { ok: true, runtime: small },
      { ok: true, runtime: large },
    ]);
    await watched.start();
    await watched.start();
    expect([watched.runtime, small.closed]).toEqual([large, 1]);
  });

  it("a runtime that is missing once is kept, one that is missing twice in a row is not", async () => {
    const { watch: watched, notes } = watch([{ ok: true, runtime: runtime("tiny") }, missing, { ok: true, runtime: runtime("tiny") }, missing, missing]);
    for (let i = 0; i < 4; i++) await watched.start();
    expect(watched.runtime).toBeDefined();
    await watched.start();
    expect(watched.runtime).toBeUndefined();
    expect(notes.at(-1)).toMatchObject({ type: "runtime_lost" });
  });

  it("does not check a runtime while a job runs", async () => {
    let busy = false;
    const { watch: watched } = watch([{ ok: true, runtime: runtime("tiny") }, missing, missing], () => busy);
    await watched.start();
    busy = true;
    await watched.start();
    await watched.start();
    expect(watched.runtime).toBeDefined();
  });

  it("[WS3] another model beside the one that answers is announced, without warming up again", async () => {
    const alone = runtime("tiny");
    const withAnother = { ...runtime("tiny"), models: ["tiny", "large"] };
    const { watch: watched, notes } = watch([
      { ok: true, runtime: alone },
      { ok: true, runtime: withAnother },
    ]);
    await watched.start();
    await watched.start();
    expect(watched.runtime).toBe(withAnother);
    expect([withAnother.warm, alone.closed, notes.length]).toEqual([0, 1, 2]);
  });

  it("[WS3, JB5] the context that the model has told at its first answer stays known when there is another model beside it", async () => {
    const answer = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n';
    const listing = (models: string[]): Found => {
      const fetch = async () => new Response(answer, { headers: { "content-type": "text/event-stream" } });
      const parts = { baseUrl: "http://127.0.0.1:11434/v1", name: "ollama", model: "tiny", models, askContext: async () => 4096, fetch };
      return { ok: true, runtime: new OpenAiCompatible(parts) };
    };
    const { watch: watched, notes } = watch([listing(["tiny"]), listing(["tiny", "large"])]);
    await watched.start();
    expect(watched.runtime?.contextTokens).toBe(4096);
    await watched.start();
    expect(notes).toHaveLength(2);
    expect(watched.runtime?.contextTokens).toBe(4096);
  });

  it("a job that begins while another model warms up keeps its runtime", async () => {
    let busy = false;
    const small = runtime("small");
    const large = runtime("large");
    large.warmUp = async () => {
      busy = true;
    };
    const { watch: watched } = watch(
      [
        { ok: true, runtime: small },
        { ok: true, runtime: large },
      ],
      () => busy,
    );
    await watched.start();
    await watched.start();
    expect([watched.runtime, small.closed, large.closed]).toEqual([small, 0, 1]);
  });

  it("after a failed job it checks the runtime; if it is gone, that is announced before the failure", async () => {
    const tiny = runtime("tiny");
    const { watch: watched, notes } = watch([{ ok: true, runtime: tiny }, missing]);
    await watched.start();
    tiny.failWith = new RuntimeError("runtime_error", "the connection broke in the middle of the answer");
    await expect(watched.generate("p", { signal: new AbortController().signal })).rejects.toBe(tiny.failWith);
    expect(notes.at(-1)).toMatchObject({ type: "runtime_lost" });
    expect(tiny.closed).toBe(1);
  });

  it("a failed job of a runtime that still answers changes nothing", async () => {
    const tiny = runtime("tiny");
    const again = runtime("tiny");
    const { watch: watched, notes } = watch([
      { ok: true, runtime: tiny },
      { ok: true, runtime: again },
    ]);
    await watched.start();
    tiny.failWith = new RuntimeError("runtime_error", "bad");
    await expect(watched.generate("p", { signal: new AbortController().signal })).rejects.toBe(tiny.failWith);
    expect([watched.runtime, notes.length, again.closed]).toEqual([tiny, 1, 1]);
  });

  it("a runtime that fails two jobs in a row is lost, although it is still found, and announced again only when it has answered a prompt", async () => {
    const tiny = runtime("tiny");
    const notes: RuntimeNote[] = [];
    const find = () => Promise.resolve({ ok: true as const, runtime: { ...tiny } });
    const watched = new RuntimeWatch({ find, isBusy: () => false, onNote: (note) => notes.push(note), intervalMs: 3_600_000, comebackMs: 5 });
    onTestFinished(() => watched.close());
    const fail = () => watched.generate("p", { signal: new AbortController().signal }).catch(() => {});
    await watched.start();
    const first = watched.runtime as Scripted;
    tiny.failWith = first.failWith = new RuntimeError("runtime_error", "model requires more system memory");
    await fail();
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready"]);
    await fail();
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready", "runtime_lost"]);
    await until("a first prompt that fails", () => (notes.at(-1)?.type === "runtime_missing" ? true : undefined));
    tiny.failWith = null;
    await until("comeback", () => (watched.runtime === undefined ? undefined : true));
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready", "runtime_lost", "runtime_missing", "runtime_ready"]);
  });

  it("the attempts of one job that fails count once: they do not lose the runtime, but the next job that fails does", async () => {
    const tiny = runtime("tiny");
    const found: Found = { ok: true, runtime: tiny };
    const { watch: watched } = watch([found, found, found, found]);
    await watched.start();
    tiny.failWith = new RuntimeError("runtime_error", "HTTP 500");
    const fail = (jobId: string) => watched.generate("p", { jobId, signal: new AbortController().signal }).catch(() => {});
    for (const jobId of ["a", "a", "a"]) await fail(jobId);
    expect(watched.runtime).toBe(tiny);
    await fail("b");
    expect(watched.runtime).toBeUndefined();
  });

  it.each([
    ["an answer between them", null],
    ["one that is due to its prompt", new RuntimeError("runtime_error", "the model returned an empty answer", { answered: true })],
    ["one that the runtime refuses", new RuntimeError("runtime_error", "bad prompt", { retryable: false })],
  ])("two failed jobs with %s do not lose the runtime", async (_, other) => {
    const tiny = runtime("tiny");
    const found: Found = { ok: true, runtime: tiny };
    const { watch: watched } = watch([found, found, found, found]);
    await watched.start();
    const failure = new RuntimeError("runtime_error", "HTTP 500");
    for (const failWith of other === null ? [failure, null, failure] : [failure, other]) {
      tiny.failWith = failWith;
      await watched.generate("p", { signal: new AbortController().signal }).catch(() => {});
    }
    expect(watched.runtime).toBe(tiny);
  });

  it("[WS3, JB5] a runtime that was started again with another context is announced with it", async () => {
    const large = { ...runtime("tiny"), listedContext: 8_192 };
    const small = { ...runtime("tiny"), listedContext: 4_096 };
    const { watch: watched, notes } = watch([
      { ok: true, runtime: large },
      { ok: true, runtime: small },
    ]);
    await watched.start();
    await watched.start();
    expect(watched.runtime).toBe(small);
    expect([large.closed, small.warm, notes.length]).toEqual([1, 1, 2]);
  });

  it("a lost runtime is searched again soon, and announced when it is back", async () => {
    const first = runtime("tiny");
    const second = runtime("tiny");
    const { watch: watched, notes } = watch([{ ok: true, runtime: first }, missing, missing, { ok: true, runtime: second }], () => false, 5);
    await watched.start();
    first.failWith = new RuntimeError("runtime_unreachable", "gone");
    await expect(watched.generate("p", { signal: new AbortController().signal })).rejects.toBe(first.failWith);
    await until("comeback", () => (watched.runtime === second ? true : undefined));
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready", "runtime_lost", "runtime_missing", "runtime_ready"]);
    expect(second.warm).toBe(1);
  });

  it("a runtime that gives no answer until its job times out is lost and closed, and the one that is found in its place is announced after its first answer", async () => {
    const first = hanging("tiny");
    const second = runtime("tiny");
    const { watch: watched, notes } = watch([{ ok: true, runtime: first }, missing, { ok: true, runtime: second }], () => false, 5);
    await watched.start();
    const job = new AbortController();
    const answer = watched.generate("p", { signal: job.signal });
    job.abort(new DOMException("no sign of life", "TimeoutError"));
    await expect(answer).rejects.toMatchObject({ code: "aborted" });
    expect([watched.runtime === first, first.closed]).toEqual([false, 1]);
    await until("comeback", () => (watched.runtime === second ? true : undefined));
    expect(second.warm).toBe(1);
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready", "runtime_lost", "runtime_missing", "runtime_ready"]);
  });

  it("a job that is cancelled after a long silence is like one that timed out, because its seeker may have less patience", async () => {
    const first = hanging("tiny");
    let now = 0;
    const { watch: watched, notes } = watch(
      [{ ok: true, runtime: first }],
      () => false,
      3_600_000,
      () => now,
    );
    await watched.start();
    for (const [silence, closed] of [
      [19_999, 0],
      [20_000, 1],
    ] as const) {
      const job = new AbortController();
      const answer = watched.generate("p", { signal: job.signal });
      // A sign of life counts anew.
      now += 60_000;
      first.activity();
      now += silence;
      job.abort();
      await expect(answer).rejects.toMatchObject({ code: "aborted" });
      expect(first.closed).toBe(closed);
    }
    expect(notes.map(({ type }) => type)).toEqual(["runtime_ready", "runtime_lost"]);
  });

  it("a job that is cancelled says nothing about its runtime", async () => {
    const first = hanging("tiny");
    const { watch: watched, notes } = watch([{ ok: true, runtime: first }]);
    await watched.start();
    const job = new AbortController();
    const answer = watched.generate("p", { signal: job.signal });
    job.abort();
    await expect(answer).rejects.toMatchObject({ code: "aborted" });
    expect([watched.runtime === first, first.closed, notes.length]).toEqual([true, 0, 1]);
  });

  it("a runtime that does not give its first answer is closed, so that the next search can start one that does", async () => {
    const tiny = runtime("tiny");
    tiny.failWith = new RuntimeError("aborted", "no answer");
    const { watch: watched, notes } = watch([{ ok: true, runtime: tiny }]);
    await watched.start();
    expect([watched.runtime, tiny.closed]).toEqual([undefined, 1]);
    expect(notes).toMatchObject([{ type: "runtime_missing" }]);
  });

  it("a job that finds the runtime gone withdraws the announcement", async () => {
    const tiny = runtime("tiny");
    const { watch: watched, notes } = watch([{ ok: true, runtime: tiny }]);
    await watched.start();
    const options = { signal: new AbortController().signal };
    tiny.failWith = new RuntimeError("runtime_unreachable", "gone");
    await expect(watched.generate("p", options)).rejects.toBe(tiny.failWith);
    expect(watched.runtime).toBeUndefined();
    expect(notes.at(-1)).toMatchObject({ type: "runtime_lost", model: "tiny" });
    await expect(watched.generate("p", options)).rejects.toMatchObject({ code: "runtime_unreachable" });
  });
});
