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

  it("says on standard error that the text begins again", async () => {
    expect((await printed(delta(0, "hel"), reset, delta(0, "bye"), done("bye"))).err).toContain("begins again");
    expect((await printed(delta(0, "bye"), done("bye"))).err).toBe("");
  });
});
