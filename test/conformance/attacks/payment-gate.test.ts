import { randomBytes } from "node:crypto";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { type Answer, type Fields, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { type FakeFacilitator, fakeFacilitator, type Reply } from "../support/facilitator.ts";
import { head, RawHttp, rawRequest, sendThenRead } from "../support/raw-http.ts";
import { fullWorker, WorkerSocket } from "../support/worker.ts";

let facilitator: FakeFacilitator;
let evm: Subject;
const PAYEE = "0x99B9e5b1ED388051ce91BA3140147Ea1864564bC";
const PAYER = "0xC38E3bbC4575c1f5F28908Dd5d8e347c7B055890";
const SETTLED = { success: true, payer: PAYER, transaction: `0x${"cd".repeat(32)}`, network: "eip155:10143" };

const settings = () => ({ TESTNET_MODE: "false", EVM_PAY_TO: PAYEE, EVM_FACILITATOR: facilitator.url, PUBLIC_HOST: "pay.example" });

beforeAll(async () => {
  facilitator = await fakeFacilitator();
  evm = await start("evm", { ...settings(), RATE_LIMITS: "off" });
});

beforeEach(() => {
  facilitator.calls.length = 0;
  facilitator.replies["/verify"] = { body: { isValid: true, payer: PAYER } };
  facilitator.replies["/settle"] = { body: SETTLED };
});

type Tier = "fast" | "cheap";

/** Returns the terms in the 402 of an endpoint. */
async function terms(tier: Tier): Promise<Fields> {
  const header = (await evm.api.tryCommit({}, tier)).headers.get("payment-required") ?? "";
  const { accepts } = JSON.parse(Buffer.from(header, "base64").toString()) as { accepts: Fields[] };
  return accepts[0] ?? {};
}

const now = () => Math.floor(Date.now() / 1_000);

/** Returns an authorization of the right form for a price. Only a facilitator can find out that its signature is not valid. */
function authorization(amount: string, changes: Fields = {}): Fields {
  const nonce = `0x${randomBytes(32).toString("hex")}`;
  return { from: PAYER, to: PAYEE, value: amount, validAfter: "0", validBefore: String(now() + 300), nonce, ...changes };
}

const header = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64");

async function payment(tier: Tier, changes: { terms?: Fields; authorization?: Fields; envelope?: Fields } = {}): Promise<string> {
  const accepted = await terms(tier);
  const payload = { signature: `0x${"ab".repeat(64)}1b`, authorization: authorization(String(accepted.amount), changes.authorization) };
  return header({ x402Version: 2, accepted: { ...accepted, ...changes.terms }, payload, ...changes.envelope });
}

/** Lets the facilitator answer its next call only when the test says so; the others as before. Resolves at that call, with what answers it. */
function slow(path: "/verify" | "/settle"): Promise<(body: Fields, status?: number) => void> {
  const usual = facilitator.replies[path] ?? { body: "" };
  return new Promise((resolve) => {
    facilitator.replies[path] = (response) => {
      facilitator.replies[path] = usual;
      resolve((body, status = 200) => response.writeHead(status).end(JSON.stringify(body)));
    };
  });
}

const pay = (sent: string, tier: Tier = "cheap", body: Fields = task(newUser())): Promise<Answer> => evm.api.tryCommit(body, tier, { "x-payment": sent });

describe("invalid payments", () => {
  const wrong: [string, Tier, Parameters<typeof payment>[1]][] = [
    ["the cheap price on fast", "fast", { authorization: { value: "1000" }, terms: { amount: "1000" } }],
    ["the cheap price under fast terms", "fast", { authorization: { value: "1000" } }],
    ["more than the price", "cheap", { authorization: { value: "1000000" } }],
    ["another payee in what was signed", "cheap", { authorization: { to: PAYER } }],
    ["another payee in the terms", "cheap", { terms: { payTo: PAYER } }],
    ["another token", "cheap", { terms: { asset: `0x${"11".repeat(20)}` } }],
    ["another network", "cheap", { terms: { network: "eip155:1" } }],
    ["another scheme", "cheap", { terms: { scheme: "upto" } }],
    ["expired", "cheap", { authorization: { validBefore: String(now() - 1) } }],
    ["good for a second more", "cheap", { authorization: { validBefore: String(now() + 1) } }],
    ["not good yet", "cheap", { authorization: { validAfter: String(now() + 3_600) } }],
    ["a value that is no number", "cheap", { authorization: { value: "1e3" } }],
    ["a negative value", "cheap", { authorization: { value: "-1000" } }],
    ["a nonce of 31 bytes", "cheap", { authorization: { nonce: `0x${"0f".repeat(31)}` } }],
    ["terms from a prototype", "cheap", { envelope: { accepted: null, __proto__: null } }],
    ["another version", "cheap", { envelope: { x402Version: 3 } }],
  ];

  test.each(wrong)("[PY3, PY5] %s: 402 with what to pay, and no facilitator is asked", async (_name, tier, changes) => {
    const answer = await pay(await payment(tier, changes), tier);
    expect(answer.status, answer.text).toBe(402);
    expect(answer.body).toMatchObject({ error: expect.stringMatching(/^invalid_payment: /), accepts: [{ scheme: "exact", payTo: PAYEE }] });
    expect(facilitator.calls).toEqual([]);
  });

  test("[PY4, PY5] a client that sends a body of 512 KiB before it reads gets the 402; one that waits for it before it sends its body does not wait long", async () => {
    const part = "x".repeat(65_536);
    const lines = ["POST /v1/jobs/commit/cheap HTTP/1.1", `Host: ${evm.host}`, `Content-Length: ${8 * part.length}`];
    const health = head("GET /v1/health HTTP/1.1", `Host: ${evm.host}`);
    const sent = [head(...lines), ...Array.from({ length: 8 }, () => part), health];
    const answers = await sendThenRead(evm.port, sent, (all) => all.includes('"status":"ok"'));
    expect(answers).toMatch(/^HTTP\/1\.1 402 /);
    expect(await rawRequest(evm.port, head(...lines), 3_000)).toMatchObject({ status: 402 });
  });

  test("[PY3, LM1] hostile headers: too long, no base64, no JSON, nested, of prototypes, twice: 402, and no facilitator is asked", async () => {
    const deep = Buffer.from(`${'{"a":'.repeat(2_000)}1${"}".repeat(2_000)}`).toString("base64");
    for (const sent of [
      "A".repeat(17 * 1_024),
      "!!!!",
      "e30",
      "bnVsbA==",
      "W10=",
      header("x"),
      header(7),
      deep,
      header(JSON.parse('{"__proto__":{"x402Version":2}}')),
      "e30=, e30=",
    ]) {
      const answer = await pay(sent);
      expect(answer.status, `${sent.slice(0, 40)} ${answer.text}`).toBe(402);
    }
    expect(facilitator.calls).toEqual([]);
  });

  test("[PY3] two payments in one request: neither is used", async () => {
    const answer = await evm.api.tryCommit(task(newUser()), "cheap", { "x-payment": await payment("cheap"), "payment-signature": await payment("cheap") });
    expect(answer.status).toBe(402);
    expect(facilitator.calls).toEqual([]);
  });
});

describe("a facilitator that fails or lies", () => {
  const troubles: [string, Reply, number][] = [
    ["status 500", { status: 500, body: { error: "x" } }, 503],
    ["HTML", { body: "<html>" }, 503],
    ["an empty answer", { body: "" }, 503],
    ["null", { body: "null" }, 503],
    ["a yes that is no boolean", { body: { isValid: "true", payer: PAYER } }, 503],
    ["another payer than the one who signed", { body: { isValid: true, payer: PAYEE } }, 503],
    ["an answer of megabytes", { body: `{"isValid":true,"payer":"${PAYER}","x":"${"x".repeat(3_000_000)}"}` }, 503],
    ["a redirect", (response) => response.writeHead(307, { location: "http://127.0.0.1:9/verify" }).end(), 503],
    ["a hang-up", (response) => response.destroy(), 503],
    ["no", { body: { isValid: false, invalidReason: "invalid_exact_evm_payload_signature" } }, 402],
  ];

  test.each(troubles)("[PY8] %s at verify: nothing runs, nothing is settled", async (_name, reply, status) => {
    facilitator.replies["/verify"] = reply;
    const answer = await pay(await payment("cheap"));
    expect(answer.status, answer.text).toBe(status);
    expect(answer.body).not.toHaveProperty("job_id");
    expect(facilitator.calls.map(({ path }) => path)).not.toContain("/settle");
  });

  test("[PY8] silent at verify: 503 after 5 s, and others are served meanwhile", { timeout: 30_000 }, async () => {
    facilitator.replies["/verify"] = () => {};
    const slow = pay(await payment("cheap"));
    expect((await evm.api.get("/v1/health")).ms).toBeLessThan(2_000);
    const answer = await slow;
    expect(answer.status).toBe(503);
    expect(answer.ms).toBeGreaterThan(4_500);
    expect(answer.ms).toBeLessThan(9_000);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  });
});

describe("nine requests while the first one with their payment or idempotency key settles", () => {
  const REFUSED = { success: false, errorReason: "insufficient_funds", payer: PAYER, transaction: "", network: "eip155:10143" };

  /**
   * Commits while the facilitator lets the first request wait. When eight others wait for that one, the ninth is told to come again [LM1]; then `settled` is
   * answered.
   */
  async function commits(
    first: () => Promise<Answer>,
    other: () => Promise<Answer>,
    settled: Fields,
  ): Promise<{ first: Promise<Answer>; others: Promise<Answer[]> }> {
    const asked = slow("/settle");
    const one = first();
    const answer = await asked;
    const many = Array.from({ length: LIMITS.waitersPerKey + 1 }, other);
    expect(await Promise.race(many)).toMatchObject({ status: 503, body: { error: "overloaded" } });
    answer(settled);
    return { first: one, others: Promise.all(many).then((answers) => answers.filter(({ status }) => status !== 503)) };
  }

  test("[API5, PY7] with its payment: what is refused to the first is refused to the others", async () => {
    await fullWorker(evm.socketUrl);
    const [sent, body] = [await payment("cheap"), task(newUser())];
    const ask = () => pay(sent, "cheap", body);
    const { first, others } = await commits(ask, ask, REFUSED);
    expect(await first).toMatchObject({ status: 402, body: { error: "payment_failed: insufficient_funds" } });
    expect((await others).map(({ status, body: { error } }) => [status, error])).toEqual(
      Array.from({ length: LIMITS.waitersPerKey }, () => [402, "payment_already_used"]),
    );
  });

  test("[API5, PY7] with its idempotency key and payments of their own: after a refusal of the first, one of them buys the job of all", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const payments = await Promise.all(Array.from({ length: LIMITS.waitersPerKey + 2 }, () => payment("cheap")));
    const [body, key] = [task(newUser()), { "idempotency-key": newUser() }];
    const ask = () => evm.api.tryCommit(body, "cheap", { ...key, "x-payment": payments.pop() ?? "" });
    const { first, others } = await commits(ask, ask, REFUSED);
    expect((await first).status).toBe(402);
    const bought = await others;
    expect(bought.map(({ status, headers }) => [status, headers.has("payment-response")])).toEqual(
      Array.from({ length: LIMITS.waitersPerKey }, () => [201, true]),
    );
    const [id = "", ...more] = new Set(bought.map((answer) => String(answer.body.job_id)));
    expect(more).toEqual([]);
    expect(facilitator.calls.filter(({ path }) => path === "/settle")).toHaveLength(2);
    await worker.assigned(id);
    await worker.complete(id, { sentiment: "neutral", confidence: 1 });
  });

  test("[API5, PY7] with its idempotency key and no payment that can be read: they get its settlement, and do not wait for the end of its job", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const [sent, body, key] = [await payment("cheap"), task(newUser()), { "idempotency-key": newUser() }];
    const ask = (headers: Record<string, string>) => () => evm.api.tryCommit(body, "cheap", { ...key, ...headers });
    const { first, others } = await commits(ask({ "x-payment": sent, prefer: "wait=25" }), ask({ "x-payment": "junk" }), SETTLED);
    const known = await others;
    const [id = ""] = known.map((answer) => String(answer.body.job_id));
    expect(known.map(({ status, body: { job_id }, headers }) => [status, job_id, headers.has("payment-response")])).toEqual(
      Array.from({ length: LIMITS.waitersPerKey }, () => [201, id, true]),
    );
    await worker.assigned(id);
    await worker.complete(id, { sentiment: "neutral", confidence: 1 });
    expect(await first).toMatchObject({ status: 201, body: { job_id: id, job: { status: "completed" } } });
  });
});

