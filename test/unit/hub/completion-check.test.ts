import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { checkCompletion, type ExpectedOutput, workerMessage } from "../../../src/coordinator/hub/completion-check.ts";
import type { ReceiptFields } from "../../../src/protocol/job.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { JobComplete } from "../../../src/protocol/worker-messages.ts";
import { keyPair, receiptText, signReceipt, signText } from "../../../src/receipt/index.ts";

const NOW = Date.UTC(2026, 4, 6, 7, 8, 9, 10);
const ID = "0b5f1f4e-6e2f-4a51-9c9a-3f2a3c1d5e6f";
const OTHER_ID = "11111111-2222-4333-8444-555555555555";
const OUTPUT = { summary: "s", word_count: 1 };
const SUMMARIZE: ExpectedOutput = { jobType: "TASK", taskType: "summarize" };
const KEY = keyPair(new Uint8Array(32).fill(7));
const OTHER_KEY = keyPair(new Uint8Array(32).fill(8));

type Fields = Record<string, unknown>;
const hashOf = (output: unknown): string => `sha256:${createHash("sha256").update(JSON.stringify(output)).digest("hex")}`;
const at = (ms: number): string => new Date(NOW + ms).toISOString();

/** The frame of an honest worker; `fields` replace members. */
function completion(fields: Fields = {}, output: unknown = OUTPUT): JobComplete {
  const { signature, ...receipt } = signReceipt(KEY, ID, output, at(0));
  return JobComplete.parse({ type: "job_complete", job_id: ID, attempt: 1, output, receipt, receipt_signature: signature, ...fields });
}

/** A receipt with changed fields and a valid signature over them. */
function signed(fields: Partial<ReceiptFields>): Fields {
  const { signature: _, ...honest } = signReceipt(KEY, ID, OUTPUT, at(0));
  const receipt = { ...honest, ...fields };
  return { receipt, receipt_signature: signText(receiptText(receipt), KEY.secret) };
}

const check = (frame: JobComplete, job: ExpectedOutput | null = SUMMARIZE) => checkCompletion(frame, KEY.publicKey, NOW, job);
const honest = signReceipt(KEY, ID, OUTPUT, at(0));

