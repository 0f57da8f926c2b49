import { createHash } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type Fields, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { outputHash, receiptFor } from "../support/identity.ts";
import { fullWorker, type WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };
const KIB = 1024;

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", WORKER_AUTH: "required", RECEIPT_POLICY: "strict" });
});

/** Returns a worker that has a job, and the job. */
async function holder(): Promise<{ worker: WorkerSocket; user: string; id: string }> {
  const worker = await fullWorker(evm.socketUrl);
  const user = newUser();
  await evm.api.pair(user, worker);
  const id = await evm.api.commit(task(user, "x", PRIVATE));
  worker.ack(await worker.assigned(id));
  return { worker, user, id };
}

const sendText = (worker: WorkerSocket, id: string, text: string) =>
  worker.ask(text, (frame) => (frame.type === "job_complete_ack" && frame.job_id === id) || frame.type === "error");

describe("results of other workers", () => {
  test("[WS12] the holder's own frame, intercepted and sent first by another worker: not_assigned, and the holder's still counts", async () => {
    const { worker, id } = await holder();
    const thief = await fullWorker(evm.socketUrl);
    const frame = worker.completion(id, OUTPUT);
    expect(await thief.ask(frame, "job_complete_ack")).toEqual({
      ...{ type: "job_complete_ack", job_id: id, status: "rejected", error: "not_assigned" },
      message: expect.any(String),
    });
    expect(await thief.ask(thief.completion(id, { mine: true }), "job_complete_ack")).toMatchObject({ error: "not_assigned" });
    expect((await evm.api.job(id)).status).toBe("running");
    expect(await worker.ask(frame, "job_complete_ack")).toMatchObject({ status: "accepted" });
    expect((await evm.api.job(id)).receipt).toMatchObject({ provider_pubkey: worker.pubkey });
  });

  test("[JB6, WS12] a former and the present holder and a thief send different results in one moment: one is recorded, with its own receipt", async () => {
    for (let round = 0; round < 5; round += 1) {
      const { worker: first, user, id } = await holder();
      const second = await fullWorker(evm.socketUrl);
      await evm.api.pair(user, second);
      first.fail(await first.assigned(id), true);
      second.ack(await second.assigned(id));
      const thief = await fullWorker(evm.socketUrl);
      const sent = [first, second, thief].map((worker, index) => {
        const output = { sentiment: `${index} of ${round}`, confidence: 0 };
        return worker.complete(id, output).then((ack) => ({ ack, output, worker }));
      });
      const answers = await Promise.all(sent);
      const won = answers.filter(({ ack }) => ack.status === "accepted");
      expect(won).toHaveLength(1);
      expect(answers[2]?.ack.error).toBe("not_assigned");
      const job = await evm.api.job(id);
      expect(job).toMatchObject({ status: "completed", result: won[0]?.output, receipt: { provider_pubkey: won[0]?.worker.pubkey } });
      expect(job.receipt?.output_hash).toBe(outputHash(won[0]?.output));
    }
  });
});

describe("receipts of other jobs and other workers", () => {
  test("[RC3, RC4] the receipt of an earlier job of the same worker with the same output: invalid_receipt", async () => {
    const { worker, user, id } = await holder();
    const old = receiptFor(worker.identity, id, OUTPUT);
    expect(await worker.ask({ type: "job_complete", job_id: id, output: OUTPUT, ...old }, "job_complete_ack")).toMatchObject({ status: "accepted" });
    const next = await evm.api.commit(task(user, "x", PRIVATE));
    await worker.assigned(next);
    const ack = await worker.ask(
      { type: "job_complete", job_id: next, output: OUTPUT, ...old },
      (frame) => frame.job_id === next && frame.type === "job_complete_ack",
    );
    expect(ack).toMatchObject({ status: "rejected", error: "invalid_receipt" });
    expect((await evm.api.job(next)).result).toBeNull();
  });

  const hashes: [string, (text: string) => string][] = [
    ["upper-case hex", (text) => `sha256:${sha(text, "sha256").toUpperCase()}`],
    ["SHA256:", (text) => `SHA256:${sha(text, "sha256")}`],
    ["a blank", (text) => `sha256: ${sha(text, "sha256")}`],
    ["another digest", (text) => `sha512:${sha(text, "sha512")}`],
    ["base64", (text) => `sha256:${createHash("sha256").update(text).digest("base64")}`],
    ["half of it", (text) => `sha256:${sha(text, "sha256").slice(0, 32)}`],
    ["a line end", (text) => `sha256:${sha(text, "sha256")}\n`],
    ["two of them", (text) => `sha256:sha256:${sha(text, "sha256")}`],
  ];

  test.each(hashes)("[RC2, RC3] an output_hash in other words, %s: invalid_receipt", async (_name, spell) => {
    const { worker, id } = await holder();
    const made = receiptFor(worker.identity, id, OUTPUT, { output_hash: spell(JSON.stringify(OUTPUT)) });
    expect(await worker.ask({ type: "job_complete", job_id: id, output: OUTPUT, ...made }, "job_complete_ack")).toMatchObject({
      status: "rejected",
      error: "invalid_receipt",
    });
  });

  test("[RC1, RC4] a megabyte of further members, of prototypes and of nonsense in a receipt: the five signed ones are kept, nothing else", async () => {
    const { worker, id } = await holder();
    const { receipt, receipt_signature } = receiptFor(worker.identity, id, OUTPUT);
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`member ${index}`, "x".repeat(80)]));
    const frame = JSON.stringify({ type: "job_complete", job_id: id, output: OUTPUT, receipt: { ...receipt, ...many }, receipt_signature });
    const text = frame.replace('"receipt":{', '"receipt":{"__proto__":{"verified":true},"constructor":{"name":"x"},');
    expect(text.length).toBeGreaterThan(900 * KIB);
    expect(await sendText(worker, id, text)).toMatchObject({ status: "accepted" });
    expect((await evm.api.job(id)).receipt).toEqual({ ...receipt, signature: receipt_signature });
  });

  test("[RC4] a megabyte where a signature should be: refused, and nobody else waits for it", async () => {
    const { worker, id } = await holder();
    const { receipt } = receiptFor(worker.identity, id, OUTPUT);
    const frame = { type: "job_complete", job_id: id, output: OUTPUT, receipt, receipt_signature: "A".repeat(1_200 * KIB) };
    expect(await worker.ask(frame, "job_complete_ack")).toMatchObject({ status: "rejected", error: "invalid_receipt" });
  });
});

