import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import ARTIFACTS from "./contracts/artifacts.json" with { type: "json" };
import { INPUT_HASH } from "./contracts/source.ts";
import { encode } from "./pay/envelope.ts";
import type { LabDescription } from "./start-lab.ts";

async function startProcess(...args: string[]) {
  const child = spawn(process.execPath, [join(import.meta.dirname, "lab.ts"), ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { child, exited, description: JSON.parse(line) as LabDescription };
}

async function isAlive(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}

it("prints where everything is, takes its levers over HTTP, and ends at SIGTERM", async () => {
  const { child, exited, description } = await startProcess("--payers", "2");
  const { control, facilitator, evmRpc, svmRpc, settings, payers, network, token, payTo } = description;
  expect(settings).toEqual({
    evm: { EVM_PAY_TO: payTo.evm, EVM_FACILITATOR: facilitator, EVM_USDC: token.evm, EVM_USDC_NAME: "USDC", EVM_USDC_VERSION: "2" },
    svm: { SVM_PAY_TO: payTo.svm, SVM_FACILITATOR: facilitator },
  });
  expect(payers.evm).toHaveLength(2);
  const call = async (method: string, path: string, body?: unknown): Promise<unknown> =>
    (await fetch(`${control}${path}`, { method, ...(body !== undefined && { body: JSON.stringify(body) }) })).json();

  const requirement = {
    scheme: "exact",
    network: network.evm,
    amount: "1000",
    asset: token.evm,
    payTo: payTo.evm,
    maxTimeoutSeconds: 60,
    extra: { name: "USDC", version: "2" },
  };
  const paid = (await call("POST", "/pay", { header: encode({ x402Version: 2, accepts: [requirement] }), who: 1 })) as { payer: string; message: object };
  expect(paid).toMatchObject({ payer: payers.evm?.[1]?.address, message: { x402Version: 2, accepted: requirement } });
  const settle = async (): Promise<Response> =>
    fetch(`${facilitator}/settle`, {
      method: "POST",
      body: JSON.stringify({ x402Version: 2, paymentPayload: paid.message, paymentRequirements: requirement }),
    });
  await call("POST", "/faults", { operation: "settle", fault: { kind: "status" }, times: 1 });
  expect((await settle()).status).toBe(500);
  expect(await (await settle()).json()).toMatchObject({ success: true });
  expect(await call("GET", `/balance?owner=${paid.payer}`)).toEqual({ owner: paid.payer, amount: "99999000" });
  expect(await call("GET", `/balance?owner=${payers.svm?.[0]?.address}`)).toMatchObject({ amount: "100000000" });
  expect(await call("GET", "/calls")).toMatchObject({ counts: { settle: 2 }, calls: [{ fault: "status" }, { fault: null, result: { success: true } }] });
  expect(await call("GET", "/faults")).toEqual([]);
  expect(await call("POST", "/faults", { operation: "settle", fault: { kind: "explode" } })).toHaveProperty("error");
  await call("POST", "/down");
  expect(await isAlive(facilitator)).toBe(false);
  await call("POST", "/up");
  expect(await isAlive(facilitator)).toBe(true);

  child.kill("SIGTERM");
  expect(await exited).toEqual([0, null]);
  for (const url of [facilitator, control, evmRpc, svmRpc]) expect(await isAlive(url!)).toBe(false);
});

it("ends when its parent closes its stdin", async () => {
  const { child, exited, description } = await startProcess("--no-svm", "--payers", "1");
  expect(description).toMatchObject({ svmRpc: null, settings: { evm: {} } });
  child.stdin.end();
  expect(await exited).toEqual([0, null]);
  expect(await isAlive(description.evmRpc!)).toBe(false);
});

it("says what is wrong with its arguments", async () => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "lab.ts"), "--evm-port", "x"]);
  expect(await once(child, "exit")).toEqual([2, null]);
});

it("the committed bytecode was compiled from the contracts as they are (npm run contracts:check compiles them again)", () => {
  expect(ARTIFACTS.input).toBe(INPUT_HASH);
});
