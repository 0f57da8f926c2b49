import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";
import { type ClientOptions, ComputeRouter, PaymentLimitError, type PaymentHook, PaymentRequiredError } from "../../../src/sdk/index.ts";
import { evmSigner, payWithEvm } from "../../../src/sdk/pay/evm.ts";
import { payWithSvm, svmSigner } from "../../../src/sdk/pay/svm.ts";
import { createPayment, paymentHeaders, readPaymentRequired, spendControlsFor } from "../../../src/sdk/pay/x402.ts";
import { runHere } from "../../unit/worker/support/cli-here.ts";
import { runCli } from "../../unit/worker/support/cli-process.ts";
import { settlementOf } from "../pay/envelope.ts";
import { balanceOf } from "../pay/pay.ts";
import type { FullLab } from "../start-lab.ts";
import type { CoordinatorHere } from "../../support/coordinator-here.ts";
import { CLIENTS } from "../support/clients.ts";
import { giveBack, sharedBench, sharedLab } from "../support/shared.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;

/** The EVM's addresses have a checksum in their case, which the router does not keep. */
const inAnyCase = (address: string): unknown => expect.stringMatching(new RegExp(`^${address}$`, address.startsWith("0x") ? "i" : ""));

let lab: FullLab;
beforeAll(async () => {
  lab = await sharedLab();
});

