import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Listener } from "./loopback.ts";
import { settlementOf } from "./pay/envelope.ts";
import { balanceOf } from "./pay/pay.ts";
import { type FullLab, startLab } from "./start-lab.ts";
import { CLIENTS } from "./support/clients.ts";
import { PRICE, startShop } from "./support/shop.ts";

let lab: FullLab;
let shop: Listener;

beforeAll(async () => {
  lab = await startLab();
  shop = await startShop(lab);
});

afterAll(async () => {
  await shop.close();
  await lab.stop();
});

describe.each(Object.entries(CLIENTS))("%s", (name, client) => {
  it.each(["evm", "svm"] as const)("[PY2] pays on the %s: the price moves from the payer to the payee", async (side) => {
    const who = Object.keys(CLIENTS).indexOf(name);
    const chain = lab[side];
    const payer = chain.payers[who]?.address ?? "";
    const before = [await balanceOf(chain, payer), await balanceOf(chain, chain.payTo)] as const;

    const response = await client(lab, who)(`${shop.url}/${side}`);

    expect(response.status).toBe(200);
    expect(settlementOf(response)).toMatchObject({ success: true, network: chain.network, payer });
    expect(await balanceOf(chain, payer)).toBe(before[0] - PRICE.atomic);
    expect(await balanceOf(chain, chain.payTo)).toBe(before[1] + PRICE.atomic);
  });
});

it("[PY2] a client with default spend controls refuses the token of 10143", async () => {
  const { wrapFetchWithPayment, x402Client } = await import("@x402/fetch");
  const { ExactEvmScheme } = await import("@x402/evm/exact/client");
  const [payer] = lab.evm.payers;
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(payer!));
  await expect(wrapFetchWithPayment(fetch, client)(`${shop.url}/evm`)).rejects.toThrow("spendControls");
});
