import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { CommitResponse } from "../../../src/protocol/job.ts";
import { authorization, encode, evmOffer } from "../../support/payments.ts";
import { TestHub, until } from "../support/worker-hub.ts";
import { type Overrides, TASK, failingHub, freshInstance, post, read, refusal, rest } from "./rest.ts";

beforeEach(freshInstance);

const ON = { RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" };
const COMMIT = "/v1/jobs/commit/cheap";
const UNKNOWN = "/v1/jobs/11111111-2222-4333-8444-555555555555";
const KEY = "3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29";

let clients = 0;
/** The headers of a new client, in a block that no other file uses: files share an isolate and its counts. */
const someone = (): Record<string, string> => ({ "x-test-ip": `198.18.0.${++clients}` });

const nonce = (n: number): string => `0x${n.toString(16).padStart(64, "0")}`;

const commit = (client: Record<string, string>, overrides: Overrides = ON) => post(COMMIT, TASK, client, overrides);
const poll = (client: Record<string, string>, overrides: Overrides = ON) => rest(UNKNOWN, { headers: client }, overrides);
const list = (client: Record<string, string>, overrides: Overrides = ON) => rest("/v1/trust/list?user_id=u", { headers: client }, overrides);
const events = (client: Record<string, string>, overrides: Overrides = ON) => rest(`${UNKNOWN}/events`, { headers: client }, overrides);
const jobs = (client: Record<string, string>, overrides: Overrides = ON) => rest("/v1/jobs?user_id=u", { headers: client }, overrides);
const cancel = (client: Record<string, string>, overrides: Overrides = ON) =>
  rest(UNKNOWN, { method: "DELETE", headers: { ...client, "x-cancel-token": "t" } }, overrides);

const LIMITED = [
  { what: "commits", ask: commit, status: 201, setting: "COMMITS_PER_MINUTE" },
  { what: "polls", ask: poll, status: 404, setting: "POLLS_PER_TEN_SECONDS" },
  { what: "event streams", ask: events, status: 404, setting: "POLLS_PER_TEN_SECONDS" },
  { what: "lists of jobs", ask: jobs, status: 401, setting: "POLLS_PER_TEN_SECONDS" },
  { what: "cancels", ask: cancel, status: 404, setting: "COMMITS_PER_MINUTE" },
  { what: "pairing requests", ask: list, status: 200, setting: "TRUST_PER_MINUTE" },
];

describe.each(LIMITED)("$what of one client", ({ ask, status, setting }) => {
  test("[LM2] the limit is a setting, and with RATE_LIMITS=off there is no limit", async () => {
    const client = someone();
    const few = { ...ON, [setting]: "2" };
    for (let n = 0; n < 2; n++) expect((await ask(client, few)).status).toBe(status);
    expect((await ask(client, few)).status).toBe(429);
    expect((await ask(client, { ...few, RATE_LIMITS: "off" })).status).toBe(status);
    expect((await ask(client, { ...few, RATE_LIMITS: "" })).status, "TESTNET_MODE=true").toBe(status);
    expect((await ask(client, { ...few, RATE_LIMITS: "", TESTNET_MODE: "false" })).status, "TESTNET_MODE=false").toBe(429);
  });
});

test("[LM2] both tiers share one count, and so do the three pairing endpoints", async () => {
  const client = someone();
  const two = { ...ON, COMMITS_PER_MINUTE: "2", TRUST_PER_MINUTE: "3" };
  expect((await commit(client, two)).status).toBe(201);
  expect((await post("/v1/jobs/commit/fast", TASK, client, two)).status).toBe(201);
  expect((await commit(client, two)).status).toBe(429);
  expect((await list(client, two)).status).toBe(200);
  expect((await post("/v1/trust/create", { user_id: "u" }, client, two)).status).toBe(201);
  expect((await post("/v1/trust/claim", { pairing_code: "000000", provider_pubkey: KEY }, client, two)).status).toBe(400);
  expect((await post("/v1/trust/create", { user_id: "u" }, client, two)).status).toBe(429);
});

test("[LM2] addresses of one IPv6 /64 are one client", async () => {
  const one = { ...ON, COMMITS_PER_MINUTE: "1" };
  expect((await commit({ "x-test-ip": "2001:db8:0:7::1" }, one)).status).toBe(201);
  expect((await commit({ "x-test-ip": "2001:db8::7:ffff:ffff:ffff:ffff" }, one)).status).toBe(429);
  expect((await commit({ "x-test-ip": "2001:db8:0:8::1" }, one)).status).toBe(201);
});

test("[LM2, PY5] a commit over the rate is refused before its body or payment is read and before the hub is asked", async () => {
  const client = someone();
  const paid = { ...ON, COMMITS_PER_MINUTE: "1", PAID_COMMITS_PER_MINUTE: "1", TESTNET_MODE: "false" };
  expect((await commit(client, paid)).status, "unpaid ones count too").toBe(402);
  await post(COMMIT, TASK, { ...client, "x-payment": "x" }, paid);
  const hub = failingHub({});
  for (const headers of [{}, { "x-payment": "x" }]) {
    expect(await refusal(await post(COMMIT, "not json", { ...client, ...headers }, { ...paid, ...hub }), 429)).toBe("rate_limited");
  }
  expect(hub.calls()).toBe(0);
});

test("[LM2] [PY9] commits with a payment have a rate of their own; one whose payment cannot be read counts against both", async () => {
  const client = someone();
  const few = { ...ON, COMMITS_PER_MINUTE: "2", PAID_COMMITS_PER_MINUTE: "4", TESTNET_MODE: "false" };
  const pay = (payment: string) => post(COMMIT, TASK, { ...client, "x-payment": payment }, few);
  expect((await post(COMMIT, {}, { ...client, "x-payment": "x" }, few)).status).toBe(400);
  expect((await pay("x")).status).toBe(402);
  const late = await pay("x");
  expect(late.headers.has("payment-required")).toBe(false);
  expect(await refusal(late, 429), "a third invalid one").toBe("rate_limited");
  expect(await refusal(await commit(client, few), 429), "the invalid ones have used the common rate up").toBe("rate_limited");
  expect(await refusal(await pay("x"), 429)).toBe("rate_limited");
  const hub = failingHub({});
  expect(await refusal(await post(COMMIT, TASK, { ...client, "x-payment": "x" }, { ...few, ...hub }), 429), "a fifth one with a payment").toBe("rate_limited");
  expect(hub.calls()).toBe(0);
});

test("[LM2] [API1] a payment that cannot be read, after free requests have used the rate up, is answered only when to come again", async () => {
  const client = someone();
  const one = { ...ON, COMMITS_PER_MINUTE: "1", TESTNET_MODE: "false" };
  expect((await commit(client, one)).status).toBe(402);
  const late = await post(COMMIT, TASK, { ...client, "x-payment": "x" }, one);
  expect(late.headers.has("payment-required")).toBe(false);
  expect(Number(late.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(late.headers.get("content-type")).toBe("application/json");
  expect(await refusal(late, 429)).toBe("rate_limited");
});

test("[LM2] [PY6] a payment that comes again gets its job, counts as a free request, and is not looked at over that rate", async () => {
  const { network, payTo, token } = evmOffer();
  const payer = authorization(0).authorization.from;
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ isValid: true, payer }));
  onTestFinished(() => void vi.restoreAllMocks());
  const [client, job] = [someone(), { ...TASK, user_id: crypto.randomUUID() }];
  const accepted = { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} };
  const paid = { ...client, "payment-signature": encode({ x402Version: 2, accepted, payload: authorization(Date.now()) }) };
  const terms = { EVM_PAY_TO: payTo, EVM_USDC: token.address, EVM_FACILITATOR: "http://facilitator.test" };
  const few = { ...ON, ...terms, COMMITS_PER_MINUTE: "1", TESTNET_MODE: "false" };
  const send = (hub = {}) => post("/v1/jobs/commit/fast", job, paid, { ...few, ...hub });
  // The first is verified, and the second counts.
  const ids = [(await read(await send(), CommitResponse)).job_id, (await read(await send(), CommitResponse)).job_id];
  expect(ids[1]).toBe(ids[0]);
  const hub = failingHub({});
  expect(await refusal(await send(hub), 429)).toBe("rate_limited");
  expect(hub.calls()).toBe(0);
  expect(await refusal(await commit(client, few), 429)).toBe("rate_limited");
});

