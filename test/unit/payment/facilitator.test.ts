import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { FacilitatorClient, settlePayment, verifyPayment } from "../../../src/coordinator/payment/facilitator.ts";
import { requirements } from "../../../src/coordinator/payment/terms.ts";
import { type Reply, answering } from "./answering.ts";
import { authorization, evmOffer, svmOffer } from "../../support/payments.ts";

const ours = requirements(evmOffer());
const payload = { x402Version: 2, accepted: ours, payload: authorization(0) };
const texts = [JSON.stringify(payload), JSON.stringify(ours)] as const;
const at = (facilitator: string, authorization: string | null = null, rpcUrl: string | null = null) => ({ payment: { facilitator, authorization, rpcUrl } });
const PAYER = "0xc38e3bbc4575c1f5f28908dd5d8e347c7b055890";
const valid = { body: { isValid: true, payer: PAYER } };
const cut: Reply = (request) => void request.socket.destroy();
/** A yes with the length of its body, which is compressed if `pad` is not null and then has so many characters more. */
const announced =
  (pad: number | null): Reply =>
  (_, response) => {
    const text = JSON.stringify({ isValid: true, payer: PAYER, success: true, transaction: "0x1", pad: "x".repeat(pad ?? 0) });
    const bytes = pad === null ? Buffer.from(text) : gzipSync(text);
    response.writeHead(200, { "content-length": bytes.length, ...(pad !== null && { "content-encoding": "gzip" }) }).end(bytes);
  };

async function verify(reply: Reply): Promise<unknown> {
  await using facilitator = await answering({ "/verify": reply });
  return await verifyPayment(at(facilitator.url), ...texts);
}

async function settle(reply: Reply): Promise<unknown> {
  await using facilitator = await answering({ "/settle": reply });
  return await settlePayment(at(facilitator.url), ...texts);
}

/** Answers that say nothing about the money, by what they are taken for. */
const NO_ANSWERS: [string, Reply, string][] = [
  ["500", { status: 500, body: { success: false, isValid: false, errorReason: "x" } }, "server_error"],
  ["503", { status: 503, body: "" }, "server_error"],
  ["401", { status: 401, body: { error: "who are you" } }, "http_401"],
  ["404", { status: 404, body: "Not Found" }, "http_404"],
  ["429", { status: 429, body: { error: "slow down" } }, "http_429"],
  ["a redirect", { status: 302, headers: { location: "/yes" }, body: { isValid: true, success: true, transaction: "0x1" } }, "redirected"],
  ["a redirect that repeats the body", { status: 307, headers: { location: "/yes" }, body: "" }, "redirected"],
  ["HTML", { body: "<html>" }, "invalid_response"],
  ["nothing", { body: "" }, "invalid_response"],
  ["null", { body: "null" }, "invalid_response"],
  ["an array", { body: [{ isValid: true, success: true }] }, "invalid_response"],
  ["an empty object", { body: {} }, "invalid_response"],
  ["an answer in words", { body: { isValid: "true", success: "true", transaction: "0x1" } }, "invalid_response"],
  ["an answer in numbers", { body: { isValid: 1, success: 1, transaction: "0x1" } }, "invalid_response"],
  ["yes with a 400", { status: 400, body: { isValid: true, success: true, transaction: "0x1", payer: PAYER } }, "http_400"],
  ["JSON that nests for ever", { body: `{"isValid":${"[".repeat(50_000)}` }, "invalid_response"],
  ["an endless body", { body: { isValid: true, success: true, transaction: "x".repeat(100_000) } }, "invalid_response"],
  ["a body that is long once it is unpacked", announced(1_000_000), "invalid_response"],
  [
    "a body with its length that is too long",
    (_, response) => void response.writeHead(200, { "content-length": 1e6 }).end("[".repeat(1e6)),
    "invalid_response",
  ],
  ["a connection that is cut", cut, "unreachable"],
  [
    "a body that is cut before its length",
    (_, response) => void response.writeHead(200, { "content-length": 99 }).write("{", () => response.destroy()),
    "unreachable",
  ],
];

