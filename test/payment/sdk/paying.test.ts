import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Coordinator, startCoordinator } from "../../../scripts/coordinator-process.ts";
import { freePort } from "../../../scripts/port.ts";
import { type ClientOptions, ComputeRouter, PaymentLimitError, type PaymentHook, PaymentRequiredError } from "../../../src/sdk/index.ts";
import { evmSigner, payWithEvm } from "../../../src/sdk/pay/evm.ts";
import { payWithSvm, svmSigner } from "../../../src/sdk/pay/svm.ts";
import { createPayment, paymentHeaders, readPaymentRequired, spendControlsFor } from "../../../src/sdk/pay/x402.ts";
import { PlainWorker } from "../../support/plain-worker.ts";
import { runCli } from "../../unit/worker/support/cli-process.ts";
import { settlementOf } from "../pay/envelope.ts";
import { balanceOf } from "../pay/pay.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { CLIENTS } from "../support/clients.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

/** The EVM's addresses have a checksum in their case, which the router does not keep. */
const inAnyCase = (address: string): unknown => expect.stringMatching(new RegExp(`^${address}$`, address.startsWith("0x") ? "i" : ""));

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab();
});
afterAll(() => lab.stop());

describe.each(["evm", "svm"] as const)("the SDK pays on the %s", (instance) => {
  let coordinator: Coordinator;
  let worker: PlainWorker;

  beforeAll(async () => {
    const state = mkdtempSync(join(tmpdir(), `compute-router-sdk-${instance}-`));
    const settings = { WORKER_AUTH: "optional", RATE_LIMITS: "off", ...lab.description.settings[instance] };
    coordinator = await startCoordinator({ instance, port: await freePort(), stateDir: state, settings });
    worker = new PlainWorker(coordinator.socketUrl);
    await worker.connect();
    worker.serve();
    return async () => {
      worker.close();
      await coordinator.stop();
      rmSync(state, { recursive: true, force: true });
    };
  });

  const tokens = () => [{ network: lab[instance].network, asset: lab[instance].token }];
  const payerOf = (who: number | "poor") => (who === "poor" ? lab[instance].poor.address : (lab[instance].payers[who]?.address ?? ""));

  /** The hook under test, as its users make it. */
  function hook(who: number | "poor"): PaymentHook {
    if (instance === "svm") return payWithSvm(who === "poor" ? lab.svm.poor : lab.svm.payers[who]!, { rpcUrl: lab.svm.rpcUrl });
    return payWithEvm(who === "poor" ? lab.evm.poor : lab.evm.payers[who]!, { tokens: tokens() });
  }

  /** A client that pays, and how often it was asked to. */
  function client(who: number | "poor", options: ClientOptions = {}): { router: ComputeRouter; asked: () => number } {
    let asked = 0;
    const pay = hook(who);
    const payment: PaymentHook = (...challenge) => {
      asked++;
      return pay(...challenge);
    };
    return { router: new ComputeRouter({ baseUrl: coordinator.url, payment, retryDelay: 10, pollInterval: 50, ...options }), asked: () => asked };
  }

  /** What the payer has lost and the payee got while `work` went on; both are the same sum. */
  async function moved(who: number | "poor", work: () => Promise<unknown>): Promise<bigint> {
    const look = () => Promise.all([balanceOf(lab[instance], payerOf(who)), balanceOf(lab[instance], lab[instance].payTo)]);
    const before = await look();
    await work();
    const after = await look();
    expect(before[0] - after[0]).toBe(after[1] - before[1]);
    return after[1] - before[1];
  }

  it.each([
    ["FAST", 10_000n, "$0.010"],
    ["CHEAP", 1_000n, "$0.001"],
  ] as const)("[PY1] [PY4] %s: 402, paid, result verified, and exactly the price moved", async (policy, price, said) => {
    const { router, asked } = client(0, { maxPrice: "$0.01" });
    const sum = await moved(0, async () => {
      const result = await router.run(CLASSIFY, { policy, requireVerified: true });
      expect(result).toMatchObject({ status: "completed", verified: true, price: said });
      expect(result.receipt?.payment_ref).toEqual(expect.any(String));
    });
    expect(sum).toBe(price);
    expect(asked()).toBe(1);
  });

  it("[PY6] the same run again with its idempotency key is the same job, paid once", async () => {
    const { router } = client(1);
    const sum = await moved(1, async () => {
      const first = await router.run(CLASSIFY, { idempotencyKey: "once" });
      const second = await router.run(CLASSIFY, { idempotencyKey: "once" });
      expect(second).toMatchObject({ jobId: first.jobId, verified: true });
    });
    expect(sum).toBe(1_000n);
  });

  it("[PY6] the answer to a paid commit is lost: the same payment is sent again, one job, paid once", async () => {
    let lost = 0;
    const losing: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init);
      if (answer.status !== 201 || lost > 0) return answer;
      lost++;
      throw new TypeError("fetch failed");
    };
    const { router, asked } = client(2, { fetch: losing });
    const sum = await moved(2, async () => expect((await router.run(CLASSIFY)).verified).toBe(true));
    expect([lost, asked(), sum]).toEqual([1, 1, 1_000n]);
  });

  it("[PY5] maxPrice of the client, and of the hook, is a PaymentLimitError and nothing is paid", async () => {
    const { router, asked } = client(3, { maxPrice: 0.0009 });
    const cheapskate: PaymentHook =
      instance === "evm"
        ? payWithEvm(lab.evm.payers[3]!, { tokens: tokens(), maxPrice: "$0.0009" })
        : payWithSvm(lab.svm.payers[3]!, { rpcUrl: lab.svm.rpcUrl, maxPrice: "$0.0009" });
    const sum = await moved(3, async () => {
      await expect(router.run(CLASSIFY)).rejects.toBeInstanceOf(PaymentLimitError);
      await expect(client(3, { payment: cheapskate }).router.run(CLASSIFY)).rejects.toMatchObject({ code: "payment_limit", price: "1000 units" });
    });
    expect([asked(), sum]).toEqual([0, 0n]);
  });

  it("[PY5] a payer without money is refused once, and does not sign again", async () => {
    const { router, asked } = client("poor");
    const sum = await moved("poor", () => expect(router.run(CLASSIFY)).rejects.toBeInstanceOf(PaymentRequiredError));
    expect(sum).toBe(0n);
    // Asked a second time, the hook declined.
    expect(asked()).toBe(2);
  });

  it.each(["header", "body"] as const)("[SPEC] the three operations by hand, from the %s alone", async (from) => {
    const url = `${coordinator.url}/v1/jobs/commit/cheap`;
    const body = JSON.stringify({ job_type: "TASK", user_id: "by-hand", payload: { task_type: "classify", input: from } });
    const sum = await moved(4, async () => {
      const refusal = await fetch(url, { method: "POST", body });
      const required = from === "header" ? readPaymentRequired(refusal.headers) : readPaymentRequired({}, await refusal.json());
      const signer = instance === "evm" ? evmSigner(lab.evm.payers[4]!, { tokens: tokens() }) : svmSigner(lab.svm.payers[4]!, { rpcUrl: lab.svm.rpcUrl });
      const payment = await createPayment(required, signer);
      const answer = await fetch(url, { method: "POST", body, headers: paymentHeaders(payment) });
      expect(answer.status).toBe(201);
      expect(settlementOf(answer)).toMatchObject({ success: true, payer: inAnyCase(payerOf(4)) });
    });
    expect(sum).toBe(1_000n);
  });

  it.runIf(instance === "evm")("[PY1] the CLI pays with --payer, within --max-price, and says how without it", async () => {
    const run = (...args: string[]) =>
      runCli(["task", "classify", "--url", coordinator.url, "--user", "cli-payer", "--json", ...args], {
        input: "good",
        env: { EVM_PRIVATE_KEY: lab.description.payers.evm?.[7]?.secret, EVM_USDC: lab.evm.token },
      });
    const payer = ["--payer", "test/payment/sdk/payer.ts"];
    const refused = await moved(7, async () => {
      expect(await run()).toMatchObject({ code: 5, stderr: expect.stringContaining("--payer") });
      expect(await run(...payer, "--max-price", "0.0009")).toMatchObject({ code: 5, stderr: expect.stringContaining("maxPrice") });
      expect(await run("--payer", "nowhere.mjs")).toMatchObject({ code: 2, stderr: expect.stringContaining("nowhere.mjs") });
    });
    const paid = await moved(7, async () => expect(await run(...payer)).toMatchObject({ code: 0, stderr: "" }));
    expect([refused, paid]).toEqual([0n, 1_000n]);
  });

  const commitWith = (fetcher: typeof fetch, text: string) =>
    fetcher(`${coordinator.url}/v1/jobs/commit/fast`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ job_type: "TASK", user_id: "x402-fetch", payload: { task_type: "classify", input: text } }),
    });

  it.each(Object.keys(CLIENTS))("[PY2] @x402/fetch %s pays this coordinator", async (version) => {
    const sum = await moved(5, async () => {
      const answer = await commitWith(CLIENTS[version]!(lab, 5), version);
      expect(answer.status).toBe(201);
      expect(settlementOf(answer)).toMatchObject({ success: true, network: lab[instance].network, payer: inAnyCase(payerOf(5)) });
    });
    expect(sum).toBe(10_000n);
  });

  it("[PY2] @x402/fetch with spendControlsFor pays, and not with a lower limit", async () => {
    const { wrapFetchWithPayment, x402Client } = await import("@x402/fetch");
    const { ExactEvmScheme } = await import("@x402/evm/exact/client");
    const { ExactSvmScheme } = await import("@x402/svm/exact/client");
    const payer = (controls: Parameters<InstanceType<typeof x402Client>["setSpendControls"]>[0]) =>
      wrapFetchWithPayment(
        fetch,
        new x402Client()
          .register("eip155:*", new ExactEvmScheme(lab.evm.payers[6]!))
          .register("solana:*", new ExactSvmScheme(lab.svm.payers[6]!, { rpcUrl: lab.svm.rpcUrl }))
          .setSpendControls(controls),
      );
    const asset = lab[instance].token;
    const sum = await moved(6, async () => {
      await expect(commitWith(payer(spendControlsFor(instance, { asset, maxPrice: 0.009 })), "poor")).rejects.toThrow("spendControls");
      expect((await commitWith(payer(spendControlsFor(instance, { asset })), "rich")).status).toBe(201);
    });
    expect(sum).toBe(10_000n);
  });
});
