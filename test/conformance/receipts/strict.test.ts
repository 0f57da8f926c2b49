import { beforeAll, describe, expect, test } from "vitest";
import { type Fields, llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { malleable, newIdentity, outputHash, receiptFor, sha256, signText } from "../support/identity.ts";
import { fullWorker, WorkerSocket } from "../support/worker.ts";

let strict: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9, 9: "nine", 10: "ten" };
const PRIVATE = { privacy_class: "PRIVATE" };

beforeAll(async () => {
  strict = await start("evm", { TESTNET_MODE: "true", WORKER_AUTH: "required", RECEIPT_POLICY: "strict" });
});

type Made = { receipt?: Fields; receipt_signature?: string; output_hash?: string };

/** Connects a worker and gives it a job. */
async function holder(job: typeof task = task) {
  const worker = await fullWorker(strict.socketUrl);
  const user = newUser();
  await strict.api.pair(user, worker);
  const id = await strict.api.commit(job(user, "x", PRIVATE));
  worker.ack(await worker.assigned(id));
  return { worker, user, id };
}

const send = (worker: WorkerSocket, id: string, rest: object, output: unknown = OUTPUT) =>
  worker.ask({ type: "job_complete", job_id: id, output, ...rest }, (frame) => frame.type === "job_complete_ack" && frame.job_id === id);

describe("WORKER_AUTH=required", () => {
  test("[WS5, WS4] an unsigned register is auth_required, close 4401, and is not counted", async () => {
    const worker = await WorkerSocket.open(strict.socketUrl);
    expect(await worker.registerPlain()).toMatchObject({ type: "register_ack", status: "error", error: "auth_required" });
    expect((await worker.ended()).code).toBe(4401);
    expect((await strict.api.get("/v1/health")).body.workers_online).toBe(0);
  });

  test("[WS4] a signed one is authenticated", async () => {
    const worker = await WorkerSocket.open(strict.socketUrl);
    expect(await worker.registerSigned()).toMatchObject({ status: "ok", authenticated: true });
  });
});

describe("RECEIPT_POLICY=strict takes", () => {
  const good: [string, (worker: WorkerSocket, id: string) => Made][] = [
    ["the receipt of RC1", (worker, id) => receiptFor(worker.identity, id, OUTPUT)],
    [
      "a hex signature",
      (worker, id) => ({
        ...receiptFor(worker.identity, id, OUTPUT),
        receipt_signature: Buffer.from(receiptFor(worker.identity, id, OUTPUT).receipt_signature, "base64").toString("hex"),
      }),
    ],
    [
      "the signature inside the receipt",
      (worker, id) => {
        const { receipt, receipt_signature } = receiptFor(worker.identity, id, OUTPUT);
        return { receipt: { ...receipt, signature: receipt_signature } };
      },
    ],
    ["a bare-hex hash", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { output_hash: sha256(JSON.stringify(OUTPUT)) })],
    [
      "members in another order, signed in the right one",
      (worker, id) => {
        const { receipt, receipt_signature } = receiptFor(worker.identity, id, OUTPUT);
        return { receipt: Object.fromEntries(Object.entries(receipt).toReversed()), receipt_signature };
      },
    ],
    ["a clock 4 minutes slow", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: new Date(Date.now() - 240_000).toISOString() })],
    ["a clock 4 minutes fast", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: new Date(Date.now() + 240_000).toISOString() })],
    [
      "ISO 8601 without milliseconds",
      (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: new Date().toISOString().replace(/\.\d+Z/, "Z") }),
    ],
  ];

  test.each(good)("[RC1, RC2, RC3] %s", async (_name, made) => {
    const { worker, id } = await holder();
    const rest = made(worker, id);
    // The receipt with bare hex must sign that form.
    if (rest.receipt && rest.receipt_signature?.length === 128)
      rest.receipt_signature = Buffer.from(signText(worker.identity, JSON.stringify(rest.receipt)), "base64").toString("hex");
    expect(await send(worker, id, rest)).toMatchObject({ status: "accepted" });
    expect(await strict.api.job(id)).toMatchObject({
      status: "completed",
      result: OUTPUT,
      receipt: { job_id: id, provider_pubkey: worker.pubkey, payment_ref: null, signature: expect.stringMatching(/^[A-Za-z0-9+/]{86}==$/) },
    });
  });

  test("[RC2] outputs of integer-like keys, odd numbers, escapes and every plane, hashed as parsed", async () => {
    for (const raw of [
      '{"b":1,"a":2,"10":"x","9":"y","output":"o"}',
      '{"output":"o","n":[1.0,1e2,-0,1e21,1e-7]}',
      '{"output":"o","t":"\\u00e9\\ud83e\\udd8a\\u2028\\/","ж":"\\udbff\\udffd"}',
      '"plain \\u0041"',
      '{"a":1,"output":"","a":{"z":0,"y":0}}',
    ]) {
      const { worker, id } = await holder(llm);
      const { receipt, receipt_signature } = receiptFor(worker.identity, id, JSON.parse(raw));
      const text = `{"type":"job_complete","job_id":"${id}","output":${raw},"receipt":${JSON.stringify(receipt)},"receipt_signature":"${receipt_signature}"}`;
      expect(await worker.ask(text, "job_complete_ack"), raw).toMatchObject({ status: "accepted" });
    }
  });
});