test("[LM2] [PY9] who has sent as many payments that fail as free requests are allowed does not have more of them verified", async () => {
  const { network, payTo, token } = evmOffer();
  const facilitator = vi
    .spyOn(globalThis, "fetch")
    .mockImplementation(async () => Response.json({ isValid: false, invalidReason: "invalid_exact_evm_payload_signature" }));
  onTestFinished(() => void vi.restoreAllMocks());
  const client = someone();
  const accepted = { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} };
  const terms = { EVM_PAY_TO: payTo, EVM_USDC: token.address, EVM_FACILITATOR: "http://facilitator.test" };
  const few = { ...ON, ...terms, COMMITS_PER_MINUTE: "3", PAID_COMMITS_PER_MINUTE: "10", TESTNET_MODE: "false" };
  const pay = async (n: number) => {
    const payload = authorization(Date.now(), nonce(n));
    return (await post("/v1/jobs/commit/fast", TASK, { ...client, "payment-signature": encode({ x402Version: 2, accepted, payload }) }, few)).status;
  };
  const statuses = [];
  for (let n = 0; n < 5; n++) statuses.push(await pay(n));
  expect([statuses, facilitator.mock.calls.length]).toEqual([[402, 402, 402, 429, 429], 3]);
});

test("[LM2] payments that come at the same time are checked up to that number too; one that is good gives its place to the next", async () => {
  const { network, payTo, token } = evmOffer();
  const payer = authorization(0).authorization.from;
  const facilitator = vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ isValid: false, invalidReason: "insufficient_funds" }));
  onTestFinished(() => void vi.restoreAllMocks());
  const accepted = { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} };
  const terms = { EVM_PAY_TO: payTo, EVM_USDC: token.address, EVM_FACILITATOR: "http://facilitator.test" };
  const few = { ...ON, ...terms, COMMITS_PER_MINUTE: "3", PAID_COMMITS_PER_MINUTE: "10", TESTNET_MODE: "false" };
  const payAll = async (): Promise<number[]> => {
    const client = someone();
    const sent = Array.from({ length: 5 }, (_, n) => encode({ x402Version: 2, accepted, payload: authorization(Date.now(), nonce(n)) }));
    const answers = await Promise.all(sent.map((signature) => post("/v1/jobs/commit/fast", TASK, { ...client, "payment-signature": signature }, few)));
    return answers.map(({ status }) => status).toSorted((a, b) => a - b);
  };
  expect([await payAll(), facilitator.mock.calls.length]).toEqual([[402, 402, 402, 429, 429], 3]);
  facilitator.mockImplementation(async () => Response.json({ isValid: true, payer }));
  const client = someone();
  let [n, waits] = [5, true];
  const pay = async (headers = {}): Promise<number> => {
    const signature = encode({ x402Version: 2, accepted, payload: authorization(Date.now(), nonce(n++)) });
    const one = { ...few, COMMITS_PER_MINUTE: "1", PAID_COMMITS_PER_MINUTE: "1000" };
    return (await post("/v1/jobs/commit/fast", TASK, { ...client, ...headers, "payment-signature": signature }, one)).status;
  };
  const first = pay({ prefer: "wait=3" }).finally(() => (waits = false));
  await until(async () => (await pay()) === 201, "the first one is verified");
  expect([waits, await first]).toEqual([true, 201]);
});

