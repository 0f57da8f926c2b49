// What only the platform adds to the endpoints of OpenAI's API: a hub or a D1 that does not answer, and payments. Their clients see the rest in
// test/conformance.
import { createHash } from "node:crypto";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { authorization, encode, evmOffer } from "../../support/payments.ts";
import { failingDb, freshInstance, type Overrides, post, refusal, rest } from "./rest.ts";
import { FakeWorker, recorded } from "./worker.ts";

const CHAT = "/v1/chat/completions";
const BODY = { model: "auto", messages: [{ role: "user", content: "a secret question" }] };
const { network, payTo, token } = evmOffer();
/** An instance whose jobs cost money. */
const PAID = { TESTNET_MODE: "false", EVM_PAY_TO: payTo, EVM_USDC: token.address, EVM_FACILITATOR: "http://facilitator.test" };

/** How often the facilitator was asked to settle. It says yes to everything. */
let settled = 0;

beforeEach(async () => {
  await freshInstance();
  vi.spyOn(console, "error").mockImplementation(() => undefined);
  settled = 0;
  const payer = authorization(0).authorization.from;
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
    if (new Request(input).url.endsWith("/verify")) return Response.json({ isValid: true, payer });
    return Response.json({ success: true, transaction: `0x${String(++settled).repeat(64)}`, network, payer });
  });
});
afterEach(() => vi.restoreAllMocks());

/** A signed payment, and its key in the ledger, whose parts the chain shows to everyone. */
function payment(identifier?: string): { headers: Record<string, string>; key: string } {
  const signed = authorization(Date.now());
  const nonce = `0x${crypto.randomUUID().replaceAll("-", "").repeat(2)}`;
  const value = encode({
    x402Version: 2,
    accepted: { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} },
    payload: { ...signed, authorization: { ...signed.authorization, nonce } },
    ...(identifier !== undefined && { extensions: { "payment-identifier": { info: { required: false, id: identifier } } } }),
  });
  return { headers: { "payment-signature": value }, key: `${network}:${token.address}:${signed.authorization.from}:${nonce}`.toLowerCase() };
}

/** Overrides times of the coordinator until the test ends, where the time itself is not what the test is about. */
function withTimes(times: Partial<Record<keyof typeof TUNING, unknown>>): void {
  const before = { ...TUNING };
  onTestFinished(() => void Object.assign(TUNING, before));
  Object.assign(TUNING, times);
}

const ask = (body: object, headers: Record<string, string> = {}, overrides: Overrides = {}) => post(CHAT, body, headers, overrides);

test("[LM1] [WS8] a request that nests so deeply that a worker could not read its frame is 400; one level less reaches the worker", async () => {
  const worker = await FakeWorker.connect();
  const nested = (depth: number): unknown => (depth === 0 ? 1 : [nested(depth - 1)]);
  const refused = await ask({ ...BODY, metadata: nested(31) });
  expect([refused.status, await refused.json()]).toMatchObject([400, { error: { message: "Body nests deeper than 31 levels" } }]);
  const asked = ask({ ...BODY, metadata: nested(30) });
  await worker.complete({ output: "an answer" });
  expect((await asked).status).toBe(200);
});

test("[API9] [LM1] a text that is too long: the error says how long it may be", async () => {
  const refused = await ask({ ...BODY, messages: [{ role: "user", content: "x".repeat(256 * 1024 + 1) }] });
  const message = "payload_too_large: the texts of a request may have 256 KiB in all, and its body 512 KiB";
  expect([refused.status, await refused.json()]).toMatchObject([413, { error: { code: "payload_too_large", message } }]);
});

test.each(["/v1/chat/completions", "/v1/completions"])("[API1] [API9] a wrong method of %s is 405 with Allow, in the form of OpenAI's errors", async (path) => {
  const refused = await rest(path, { method: "GET" });
  expect([refused.status, refused.headers.get("allow"), await refused.json()]).toMatchObject([
    405,
    "POST, OPTIONS",
    { error: { code: "method_not_allowed", type: "invalid_request_error" } },
  ]);
  const options = await rest(path, { method: "OPTIONS" });
  expect([options.status, options.headers.get("allow")]).toEqual([204, "POST, OPTIONS"]);
});