describe("verify", () => {
  test("[PY8] yes, and by whom", async () => {
    expect(await verify(valid)).toEqual({ kind: "valid", payer: PAYER });
    // All whom it does not name would be one payer otherwise, with one balance.
    for (const payer of [null, ""]) expect(await verify({ body: { isValid: true, payer } })).toEqual({ kind: "valid", payer: null });
    for (const reply of [announced(null), announced(0)]) expect(await verify(reply)).toEqual({ kind: "valid", payer: PAYER });
  });

  test.each([200, 400, 402])("[PY8] no with status %i is no, in printable words", async (status) => {
    const body = { isValid: false, invalidReason: `bad\n${"é".repeat(500)}`, invalidMessage: "rpc http://key@node", payer: null };
    expect(await verify({ status, body })).toEqual({ kind: "invalid", reason: `bad?${"?".repeat(196)}` });
    expect(await verify({ status, body: { isValid: false } })).toEqual({ kind: "invalid", reason: "refused_by_facilitator" });
  });

  test.each(NO_ANSWERS)("[PY8] %s is no answer", async (_, reply, reason) => {
    expect(await verify(reply)).toEqual({ kind: "unavailable", reason });
  });

  test.each([401, 403, 404, 429])(
    "[PY8] %i with an answer of another form: the reason is the status, so that the operator sees what is wrong",
    async (status) => {
      for (const body of [{}, "no JSON", { isValid: true }]) expect(await verify({ status, body })).toEqual({ kind: "unavailable", reason: `http_${status}` });
    },
  );

  test("[PY8] nobody there", async () => {
    expect(await verifyPayment(at("http://127.0.0.1:9"), ...texts)).toEqual({ kind: "unavailable", reason: "unreachable" });
  });

  test("[PY3] it is asked once, in version 2, under its URL with or without a slash at the end", async () => {
    await using facilitator = await answering({ "/base/verify": valid });
    for (const end of ["", "/", "//"]) await verifyPayment(at(`${facilitator.url}/base${end}`), ...texts);
    const asked = {
      authorization: undefined,
      method: "POST",
      path: "/base/verify",
      body: { x402Version: 2, paymentPayload: payload, paymentRequirements: ours },
    };
    expect(facilitator.asked).toEqual([asked, asked, asked]);
  });
});

