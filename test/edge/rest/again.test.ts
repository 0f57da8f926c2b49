import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { authorization, encode, evmOffer } from "../../support/payments.ts";
import { muteErrors } from "../support/errors.ts";
import { TestHub, commitInput, until } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";

afterEach(() => vi.restoreAllMocks());

const payment = () => ({
  ...{ key: crypto.randomUUID(), digest: "d", binding: "b", payer: null, asset: "0x0", amount: "1" },
  ...{ expiresAt: Date.now() + 60_000, payload: "{}", requirements: "{}" },
});

const OUTPUT = { summary: "the first and only" };

/** Deletes everything that the hub has of a job; D1 has it. */
async function handedOnAndForgotten(hub: TestHub): Promise<void> {
  await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "handed on");
  await hub.evict();
}

describe("a commit that is delivered a second time, after its job has left the hub", () => {
  test("[JB9] [RC5] is answered with that job, which is not run again", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    await hub.stub.commit(input);
    await worker.complete(await worker.assigned(), OUTPUT);
    await handedOnAndForgotten(hub);
    expect(await hub.stub.commit({ ...input, again: true })).toMatchObject({ ok: true, jobId: input.id, job: null });
    expect(await hub.sql("SELECT id FROM jobs")).toEqual([]);
    await worker.quiet();
    expect(await hub.job(input.id)).toMatchObject({ status: "completed", result: OUTPUT });
  });

  test("[JB8] stays refused, even if a worker is there by now", async () => {
    const hub = new TestHub();
    const input = commitInput({ privacyClass: "PRIVATE" });
    expect(await hub.stub.commit(input)).toMatchObject({ ok: false, reason: "no_trusted_worker" });
    await handedOnAndForgotten(hub);
    const worker = await hub.worker();
    const again = { ...input, trustedKeys: [worker.key.publicKey], again: true };
    expect(await hub.stub.commit(again)).toEqual({ ok: false, reason: "no_trusted_worker", jobId: input.id });
    expect(await hub.stub.reserve(again, payment())).toEqual({ state: "refused", reason: "no_trusted_worker", jobId: input.id });
    await worker.quiet();
  });

  test("[JB9] is 503 while D1 cannot say, and nothing is run", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    await hub.stub.commit(input);
    await worker.complete(await worker.assigned(), OUTPUT);
    await handedOnAndForgotten(hub);
    await hub.breakD1({ read: () => Promise.reject(new Error("down")) });
    const again = { ...input, again: true };
    expect(await hub.stub.commit(again)).toEqual({ ok: false, reason: "overloaded" });
    expect(await hub.stub.reserve(again, payment())).toEqual({ state: "refused", reason: "overloaded" });
    await worker.quiet();
  });

  test("[JB9] runs if the first delivery never arrived", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput({ again: true });
    expect(await hub.stub.commit(input)).toMatchObject({ ok: true, jobId: input.id });
    expect((await worker.assigned()).job_id).toBe(input.id);
  });

  test("[JB9] is one job if the first delivery comes, and its job ends, while D1 is asked", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    let asked = 0;
    const slow = Promise.withResolvers<void>();
    await hub.breakD1({
      read: () => {
        asked++;
        return slow.promise;
      },
    });
    const second = hub.stub.commit({ ...input, again: true });
    await until(async () => asked > 0, "asked");
    expect(await hub.stub.commit(input)).toMatchObject({ ok: true, jobId: input.id });
    await worker.complete(await worker.assigned(), OUTPUT);
    await hub.inside(() => slow.resolve());
    expect(await second).toMatchObject({ ok: true, jobId: input.id });
    await worker.quiet();
    expect(await hub.job(input.id)).toMatchObject({ status: "completed", result: OUTPUT });
  });

  test("[JB9] through the router: the answer is lost, the job ends and leaves the hub, the hub restarts, and the retry finds the job", async () => {
    muteErrors();
    const hub = new TestHub();
    const worker = await hub.worker();
    let lost = 0;
    const HUB = {
      getByName: () => ({
        commit: async (input: Parameters<typeof hub.stub.commit>[0]) => {
          if (lost++ > 0) return await hub.stub.commit(input);
          // The commit waits for the end of the job, so the worker must run at the same time.
          await Promise.all([hub.stub.commit(input), worker.assigned().then((job) => worker.complete(job, OUTPUT))]);
          await handedOnAndForgotten(hub);
          throw Object.assign(new Error("Network connection lost."), { retryable: true });
        },
      }),
    };
    const { app } = await import("../../../src/coordinator/app.ts");
    const body = JSON.stringify({ job_type: "TASK", user_id: "u", payload: { task_type: "summarize", input: "i" } });
    const request = new Request("http://hub.test/v1/jobs/commit/cheap", { method: "POST", body, headers: { prefer: "wait=1" } });
    const response = await app.fetch(request, { ...env, HUB: HUB as never });
    expect(response.status).toBe(201);
    expect(await response.json()).toMatchObject({ job: { status: "completed", result: OUTPUT } });
    expect(lost).toBe(2);
    await worker.quiet();
  });
});