describe("the user of a request that names none", () => {
  test("[API9, JB14] cannot be told from its payment, which the chain shows, and nobody can list its jobs", async () => {
    const worker = await FakeWorker.connect();
    const { headers, key } = payment();
    const asked = ask(BODY, headers, PAID);
    const { job_id: id } = await worker.complete({ output: "a secret answer" });
    expect((await asked).status).toBe(200);
    await recorded(String(id));
    const user = await env.DB.prepare("SELECT user_id FROM jobs WHERE id = ?").bind(id).first<string>("user_id");
    const guess = `openai-${createHash("sha256").update(key).digest("hex")}`;
    expect(user).not.toBe(guess);
    for (const one of [String(user), guess]) {
      const mine = { "x-user-token": "a stranger's" };
      expect(await refusal(await post("/v1/trust/create", { user_id: one }, mine, PAID), 400)).toContain("user_id");
      expect(await refusal(await rest(`/v1/jobs?user_id=${one}`, { headers: mine }, PAID), 401)).toBe("user_token_required");
    }
  });

  test("[PY6, API9] is new with each payment, and the same payment is the same job anyway", async () => {
    const worker = await FakeWorker.connect();
    const { headers } = payment();
    const asked = ask(BODY, headers, PAID);
    const { job_id: id } = await worker.complete({ output: "an answer" });
    expect((await asked).headers.get("x-job-id")).toBe(id);
    expect((await ask(BODY, headers, PAID)).headers.get("x-job-id")).toBe(id);
    const other = ask(BODY, payment().headers, PAID);
    expect((await worker.complete({ output: "an answer" })).job_id).not.toBe(id);
    expect((await other).status).toBe(200);
    expect(settled).toBe(2);
  });

  test("[PY6, API9] a payment that the chain shows is of no use with another API key, or without it: no job, no credit, no token to cancel", async () => {
    const worker = await FakeWorker.connect();
    const [{ headers }, mine] = [payment(), { authorization: "Bearer a secret" }];
    const asked = ask(BODY, { ...headers, ...mine }, PAID);
    const { job_id: id, attempt } = await worker.next("job_assign");
    for (const theirs of [{}, { authorization: "Bearer none" }]) {
      const stolen = await ask(BODY, { ...headers, ...theirs }, PAID);
      expect([stolen.status, await stolen.json()]).toMatchObject([402, { error: "payment_already_used" }]);
      expect([stolen.headers.get("x-job-id"), stolen.headers.get("x-cancel-token")]).toEqual([null, null]);
    }
    worker.send({ type: "job_reject", job_id: id, attempt, reason: "context_length_exceeded" });
    expect((await asked).status).toBe(400);
    expect((await ask(BODY, headers, PAID)).status, "the credit").toBe(402);
    const again = ask(BODY, { ...headers, ...mine }, PAID);
    expect((await worker.complete({ output: "an answer" })).job_id).not.toBe(id);
    expect((await again).status).toBe(200);
    expect(settled).toBe(1);
    await worker.close();
  });

  test.each(["header", "payment-identifier"])("[API5, API9] an idempotency key (%s) buys once, whatever payment comes with it", async (way) => {
    const worker = await FakeWorker.connect();
    const named = () => (way === "header" ? { ...payment().headers, "idempotency-key": "order-17" } : payment("order-17-by-payment").headers);
    const asked = ask(BODY, named(), PAID);
    const { job_id: id } = await worker.complete({ output: "an answer" });
    expect((await asked).headers.get("x-job-id")).toBe(id);
    expect((await ask(BODY, named(), PAID)).headers.get("x-job-id")).toBe(id);
    expect((await ask({ ...BODY, seed: 1 }, named(), PAID)).status).toBe(409);
    expect(settled).toBe(1);
    // The same text from another client is another key.
    const other = ask(BODY, { ...named(), "x-test-ip": "198.51.100.17" }, { ...PAID, TRUSTED_IP_HEADER: "x-test-ip" });
    const { job_id: theirs } = await worker.complete({ output: "another answer" });
    expect(theirs).not.toBe(id);
    expect((await other).headers.get("x-job-id")).toBe(theirs);
  });
});

describe("members that have another meaning here", () => {
  test("[WS8, JB12] a PRIVATE prompt is refused, because any worker could get it here", async () => {
    for (const path of [CHAT, "/v1/completions"]) {
      const answer = await post(path, { ...BODY, prompt: "a secret question", privacy_class: "PRIVATE" });
      expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining("privacy_class must be PUBLIC here")]);
    }
  });

  test("[WS8, RC6] the worker sees no user_id, and may answer with `text`", async () => {
    const worker = await FakeWorker.connect();
    const asked = ask({ ...BODY, privacy_class: "PUBLIC", user_id: "someone", seed: 1 });
    const { payload } = await worker.complete({ text: "an answer" });
    expect(payload).toEqual({ job_type: "LLM_INFER", model: "auto", prompt: "a secret question", messages: BODY.messages, seed: 1 });
    expect(await (await asked).json()).toMatchObject({ choices: [{ message: { content: "an answer" } }] });
  });
});