describe("settle", () => {
  test("[PY7] settled, and by which transaction; the network is ours", async () => {
    const body = { success: true, transaction: "0xabc", network: "monad", payer: PAYER, errorReason: null, extensions: { x: 1 } };
    expect(await settle({ body })).toEqual({
      kind: "settled",
      transaction: "0xabc",
      response: JSON.stringify({ success: true, payer: PAYER, transaction: "0xabc", network: ours.network }),
    });
  });

  test.each([200, 400, 402])("[PY7] refused with status %i, without the message", async (status) => {
    const body = { success: false, errorReason: "insufficient_funds", errorMessage: "node http://secret", transaction: "", network: "x", payer: PAYER };
    expect(await settle({ status, body })).toEqual({
      kind: "refused",
      reason: "insufficient_funds",
      response: JSON.stringify({ success: false, errorReason: "insufficient_funds", transaction: "", network: ours.network, payer: PAYER }),
    });
  });

  test.each(NO_ANSWERS)("[PY8] %s leaves it unknown, or the facilitator was not asked", async (title, reply, reason) => {
    const lost = ["500", "503", "a connection that is cut", "a body that is cut before its length"].includes(title);
    const taken = !["401", "404", "429"].includes(title);
    expect(await settle(reply)).toEqual(
      taken ? { kind: "unknown", reason: title.startsWith("yes") ? "status_400" : reason, lost } : { kind: "not_asked", reason },
    );
  });

  test.each([504, 524])("[PY8] %i, a time-out of a gateway, is a lost answer, and the facilitator may still be at it", async (status) => {
    expect(await settle({ status, body: "" })).toEqual({ kind: "unknown", reason: "server_error", lost: true, mayStillRun: true });
  });

  test.each([
    ["no transaction", { success: true }],
    ["an empty transaction", { success: true, transaction: "" }],
    ["a refusal without a reason", { success: false }],
    ["a refusal with an empty reason", { success: false, errorReason: "" }],
  ])("[PY8] %s leaves it unknown", async (_, body) => {
    expect(await settle({ body })).toEqual({ kind: "unknown", reason: "status_200", lost: false });
  });

  test("[PY8] used before: with the reason for the payer; pending: unknown, and no answer was lost", async () => {
    const used = { success: false, errorReason: "invalid_exact_evm_nonce_already_used", transaction: "", network: "x", payer: PAYER };
    expect(await settle({ body: used })).toEqual({
      kind: "already_used",
      reason: "invalid_exact_evm_nonce_already_used",
      response: JSON.stringify({ ...used, network: ours.network }),
    });
    const pending = { success: false, errorReason: "settlement_pending", transaction: "0x1" };
    expect(await settle({ body: pending })).toEqual({ kind: "unknown", reason: "settlement_pending", lost: false });
  });

  describe("[PY8] settled, and the chain's RPC is known", () => {
    const FAILED = { err: { InstructionError: [2, { Custom: 1 }] } };
    const svm = requirements(svmOffer());
    const settled = { body: { success: true, transaction: "signature", payer: PAYER } };
    const statuses = (...values: unknown[]): Reply[] =>
      values.map((value) => ({ body: { jsonrpc: "2.0", id: 0, result: { context: { slot: 1 }, value: [value] } } }));

    /** The outcome, and the questions to the RPC. */
    async function settleWith(replies: Reply[], terms: object = svm): Promise<{ outcome: unknown; asked: unknown[] }> {
      await using facilitator = await answering({ "/settle": settled });
      await using node = await answering({ "/": replies });
      const outcome = await settlePayment(at(facilitator.url, null, `${node.url}/`), JSON.stringify({ ...payload, accepted: terms }), JSON.stringify(terms));
      return { outcome, asked: node.asked.map(({ body }) => body) };
    }

    const QUESTION = { jsonrpc: "2.0", id: 0, method: "getSignatureStatuses", params: [["signature"]] };

    test.each(["processed", "confirmed", "finalized"])("on Solana a transaction that failed (%s) is a doubt", async (confirmationStatus) => {
      const { outcome, asked } = await settleWith(statuses({ ...FAILED, confirmationStatus }));
      expect(outcome).toEqual({ kind: "unknown", reason: "failed_on_chain", lost: false });
      expect(asked).toEqual([QUESTION]);
    });

    test("the status of a transaction that the node does not have yet, or has not confirmed, is asked for again", async () => {
      const unseen = statuses(null, { err: null, confirmationStatus: "processed" }, { ...FAILED, confirmationStatus: "confirmed" });
      const { outcome, asked } = await settleWith(unseen);
      expect(outcome).toMatchObject({ reason: "failed_on_chain" });
      expect(asked).toEqual([QUESTION, QUESTION, QUESTION]);
    });

    test.each([
      ["it succeeded", statuses({ err: null, confirmationStatus: "confirmed" }), 1],
      ["it succeeded, and an old node does not say how final it is", statuses({ err: null }), 1],
      ["the node never has it", statuses(null), 2],
    ])("settled: %s", async (_, replies, least) => {
      const { outcome, asked } = await settleWith(replies);
      expect(outcome).toMatchObject({ kind: "settled", transaction: "signature" });
      expect(asked.length).toBeGreaterThanOrEqual(least);
    });

    const UNUSABLE: [string, Reply, string][] = [
      ["a node that refuses", { body: { jsonrpc: "2.0", id: 0, error: { code: -32_005, message: "slow down" } } }, "rpc_error_-32005"],
      ["a node that fails", { status: 503, body: "" }, "http_503"],
      ["another answer", { body: { jsonrpc: "2.0", id: 0, result: [] } }, "invalid_response"],
    ];
    test.each(UNUSABLE)("%s: the facilitator is believed, and it is logged", async (_, reply, reason) => {
      const logged = vi.spyOn(console, "error").mockImplementation(() => {});
      onTestFinished(() => logged.mockRestore());
      expect((await settleWith([reply])).outcome).toMatchObject({ kind: "settled" });
      expect(logged.mock.calls.flat().map((line) => JSON.parse(String(line)) as unknown)).toEqual([
        expect.objectContaining({ event: "chain_unreadable", reason }),
      ]);
    });

    test("on EVM nothing is asked", async () => {
      const { outcome, asked } = await settleWith(statuses(FAILED), ours);
      expect(outcome).toMatchObject({ kind: "settled" });
      expect(asked).toEqual([]);
    });
  });

  test("[PY8] an answer that stops in the middle is lost", async () => {
    const stops: Reply = (_, response) => {
      response.writeHead(200, { "content-length": "100" }).write('{"success":true', () => response.destroy());
    };
    expect(await settle(stops)).toEqual({ kind: "unknown", reason: "unreachable", lost: true });
  });
});

