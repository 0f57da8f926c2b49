import { generateKeyPairSigner } from "@solana/kit";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { verifyTypedData } from "viem";
import { describe, expect, it, onTestFinished } from "vitest";
import { ComputeRouter, InvalidOptionError, PaymentLimitError, type PaymentHook, ProtocolError } from "../../../src/sdk/index.ts";
import { evmSigner, MONAD_TESTNET_USDC, payWithEvm, type TransferTypedData } from "../../../src/sdk/pay/evm.ts";
import { payWithSvm, SOLANA_DEVNET_USDC } from "../../../src/sdk/pay/svm.ts";
import { createPayment, paymentHeaders, readPaymentRequired, spendControlsFor } from "../../../src/sdk/pay/x402.ts";
import { listen, sendJson } from "../loopback.ts";

const EVM = {
  scheme: "exact",
  ...MONAD_TESTNET_USDC,
  amount: "1000",
  payTo: "0x1111111111111111111111111111111111111111",
  maxTimeoutSeconds: 300,
  extra: { name: "USDC", version: "2" },
};
const SVM = { ...EVM, ...SOLANA_DEVNET_USDC, payTo: "11111111111111111111111111111111", extra: { feePayer: "11111111111111111111111111111111" } };

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64");
const account = privateKeyToAccount(generatePrivateKey());

/** An account that remembers what it signed. */
function watched(): { account: typeof account; signed: TransferTypedData[] } {
  const signed: TransferTypedData[] = [];
  const sign = (data: TransferTypedData) => {
    signed.push(data);
    return account.signTypedData(data);
  };
  return { account: { ...account, signTypedData: sign as typeof account.signTypedData }, signed };
}

/** A router that wants this in its header and, with a price that looks right, in its body; it counts the payments that it is sent. */
async function greedy(offer: object): Promise<{ url: string; paid: () => number }> {
  let paid = 0;
  const server = await listen(0, async (request, response) => {
    if (request.url?.startsWith("/v1/quote")) {
      return sendJson(response, 200, { policy_resolved: "CHEAP", price: "$0.001", network: EVM.network, endpoint: "/v1/jobs/commit/cheap" });
    }
    if (request.headers["payment-signature"] !== undefined) paid++;
    const wire = { x402Version: 2, error: "Payment required", accepts: [offer] };
    response.setHeader("PAYMENT-REQUIRED", base64(wire));
    sendJson(response, 402, { ...wire, accepts: [{ ...offer, price: "$0.001" }] });
  });
  onTestFinished(() => server.close());
  return { url: server.url, paid: () => paid };
}

const runWith = (url: string, payment: PaymentHook) =>
  new ComputeRouter({ baseUrl: url, payment, maxRetries: 0 }).run({ job_type: "TASK", task_type: "classify", input: "good" });