describe("a client that leaves", () => {
  const CHAT = { url: "/v1/chat/completions", fields: { messages: [{ role: "user", content: "Say hello." }] } };
  const RESULT = { finish_reason: "stop", model: "ant", output: "Hello.", usage: { completion_tokens: 1, prompt_tokens: 1 } };

  /** Sends a request and leaves when the facilitator is asked at `path`. Gives the request once more, and what lets the facilitator answer. */
  async function leave(
    path: "/verify" | "/settle",
    { url, fields }: { url: string; fields: Fields } = CHAT,
  ): Promise<{ again: () => Promise<Answer>; answer: Awaited<ReturnType<typeof slow>>; payer: string }> {
    const payer = `0x${randomBytes(20).toString("hex")}`;
    facilitator.replies["/verify"] = { body: { isValid: true, payer } };
    const [sent, body] = [await payment("fast", { authorization: { from: payer } }), JSON.stringify(fields)];
    const asked = slow(path);
    const raw = new RawHttp(evm.port);
    raw.write(
      head(`POST ${url} HTTP/1.1`, `Host: ${evm.host}`, "Content-Type: application/json", `X-PAYMENT: ${sent}`, `Content-Length: ${body.length}`) + body,
    );
    const answer = await asked;
    // A closed connection is noticed at the next write; one that is reset, at once.
    raw.socket.resetAndDestroy();
    await evm.api.get("/v1/health");
    return { again: () => evm.api.post(url, body, { "x-payment": sent }), answer, payer };
  }

  test("[PY7] from a plain commit, while its payment settles: the job runs all the same, and the facilitator is asked once", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const { answer, payer, again } = await leave("/settle", { url: "/v1/jobs/commit/fast", fields: task(newUser()) });
    answer({ ...SETTLED, payer });
    const { job_id } = await worker.frame("job_assign");
    expect(await again()).toMatchObject({ status: 201, body: { job_id } });
    expect(facilitator.calls.map(({ path }) => path)).toEqual(["/verify", "/settle"]);
    await worker.complete(String(job_id), { sentiment: "neutral", confidence: 1 });
  });

  test("[PY5] from a plain commit, while its payment is verified: nothing is settled, and the same payment is good again at once, not after a minute", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const { answer, payer, again } = await leave("/verify", { url: "/v1/jobs/commit/fast", fields: task(newUser()) });
    answer({ isValid: true, payer });
    const { status, body } = await again();
    expect(status).toBe(201);
    expect(facilitator.calls.map(({ path }) => path)).toEqual(["/verify", "/verify", "/settle"]);
    await worker.assigned(String(body.job_id));
    await worker.complete(String(body.job_id), { sentiment: "neutral", confidence: 1 });
  });

  test.each([
    [404, 1],
    [500, 2],
  ])("[API9, JB13, PY8] from OpenAI's API, while its payment settles, before an answer of %i: the job is cancelled and never runs", async (status, settles) => {
    const worker = await fullWorker(evm.socketUrl);
    worker.onAssign = ({ job_id }) => void worker.complete(String(job_id), RESULT);
    const [user, token] = [newUser(), { "x-user-token": "a secret" }];
    await evm.api.post("/v1/trust/create", { user_id: user }, token);
    const { again, answer } = await leave("/settle", { ...CHAT, fields: { ...CHAT.fields, user } });
    answer({}, status);
    // A request that comes before the cancellation would keep the job.
    await expect.poll(async () => (await evm.api.get(`/v1/jobs?user_id=${user}`, token)).body.jobs, { timeout: 10_000 }).toMatchObject([{ status: "failed" }]);
    expect(await again()).toMatchObject({ status: 503, body: { error: { code: "cancelled" } } });
    expect(worker.frames.map(({ type }) => type)).not.toContain("job_assign");
    // What was not asked is void. What may have moved is asked about once more.
    await expect.poll(() => facilitator.calls.filter(({ path }) => path === "/settle").length, { timeout: 10_000 }).toBe(settles);
  });

  test("[API9, JB13] from OpenAI's API, while its payment settles, before a yes: the worker is told to stop if it has not started", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const { answer, payer } = await leave("/settle");
    answer({ ...SETTLED, payer });
    const { job_id } = await worker.frame("job_assign");
    expect(await worker.frame("job_cancel")).toMatchObject({ job_id, reason: "cancelled" });
  });

  test("[API9, PY5] from OpenAI's API, while its payment is verified: nothing is settled, and the same payment buys the job when it comes again", async () => {
    const worker = await fullWorker(evm.socketUrl);
    worker.onAssign = ({ job_id }) => void worker.complete(String(job_id), RESULT);
    const { again, answer, payer } = await leave("/verify");
    answer({ isValid: true, payer });
    expect((await again()).status).toBe(200);
    expect(facilitator.calls.map(({ path }) => path)).toEqual(["/verify", "/verify", "/settle"]);
  });
});