describe("time", () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.useRealTimers();
  });

  test("[PY8] a facilitator that hangs is given up after 5 s at verify and 20 s at settle", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    let asked = Promise.withResolvers<void>();
    const hangs: Reply = () => asked.resolve();
    await using facilitator = await answering({ "/verify": hangs, "/settle": hangs });
    for (const [call, limit, late] of [
      [verifyPayment, 5_000, { kind: "unavailable", reason: "timeout" }],
      [settlePayment, 20_000, { kind: "unknown", reason: "timeout", lost: true, mayStillRun: true }],
    ] as const) {
      asked = Promise.withResolvers();
      const answer = call(at(facilitator.url), ...texts);
      await asked.promise;
      vi.advanceTimersByTime(limit - 1);
      expect(vi.getTimerCount()).toBe(1);
      vi.advanceTimersByTime(1);
      expect(await answer).toEqual(late);
      expect(vi.getTimerCount()).toBe(0);
    }
  });

  test("[PY8] one that stops in the middle of its answer too", async () => {
    await using facilitator = await answering({ "/settle": (_, response) => void response.writeHead(200).write('{"success":true') });
    const client = new FacilitatorClient({ url: facilitator.url, timeoutMs: 100, authorization: null });
    await expect(client.settle({ ...payload, accepted: { ...ours, network: "eip155:10143" } }, { ...ours, network: "eip155:10143" })).rejects.toMatchObject({
      reason: "timeout",
    });
  });

  test("[PY8] a facilitator that wants to know who asks is told, on every question; a redirect is not", async () => {
    const moved: Reply = { status: 302, headers: { location: "/elsewhere" }, body: "" };
    await using facilitator = await answering({ "/verify": valid, "/settle": moved, "/elsewhere": valid });
    await verifyPayment(at(facilitator.url, "Bearer key"), ...texts);
    await settlePayment(at(facilitator.url, "Bearer key"), ...texts);
    await verifyPayment(at(facilitator.url), ...texts);
    expect(facilitator.asked.map(({ path, authorization }) => [path, authorization])).toEqual([
      ["/verify", "Bearer key"],
      ["/settle", "Bearer key"],
      ["/verify", undefined],
    ]);
  });

  test("[PY8] nothing of a payment is logged", async () => {
    const spies = (["log", "warn", "error", "info", "debug"] as const).map((name) => vi.spyOn(console, name).mockImplementation(() => {}));
    for (const [, reply] of NO_ANSWERS) await settle(reply);
    await settle({ headers: { "extension-responses": Buffer.from('{"a":{"status":"x"}}').toString("base64") }, body: { success: true, transaction: "0x1" } });
    for (const spy of spies) expect(spy).not.toHaveBeenCalled();
  });
});
