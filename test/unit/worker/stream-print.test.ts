import { describe, expect, it } from "vitest";
import { printStream } from "../../../src/cli/waiting.ts";
import type { JobEvent, RouterResult } from "../../../src/sdk/index.ts";

const delta = (seq: number, text: string): JobEvent => ({ type: "delta", attempt: 1, seq, delta: text });
const reset: JobEvent = { type: "reset", attempt: 1 };

function done(output: RouterResult["output"]): JobEvent {
  const result = { output, source: "router", result: null, receipt: null, verified: false, verification: { ok: false, reason: "no_receipt" } } as const;
  return { type: "done", result: { ...result, price: null, credit: null, jobId: "j", status: "completed" } };
}

async function printed(...events: JobEvent[]): Promise<{ out: string; err: string }> {
  let out = "";
  let err = "";
  async function* stream(): AsyncGenerator<JobEvent> {
    yield* events;
  }
  await printStream(stream(), { stdout: { write: (text) => (out += text) }, stderr: { write: (text) => (err += text) } });
  return { out, err };
}

describe("run --stream", () => {
  it.each<[string, JobEvent[], string]>([
    ["the text as it came", [delta(0, "hel"), delta(1, "lo"), done("hello")], "hello\n"],
    ["what the stream did not have", [delta(0, "hel"), done("hello")], "hello\n"],
    ["the result of a job that sent no text", [done("hello")], "hello\n"],
    ["the whole text again after a reset", [delta(0, "hel"), reset, delta(0, "good"), delta(1, "bye"), done("goodbye")], "hel\ngoodbye\n"],
    ["no text without its beginning", [reset, delta(7, "lo"), done("hello")], "hello\n"],
    ["the result where it is another text", [delta(0, "hel"), done("goodbye")], "hel\ngoodbye\n"],
    ["an object as JSON", [done({ a: 1 })], '{\n  "a": 1\n}\n'],
  ])("prints %s", async (_what, events, out) => {
    expect((await printed(...events)).out).toBe(out);
  });

  it("says at once that the worker was lost, and that the text begins again only when it does", async () => {
    const lost = "the worker or the connection was lost; waiting for another one\n";
    const [hel, ...rest] = [delta(0, "hel"), reset, delta(7, "x"), delta(0, "bye"), delta(1, "!"), done("bye!")] as const;
    expect((await printed(hel, ...rest)).err).toBe(`${lost}the text begins again:\n`);
    expect((await printed(hel, reset, done("bye!"))).err).toBe(`${lost}the text begins again:\n`);
    expect((await printed(hel, done("bye"))).err).toBe("the result is a different text\nthe text begins again:\n");
    expect((await printed(delta(0, "bye"), done("bye"))).err).toBe("");

    let err = "";
    async function* ending(): AsyncGenerator<JobEvent> {
      yield* [hel, reset];
      throw new Error("the job failed");
    }
    await expect(printStream(ending(), { stdout: { write: () => {} }, stderr: { write: (text) => (err += text) } })).rejects.toThrow("the job failed");
    expect(err).toBe(lost);
  });
});