describe("the receipt of a completion", () => {
  const invalid: [name: string, check: string, Fields][] = [
    ["no receipt", "missing", { receipt: undefined, receipt_signature: undefined }],
    ["null for a receipt", "missing", { receipt: null }],
    ["a receipt without signature", "missing", { receipt_signature: undefined }],
    ["another output", "hash", { output: { summary: "other" } }],
    ["a signature of another key", "signature", { receipt_signature: signText(receiptText(honest), OTHER_KEY.secret) }],
    ["a signature over other bytes", "signature", { receipt_signature: signText("x", KEY.secret) }],
    ["another worker's key in it", "key", signed({ provider_pubkey: OTHER_KEY.publicKey })],
    ["another job in it", "job_id", signed({ job_id: OTHER_ID })],
    ["a hash in upper case", "hash", signed({ output_hash: honest.output_hash.toUpperCase().replace("SHA256", "sha256") })],
    ["a hash of something else", "hash", signed({ output_hash: `sha256:${"0".repeat(64)}` })],
    ["a completed_at of 5 min and 1 ms ago", "time", signed({ completed_at: at(-300_001) })],
    ["a completed_at in 5 min and 1 ms", "time", signed({ completed_at: at(300_001) })],
    ["a completed_at that is not ISO 8601", "time", signed({ completed_at: new Date(NOW).toUTCString() })],
    ["a completed_at without a zone", "time", signed({ completed_at: at(0).slice(0, -1) })],
    ["a payment_ref", "signature", signed({ payment_ref: "0x1" })],
    ["a text of more than 256 characters", "missing", signed({ output_hash: "0".repeat(257) })],
  ];

  it.each(invalid)("[RC3] [RC4] [WS10] with %s is invalid, and the failed check is %s", (_, failed, fields) => {
    expect(check(completion(fields))).toMatchObject({ verdict: "invalid_receipt", fault: expect.stringMatching(new RegExp(`^${failed}: .{10,}`)) });
  });

  it.each(["job_id", "provider_pubkey", "output_hash", "completed_at", "payment_ref"])(
    "[LM1] [RC4] with a %s of more than 256 characters is not stored",
    (name) => {
      const short = check(completion(signed({ [name]: "0".repeat(256) }))).receipt;
      expect(short).toMatchObject({ [name]: "0".repeat(256), verified: false });
      expect(check(completion(signed({ [name]: "0".repeat(257) }))).receipt).toBeNull();
    },
  );

  it("[RC3] over half of a surrogate pair is invalid, and the message says what to do", () => {
    const output = { summary: "\ud800", word_count: 1 };
    const fault = "hash: expected an output of well-formed Unicode; half of a surrogate pair is not a character: cut texts only between characters";
    expect(check(completion({}, output))).toMatchObject({ verdict: "invalid_receipt", fault });
  });

  const valid: [name: string, Fields][] = [
    ["a completed_at of 5 min ago", signed({ completed_at: at(-300_000) })],
    ["a completed_at in 5 min, in another zone", signed({ completed_at: at(300_000 + 7_200_000).replace("Z", "+02:00") })],
    ["a bare-hex hash", signed({ output_hash: honest.output_hash.slice(7) })],
    ["its key in upper case", signed({ provider_pubkey: KEY.publicKey.toUpperCase() })],
    ["payment_ref left out", { receipt: { ...honest, payment_ref: undefined } }],
    ["its members in another order", { receipt: Object.fromEntries(Object.entries(honest).toReversed()) }],
  ];

  it.each(valid)("[RC1] [RC2] [RC3] with %s is valid, and kept as signed", (_, fields) => {
    const { verdict, receipt, fault } = check(completion(fields));
    expect([verdict, fault]).toEqual(["valid", null]);
    expect(receipt).toEqual({ ...(fields.receipt as object), payment_ref: null, signature: receipt?.signature, verified: true });
  });

  const { signature, ...unsigned } = honest;
  const hex = Buffer.from(signature, "base64").toString("hex");
  const places: [name: string, Fields][] = [
    ["in the receipt", { receipt: honest, receipt_signature: undefined }],
    ["in the receipt, with null beside it", { receipt: honest, receipt_signature: null }],
    ["in the receipt, in hex", { receipt: { ...unsigned, signature: hex }, receipt_signature: undefined }],
    ["beside it, and another one in the receipt", { receipt: { ...unsigned, signature: signText("x", KEY.secret) } }],
    ["beside it, in hex", { receipt: unsigned, receipt_signature: hex }],
    ["beside it, without padding", { receipt: unsigned, receipt_signature: signature.replace(/=+$/, "") }],
  ];

  it.each(places)("[WS10] [RC1] with its signature %s is valid, and the signature is kept in base64", (_, fields) => {
    const { verdict, receipt } = check(completion(fields));
    expect([verdict, receipt?.signature]).toEqual(["valid", signature]);
  });

  it("[WS10] with an attempt of null, or without one, is read", () => {
    for (const attempt of [null, undefined]) expect(check(completion({ attempt })).verdict).toBe("valid");
  });

  it("[WS10] the failed check says what was expected", () => {
    const text = `{"job_id":"${ID}","provider_pubkey":"${KEY.publicKey}","output_hash":"${hashOf(OUTPUT)}","completed_at":"${at(0)}","payment_ref":null}`;
    const told = (fields: Fields) => check(completion(fields)).fault;
    expect(told({ receipt: { output_hash: "sha256:00" } })).toBe(
      "missing: receipt.job_id, receipt.provider_pubkey, receipt.completed_at: expected text of at most 256 characters",
    );
    expect(told({ output: "another" })).toBe(`hash: expected ${hashOf("another")} of the output as JSON.stringify writes it`);
    expect(told({ receipt_signature: "AAAA" })).toBe("signature: expected 64 bytes as base64");
    expect(told({ receipt_signature: signText("x", OTHER_KEY.secret) })).toBe(`signature: expected that of ${KEY.publicKey} over the UTF-8 of ${text}`);
  });

  it("[LM1] an output of 1 MiB is read, one byte more is output_too_large", () => {
    const most = "x".repeat(LIMITS.outputBytes - 2);
    expect(check(completion({}, most), { jobType: "LLM_INFER" }).verdict).toBe("valid");
    expect(check(completion({}, `${most}x`), { jobType: "LLM_INFER" })).toMatchObject({
      verdict: "output_too_large",
      receipt: null,
      fault: `the output has ${LIMITS.outputBytes + 1} bytes as JSON text, at most ${LIMITS.outputBytes} are allowed`,
    });
  });
});