describe("hostile outputs", () => {
  /** Returns the JSON text of an object that starts with the required members of a classify output [RC6]. */
  const shaped = (text: string): string => text.replace("{", '{"sentiment":"s","confidence":1,');

  /** Completes the job with this JSON text as output, hashed by RC2. */
  async function complete(text: string): Promise<{ ack: Fields; id: string; ms: number }> {
    const { worker, id } = await holder();
    const { receipt, receipt_signature } = receiptFor(worker.identity, id, JSON.parse(text));
    const tail = `"receipt":${JSON.stringify(receipt)},"receipt_signature":"${receipt_signature}"}`;
    const started = performance.now();
    const ack = await sendText(worker, id, `{"type":"job_complete","job_id":"${id}","output":${text},${tail}`);
    return { ack, id, ms: performance.now() - started };
  }

  test("[RC2, LM1] ninety thousand members, and integer-like names in the worst order, are hashed without delay", async () => {
    const plain = JSON.stringify(Object.fromEntries(Array.from({ length: 90_000 }, (_, index) => [`k${index}`, 0])));
    const numbers = `{${Array.from({ length: 60_000 }, (_, index) => `"${(4_294_967_000 - index * 40_961) % 4_294_967_295}":0`).join(",")}}`;
    for (const text of [plain, numbers]) {
      const { ack, ms } = await complete(shaped(text));
      expect(ack).toMatchObject({ status: "accepted" });
      // A busy test machine is slow, but quadratic work would take minutes.
      expect(ms).toBeLessThan(5_000);
    }
  });

  test("[RC2, JB7] members called __proto__, constructor and toString are members like others", async () => {
    const text = shaped('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":"x","hasOwnProperty":1}');
    const { ack, id } = await complete(text);
    expect(ack).toMatchObject({ status: "accepted" });
    expect((await evm.api.get(`/v1/jobs/${id}`)).text).toContain(`"result":${text}`);
    expect((await evm.api.tryCommit("{}")).status).toBe(400);
  });

  test("[RC2] numbers that JSON can say and JavaScript cannot are hashed and stored as they are read", async () => {
    const { ack, id } = await complete(shaped('{"n":[1e400,-1e400,1e-400,123456789012345678901234567890,0.1e1]}'));
    expect(ack).toMatchObject({ status: "accepted" });
    expect((await evm.api.job(id)).result).toEqual({ sentiment: "s", confidence: 1, n: [null, null, 0, 1.2345678901234568e29, 1] });
  });

  test("[LM1] an output nested as deep as a frame may be is stored; a deeper one is bad_message and the job goes on", async () => {
    const nested = (depth: number) => shaped(`{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`);
    expect((await complete(nested(30))).ack).toMatchObject({ status: "accepted" });
    const { ack, id } = await complete(nested(31));
    expect(ack).toMatchObject({ type: "error", code: "bad_message" });
    expect((await evm.api.job(id)).status).toBe("running");
    // A result of this size is parsed only if its worker holds the job [LM2].
    const { worker, id: held } = await holder();
    expect(await worker.ask(`{"type":"job_complete","job_id":"${held}","output":${nested(500_000)}}`, "error")).toMatchObject({ code: "bad_message" });
  });

  test("[RC3, API2] half a surrogate pair in an output: invalid_receipt, since no two readers would hash the same bytes", async () => {
    for (const text of ['{"t":"\\ud800"}', '{"\\udfff":1}', '"\\ud83e"'])
      expect((await complete(shaped(text))).ack).toMatchObject({ error: "invalid_receipt", message: expect.stringMatching(/^hash: /) });
  });

  test("[RC2] NUL, U+FFFD, text from right to left and decomposed letters come back to the byte", async () => {
    const output = { ...OUTPUT, t: "\0\ufffd\u202eabc\u2066e\u0301\u00e9\u2028\ufeff" };
    const { ack, id } = await complete(JSON.stringify(output));
    expect(ack).toMatchObject({ status: "accepted" });
    expect((await evm.api.job(id)).result).toEqual(output);
  });
});

function sha(text: string, algorithm: "sha256" | "sha512"): string {
  return createHash(algorithm).update(text, "utf8").digest("hex");
}
