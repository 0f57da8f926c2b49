import { describe, expect, it } from "vitest";
import { answerOf } from "../../../src/coordinator/routes/openai-answer.ts";
import { keyPair } from "../../../src/receipt/ed25519.ts";
import { signReceipt } from "../../../src/receipt/receipt.ts";
import { runHere } from "../worker/support/cli-here.ts";

const worker = keyPair(new Uint8Array(32).fill(3));
const ID = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const OTHER = "1b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";

/** What an OpenAI client saves of a job with this output, as the coordinator answers it. */
function saved(api: "chat" | "completions", output: string | Record<string, unknown>): Record<string, unknown> {
  const result = typeof output === "string" ? { output } : output;
  const job = { id: ID, status: "completed", result, receipt: signReceipt(worker, ID, output, "2026-10-01T12:00:01.250Z") };
  return answerOf({ api, jobId: ID, model: "auto", created: 1 }, { job, attempt: 1 });
}

const verify = (answer: Record<string, unknown>) => runHere(["verify", "--job", "-"], { input: JSON.stringify(answer) });

const USAGE = { completion_tokens: 7, prompt_tokens: 5 };

describe("verify of an answer that an OpenAI client saved", () => {
  it.each([
    ["our workers' result", { finish_reason: "stop", model: "tiny", output: "Paris.", usage: USAGE }],
    ["a result without usage", { finish_reason: "length", model: "tiny", output: "Paris." }],
    ["a result without a model", { finish_reason: "stop", output: "Paris." }],
    ["an object with a text only", { output: "Paris." }],
    ["a text", "Paris."],
    ["an object without a text", { answer: "Paris." }],
  ])("[API9, RC2] is valid for %s, whole, in both forms of answers", async (_, output) => {
    for (const api of ["chat", "completions"] as const) {
      const { code, stdout } = await verify(saved(api, output));
      expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(`the receipt is valid\njob        ${ID}\nworker     ${worker.publicKey}`) });
    }
  });

  it("[API9, RC2] is not valid for another text, nor for the receipt of another job", async () => {
    const answer = saved("chat", "Paris.");
    const changed = { ...answer, choices: [{ index: 0, message: { role: "assistant", content: "Rome." }, finish_reason: "stop" }] };
    expect(await verify(changed)).toMatchObject({ code: 8, stderr: expect.stringContaining("hash_mismatch") });
    const { compute_router } = answer;
    expect(await verify({ ...answer, compute_router: Object.assign({}, compute_router, { job_id: OTHER }) })).toMatchObject({
      code: 8,
      stderr: expect.stringContaining(`this is job ${OTHER}`),
    });
  });

  it("says what to save instead of a stream", async () => {
    expect(await verify({ ...saved("chat", "Paris."), choices: [{ delta: {} }] })).toMatchObject({ code: 2, stderr: expect.stringContaining("job ID --json") });
  });
});