describe.each(["evm", "svm"] as const)("the SDK pays on the %s", (instance) => {
  let coordinator: CoordinatorHere;
  /** The payers of this file. */
  let payers: number[];

  beforeAll(async () => {
    const bench = await sharedBench(instance);
    ({ coordinator } = bench);
    await bench.join();
    payers = Array.from({ length: 8 }, () => bench.payer());
    return () => giveBack(bench);
  });

  /** The number in the lab of one of them. */
  const at = (who: number): number => payers[who]!;

  const tokens = () => [{ network: lab[instance].network, asset: lab[instance].token }];
  const payerOf = (who: number | "poor") => (who === "poor" ? lab[instance].poor.address : (lab[instance].payers[at(who)]?.address ?? ""));

  /** The hook under test, as its users make it. */
  function hook(who: number | "poor"): PaymentHook {
    if (instance === "svm") return payWithSvm(who === "poor" ? lab.svm.poor : lab.svm.payers[at(who)]!, { rpcUrl: lab.svm.rpcUrl });
    return payWithEvm(who === "poor" ? lab.evm.poor : lab.evm.payers[at(who)]!, { tokens: tokens() });
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

  it("[PY1] [API6] a stream pays as a run does", async () => {
    const { router } = client(0);
    const sum = await moved(0, async () => {
      const events = [];
      for await (const event of router.stream({ job_type: "LLM_INFER", prompt: "Hello." })) events.push(event);
      expect(events.at(-1)).toMatchObject({ type: "done", result: { output: "an answer", verified: true, price: "$0.010" } });
    });
    expect(sum).toBe(10_000n);
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
        ? payWithEvm(lab.evm.payers[at(3)]!, { tokens: tokens(), maxPrice: "$0.0009" })
        : payWithSvm(lab.svm.payers[at(3)]!, { rpcUrl: lab.svm.rpcUrl, maxPrice: "$0.0009" });
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
      const signer =
        instance === "evm" ? evmSigner(lab.evm.payers[at(4)]!, { tokens: tokens() }) : svmSigner(lab.svm.payers[at(4)]!, { rpcUrl: lab.svm.rpcUrl });
      const payment = await createPayment(required, signer);
      const answer = await fetch(url, { method: "POST", body, headers: paymentHeaders(payment) });
      expect(answer.status).toBe(201);
      expect(settlementOf(answer)).toMatchObject({ success: true, payer: inAnyCase(payerOf(4)) });
    });
    expect(sum).toBe(1_000n);
  });

  it("[PY1] the CLI pays with --payer, within --max-price, and says how without it", async () => {
    const secret = lab.description.payers[instance]?.[at(7)]?.secret;
    const env = instance === "evm" ? { EVM_PRIVATE_KEY: secret, EVM_USDC: lab.evm.token } : { SVM_PRIVATE_KEY: secret, SVM_RPC_URL: lab.svm.rpcUrl };
    const command = ["task", "classify", "--url", coordinator.url, "--user", "cli-payer", "--json"];
    const payer = ["--payer", join(import.meta.dirname, `${instance}-payer.ts`)];
    const refusals = async (): Promise<void> => {
      const refused = (...args: string[]) => runHere([...command, ...args], { input: "good", env });
      expect(await refused()).toMatchObject({ code: 5, stderr: expect.stringContaining("--payer") });
      expect(await refused(...payer, "--max-price", "0.0009")).toMatchObject({ code: 5, stderr: expect.stringContaining("--max-price ($0.0009)") });
      expect(await refused("--payer", "nowhere.mjs")).toMatchObject({ code: 2, stderr: expect.stringContaining("nowhere.mjs") });
    };
    // The command refuses before it pays, on the svm as on the evm.
    if (instance === "evm") expect(await moved(7, refusals)).toBe(0n);
    let paid: { code: number | null; stdout: string; stderr: string } | undefined;
    const sum = await moved(7, async () => (paid = await runCli([...command, ...payer], { input: "good", env })));
    expect(sum).toBe(1_000n);
    expect(paid).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(paid?.stdout ?? "")).toMatchObject({ source: "router", price: "$0.001", verified: true, receipt: { payment_ref: expect.any(String) } });
  });

  const commitWith = (fetcher: typeof fetch, text: string) =>
    fetcher(`${coordinator.url}/v1/jobs/commit/fast`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ job_type: "TASK", user_id: "x402-fetch", payload: { task_type: "classify", input: text } }),
    });

  /** The end of a job that a client of x402 has committed, read as anybody reads it. */
  async function resultOf(answer: { job_id: string }): Promise<{ status: string; receipt: { payment_ref: string } }> {
    return JSON.parse(await (await fetch(`${coordinator.url}/v1/jobs/${answer.job_id}?wait=20`)).text());
  }

  it.each(Object.keys(CLIENTS))("[PY2] [PY4] %s pays this coordinator: 402, 201 with the settlement, and the result", async (name) => {
    const sum = await moved(5, async () => {
      const answer = await commitWith(CLIENTS[name]!(lab, at(5)), name);
      expect(answer.status).toBe(201);
      const settlement = settlementOf(answer);
      expect(settlement).toMatchObject({ success: true, network: lab[instance].network, payer: inAnyCase(payerOf(5)) });
      const job = await resultOf(JSON.parse(await answer.text()));
      expect(job).toMatchObject({ status: "completed", receipt: { payment_ref: settlement?.transaction } });
    });
    expect(sum).toBe(10_000n);
  });

  it("[PY2] [PY4] a client of a protected endpoint, as x402's end-to-end suite runs them, pays, and decodes the settlement", async () => {
    const text = JSON.stringify({ job_type: "TASK", user_id: "x402-e2e", payload: { task_type: "classify", input: "good" } });
    const env = {
      RESOURCE_SERVER_URL: coordinator.url,
      ENDPOINT_PATH: "/v1/jobs/commit/cheap",
      REQUEST_BODY: text,
      EVM_PRIVATE_KEY: lab.description.payers.evm?.[at(4)]?.secret,
      EVM_NETWORK: lab.evm.network,
      EVM_ASSET: lab.evm.token,
      SVM_PRIVATE_KEY: lab.description.payers.svm?.[at(4)]?.secret,
      SVM_RPC_URL: lab.svm.rpcUrl,
    };
    const sum = await moved(4, async () => {
      const { stdout } = await promisify(execFile)(process.execPath, [join(import.meta.dirname, "..", "support", "endpoint-client.ts")], { env });
      const printed: { data: { job_id: string }; payment_response: { transaction: string } } = JSON.parse(stdout);
      expect(printed).toMatchObject({ success: true, status_code: 201, payment_response: { success: true, network: lab[instance].network } });
      const job = await resultOf(printed.data);
      expect(job).toMatchObject({ status: "completed", receipt: { payment_ref: printed.payment_response.transaction } });
    });
    expect(sum).toBe(1_000n);
  });

  it("[PY2] @x402/fetch with spendControlsFor pays, and not with a lower limit", async () => {
    const { wrapFetchWithPayment, x402Client } = await import("@x402/fetch");
    const { ExactEvmScheme } = await import("@x402/evm/exact/client");
    const { ExactSvmScheme } = await import("@x402/svm/exact/client");
    const payer = (controls: Parameters<InstanceType<typeof x402Client>["setSpendControls"]>[0]) =>
      wrapFetchWithPayment(
        fetch,
        new x402Client()
          .register("eip155:*", new ExactEvmScheme(lab.evm.payers[at(6)]!))
          .register("solana:*", new ExactSvmScheme(lab.svm.payers[at(6)]!, { rpcUrl: lab.svm.rpcUrl }))
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