test("[LM2] [API9] the client of a stream that a rate replaces has not left: the job stays when an earlier client of it leaves", async () => {
  const { network, payTo, token } = evmOffer();
  const payer = authorization(0).authorization.from;
  vi.spyOn(globalThis, "fetch").mockImplementation(async () => Response.json({ isValid: true, payer }));
  onTestFinished(() => void vi.restoreAllMocks());
  const terms = { EVM_PAY_TO: payTo, EVM_USDC: token.address, EVM_FACILITATOR: "http://facilitator.test" };
  const hub = new TestHub({ ...ON, ...terms, COMMITS_PER_MINUTE: "1", TESTNET_MODE: "false" });
  const client = someone();
  const accepted = { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} };
  const headers = { ...client, "payment-signature": encode({ x402Version: 2, accepted, payload: authorization(Date.now()) }) };
  const body = JSON.stringify({ stream: true, messages: [{ role: "user", content: "q" }] });
  const stream = () => hub.fetch(new Request("http://hub.test/v1/chat/completions", { method: "POST", headers, body }));
  const first = await stream();
  expect((await hub.post("fast", {}, client)).status).toBe(402);
  expect((await stream()).status).toBe(429);
  expect(hub.rpcs).not.toContain("cancel");
  await first.body?.cancel();
  await until(async () => hub.rpcs.includes("cancel"), "left");
  expect((await hub.job(first.headers.get("x-job-id") ?? "")).status).toBe("pending");
});

test("[LM2] in testnet mode a payment header changes nothing: there is one rate", async () => {
  const client = { ...someone(), "x-payment": "x" };
  const one = { ...ON, COMMITS_PER_MINUTE: "1" };
  expect((await commit(client, one)).status).toBe(201);
  expect((await commit(client, one)).status).toBe(429);
});

test("[API7] a preflight is not counted", async () => {
  const client = someone();
  const one = { ...ON, COMMITS_PER_MINUTE: "1" };
  for (let n = 0; n < 3; n++) {
    const response = await rest(COMMIT, { method: "OPTIONS", headers: { ...client, "Access-Control-Request-Method": "POST" } }, one);
    expect(response.status).toBe(204);
  }
  expect((await commit(client, one)).status).toBe(201);
});