describe("[PY3] what a hook refuses to sign", () => {
  it.each([
    ["another token", { asset: "0x2222222222222222222222222222222222222222" }],
    ["another network", { network: "eip155:1" }],
    ["the same digits of another chain family", { network: "solana:10143" }],
    ["another scheme", { scheme: "upto" }],
    ["more than $0.10", { amount: "100001" }],
    ["an amount in hex", { amount: "0x1" }],
    ["a negative amount", { amount: "-1" }],
  ])("EVM: %s", async (_, change) => {
    const router = await greedy({ ...EVM, ...change });
    const { account: payer, signed } = watched();
    await expect(runWith(router.url, payWithEvm(payer))).rejects.toBeInstanceOf(PaymentLimitError);
    expect([signed, router.paid()]).toEqual([[], 0]);
  });

  it.each([
    ["another token", { asset: "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" }],
    ["the token in another case", { asset: SVM.asset.toLowerCase() }],
    ["another network", { network: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" }],
    ["more than $0.10", { amount: "100001" }],
  ])("SVM: %s", async (_, change) => {
    const router = await greedy({ ...SVM, ...change });
    const signer = await generateKeyPairSigner();
    let signed = 0;
    const payer = {
      address: signer.address,
      signTransactions: async () => {
        signed++;
        return [];
      },
    };
    // Were the RPC asked, this port would refuse, with another error.
    await expect(runWith(router.url, payWithSvm(payer, { rpcUrl: "http://127.0.0.1:1" }))).rejects.toBeInstanceOf(PaymentLimitError);
    expect([signed, router.paid()]).toEqual([0, 0]);
  });

  it.each([
    ["no name of the token", { extra: { version: "2" } }],
    ["a payee that is no address", { payTo: "0x1" }],
  ])("EVM: %s", async (_, change) => {
    const router = await greedy({ ...EVM, ...change });
    const { account: payer, signed } = watched();
    await expect(runWith(router.url, payWithEvm(payer))).rejects.toBeInstanceOf(ProtocolError);
    expect(signed).toEqual([]);
  });

  it("a second payment for one commit, whatever the router says of the first", async () => {
    const router = await greedy(EVM);
    const { account: payer, signed } = watched();
    await expect(runWith(router.url, payWithEvm(payer))).rejects.toMatchObject({ code: "payment_required", idempotencyKey: expect.any(String) });
    expect([signed.length, router.paid()]).toEqual([1, 1]);
  });
});

it("[PY3] what is signed is the EIP-3009 transfer of the terms, for as long as they say and an hour at most", async () => {
  const now = Math.floor(Date.now() / 1_000);
  const { account: payer, signed } = watched();
  const { payload, accepted } = await createPayment(readPaymentRequired({ "payment-required": base64({ accepts: [EVM] }) }), evmSigner(payer));
  const [data] = signed;
  expect(accepted).toEqual(EVM);
  expect(data?.domain).toEqual({ name: "USDC", version: "2", chainId: 10143, verifyingContract: EVM.asset });
  expect(data?.message).toMatchObject({ from: account.address, to: EVM.payTo, value: 1_000n, validAfter: 0n });
  expect(Number(data?.message.validBefore) - now).toBeLessThanOrEqual(305);
  expect(await verifyTypedData({ address: account.address, ...data!, signature: payload.signature as `0x${string}` })).toBe(true);
  await createPayment({ error: null, resource: null, accepts: [{ ...EVM, maxTimeoutSeconds: 1e9 }] }, evmSigner(payer));
  expect(Number(signed[1]?.message.validBefore) - now).toBeLessThanOrEqual(3_605);
  expect(signed[1]?.message.nonce).not.toBe(data?.message.nonce);
});

describe("[SPEC] [PY4] the three operations", () => {
  it("read the header before the body and give its terms back word for word", async () => {
    const terms = { ...EVM, extra: { ...EVM.extra, more: "é" }, theirs: 1 };
    const resource = { url: "http://router/é" };
    const required = readPaymentRequired(new Headers({ "payment-required": base64({ x402Version: 2, error: "why", resource, accepts: [terms] }) }), {
      accepts: [SVM],
    });
    expect(required).toEqual({ error: "why", resource, accepts: [terms] });
    const headers = paymentHeaders(await createPayment(required, async ([accepted]) => ({ accepted: accepted!, payload: { paid: true } })));
    expect(headers["X-PAYMENT"]).toBe(headers["PAYMENT-SIGNATURE"]);
    expect(JSON.parse(Buffer.from(headers["X-PAYMENT"], "base64").toString())).toEqual({ x402Version: 2, resource, accepted: terms, payload: { paid: true } });
  });

  it("read the specification's body, of the SVM without an asset", () => {
    const { asset: _, amount, ...rest } = SVM;
    const body = { error: "Payment required", accepts: [{ ...rest, maxAmountRequired: amount, price: "$0.001", description: "" }] };
    expect(readPaymentRequired({}, body)).toEqual({ error: "Payment required", resource: undefined, accepts: [SVM] });
  });

  it.each([
    ["nothing", {}, undefined],
    ["no base64", { "PAYMENT-REQUIRED": "§" }, { accepts: [EVM] }],
    ["no JSON", { "PAYMENT-REQUIRED": "AAAA" }, undefined],
    ["null", { "PAYMENT-REQUIRED": base64(null) }, undefined],
    ["no offer", {}, { accepts: [] }],
    ["offers of other shapes", {}, { accepts: [null, 1, { scheme: "exact" }] }],
  ])("throw ProtocolError for a 402 with %s", (_, headers, body) => {
    expect(() => readPaymentRequired(headers as Record<string, string>, body)).toThrow(ProtocolError);
  });
});

it("options that cannot be used are InvalidOptionErrors", () => {
  expect(() => payWithEvm({} as never)).toThrow(InvalidOptionError);
  expect(() => payWithEvm(account, { maxPrice: "much" })).toThrow(InvalidOptionError);
  expect(() => payWithEvm(account, { tokens: [] })).toThrow(InvalidOptionError);
  expect(() => payWithEvm(account, { tokens: [SOLANA_DEVNET_USDC] })).toThrow(InvalidOptionError);
  expect(() => payWithEvm(account, { maxprice: 1 } as never)).toThrow(InvalidOptionError);
  expect(() => payWithSvm({} as never)).toThrow(InvalidOptionError);
  expect(() => spendControlsFor("evm", { maxPrice: -1 })).toThrow(InvalidOptionError);
});