describe("one payment", () => {
  test(
    "[PY6, PY7, LM1] used fifty times at once with one body is one job, verified once and settled once; eight wait for it, others are told to come again",
    { timeout: 60_000 },
    async () => {
      const worker = await fullWorker(evm.socketUrl);
      const [sent, body] = [await payment("cheap"), task(newUser())];
      const answers = await Promise.all(Array.from({ length: 50 }, () => pay(sent, "cheap", body)));
      const accepted = answers.filter(({ status }) => status === 201);
      expect(accepted.length).toBeGreaterThanOrEqual(1 + LIMITS.waitersPerKey);
      for (const answer of answers.filter(({ status }) => status !== 201)) {
        expect(answer).toMatchObject({ status: 503, body: { error: "overloaded" } });
        expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
      }
      const ids = new Set(accepted.map((answer) => String(answer.body.job_id)));
      expect(ids.size).toBe(1);
      const [id = ""] = ids;
      await worker.assigned(id);
      expect((await worker.complete(id, { sentiment: "neutral", confidence: 1 })).status).toBe("accepted");
      expect((await pay(sent, "cheap", body)).body.job_id).toBe(id);
      expect(facilitator.calls.map(({ path }) => path).filter((path) => path !== "/supported")).toEqual(["/verify", "/settle"]);
    },
  );

  test("[PY6] for another body, another endpoint or another user: 402 payment_already_used, whoever comes first", async () => {
    const [sent, user] = [await payment("cheap"), newUser()];
    const bodies = [task(user), task(user, "other"), task(newUser()), task(user, "x", { privacy_class: "PUBLIC" })];
    const answers = await Promise.all(bodies.map((body) => pay(sent, "cheap", body)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 201)) expect(answer).toMatchObject({ status: 402, body: { error: "payment_already_used" } });
    expect((await pay(sent, "fast", bodies[0])).status).toBe(402);
  });

  test("[PY6] [API9] for another user of OpenAI's API, named or not: 402 payment_already_used, and nobody reads the answer of the first", async () => {
    const payer = `0x${randomBytes(20).toString("hex")}`;
    facilitator.replies["/verify"] = { body: { isValid: true, payer } };
    const sent = { "x-payment": await payment("fast", { authorization: { from: payer } }) };
    // It takes no job that another test has left.
    const worker = await fullWorker(evm.socketUrl, { capabilities: ["LLM_INFER"] });
    const ask = (more: Fields) => evm.api.post("/v1/chat/completions", { messages: [{ role: "user", content: "Say hello." }], ...more }, sent);
    const first = ask({ user: "ann" });
    const { job_id } = await worker.frame("job_assign");
    for (const more of [{ user: "bob" }, {}]) expect(await ask(more)).toMatchObject({ status: 402, body: { error: "payment_already_used" } });
    const result = { finish_reason: "stop", model: "ant", output: "Hello.", usage: { completion_tokens: 1, prompt_tokens: 1 } };
    expect(await worker.complete(String(job_id), result)).toMatchObject({ status: "accepted" });
    expect((await first).headers.get("x-job-id")).toBe(job_id);
    expect((await ask({ user: "ann" })).headers.get("x-job-id")).toBe(job_id);
  });

  test("[PY5, JB8] a PRIVATE commit that no worker may run, with a payment that nobody signed: 422, never verified, never kept", async () => {
    const answer = await pay(await payment("cheap"), "cheap", task(newUser(), "x", { privacy_class: "PRIVATE" }));
    expect(answer.status).toBe(422);
    expect(facilitator.calls).toEqual([]);
  });

  test("[PY3] what the facilitator is shown is the payment and the endpoint: no prompt, no user", async () => {
    await pay(await payment("cheap", { envelope: { secret: "ENVELOPE-SECRET" } }), "cheap", task("USER-SECRET", "PROMPT-SECRET"));
    expect(facilitator.calls.some(({ path }) => path === "/verify")).toBe(true);
    expect(JSON.stringify(facilitator.calls)).not.toMatch(/SECRET/);
  });
});

