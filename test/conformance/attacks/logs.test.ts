import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { sql, start, type Subject } from "../support/coordinator.ts";
import { type FakeFacilitator, fakeFacilitator } from "../support/facilitator.ts";
import { receiptFor } from "../support/identity.ts";
import { head, rawRequest } from "../support/raw-http.ts";
import { within } from "../support/wait.ts";
import { fullWorker, unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
let gated: Subject;
let facilitator: FakeFacilitator;
const PAYEE = "0x99B9e5b1ED388051ce91BA3140147Ea1864564bC";

/** Every secret contains this text, so that one search finds each of them, also in part. */
const MARK = "HUSH";
const secret = (what: string): string => `${MARK}-${what}-${randomUUID()}`;
const PRIVATE = { privacy_class: "PRIVATE" };

beforeAll(async () => {
  facilitator = await fakeFacilitator();
  [evm, gated] = await Promise.all([
    start("evm", { TESTNET_MODE: "true", RECEIPT_POLICY: "strict" }),
    start("evm", {
      ...{ TESTNET_MODE: "false", RATE_LIMITS: "off", EVM_PAY_TO: PAYEE, EVM_FACILITATOR: facilitator.url },
      EVM_FACILITATOR_AUTHORIZATION: secret("authorization"),
    }),
  ]);
});

/** Returns the parts of a log that reveal a secret, also as base64 and hex. */
function leaks(log: readonly string[]): string[] {
  const forms = [MARK, Buffer.from(MARK).toString("hex")];
  for (const shift of ["", "x", "xx"])
    forms.push(
      Buffer.from(`${shift}${MARK}`)
        .toString("base64")
        .slice(shift.length === 0 ? 0 : shift.length + 1, 5),
    );
  return log.filter((line) => forms.some((form) => line.includes(form)));
}

describe("logs", () => {
  test(
    "[API1] of everything that can go wrong at the door, in a job and on a socket: no prompt, user, token, code, result, signature",
    { timeout: 120_000 },
    async () => {
      const { api } = evm;
      const user = secret("user");
      const token = { "x-user-token": secret("token") };
      // Invalid requests of every kind.
      for (const body of [
        secret("body"),
        `{"user_id":"${user}"`,
        { user_id: user, job_type: secret("type"), payload: secret("payload") },
        task(user, secret("in"), { privacy_class: secret("class") }),
      ])
        await api.tryCommit(body, "cheap", { "idempotency-key": secret("key"), "x-payment": secret("payment"), ...token });
      await api.tryCommit(llm(user, secret("prompt"), { ...PRIVATE, secret: secret("extra") }), "fast", { prefer: `wait=1; ${secret("prefer")}`, ...token });
      for (const path of ["", "/v1/jobs/", "/v1/quote?job_type=", "/v1/trust/list?user_id=", "/docs?"])
        await api.get(`/${secret("path")}`.replace(/^\//, path || "/"));
      await api.ask("DELETE", `/v1/jobs/${secret("id")}`);
      await api.post("/v1/trust/claim", { pairing_code: secret("code"), provider_pubkey: secret("key"), signature: secret("signature") });
      await rawRequest(evm.port, head(`GET /${secret("raw")} HTTP/1.1`, `Host: ${evm.host}`, `X-Secret: ${secret("header")}`, `Cookie: ${secret("cookie")}`));
      // A pairing with a token.
      const created = await api.post("/v1/trust/create", { user_id: user }, token);
      expect(created.status).toBe(201);
      const code = String(created.body.pairing_code);
      await api.post("/v1/trust/create", { user_id: user }, { "x-user-token": secret("wrong-token") });
      const worker = await fullWorker(evm.socketUrl);
      expect((await api.post("/v1/trust/claim", { pairing_code: code, provider_pubkey: worker.pubkey })).status).toBe(200);
      // Jobs that fail in every way, and one that completes.
      const run = async (finish: (id: string, attempt: unknown) => void): Promise<void> => {
        const id = await api.commit(task(user, secret("input"), PRIVATE), "cheap", token);
        const assign = await worker.assigned(id);
        finish(id, assign.attempt);
        await worker.settled();
      };
      await run((id, attempt) =>
        worker.send({ type: "job_failed", job_id: id, attempt, error: secret("error"), message: secret("message"), retryable: false }),
      );
      await run((id) => worker.send({ type: "job_complete", job_id: id, output: { error: secret("worker-error") }, ...receiptFor(worker.identity, id, {}) }));
      await run((id) =>
        worker.send(worker.completion(id, { text: secret("result") }, { receipt: { note: secret("receipt") }, receipt_signature: secret("sig") })),
      );
      await run((id) => worker.send(worker.completion(id, { sentiment: secret("output"), confidence: 0 })));
      // Invalid frames of every kind.
      for (const frame of [
        secret("text"),
        `{"type":"${secret("kind")}"}`,
        { type: "job_ack", job_id: secret("ack"), attempt: secret("n") },
        { type: "job_reject", job_id: secret("no"), reason: secret("why") },
      ])
        worker.send(frame);
      worker.send(new Uint8Array(Buffer.from(secret("binary"))));
      await worker.settled();
      for (const changes of [{ provider_pubkey: secret("pubkey") }, { signature: secret("signature") }, { capabilities: secret("capabilities") }]) {
        const stranger = await WorkerSocket.open(evm.socketUrl);
        await stranger.registerPlain({ name: secret("name"), ...changes });
        await stranger.ended();
      }
      const spec = await unsignedWorker(evm.socketUrl, { name: secret("name"), models: [secret("model")], engine: secret("engine") });
      spec.close();
      expect(leaks(evm.log)).toEqual([]);
      expect(evm.log.join("\n")).not.toContain(code);
    },
  );

  test("[PY8] of payments that are refused, and of a facilitator that fails with our own words: no payment, no credential", { timeout: 60_000 }, async () => {
    const { accepts } = JSON.parse(Buffer.from((await gated.api.tryCommit({})).headers.get("payment-required") ?? "", "base64").toString()) as {
      accepts: object[];
    };
    const nonce = (): string => `0x${Buffer.from(`${MARK}${randomUUID()}`.slice(0, 32).padEnd(32, "x")).toString("hex")}`;
    const pay = () =>
      gated.api.tryCommit(task(secret("payer-user"), secret("paid-prompt")), "cheap", {
        "x-payment": Buffer.from(
          JSON.stringify({
            x402Version: 2,
            accepted: accepts[0],
            payload: {
              signature: `0x${Buffer.from(MARK.repeat(16)).toString("hex")}1b`,
              authorization: {
                from: PAYEE,
                to: PAYEE,
                value: "1000",
                validAfter: "0",
                validBefore: String(Math.floor(Date.now() / 1_000) + 300),
                nonce: nonce(),
              },
            },
          }),
        ).toString("base64"),
      });
    const echo = { status: 500, body: { error: secret("facilitator"), invalidReason: secret("reason"), payer: secret("payer") } };
    for (const reply of [echo, { body: secret("garbage") }, { body: { isValid: "x", invalidReason: secret("odd") } }]) {
      facilitator.replies["/verify"] = reply;
      expect((await pay()).status).toBe(503);
    }
    facilitator.replies["/verify"] = (response) => response.writeHead(307, { location: `http://127.0.0.1:9/${secret("redirect")}` }).end();
    expect((await pay()).status).toBe(503);
    // Accepted, then refused, then unknown at settlement, when a worker is there.
    facilitator.replies["/verify"] = { body: { isValid: true, payer: PAYEE } };
    const worker = await fullWorker(gated.socketUrl);
    facilitator.replies["/settle"] = {
      body: { success: false, errorReason: "invalid_transaction_state", payer: PAYEE, transaction: "", network: secret("network") },
    };
    await pay();
    facilitator.replies["/settle"] = {
      body: { success: false, errorReason: secret("in its own words"), payer: PAYEE, transaction: "", network: "eip155:10143" },
    };
    await pay();
    facilitator.replies["/settle"] = echo;
    await pay();
    await worker.settled();
    await within(
      10_000,
      () => (gated.log.some((line) => line.includes("facilitator_unavailable")) && gated.log.some((line) => line.includes("settlement_")) ? true : undefined),
      () => `lines about the facilitator; got ${gated.log.join("\n")}`,
    );
    expect(leaks(gated.log)).toEqual([]);
  });

  test(
    "[API1] of a database that fails in the middle of it: no statement's values, and the answers have neither stack nor statement",
    { timeout: 120_000 },
    async () => {
      const { api } = evm;
      sql(evm, "ALTER TABLE pairings RENAME TO gone; ALTER TABLE jobs RENAME TO gone_jobs");
      const user = secret("lost-user");
      const answers = [
        await api.post("/v1/trust/create", { user_id: user }, { "x-user-token": secret("lost-token") }),
        await api.post("/v1/trust/claim", { pairing_code: "ABCDEF", provider_pubkey: "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29" }),
        await api.get(`/v1/trust/list?user_id=${user}`),
        await api.tryCommit(llm(user, secret("lost-prompt"), PRIVATE), "cheap", { "idempotency-key": secret("lost-key") }),
        await api.get(`/v1/jobs/${randomUUID()}`),
      ];
      for (const { status, text, body } of answers) {
        expect([500, 503], text).toContain(status);
        expect(Object.keys(body).toSorted()).toEqual(["error", "request_id"]);
        expect(text).not.toMatch(/SQLITE|pairings|select|insert|\bat /i);
      }
      // Jobs go on without D1, and the hub's log lines about that do not contain their content.
      expect((await api.tryCommit(llm(user, secret("kept-prompt")))).status).toBe(201);
      await within(
        20_000,
        () => (evm.log.some((line) => line.includes("overloaded") || line.includes("internal_error")) ? true : undefined),
        () => `a line about the database; got ${evm.log.join("\n")}`,
      );
      expect(leaks(evm.log)).toEqual([]);
    },
  );

  test("the search itself finds a secret, plain and in base64 and hex, wherever it stands", () => {
    const text = `${MARK}-x`;
    for (const line of [
      `a ${text} b`,
      Buffer.from(text).toString("hex"),
      ...["", "1", "12", "123"].map((before) => Buffer.from(`${before}${text}`).toString("base64")),
    ])
      expect(leaks([line]), line).toEqual([line]);
    expect(leaks(["an honest line", newUser()])).toEqual([]);
  });
});