describe("what became of a payment", () => {
  const moneyIn = (answer: Response): unknown => JSON.parse(atob(answer.headers.get("payment-response") ?? expect.unreachable(`none: ${answer.status}`)));
  const CREDIT = { extensions: { credit: { amount: "10000", balance: "10000" } } };

  test("[PY9] a job that failed after it was paid tells its credit with the answer", async () => {
    const worker = await FakeWorker.connect();
    const asked = ask(BODY, payment().headers, PAID);
    const { job_id, attempt } = await worker.next("job_assign");
    worker.send({ type: "job_reject", job_id, attempt, reason: "context_length_exceeded" });
    const answer = await asked;
    expect(answer.status).toBe(400);
    expect(moneyIn(answer)).toMatchObject(CREDIT);
    await worker.close();
  });

  test("[JB13, PY9] a paid job that is cancelled tells its credit with the answer", async () => {
    const worker = await FakeWorker.connect();
    const body = { job_type: "LLM_INFER", user_id: "u", payload: { prompt: "x" } };
    const committed = await post("/v1/jobs/commit/fast", body, payment().headers, PAID);
    const { job_id: id } = await worker.next("job_assign");
    const headers = { "x-cancel-token": committed.headers.get("x-cancel-token") ?? "" };
    const answer = await rest(`/v1/jobs/${String(id)}`, { method: "DELETE", headers }, PAID);
    expect(await answer.clone().json()).toMatchObject({ status: "failed", result: { error: "cancelled" } });
    expect(moneyIn(answer)).toMatchObject(CREDIT);
    await worker.close();
  });

  /** A hub that counts the requests that follow a job to its end. */
  function followers(): { count: () => number; overrides: Overrides } {
    let count = 0;
    return { count: () => count, overrides: { ...PAID, ...changedHub(["fetch"], (real, args) => real(...args, void count++)) } };
  }

  test("[PY4, PY9] is told to a request that came again while the payment was held, and while its job had not failed yet", async () => {
    const { count, overrides } = followers();
    const [held, failing] = [payment().headers, payment().headers];
    const first = ask(BODY, held, overrides);
    await expect.poll(count).toBe(1);
    const again = ask(BODY, held, overrides);
    await expect.poll(count).toBe(2);
    const worker = await FakeWorker.connect();
    await worker.complete({ output: "an answer" });
    for (const answer of [await first, await again]) expect(moneyIn(answer)).toMatchObject({ success: true, transaction: `0x${"1".repeat(64)}` });

    const asked = [ask(BODY, failing, overrides)];
    const { job_id, attempt } = await worker.next("job_assign");
    asked.push(ask(BODY, failing, overrides));
    await expect.poll(count).toBe(4);
    worker.send({ type: "job_reject", job_id, attempt, reason: "context_length_exceeded" });
    for (const answer of await Promise.all(asked)) expect(moneyIn(answer)).toMatchObject(CREDIT);
    await worker.close();
  });

  test("[PY4, PY8, API9] a settlement that fails after the job was there is no 402: it would have no terms, and where money may have moved it must not ask for more", async () => {
    const { count, overrides } = followers();
    const asked = ask(BODY, payment().headers, overrides);
    await expect.poll(count).toBe(1);
    vi.mocked(fetch).mockImplementation(async () => Response.json({ success: false, errorReason: "insufficient_funds" }));
    const worker = await FakeWorker.connect();
    const answer = await asked;
    expect([answer.status, answer.headers.get("x-should-retry")]).toEqual([503, "false"]);
    expect(await answer.json()).toMatchObject({ error: { code: "payment_failed", type: "server_error" } });
    await worker.close();
  });
});

/** The real hub, whose methods of these names are replaced. `real` calls the replaced method. */
function changedHub(methods: readonly string[], instead: (real: (...args: unknown[]) => unknown, args: unknown[]) => unknown): Overrides {
  const getByName = (name: string): unknown =>
    new Proxy(env.HUB.getByName(name), {
      get: (target, property) => {
        const real = async (...args: unknown[]): Promise<unknown> => await Reflect.get(target, property)(...args);
        return methods.includes(String(property)) ? async (...args: unknown[]) => await instead(real, args) : real;
      },
    });
  return { HUB: { getByName } };
}

