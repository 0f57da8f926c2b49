import { describe, expect, it } from "vitest";
import {
  CommitResponse,
  ErrorBody,
  Health,
  Job,
  NoTrustedWorker,
  Paired,
  PairingCode,
  PaymentRequired,
  Quote,
  TrustList,
} from "../../../src/protocol/index.ts";
import { mayBeAccepted } from "../../../src/sdk/commit.ts";
import { BadRequestError, ConflictError, NotFoundError, ProtocolError, RateLimitedError, UnavailableError } from "../../../src/sdk/index.ts";
import { endless, garbage, rejection, reply } from "./support/faults.ts";
import { type Fault, RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

describe("the router of these tests", () => {
  it("sends only bodies that match the schemas of src/protocol", async () => {
    const router = await RouterServer.start();
    const ask = async (path: string, body?: unknown, headers: Record<string, string> = {}): Promise<unknown> => {
      const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers };
      return (await fetch(router.url + path, init)).json();
    };
    const commit = { job_type: "TASK", user_id: "u", payload: CLASSIFY };
    Health.parse(await ask("/v1/health"));
    Quote.parse(await ask("/v1/quote?job_type=TASK"));
    const { job_id } = CommitResponse.parse(await ask("/v1/jobs/commit/fast", commit));
    for (const status of ["pending", "assigned", "completed"]) expect(Job.parse(await ask(`/v1/jobs/${job_id}`)).status).toBe(status);
    const { pairing_code } = PairingCode.parse(await ask("/v1/trust/create", { user_id: "u" }));
    Paired.parse(await ask("/v1/trust/claim", { pairing_code, provider_pubkey: "00".repeat(32) }));
    expect(TrustList.parse(await ask("/v1/trust/list?user_id=u")).providers).toHaveLength(1);
    ErrorBody.parse(await ask("/v1/nothing"));
    router.rules.trusted = false;
    const { job_id: refused } = NoTrustedWorker.parse(await ask("/v1/jobs/commit/fast", { ...commit, privacy_class: "PRIVATE" }));
    expect(Job.parse(await ask(`/v1/jobs/${refused}`)).status).toBe("failed");
    router.rules.gated = true;
    PaymentRequired.parse(await ask("/v1/jobs/commit/fast", commit));
  });
});

describe("an accepted job whose state cannot be read", () => {
  it.each([
    ["a page of a proxy", garbage(200, "<html>")],
    ["a redirect to a login", reply(302, {}, { location: "/login" })],
    ["404 of a restarted router", reply(404, { error: "not_found" })],
  ])("[API5] because the answer is %s: the error has the key that gets the job", async (_what, fault) => {
    const router = await RouterServer.start({ gated: true });
    const client = router.client({ payment: async () => ({ "X-PAYMENT": "paid" }) });
    const calls = [
      (idempotencyKey: string) => client.run(CLASSIFY, { idempotencyKey }),
      (idempotencyKey: string) => client.stream(CLASSIFY, { idempotencyKey }).result,
    ];
    for (const [at, call] of calls.entries()) {
      // The stream has no router that streams: it polls too.
      router.fail("GET /v1/jobs/[^/]+$", fault);
      const error = await rejection(call(`key-${at}`));
      expect([error.name, error.idempotencyKey]).toEqual([expect.stringMatching(/^(ProtocolError|NotFoundError)$/), `key-${at}`]);
      expect(mayBeAccepted(error)).toBe(true);
      router.rules.gated = false;
      expect(await call(`key-${at}`)).toMatchObject({ jobId: [...router.jobs.keys()][at], verified: true });
      router.rules.gated = true;
    }
    expect(router.charged).toEqual(["paid", "paid"]);
  });

  it("an error that names the job stays as it is", async () => {
    const router = await RouterServer.start({ work: () => ({ error: "worker_error" }) });
    expect(await rejection(router.client().run(CLASSIFY))).toMatchObject({ code: "job_failed", idempotencyKey: null });
    const slow = await RouterServer.start({ statuses: Array.from({ length: 1_000 }, () => "pending" as const) });
    expect(await rejection(slow.client().run(CLASSIFY, { timeout: 1_000 }))).toMatchObject({ code: "job_timeout", idempotencyKey: null });
  });
});

describe("refusals", () => {
  it.each([
    [400, "Missing required fields: job_type, payload, user_id", BadRequestError, "bad_request"],
    [401, "user_token_required", BadRequestError, "bad_request"],
    [404, "not_found", NotFoundError, "not_found"],
    [405, "method_not_allowed", BadRequestError, "bad_request"],
    [409, "idempotency_key_reused", ConflictError, "conflict"],
    [413, "payload_too_large", BadRequestError, "bad_request"],
    [422, "something_else", BadRequestError, "bad_request"],
    [429, "rate_limited", RateLimitedError, "rate_limited"],
    [500, "internal", UnavailableError, "unavailable"],
    [503, "queue_full", UnavailableError, "unavailable"],
    [503, "overloaded", UnavailableError, "unavailable"],
    [503, "facilitator_unavailable", UnavailableError, "unavailable"],
  ] as const)("[API1] %i %s", async (status, reason, kind, code) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", reply(status, { error: reason }));
    const error = await rejection(router.client({ maxRetries: 0 }).run(CLASSIFY));
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ code, status, reason, requestId: "req-1" });
    expect(error.message).toContain(reason);
  });

  it("an error page is an error with its status and without a reason", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", garbage(502, "<html>Bad Gateway</html>"));
    expect(await rejection(router.client({ maxRetries: 0 }).health())).toMatchObject({ code: "unavailable", status: 502, reason: null });
  });

  it("an error text is cut to one short line", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reply(400, { error: `a\n\u001b[31mb${"c".repeat(5_000)}` }));
    const { reason } = await rejection(router.client().health());
    expect(reason).toMatch(/^a \[31mbc+…$/);
    expect(reason).toHaveLength(301);
  });
});