describe("a known payment over the rate of free commits", () => {
  const REPLACED = ["x-job-id", "x-cancel-token", "x-should-retry", "payment-response", "x-payment-response", "payment-required"];

  test("[LM2, API9] gets 429 in OpenAI's form on its endpoints, with nothing of the answer that it replaces, and the job goes on", async () => {
    const { api, socketUrl } = await start("evm", { ...settings(), RATE_LIMITS: "on", COMMITS_PER_MINUTE: "1" });
    const worker = await fullWorker(socketUrl);
    const sent = { "x-payment": await payment("fast") };
    const ask = (stream: boolean) => api.post("/v1/chat/completions", { messages: [{ role: "user", content: "Say hello." }], stream }, sent);
    const first = ask(false);
    const { job_id } = await worker.frame("job_assign");
    expect((await api.tryCommit({})).status, "the only free one").toBe(402);
    const again = await ask(true);
    expect(again).toMatchObject({ status: 429, body: { error: { code: "rate_limited", type: "rate_limit_error" } } });
    expect(Number(again.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(REPLACED.filter((name) => again.headers.has(name))).toEqual([]);
    expect(await worker.complete(String(job_id), { output: "Hello." })).toMatchObject({ status: "accepted" });
    expect((await first).status).toBe(200);
  });
});

describe("payments in another payer's name", () => {
  test("[PY9] forty payments in a payer's name that are still being verified take none of that payer's places", { timeout: 60_000 }, async () => {
    const victim = `0x${randomBytes(20).toString("hex")}`;
    facilitator.replies["/verify"] = () => {};
    const forged = await Promise.all(Array.from({ length: 40 }, () => payment("cheap", { authorization: { from: victim } })));
    const asked = forged.map((sent) => pay(sent));
    await expect.poll(() => facilitator.calls.filter(({ path }) => path === "/verify").length, { timeout: 20_000 }).toBe(40);
    facilitator.replies["/verify"] = { body: { isValid: true, payer: victim } };
    expect((await pay(await payment("cheap", { authorization: { from: victim } }))).status).toBe(201);
    expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 503));
  });
});