describe("a client of an OpenAI request that has left", () => {
  test("[JB13] cancels its job once, also if the answer to that is lost: a second time could end the job of another client", async () => {
    muteErrors();
    const hub = new TestHub();
    let cancels = 0;
    const cancel = async (...call: Parameters<typeof hub.stub.cancel>): Promise<never> => {
      cancels++;
      await hub.stub.cancel(...call);
      throw Object.assign(new Error("Network connection lost."), { retryable: true });
    };
    const stub = new Proxy(hub.stub, { get: (target, method) => (method === "cancel" ? cancel : Reflect.get(target, method)) });
    const { app } = await import("../../../src/coordinator/app.ts");
    const body = JSON.stringify({ model: "auto", messages: [{ role: "user", content: "Hi" }] });
    const request = new Request("http://hub.test/v1/chat/completions", { method: "POST", body, signal: AbortSignal.abort() });
    const context = createExecutionContext();
    await app.fetch(request, { ...env, HUB: { getByName: () => stub } }, context);
    await waitOnExecutionContext(context);
    expect(cancels).toBe(1);
  });
});

describe("a paid PRIVATE commit", () => {
  test("[JB8] [PY5] whose refusal is lost is refused again, even if its worker is there by now, and nothing is verified", async () => {
    muteErrors();
    const asked = facilitator();
    const [hub, key] = [new TestHub(), newKey()];
    await env.DB.prepare(
      "INSERT INTO pairings (pairing_code, user_id, provider_pubkey, claimed, created_at, expires_at, paired_at) VALUES ('X', 'paired', ?, 1, 0, 0, ?)",
    )
      .bind(key.publicKey, Date.now())
      .run();
    const first: unknown[] = [];
    const reserve = async (...args: Parameters<typeof hub.stub.reserve>) => {
      if (first.length > 0) return await hub.stub.reserve(...args);
      first.push(await hub.stub.reserve(...args));
      await handedOnAndForgotten(hub);
      await hub.worker({ key, signed: true });
      throw Object.assign(new Error("Network connection lost."), { retryable: true });
    };
    const stub = new Proxy(hub.stub, { get: (target, method) => (method === "reserve" ? reserve : Reflect.get(target, method)) });
    const answer = await paidCommit({ user_id: "paired", privacy_class: "PRIVATE" }, stub);
    expect(answer.status).toBe(422);
    expect(first).toMatchObject([{ state: "refused", reason: "no_trusted_worker", jobId: (await answer.json<{ job_id: string }>()).job_id }]);
    expect(asked).toEqual([]);
  });
});

describe("a paid commit that an overloaded hub does not take", () => {
  test("[PY5] is 503 and ends its reservation, also if the answer to that was lost", { timeout: 20_000 }, async () => {
    muteErrors();
    facilitator();
    const hub = new TestHub();
    await hub.worker();
    let calls = 0;
    const lost = async (...call: Parameters<typeof hub.stub.reserve>): Promise<never> => {
      if (calls++ > 0) return overloaded();
      await hub.stub.reserve(...call);
      throw Object.assign(new Error("Network connection lost."), { retryable: true });
    };
    const stub = new Proxy(hub.stub, { get: (target, method) => (method === "reserve" ? lost : Reflect.get(target, method)) });
    expect((await paidCommit({}, stub)).status).toBe(503);
    expect(calls).toBe(2);
    expect((await paidCommit({}, hub.stub)).status).toBe(201);
  });

  test("[PY5] is 503 and ends its reservation: the same payment does not wait for a minute when it comes again", { timeout: 20_000 }, async () => {
    muteErrors();
    const asked = facilitator();
    const hub = new TestHub();
    const worker = await hub.worker();
    const stub = new Proxy(hub.stub, { get: (target, method) => (method === "submit" ? overloaded : Reflect.get(target, method)) });
    expect((await paidCommit({}, stub)).status).toBe(503);
    const response = await paidCommit({}, hub.stub);
    expect(response.status).toBe(201);
    expect(asked).toEqual(["/verify", "/verify", "/settle"]);
    expect((await worker.assigned()).job_id).toBe((await response.json<{ job_id: string }>()).job_id);
  });

  test("[PY5] [PY8] but took, without anyone hearing it, has its job: the same payment gets it, and is not verified again", async () => {
    muteErrors();
    const asked = facilitator();
    const hub = new TestHub();
    await hub.worker();
    let taken = "";
    const lost = async (...call: Parameters<typeof hub.stub.submit>): Promise<never> => {
      const answer = await hub.stub.submit(...call);
      taken = "jobId" in answer ? (answer.jobId ?? "") : "";
      return overloaded();
    };
    const stub = new Proxy(hub.stub, { get: (target, method) => (method === "submit" ? lost : Reflect.get(target, method)) });
    expect((await paidCommit({}, stub)).status).toBe(503);
    const response = await paidCommit({}, hub.stub);
    expect([response.status, await response.json()]).toEqual([201, expect.objectContaining({ job_id: taken })]);
    expect(asked).toEqual(["/verify"]);
  });
});