describe("a worker's message about a failure", () => {
  const said: [what: string, text: string | null | undefined, shown: string | undefined][] = [
    ["escapes", "\u001B[31mred\u001B[0m", "[31mred[0m"],
    ["line ends", "one\r\n two\u2028three\u0085four\tfive", "one two three four five"],
    ["bidi marks", "\u202Egnp.exe\u2066\u200F\u061C", "gnp.exe"],
    ["a lone surrogate", "\uD83D\uDE00\uD83D", "😀\uFFFD"],
    ["more than its length", `${"\u0000".repeat(100)}${"😀".repeat(600)}`, "😀".repeat(500)],
    ["far more than its length", "x".repeat(100_000), "x".repeat(LIMITS.messageChars)],
    ["nothing that can be seen", " \n\u0007 ", undefined],
    ["null", null, undefined],
    ["nothing", undefined, undefined],
  ];
  it.each(said)("[JB5] is one line of limited length, without what a terminal would follow: %s", (_, text, shown) => {
    expect(workerMessage(text)).toEqual(shown === undefined ? {} : { message: shown });
  });

  it("[JB5] is the text of an output that has only an error", () => {
    const output = { error: "no such voice\n" };
    for (const job of [SUMMARIZE, null]) expect(check(completion({}, output), job)).toMatchObject({ verdict: "worker_error", message: "no such voice" });
    expect(check(completion({}, { ...output, more: 1 }), null).verdict).toBe("valid");
  });
});

describe("the shape of an output", () => {
  const CLASSIFY: ExpectedOutput = { jobType: "TASK", taskType: "classify" };
  const EXTRACT: ExpectedOutput = { jobType: "TASK", taskType: "extract_json" };
  const LLM: ExpectedOutput = { jobType: "LLM_INFER" };
  const shapes: [name: string, ExpectedOutput, output: unknown, isTaken: boolean][] = [
    ["classify", CLASSIFY, { sentiment: "s", confidence: 1, more: null }, true],
    ["classify that is too sure", CLASSIFY, { sentiment: "s", confidence: 1.01 }, false],
    ["classify that is less than unsure", CLASSIFY, { sentiment: "s", confidence: -0.01 }, false],
    ["classify without confidence", CLASSIFY, { sentiment: "s" }, false],
    ["classify with words for a number", CLASSIFY, { sentiment: "s", confidence: "high" }, false],
    ["summarize", SUMMARIZE, { summary: "", word_count: 0 }, true],
    ["summarize with an output of another task", SUMMARIZE, { sentiment: "s", confidence: 1 }, false],
    ["summarize as text", SUMMARIZE, "a summary", false],
    ["summarize as an LLM would answer", SUMMARIZE, { output: "a summary" }, false],
    ["extract_json", EXTRACT, { extracted: [{ a: 1 }, {}], count: 2 }, true],
    ["extract_json of nothing", EXTRACT, { extracted: [], count: 0 }, true],
    ["extract_json that counts wrong", EXTRACT, { extracted: [{}], count: 2 }, false],
    ["extract_json of what is no object", EXTRACT, { extracted: [[]], count: 1 }, false],
    ["LLM text", LLM, "hi", true],
    ["LLM output", LLM, { output: "hi", usage: {} }, true],
    ["LLM text as a member", LLM, { text: "hi" }, true],
    ["LLM output that is no text", LLM, { output: ["hi"], text: "hi" }, false],
    ["LLM output that is missing", LLM, {}, false],
  ];

  it.each(shapes)("[RC6] [JB7] %s is checked, and a string is wrapped", (_, job, output, isTaken) => {
    const { verdict, fault, result } = check(completion({}, output), job);
    if (!isTaken) return expect([verdict, fault]).toEqual(["invalid_receipt", expect.stringMatching(/^shape: expected /)]);
    expect([verdict, JSON.parse(result)]).toEqual(["valid", typeof output === "string" ? { output } : output]);
  });
});
