import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { answerOf, chunkOf, lastChunks } from "../../../src/coordinator/routes/openai-format.ts";
import { keyPair } from "../../../src/receipt/ed25519.ts";
import { signReceipt } from "../../../src/receipt/receipt.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

const worker = keyPair(new Uint8Array(32).fill(3));
const ID = "0b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";
const OTHER = "1b8f3c1e-5d2a-4f7b-9c36-2e1d4a6b8f90";

type Api = "chat" | "completions";
type Output = string | Record<string, unknown>;

function ended(output: Output) {
  const result = typeof output === "string" ? { output } : output;
  return { job: { id: ID, status: "completed", result, receipt: signReceipt(worker, ID, output, "2026-10-01T12:00:01.250Z") }, attempt: 1 };
}

const headOf = (api: Api) => ({ api, jobId: ID, model: "auto", created: 1 });

/** What an OpenAI client saves of a job with this output, as the coordinator answers it. */
const saved = (api: Api, output: Output): Record<string, unknown> => answerOf(headOf(api), ended(output));

/** The chunks of the same as a stream. */
function chunks(api: Api, output: Output, includeUsage = false): Record<string, unknown>[] {
  const end = ended(output);
  const { output: text } = end.job.result;
  const pieces = (typeof text === "string" ? text : JSON.stringify(end.job.result)).match(/[^]{1,3}/g) ?? [];
  return [...pieces.map((piece, at) => chunkOf(headOf(api), piece, at === 0)), ...lastChunks(headOf(api), end, includeUsage)];
}

/** The text of such a stream, as curl saves it. */
const events = (data: readonly unknown[]): string => `:\n\n${data.map((one) => `data: ${JSON.stringify(one)}\n\n`).join("")}data: [DONE]\n\n`;

const verifyText = (input: string) => runHere(["verify", "--job", "-"], { input });
const verify = (answer: unknown) => verifyText(JSON.stringify(answer));

const USAGE = { completion_tokens: 7, prompt_tokens: 5 };