test("[PY5] a paid commit whose client has left while it was verified is not submitted: nothing is settled, and the same payment can come again", async () => {
  const asked = facilitator();
  const hub = new TestHub();
  const worker = await hub.worker();
  const client = new AbortController();
  const stub = new Proxy(hub.stub, {
    get: (target, method) => {
      if (method === "reserve") client.abort();
      return Reflect.get(target, method);
    },
  });
  expect((await paidCommit({}, stub, client.signal)).status).toBe(503);
  expect(asked).toEqual(["/verify"]);
  await worker.quiet();
  expect((await paidCommit({}, hub.stub)).status).toBe(201);
});

describe("the outcome of a settle call", () => {
  test.each([
    ["is told again to a hub that was overloaded, or could not write it down, so that nobody asks the facilitator a second time", 2, true, 3],
    [
      "that cannot be told, however often, is unknown: the hub has the job, so the answer is 201, and not a 503, which says that nothing was charged",
      Infinity,
      false,
      5,
    ],
  ])("[PY5] [PY8] %s", async (_title, lost, isKnown, tries) => {
    muteErrors();
    shortenPauses();
    const asked = facilitator();
    const hub = new TestHub();
    const worker = await hub.worker();
    let told = 0;
    const unwritten = async () => ({ ok: false, reason: "reservation_lost" });
    const stub = new Proxy(hub.stub, {
      get: (target, method) => (method === "settled" && told++ < lost ? (told === 1 ? overloaded : unwritten) : Reflect.get(target, method)),
    });
    const response = await paidCommit({}, stub);
    expect([response.status, response.headers.has("payment-response")]).toEqual([201, isKnown]);
    expect([asked, told]).toEqual([["/verify", "/settle"], tries]);
    const { job_id: id } = await response.json<{ job_id: string }>();
    if (isKnown) expect((await worker.assigned()).job_id).toBe(id);
    else expect(await hub.job(id)).toMatchObject({ status: "pending" });
  });

  test("[JB13] that cannot be told: the 201 has the cancel token of its job", async () => {
    muteErrors();
    shortenPauses();
    facilitator();
    const hub = new TestHub();
    await hub.worker();
    const stub = new Proxy(hub.stub, { get: (target, method) => (method === "settled" ? overloaded : Reflect.get(target, method)) });
    const response = await paidCommit({}, stub);
    const { job_id: id } = await response.json<{ job_id: string }>();
    expect(response.status).toBe(201);
    expect(await hub.stub.cancel(id, response.headers.get("x-cancel-token") ?? "")).not.toBeNull();
    expect(await hub.job(id)).toMatchObject({ result: { error: "cancelled" } });
  });

  test("[PY8] a payment that was used before gets the same 402 again, with what the facilitator said", async () => {
    facilitator({ success: false, errorReason: "duplicate_settlement", transaction: "" });
    const hub = new TestHub();
    await hub.worker();
    for (const _ of ["first", "again"]) {
      const response = await paidCommit({}, hub.stub);
      expect([response.status, await response.json<{ error: string }>()]).toMatchObject([402, { error: "payment_failed: duplicate_settlement" }]);
      expect(atob(response.headers.get("payment-response") ?? "")).toContain('"success":false');
    }
  });

  test("[JB13, PY9] a cancel is 503 while the hub does not say what became of the money, and the same request again gets the answer", async () => {
    facilitator();
    const hub = new TestHub();
    await hub.worker();
    const committed = await paidCommit({}, hub.stub);
    const { job_id: id } = await committed.json<{ job_id: string }>();
    const cancel = (stub: object): Promise<Response> =>
      ask(
        new Request(`http://hub.test/v1/jobs/${id}`, { method: "DELETE", headers: { "x-cancel-token": committed.headers.get("x-cancel-token") ?? "" } }),
        stub,
      );
    const silent = new Proxy(hub.stub, { get: (target, method) => (method === "settlement" ? overloaded : Reflect.get(target, method)) });
    expect((await cancel(silent)).status).toBe(503);
    const answer = await cancel(hub.stub);
    expect([answer.status, await answer.json()]).toMatchObject([200, { status: "failed" }]);
    expect(atob(answer.headers.get("payment-response") ?? "")).toContain('"success":true');
  });
});

