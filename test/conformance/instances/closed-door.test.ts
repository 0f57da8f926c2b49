import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { fullWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
let svm: Subject;
const PAY_TO = "0x1111111111111111111111111111111111111111";
const USDC = "0x2222222222222222222222222222222222222222";

beforeAll(async () => {
  [evm, svm] = await Promise.all([start("evm", { TESTNET_MODE: "false", EVM_PAY_TO: PAY_TO, EVM_USDC: USDC }), start("svm", { TESTNET_MODE: "false" })]);
});

const PRICE = { fast: ["$0.010", "10000"], cheap: ["$0.001", "1000"] } as const;

describe.each(["fast", "cheap"] as const)("commit/%s", (tier) => {
  test.each(["evm", "svm"] as const)("[SPEC, PY1, PY4] of %s answers 402 with what to pay, before the body is looked at", async (instance) => {
    const { api } = instance === "evm" ? evm : svm;
    const { network } = (await api.get("/v1/health")).body;
    const [price, amount] = PRICE[tier];
    for (const body of [task(newUser()), {}, "{", ""]) {
      const answer = await api.tryCommit(body, tier);
      expect(answer.status, answer.text).toBe(402);
      expect(answer.body.error).toEqual(expect.any(String));
      const accepts = answer.body.accepts as Record<string, unknown>[];
      expect(accepts).toHaveLength(1);
      expect(accepts[0]).toMatchObject({ scheme: "exact", price, network, payTo: expect.any(String) });
      if (instance === "evm") expect(accepts[0]).toMatchObject({ payTo: PAY_TO, asset: USDC });
      else expect(accepts[0]).not.toHaveProperty("asset");
      expect(answer.headers.get("cache-control")).toContain("no-store");
      expect(answer.headers.get("access-control-allow-origin")).toBe("*");
      expect(answer.body).not.toHaveProperty("job_id");
    }
    const answer = await api.tryCommit(task(newUser()), tier);
    expect(answer.body).toMatchObject({ x402Version: 2, resource: expect.anything() });
    expect((answer.body.accepts as object[])[0], "[PY4] the further fields of an entry").toMatchObject({
      amount,
      maxAmountRequired: amount,
      maxTimeoutSeconds: expect.any(Number),
      resource: expect.stringContaining(`/v1/jobs/commit/${tier}`),
      description: expect.any(String),
      mimeType: "application/json",
    });
    expect((answer.body.accepts as object[])[0]).toHaveProperty("extra");
  });

  test("[PY4] the PAYMENT-REQUIRED header is pure x402 v2", async () => {
    const answer = await evm.api.tryCommit(task(newUser()), tier);
    const header = answer.headers.get("payment-required");
    expect(header).not.toBeNull();
    const required = JSON.parse(Buffer.from(String(header), "base64").toString()) as { x402Version: number; accepts: Record<string, unknown>[] };
    expect(required.x402Version).toBe(2);
    expect(Object.keys(required.accepts[0] ?? {}).toSorted()).toEqual(["amount", "asset", "extra", "maxTimeoutSeconds", "network", "payTo", "scheme"]);
    expect(required.accepts[0]).toMatchObject({ scheme: "exact", network: "eip155:10143", amount: PRICE[tier][1], payTo: PAY_TO, asset: USDC });
  });

  test("[SPEC, PY1] garbage in X-PAYMENT commits no job", async () => {
    for (const payment of ["x", "{}", "bnVsbA==", Buffer.from('{"x402Version":2}').toString("base64")]) {
      const answer = await evm.api.tryCommit(task(newUser()), tier, { "x-payment": payment });
      // 402, or 503 if the facilitator is asked and cannot be reached [PY8].
      expect([402, 503]).toContain(answer.status);
      expect(answer.body).not.toHaveProperty("job_id");
    }
  });
});

describe("every other endpoint", () => {
  test("[PY1, SPEC] is free", async () => {
    expect((await evm.api.get("/v1/health")).status).toBe(200);
    expect((await evm.api.get("/v1/quote?job_type=TASK")).body).toMatchObject({ price: "$0.001" });
    expect((await evm.api.get("/v1/jobs/11111111-2222-4333-8444-555555555555")).status).toBe(404);
    const user = newUser();
    const created = await evm.api.post("/v1/trust/create", { user_id: user });
    expect(created.status).toBe(201);
    expect((await evm.api.post("/v1/trust/claim", { pairing_code: created.body.pairing_code, provider_pubkey: newIdentity().pubkey })).status).toBe(200);
    expect((await evm.api.get(`/v1/trust/list?user_id=${user}`)).status).toBe(200);
  });

  test("[WS5] outside testnet mode workers must sign", async () => {
    const plain = await WorkerSocket.open(evm.socketUrl);
    expect(await plain.registerPlain()).toMatchObject({ status: "error", error: "auth_required" });
    expect((await plain.ended()).code).toBe(4401);
    await fullWorker(evm.socketUrl);
  });
});