describe("verify of an answer that an OpenAI client saved", () => {
  it.each([
    ["our workers' result", { finish_reason: "stop", model: "tiny", output: "Paris.", usage: USAGE }],
    ["a result without usage", { finish_reason: "length", model: "tiny", output: "Paris." }],
    ["a result without a model", { finish_reason: "stop", output: "Paris." }],
    ["an object with a text only", { output: "Paris." }],
    ["a text", "Paris."],
    ["an object without a text", { answer: "Paris." }],
    ["members in another order", { output: "Paris.", usage: { prompt_tokens: 5, completion_tokens: 7 }, finish_reason: "stop", model: "tiny" }],
    ["a usage with its total", { model: "tiny", usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 }, output: "Paris." }],
    ["a text of the other name", { text: "Paris.", model: "tiny" }],
  ])("[API9, RC2] is valid for %s, whole and streamed, in both forms of answers", async (_, output) => {
    for (const api of ["chat", "completions"] as const) {
      const forms = [JSON.stringify(saved(api, output)), events(chunks(api, output)), events(chunks(api, output, true)), JSON.stringify(chunks(api, output))];
      for (const form of forms) {
        const { code, stdout } = await verifyText(form);
        expect({ code, stdout }).toEqual({
          code: 0,
          stdout: expect.stringContaining(`the receipt is valid\njob        ${ID}\nworker     ${worker.publicKey}`),
        });
      }
    }
  });

  it("[API9, RC2] says that it could not check, and how to, if no result that the answer can show has the signed hash", async () => {
    const changed = { ...saved("chat", "Paris."), choices: [{ index: 0, message: { role: "assistant", content: "Rome." }, finish_reason: "stop" }] };
    const more = saved("chat", { output: "Paris.", model: "tiny", load_seconds: 2 });
    for (const answer of [changed, more]) {
      const { code, stdout, stderr } = await runHere(["verify", "--job", "-", "--json"], { input: JSON.stringify(answer) });
      expect([code, JSON.parse(stdout)]).toEqual([10, expect.objectContaining({ valid: null, reason: "not_rebuilt", job_id: ID })]);
      expect(stderr).toMatch(new RegExp(`^the receipt could not be checked: .*job ${ID} --json \\| .*verify --job -`));
      expect(stderr).not.toContain("NOT valid");
    }
  });

  it("[API9, RC1] is not valid without the worker's signature, whatever its result is, nor for the receipt of another job", async () => {
    const answer = saved("chat", "Paris.");
    const { receipt } = ended("Paris.").job;
    const forged = { ...receipt, output_hash: receipt.output_hash.replace(/.$/, (c) => (c === "0" ? "1" : "0")) };
    const withReceipt = (other: object) => ({ ...answer, compute_router: Object.assign({}, answer["compute_router"], { receipt: other }) });
    expect(await verify(withReceipt(forged))).toMatchObject({ code: 8, stderr: expect.stringContaining("NOT valid: its signature is not the worker's") });
    const keyless = { ...forged, provider_pubkey: "00" };
    expect(await verify(withReceipt(keyless))).toMatchObject({ code: 8, stderr: expect.stringContaining("invalid_key") });
    const { compute_router } = answer;
    expect(await verify({ ...answer, compute_router: Object.assign({}, compute_router, { job_id: OTHER }) })).toMatchObject({
      code: 8,
      stderr: expect.stringContaining(`this is job ${OTHER}`),
    });
  });

  it("a receipt that is given counts in place of its own: it must be that of this job, and be there", async () => {
    const [answer, folder] = [saved("chat", "Paris."), temporaryFolder()];
    const given = (receipt: unknown): string => {
      const file = join(folder, "receipt.json");
      writeFileSync(file, JSON.stringify(receipt));
      return file;
    };
    const check = (file: string, of: unknown) => runHere(["verify", file, "--job", "-", "--json"], { input: JSON.stringify(of) });
    const { receipt } = ended("Paris.").job;
    const unsigned = { ...answer, compute_router: Object.assign({}, answer["compute_router"], { receipt: null }) };
    for (const of of [answer, unsigned]) expect(await check(given(receipt), of)).toMatchObject({ code: 0, stdout: expect.stringContaining('"valid":true') });
    const forged = { ...receipt, job_id: `x\nthe receipt is valid\n${OTHER}` };
    const { code, stdout, stderr } = await check(given(forged), answer);
    expect([code, JSON.parse(stdout).reason, stderr.split("\n").length]).toEqual([8, "job_mismatch", 2]);
    expect(await check(join(folder, "absent.json"), answer)).toMatchObject({ code: 2, stdout: "" });
  });

  it("[API9, RC2] a stream with other text could not be checked; one that was cut or failed has no receipt, and what to save instead is said", async () => {
    const whole = chunks("chat", "Paris.");
    expect(await verifyText(events(whole.toSpliced(0, 1)))).toMatchObject({ code: 10, stderr: expect.stringContaining("not_rebuilt") });
    const cut = { code: 2, stderr: expect.stringMatching(new RegExp(`its last chunk is missing; save the job: .*job ${ID} --json`)) };
    expect(await verifyText(events(whole.slice(0, -1)))).toMatchObject(cut);
    // In the middle of an event.
    expect(await verifyText(events(whole).slice(0, -60))).toMatchObject(cut);
    const failed = [...whole.slice(0, -1), { error: { message: "another text", type: "server_error", param: null, code: "stream_\u001B[31mreset" } }];
    expect(await verifyText(events(failed))).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(String.raw`ended with an error (stream_\u001b[31mreset)`),
    });
    expect(await verifyText("data\n")).toMatchObject({ code: 2, stderr: expect.stringContaining("is not JSON") });
  });

  it.each([{}, [], { name: "a-package" }, { job_id: ID }])(
    "a file that is neither a job nor such an answer is not told as a job without a result: %j",
    async (other) => {
      expect(await verify(other)).toMatchObject({ code: 2, stderr: expect.stringMatching(/is not a job|its last chunk is missing/) });
      expect(await verify({ id: ID, status: "pending", result: null, receipt: null })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("has no result (not yet"),
      });
    },
  );

  it("a file is valid with a byte order mark, and refused in Latin-1: with replacement characters it would be another result", async () => {
    const file = join(temporaryFolder(), "job.json");
    const text = JSON.stringify(saved("chat", "Zürich"));
    writeFileSync(file, `\uFEFF${text}`);
    expect(await runHere(["verify", "--job", file])).toMatchObject({ code: 0 });
    writeFileSync(file, text, "latin1");
    const { code, stderr } = await runHere(["verify", "--job", file]);
    expect({ code, stderr }).toEqual({ code: 2, stderr: `${file} is not UTF-8: save the text as UTF-8 first\n` });
  });

  it("says what to save instead of an answer without a text", async () => {
    expect(await verify({ ...saved("chat", "Paris."), choices: [] })).toMatchObject({ code: 2, stderr: expect.stringContaining(`job ${ID} --json`) });
  });
});