describe("the resource of a 402", () => {
  test("[PY4] PUBLIC_HOST stands in `resource`, whatever Host, X-Forwarded-* and the request line say", async () => {
    for (const [line, ...headers] of [
      ["/v1/jobs/commit/fast", "Host: evil.example"],
      ["/v1/jobs/commit/fast", `Host: ${evm.host}`, "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: ftp", "Forwarded: host=evil.example;proto=ftp"],
      ["http://evil.example/v1/jobs/commit/fast", `Host: ${evm.host}`],
      ["/v1/jobs/commit/fast?host=evil.example#evil.example", `Host: ${evm.host}`, "X-Original-URL: /evil.example", "X-Rewrite-URL: /evil.example"],
    ]) {
      const answer = await rawRequest(evm.port, head(`POST ${String(line)} HTTP/1.1`, ...headers, "Content-Length: 0"));
      expect(answer.status, answer.all).toBe(402);
      expect(answer.all).not.toContain("evil.example");
      expect(answer.all).toContain('"resource":"https://pay.example/v1/jobs/commit/fast"');
    }
  });
});

test("[WS5] outside testnet mode workers must sign", async () => {
  const plain = await WorkerSocket.open(evm.socketUrl);
  expect(await plain.registerPlain()).toMatchObject({ status: "error", error: "auth_required" });
  expect((await plain.ended()).code).toBe(4401);
  await fullWorker(evm.socketUrl);
});
