import { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test } from "vitest";
import { llm, newUser, task, UUID } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { newIdentity, receiptFor } from "../support/identity.ts";
import { unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
/** Workers here announce TASK only, so that LLM_INFER jobs wait. */
const TASKS = { capabilities: ["TASK"] };

beforeAll(async () => {
  evm = await share();
});

describe("unusual headers and queries", () => {
  test.each(["wait", "wait=", "wait=abc", "wait=-1", "wait=1.5", ";;,,=", "wait=0", 'wait="1"', "WAIT=1"])(
    "[API6] Prefer: %s never breaks a commit",
    async (prefer) => {
      const answer = await evm.api.tryCommit(llm(newUser()), "cheap", { prefer });
      expect(answer.status).toBe(201);
      expect(answer.body.job_id).toMatch(UUID);
      expect(answer.ms).toBeLessThan(4_000);
      // The body has the job exactly when the preference was applied.
      expect("job" in answer.body).toBe(answer.headers.get("preference-applied") !== null);
    },
  );

  test("[API6, JB8] Prefer: wait on a refused or bad commit changes nothing", async () => {
    const refused = await evm.api.tryCommit(task(newUser(), "x", { privacy_class: "PRIVATE" }), "cheap", { prefer: "wait=20" });
    expect(refused.status).toBe(422);
    expect(Object.keys(refused.body).toSorted()).toEqual(["error", "job_id"]);
    expect((await evm.api.tryCommit({}, "cheap", { prefer: "wait=20" })).status).toBe(400);
  });

  test.each(["", " ", "x", "x".repeat(5_000), "'; DROP TABLE jobs; --", "\u00e9\u00ff"])(
    "[API5] an odd Idempotency-Key is no server error: %j",
    async (key) => {
      const answer = await evm.api.tryCommit(llm(newUser()), "cheap", { "idempotency-key": key });
      expect([201, 400]).toContain(answer.status);
    },
  );

  test.each(["job_type=TASK&job_type=LLM_INFER", "job_type[]=TASK", "job_type=TASK&policy=FAST&policy=CHEAP", "=&&&job_type=TASK"])(
    "[API3] an odd query is no server error: %s",
    async (query) => {
      expect((await evm.api.get(`/v1/quote?${query}`)).status).toBeLessThan(500);
    },
  );

  test("[API1] a compressed body is a client error or read, and no server error", async () => {
    const answer = await evm.api.tryCommit(gzipSync(JSON.stringify(llm(newUser()))), "cheap", { "content-encoding": "gzip" });
    expect([201, 400, 415]).toContain(answer.status);
  });

  test("[API1] a byte order mark, a NUL and duplicate members are read or refused, no server error", async () => {
    const text = JSON.stringify(llm(newUser()));
    for (const body of [`\ufeff${text}`, `${text}\u0000`, text.replace("{", '{"job_type":"TASK",'), `{"__proto__":{"job_type":"TASK"},${text.slice(1)}`])
      expect([201, 400]).toContain((await evm.api.tryCommit(body)).status);
  });

  test("[SPEC] fields from a prototype do not count as given", async () => {
    expect((await evm.api.tryCommit(`{"__proto__":${JSON.stringify(llm(newUser()))}}`)).status).toBe(400);
  });
});

describe("unusual frames", () => {
  test("[WS3] two registers of two keys, sent before any answer: the second is already_registered", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    worker.send({ type: "register", ...worker.registration(), ...TASKS });
    worker.send({ type: "register", ...worker.registration(), provider_pubkey: newIdentity().pubkey });
    expect(await worker.frame("register_ack")).toMatchObject({ status: "ok" });
    expect(await worker.frame("error")).toMatchObject({ code: "already_registered" });
    expect((await evm.api.get("/v1/health")).body.workers_online).toBe(1);
  });

  test("[RC1, RC4] a receipt's further members and a payment_ref of the worker's own are not made up by REST", async () => {
    const worker = await unsignedWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    const { receipt, receipt_signature } = receiptFor(worker.identity, id, OUTPUT);
    expect(await worker.complete(id, OUTPUT, { receipt: { ...receipt, secret: "s", verified: true }, receipt_signature })).toMatchObject({
      status: "accepted",
    });
    expect((await evm.api.job(id)).receipt).toEqual({ ...receipt, signature: receipt_signature });
  });

  test("[WS9] progress of every kind of text does no harm", async () => {
    const worker = await unsignedWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    const assign = await worker.assigned(id);
    for (const [seq, delta] of ["", "\u0000", "🦊", "x".repeat(600_000), "y".repeat(600_000)].entries()) worker.progress(assign, seq, delta);
    worker.progress(assign, Number.MAX_SAFE_INTEGER, "far");
    await worker.settled();
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });

  test("[WS1] sockets that vanish in the middle of anything leave the service well", async () => {
    const sockets = await Promise.all(Array.from({ length: 30 }, () => WorkerSocket.open(evm.socketUrl)));
    for (const [index, socket] of sockets.entries()) {
      if (index % 3 === 1) socket.send({ type: "register", ...socket.registration(), ...TASKS });
      if (index % 3 === 2) socket.send("nonsense");
      socket.close();
    }
    await Promise.all(sockets.map((socket) => socket.ended()));
    const worker = await unsignedWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    await worker.assigned(id);
    expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  });
});
