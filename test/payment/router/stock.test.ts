import { HTTPFacilitatorClient } from "@x402/core/http";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { ExactSvmScheme } from "@x402/svm/exact/server";
import { Hono } from "hono";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { paymentMiddleware, x402ResourceServer } from "x402-hono";
import { freePort } from "../../../scripts/coordinator-process.ts";
import { extensionsOf } from "../../../src/coordinator/payment/discovery.ts";
import { type CoordinatorHere, startHere } from "../../support/coordinator-here.ts";
import { challengeOf } from "../pay/challenge.ts";
import { type FullLab, startLab } from "../start-lab.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());

type Terms = { accepts: { payTo: string; asset: string; extra: Record<string, unknown> }[]; resource: { url: string } };

describe.each(["evm", "svm"] as const)("beside x402's own middleware on %s", (instance) => {
  let coordinator: CoordinatorHere;
  let state: string;
  let stock: Hono;
  let runs = 0;

  beforeAll(async () => {
    state = mkdtempSync(join(tmpdir(), `compute-router-stock-${instance}-`));
    coordinator = await startHere({ instance, port: await freePort(), stateDir: state, settings: { ...lab.description.settings[instance] } });
    const { network, payTo } = lab[instance];
    const server = new x402ResourceServer(new HTTPFacilitatorClient({ url: lab.description.facilitator }));
    server.register(network, instance === "evm" ? new ExactEvmScheme() : new ExactSvmScheme());
    const price = instance === "evm" ? { amount: "1000", asset: lab.evm.token, extra: { name: "USDC", version: "2" } } : "$0.001";
    const description = "Commit a compute job to the CHEAP tier";
    const listing = {
      serviceName: "Compute Router",
      tags: ["inference", "llm", "summarize", "classify", "extract-json"],
      extensions: { ...extensionsOf("http://127.0.0.1/v1/jobs/commit/cheap") },
    };
    const accepts = { scheme: "exact", network, payTo, price, maxTimeoutSeconds: 300 };
    stock = new Hono();
    stock.use(paymentMiddleware({ "POST /v1/jobs/commit/cheap": { accepts, description, mimeType: "application/json", ...listing } }, server));
    stock.post("/v1/jobs/commit/cheap", (c) => c.json({ run: ++runs }, 201));
    return async () => {
      await coordinator.stop();
      rmSync(state, { recursive: true, force: true });
    };
  });

  const ours = (headers: Record<string, string> = {}) => fetch(`${coordinator.url}/v1/jobs/commit/cheap`, { method: "POST", headers, body: "{}" });
  const theirs = async (headers: Record<string, string> = {}) =>
    stock.request(`${coordinator.url}/v1/jobs/commit/cheap`, { method: "POST", headers, body: "{}" });

  async function terms(response: Response): Promise<Terms> {
    expect(response.status).toBe(402);
    return JSON.parse(Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString("utf8")) as Terms;
  }

  it("[PY4] the header PAYMENT-REQUIRED says the same, member for member, but for the words of its error", async () => {
    const [mine, stocks] = [await terms(await ours()), await terms(await theirs())];
    // Each names one of the facilitator's fee payers, whichever it was told of.
    for (const { extra } of [...mine.accepts, ...stocks.accepts])
      if ("feePayer" in extra) extra.feePayer = lab.svm.feePayers.some(({ address }) => address === extra.feePayer);
    expect({ ...mine, error: "" }).toEqual({ ...stocks, error: "" });
  });

  it("[PY3] [PY11] a payment that was signed for their 402 is good for ours, whichever fee payer it names", async () => {
    for (let n = 0; n < 4; n++) {
      const paid = await lab.pay(await challengeOf(await theirs()), { who: n });
      const body = JSON.stringify({ job_type: "TASK", user_id: `stock ${n}`, payload: { task_type: "classify", input: "Fine." } });
      // No worker is there: it is held.
      expect((await fetch(`${coordinator.url}/v1/jobs/commit/cheap`, { method: "POST", headers: paid.headers("PAYMENT-SIGNATURE"), body })).status).toBe(201);
    }
  });

  it("[PY2] five uses of one payment at once: theirs runs its handler each time, ours would be one job (why the gate is our own)", async () => {
    runs = 0;
    const paid = await lab.pay(await challengeOf(await theirs()), { who: 7 });
    await Promise.all(Array.from({ length: 5 }, () => theirs(paid.headers("PAYMENT-SIGNATURE"))));
    expect(runs).toBeGreaterThan(1);
  });
});