describe("RECEIPT_POLICY=strict refuses", () => {
  const bad: [string, (worker: WorkerSocket, id: string) => object][] = [
    ["no receipt", () => ({})],
    ["a receipt that is text", () => ({ receipt: "x", receipt_signature: "x" })],
    ["no signature", (worker, id) => ({ receipt: receiptFor(worker.identity, id, OUTPUT).receipt })],
    ["another key's receipt", (_worker, id) => receiptFor(newIdentity(), id, OUTPUT)],
    ["its key's name over another key's signature", (worker, id) => receiptFor(newIdentity(), id, OUTPUT, { provider_pubkey: worker.pubkey })],
    ["another key's name over its own signature", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { provider_pubkey: newIdentity().pubkey })],
    ["another job_id", (worker) => receiptFor(worker.identity, "11111111-2222-4333-8444-555555555555", OUTPUT)],
    ["the hash of another output", (worker, id) => receiptFor(worker.identity, id, { ...OUTPUT, confidence: 0.8 })],
    [
      "the hash of sorted text that was not sent so",
      (worker, id) => receiptFor(worker.identity, id, OUTPUT, { output_hash: `sha256:${sha256('{"confidence":0.9,"sentiment":"positive"}')}` }),
    ],
    [
      "a hash changed after signing",
      (worker, id) => {
        const made = receiptFor(worker.identity, id, { other: 1 });
        return { ...made, receipt: { ...made.receipt, output_hash: outputHash(OUTPUT) } };
      },
    ],
    ["completed_at of 6 minutes ago", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: new Date(Date.now() - 360_000).toISOString() })],
    ["completed_at in 6 minutes", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: new Date(Date.now() + 360_000).toISOString() })],
    ["completed_at that is no ISO 8601", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: new Date().toUTCString() })],
    ["completed_at a number", (worker, id) => receiptFor(worker.identity, id, OUTPUT, { completed_at: Date.now() })],
    [
      "a signature over other bytes",
      (worker, id) => {
        const { receipt } = receiptFor(worker.identity, id, OUTPUT);
        return { receipt, receipt_signature: signText(worker.identity, JSON.stringify(receipt, null, 1)) };
      },
    ],
    [
      "a signature over four fields",
      (worker, id) => {
        const { receipt } = receiptFor(worker.identity, id, OUTPUT);
        const { payment_ref: _, ...four } = receipt;
        return { receipt, receipt_signature: signText(worker.identity, JSON.stringify(four)) };
      },
    ],
    [
      "S + L in place of S",
      (worker, id) => {
        const made = receiptFor(worker.identity, id, OUTPUT);
        return { ...made, receipt_signature: malleable(made.receipt_signature) };
      },
    ],
    ["a signature of zeros", (worker, id) => ({ ...receiptFor(worker.identity, id, OUTPUT), receipt_signature: Buffer.alloc(64).toString("base64") })],
    [
      "R of small order with S = 0",
      (worker, id) => ({ ...receiptFor(worker.identity, id, OUTPUT), receipt_signature: Buffer.from(`01${"00".repeat(63)}`, "hex").toString("base64") }),
    ],
    [
      "a signature of 63 bytes",
      (worker, id) => {
        const made = receiptFor(worker.identity, id, OUTPUT);
        return { ...made, receipt_signature: Buffer.from(made.receipt_signature, "base64").subarray(0, 63).toString("base64") };
      },
    ],
  ];

  test.each(bad)("[RC3, RC4, RC1] %s: rejected invalid_receipt, and the job goes to another worker", async (_name, made) => {
    const { worker, user, id } = await holder();
    const other = await fullWorker(strict.socketUrl);
    await strict.api.pair(user, other);
    const message = expect.stringMatching(/^(?:signature|key|job_id|hash|time|missing): .+/);
    expect(await send(worker, id, made(worker, id))).toMatchObject({ job_id: id, status: "rejected", error: "invalid_receipt", message });
    const assign = await other.assigned(id, 4_000);
    expect(assign.attempt).toBe(2);
    expect(await strict.api.job(id)).toMatchObject({ result: null, receipt: null });
    other.ack(assign);
    expect(await send(other, id, receiptFor(other.identity, id, OUTPUT))).toMatchObject({ status: "accepted" });
    expect((await strict.api.job(id)).receipt).toMatchObject({ provider_pubkey: other.pubkey });
  });

  test("[RC6, WS10] an output of another shape: rejected invalid_receipt shape, and the job goes to another worker", async () => {
    const { worker, user, id } = await holder();
    const other = await fullWorker(strict.socketUrl);
    await strict.api.pair(user, other);
    const wrong = { output: "positive" };
    const message = "shape: expected an object with a string sentiment and a number confidence from 0 to 1";
    expect(await send(worker, id, receiptFor(worker.identity, id, wrong), wrong)).toMatchObject({ status: "rejected", error: "invalid_receipt", message });
    other.ack(await other.assigned(id, 4_000));
    expect(await send(other, id, receiptFor(other.identity, id, OUTPUT))).toMatchObject({ status: "accepted" });
  });

  test("[RC4, WS4] three strikes park the worker: closed 4003, and the next register is parked with retry_after_s", { timeout: 40_000 }, async () => {
    const worker = await fullWorker(strict.socketUrl);
    const user = newUser();
    await strict.api.pair(user, worker);
    const ids = [];
    for (let strike = 0; strike < 3; strike += 1) {
      const id = await strict.api.commit(task(user, `strike ${strike}`, PRIVATE));
      ids.push(id);
      // The job of an earlier strike may be assigned again at a tick; the worker answers it too.
      const assign = await worker.frame((frame) => frame.type === "job_assign", { from: worker.frames.length > 0 ? lastAck(worker) : 0, ms: 8_000 });
      worker.ack(assign);
      expect(await send(worker, String(assign.job_id), {})).toMatchObject({ status: "rejected", error: "invalid_receipt" });
    }
    expect((await worker.ended()).code).toBe(4003);
    expect(worker.frames.at(-1)).toMatchObject({ type: "error", code: "parked", message: expect.any(String), retry_after_s: 60 });
    const back = await WorkerSocket.open(strict.socketUrl, worker.identity);
    const ack = await back.registerSigned();
    expect(ack).toMatchObject({ type: "register_ack", status: "error", error: "parked", retry_after_s: expect.any(Number) });
    expect(Number(ack.retry_after_s)).toBeGreaterThan(30);
    expect(Number(ack.retry_after_s)).toBeLessThanOrEqual(60);
    expect((await back.ended()).code).toBe(4003);
    expect((await strict.api.tryCommit(task(user, "x", PRIVATE))).status).toBe(422);
  });

  test("[RC4, JB5] three attempts with invalid receipts end the job as invalid_receipt", { timeout: 40_000 }, async () => {
    const workers = await Promise.all([1, 2, 3].map(() => fullWorker(strict.socketUrl)));
    const user = newUser();
    await strict.api.pair(user, ...workers);
    const id = await strict.api.commit(task(user, "x", PRIVATE));
    for (const worker of workers)
      void worker.assigned(id, 20_000).then(
        (assign) => (worker.ack(assign), worker.send({ type: "job_complete", job_id: id, output: OUTPUT })),
        () => {},
      );
    expect(await strict.api.ended(id, 20_000)).toMatchObject({ status: "failed", result: { error: "invalid_receipt" }, receipt: null, completed_at: null });
  });
});

/** Returns the index after the last job_complete_ack. */
function lastAck(worker: WorkerSocket): number {
  return worker.frames.findLastIndex((frame) => frame.type === "job_complete_ack") + 1;
}