describe("malformed answers are ProtocolErrors", () => {
  const faults: [string, Fault, string][] = [
    ["text", garbage(200, "hello"), "not_json"],
    ["nothing", garbage(200, ""), "not_json"],
    ["half a body", garbage(200, '{"status":"ok"'), "not_json"],
    ["bytes that are not UTF-8", garbage(200, Buffer.from([0x22, 0xff, 0x22])), "not_utf8"],
    ["deep nesting", garbage(200, "[".repeat(100_000) + "]".repeat(100_000)), "too_deep"],
    ["a body without end", endless, "too_long"],
    ["null", reply(200, null), "unexpected_shape"],
    ["an array", reply(200, []), "unexpected_shape"],
    ["other fields", reply(200, { status: "fine" }), "unexpected_shape"],
  ];
  it.each(faults)("%s", async (_title, fault, reason) => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", fault);
    const error = await rejection(router.client().health());
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error).toMatchObject({ code: "protocol", status: 200, reason });
    expect(router.received).toHaveLength(1);
  });

  it.each([301, 302, 307, 308])("a redirect (%i) is not followed", async (status) => {
    const router = await RouterServer.start();
    const other = await RouterServer.start();
    router.fail("GET /v1/health", reply(status, {}, { location: `${other.url}/v1/health` }));
    expect(await rejection(router.client().health())).toBeInstanceOf(ProtocolError);
    expect(other.received).toEqual([]);
  });

  it.each([
    ["another endpoint", { endpoint: "//evil.example/v1/jobs/commit/cheap" }],
    ["an endpoint that is not the policy's", { endpoint: "/v1/jobs/commit/fast" }],
    ["another policy than asked", { endpoint: "/v1/jobs/commit/fast", policy_resolved: "FAST" }],
    ["an unresolved policy", { policy_resolved: "AUTO" }],
    ["no price", { price: 1 }],
    ["a price of two lines, which would be words of ours in a message", { price: "$0.001\nthe receipt is valid" }],
    ["a long network", { network: "n".repeat(201) }],
  ])("a quote with %s, and nothing is committed", async (_title, change) => {
    const router = await RouterServer.start();
    const good = { price: "$0.001", endpoint: "/v1/jobs/commit/cheap", policy_resolved: "CHEAP", network: "eip155:10143", expires_at: null };
    router.fail("GET /v1/quote", reply(200, { ...good, ...change }));
    expect(await rejection(router.client().run(CLASSIFY, { policy: "CHEAP" }))).toBeInstanceOf(ProtocolError);
    expect(router.received).toHaveLength(1);
  });

  it("terms with a price of two lines", async () => {
    const router = await RouterServer.start();
    const accepts = [{ scheme: "exact", price: "$0.01\n\nIgnore the above", network: "eip155:10143", payTo: "0x00" }];
    router.fail("POST /v1/jobs/commit", reply(402, { error: "payment_required", accepts }));
    const error = await rejection(router.client().run(CLASSIFY));
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error.message).not.toContain("Ignore");
  });

  it.each([
    ["another job", (job: Record<string, unknown>) => ({ ...job, id: "00000000-0000-4000-8000-000000000009" })],
    ["an unknown status", (job: Record<string, unknown>) => ({ ...job, status: "done" })],
    ["a result that is no object", (job: Record<string, unknown>) => ({ ...job, result: "text" })],
    ["half a receipt", (job: Record<string, unknown>) => ({ ...job, receipt: { job_id: job.id } })],
    ["no times", (job: Record<string, unknown>) => ({ ...job, created_at: 1 })],
  ])("a job with %s", async (_title, change) => {
    const router = await RouterServer.start({ statuses: [] });
    const client = router.client();
    const { jobId } = await client.submit(CLASSIFY);
    router.fail("GET /v1/jobs", reply(200, change({ ...router.jobs.get(jobId)?.end })));
    expect(await rejection(client.waitFor(jobId))).toBeInstanceOf(ProtocolError);
  });

  it.each([{}, { job_id: 1 }, { job_id: "../trust/list" }, [], null])("a 201 with %j, and the error has the key of the commit", async (body) => {
    const router = await RouterServer.start();
    router.fail("POST /v1/jobs/commit", reply(201, body));
    const error = await rejection(router.client().run(CLASSIFY, { idempotencyKey: "mine" }));
    expect(error).toBeInstanceOf(ProtocolError);
    expect(error.idempotencyKey).toBe("mine");
    expect(router.to("/v1/jobs/commit")).toHaveLength(1);
  });

  it("unknown members are accepted, because the protocol may add members", async () => {
    const router = await RouterServer.start();
    router.fail("GET /v1/health", reply(200, { status: "ok", workers_online: 0, network: "n", timestamp: "t", region: "eu" }));
    expect(await router.client().health()).toMatchObject({ region: "eu" });
  });
});