/** The number of tries is the rule, and not that they take seconds. */
function shortenPauses(): void {
  const { outcomePauses } = TUNING;
  onTestFinished(() => void Object.assign(TUNING, { outcomePauses }));
  Object.assign(TUNING, { outcomePauses: outcomePauses.map((ms) => ms / 100) });
}

const { network, payTo, token } = evmOffer();
const SIGNED = authorization(Date.now());

/** A facilitator that verifies, and settles or says something else; returns what it was asked. */
function facilitator(settled: object = { success: true, transaction: `0x${"a".repeat(64)}` }): string[] {
  const payer = SIGNED.authorization.from;
  const asked: string[] = [];
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    asked.push(pathname);
    return Response.json(pathname === "/verify" ? { isValid: true, payer } : { ...settled, network, payer });
  });
  return asked;
}

/** Commits a job with a payment, through a router whose hub this is. */
async function paidCommit(fields: object, hub: object, signal: AbortSignal | null = null): Promise<Response> {
  const accepted = { scheme: "exact", network, amount: "10000", asset: token.address, payTo, maxTimeoutSeconds: 300, extra: {} };
  const request = new Request("http://hub.test/v1/jobs/commit/fast", {
    method: "POST",
    headers: { "payment-signature": encode({ x402Version: 2, accepted, payload: SIGNED }) },
    body: JSON.stringify({ job_type: "TASK", user_id: "u", payload: { task_type: "classify", input: "i" }, ...fields }),
    signal,
  });
  return await ask(request, hub);
}

/** Sends a request to a router where jobs are paid, whose hub this is. */
async function ask(request: Request, hub: object): Promise<Response> {
  const { app } = await import("../../../src/coordinator/app.ts");
  const paid = { TESTNET_MODE: "false", RATE_LIMITS: "off", EVM_PAY_TO: payTo, EVM_USDC: token.address, EVM_FACILITATOR: "http://facilitator.test" };
  return await app.fetch(request, { ...env, ...paid, HUB: { getByName: () => hub } as never }, createExecutionContext());
}

/** A call to a hub that has too much to do. */
function overloaded(): Promise<never> {
  return Promise.reject(Object.assign(new Error("Durable Object is overloaded"), { overloaded: true }));
}

describe("a completed job whose result has the same text as the result of a refused one", () => {
  const REFUSAL = { error: "no_trusted_worker" };
  const asResult = (id: string) => `UPDATE jobs SET result = '${JSON.stringify(REFUSAL)}' WHERE id = '${id}'`;

  test("[JB8] [JB9] is still answered with 201, while the hub remembers its answer", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput({ taskType: "extract_json", payload: '{"job_type":"TASK","task_type":"extract_json","input":"i"}' });
    await hub.stub.commit(input);
    // The output of a TASK whose text quotes a router's answer.
    const output = { extracted: [{ status: "failed", result: REFUSAL }], count: 1 };
    expect(await worker.complete(await worker.assigned(), output)).toMatchObject({ status: "accepted" });
    await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "handed on");
    expect(await hub.stub.commit({ ...input, again: true })).toMatchObject({ ok: true, jobId: input.id, job: null });
    expect(await hub.job(input.id)).toMatchObject({ status: "completed", result: output });
  });

  test("[JB8] [JB9] is still answered with 201, while the hub has its row", async () => {
    muteErrors();
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    await hub.breakD1({ batch: () => Promise.reject(new Error("down")) });
    await hub.stub.commit(input);
    await worker.complete(await worker.assigned(), OUTPUT);
    await hub.sql(asResult(input.id));
    expect(await hub.stub.commit({ ...input, again: true })).toMatchObject({ ok: true, jobId: input.id, job: null });
  });

  test("[JB8] [JB9] is still answered with 201, when only D1 has it", async () => {
    const hub = new TestHub();
    const worker = await hub.worker();
    const input = commitInput();
    await hub.stub.commit(input);
    await worker.complete(await worker.assigned(), OUTPUT);
    await handedOnAndForgotten(hub);
    await env.DB.prepare(asResult(input.id)).run();
    expect(await hub.stub.commit({ ...input, again: true })).toMatchObject({ ok: true, jobId: input.id, job: null });
  });
});
