import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { ROOT } from "../../../scripts/coordinator-process.ts";
import { RouterServer } from "../sdk/support/router-server.ts";
import { payerOptions } from "../../../src/cli/paying.ts";
import { runHere } from "../worker/support/cli-here.ts";
import { temporaryFolder } from "../worker/support/folder.ts";

/** Another copy of the SDK's errors: the built program has its own, and a module of the user imports those of the package. */
const OTHER_ERRORS = `${pathToFileURL(join(ROOT, "src", "sdk", "errors.ts")).href}?another-copy`;

/** Runs a job with a payment hook of this text, in a module that has the other errors. */
async function runPaying(hook: string, rules: Parameters<typeof RouterServer.start>[0] = {}): Promise<{ code: number; stderr: string; paid: string[] }> {
  const router = await RouterServer.start({ gated: true, ...rules });
  const folder = temporaryFolder();
  const file = join(folder, "payer.mjs");
  writeFileSync(file, `import { PaymentLimitError, ProtocolError } from ${JSON.stringify(OTHER_ERRORS)};\nexport default ${hook};\n`);
  const { code, stderr } = await runHere(["run", "hi", "--payer", file, "--url", router.url, "--config-dir", folder]);
  return { code, stderr: stderr.replaceAll(file, "FILE"), paid: router.charged };
}

it("[PY8] after a 402 that says that the payment was used before, it does not say how to pay once more", async () => {
  const hook = 'async () => ({ "X-PAYMENT": "signed" })';
  const { code, stderr } = await runPaying(hook, { payment: () => "payment_failed: invalid_exact_evm_nonce_already_used" });
  expect([code, stderr]).toEqual([5, expect.stringMatching(/used[^\n]*; the money may have moved: look at the chain before you pay again\n$/)]);
  expect(stderr).not.toContain("--idempotency-key");
});

describe("a payment hook that does not pay is one line of advice, not a stack", () => {
  it("[PY1] it may not spend the token: how to allow it, and no word of a payment that may have been made", async () => {
    const hook = 'async () => { throw new PaymentLimitError("10000 units of 0x01 on eip155:1", 0.1, { status: 402, reason: "token_not_allowed" }); }';
    expect(await runPaying(hook)).toEqual({
      code: 5,
      stderr:
        "the router asks for 10000 units of 0x01 on eip155:1, which is not an allowed token; to allow it, give the hook of --payer the option `tokens` (docs/sdk.md, Paying)\n",
      paid: [],
    });
  });

  it("[PY1] the price is over the limit of the hook", async () => {
    const hook = 'async () => { throw new PaymentLimitError("10000 units", 0.001, { status: 402 }); }';
    expect(await runPaying(hook)).toEqual({ code: 5, stderr: "the router asks for 10000 units, which is not within maxPrice ($0.001)\n", paid: [] });
  });

  it("another error of the SDK", async () => {
    const { code, stderr } = await runPaying('async () => { throw new ProtocolError("the 402 does not say how to pay", { status: 402 }); }');
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^the 402 does not say how to pay[^\n]*\n$/) });
  });

  it("an error of the wallet: whose it is, and what it says", async () => {
    const { code, stderr, paid } = await runPaying('async () => { throw new Error("the wallet is locked"); }');
    expect({ code, stderr, paid }).toEqual({ code: 1, stderr: "--payer: the payment hook of FILE failed: the wallet is locked\n", paid: [] });
  });
});

it("with --payer a job costs at most $0.01 unless --max-price says more; without either there is no limit, because nothing is paid", async () => {
  const payer = join(temporaryFolder(), "payer.mjs");
  writeFileSync(payer, "export default async () => ({});\n");
  expect((await payerOptions({ payer })).maxPrice).toBe(0.01);
  expect((await payerOptions({ payer, "max-price": "0.5" })).maxPrice).toBe(0.5);
  expect(await payerOptions({})).toEqual({});
});

it.each(["x", "-1", "0.0000001"])("--max-price %s is told by the name of the option", async (price) => {
  const { code, stderr } = await runHere(["run", "hi", "--max-price", price]);
  expect({ code, stderr }).toEqual({ code: 2, stderr: "--max-price must be US dollars, such as 0.01\n" });
});

it.each([
  [null, "--payer: there is no file FILE"],
  ["throw new Error('no seed');", "--payer: cannot load FILE: no seed"],
  ["export default { pay: 1 };", "--payer: the default export of FILE must be a payment hook, such as payWithEvm(account)"],
])("a module without a payment hook is told before anything is asked: %s", async (text, message) => {
  const file = join(temporaryFolder(), "payer.mjs");
  if (text !== null) writeFileSync(file, text);
  const router = await RouterServer.start({ gated: true });
  const { code, stderr } = await runHere(["run", "hi", "--payer", file, "--url", router.url]);
  expect({ code, stderr: stderr.replaceAll(file, "FILE") }).toEqual({ code: 2, stderr: `${message}\n` });
  expect(router.received).toEqual([]);
});

it("after Ctrl-C the hook that was asked ends by the reason of the signal, and not as a hook that failed", async () => {
  const payer = join(temporaryFolder(), "payer.mjs");
  writeFileSync(payer, "export default async (_, { signal }) => signal.throwIfAborted();\n");
  const { payment } = await payerOptions({ payer });
  const reason = new Error("Ctrl-C");
  await expect(payment?.({ error: "", accepts: [] }, { number: 1, header: null, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
});