const overloaded = (): never => {
  throw Object.assign(new Error("overloaded"), { overloaded: true });
};

describe("a client must not buy again by itself", () => {
  test("[API9, PY5] when the hub cannot be told that the money has moved: it has the job, and the answer waits for it", async () => {
    withTimes({ outcomePauses: TUNING.outcomePauses.map((ms) => ms / 100) });
    const worker = await FakeWorker.connect();
    const answer = await ask({ ...BODY, stream: true }, payment().headers, { ...PAID, ...changedHub(["settled"], overloaded) });
    expect([answer.status, answer.headers.get("x-should-retry"), answer.headers.get("x-job-id")]).toEqual([200, "false", expect.stringMatching(/./)]);
    await answer.body?.cancel();
    await worker.close();
  });

  test("[API9] when the answer of the hub to submit is lost, although the money may have moved", async () => {
    const worker = await FakeWorker.connect();
    const answer = await ask(BODY, payment().headers, { ...PAID, ...changedHub(["submit"], overloaded) });
    expect([answer.status, answer.headers.get("x-should-retry")]).toEqual([503, "false"]);
    expect(await answer.json()).toMatchObject({ error: { code: "overloaded", type: "server_error" } });
    await worker.close();
  });

  test.each<[string, Overrides]>([
    ["the hub does not reserve the payment", changedHub(["reserve"], overloaded)],
    ["the facilitator does not verify it", {}],
  ])("[API9] but it may try again when %s: nothing was submitted", async (_what, overrides) => {
    vi.mocked(fetch).mockRejectedValue(new TypeError("refused"));
    const answer = await ask(BODY, payment().headers, { ...PAID, ...overrides });
    expect([answer.status, answer.headers.get("x-should-retry")]).toEqual([503, null]);
  });

  test("[API9] when neither the hub nor D1 says how the job ended, waited for or streamed", async () => {
    withTimes({ jobUnread: 300 });
    const worker = await FakeWorker.connect();
    const lost = { ...changedHub(["fetch", "job", "poll"], overloaded), DB: failingDb() };
    const [waited, streamed] = await Promise.all([ask(BODY, {}, lost), ask({ ...BODY, stream: true }, {}, lost)]);
    for (const { headers } of [waited, streamed]) expect([headers.get("x-should-retry"), headers.get("x-job-id")]).toEqual(["false", expect.any(String)]);
    expect([waited.status, streamed.status]).toEqual([503, 200]);
    for (const text of [await waited.text(), await streamed.text()]) expect(text).toContain("the outcome of the job could not be read");
    await worker.close();
  });
});

describe("while the hub has no place for one more stream or wait", () => {
  /** Polls are answered at once with the present state, as `busy` says; `times` has when they came. */
  const full = (busy: (poll: () => unknown, n: number) => unknown = (poll) => poll()) => {
    const times: number[] = [];
    const hub = changedHub(["fetch", "job"], (real, [first, , client]) => {
      if (typeof first !== "string") return new Response(null, { status: 503 });
      return busy(() => real(first, 0, client), times.push(Date.now()));
    });
    return { times, hub };
  };

  test.each([false, true])("[API9] a request (streaming: %s) polls with pauses", async (stream) => {
    withTimes({ jobPollPause: 200 });
    const worker = await FakeWorker.connect();
    const { times, hub } = full();
    const asked = ask({ ...BODY, stream }, {}, hub);
    const text = asked.then((answer) => answer.text());
    await vi.waitUntil(() => times.length >= 4, 20_000);
    const [first = 0, , , fourth = 0] = times;
    // A timer may be a moment early.
    expect(fourth - first).toBeGreaterThan(560);
    await worker.complete({ output: "an answer" });
    expect(await text).toContain("an answer");
    // Nobody could tell it.
    expect(await text).not.toContain("attempt");
    await worker.close();
  });

  test("[API9] a poll without an answer is not the end", async () => {
    withTimes({ jobPollPause: 20 });
    const worker = await FakeWorker.connect();
    const { times, hub } = full((poll, n) => (n === 1 ? overloaded() : poll()));
    const asked = ask(BODY, {}, { ...hub, DB: failingDb() });
    await vi.waitUntil(() => times.length >= 2, 20_000);
    await worker.complete({ output: "an answer" });
    expect((await asked).status).toBe(200);
    await worker.close();
  });
});
