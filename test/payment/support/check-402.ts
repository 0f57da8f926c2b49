// Checks everything that rule PY4 says of a 402.
import { expect } from "vitest";
import { type Bench, PRICE, type Tier } from "./bench.ts";

/** The prices as a 402 says them. */
const MONEY = { fast: "$0.010", cheap: "$0.001" } as const;

/** Everything that PY4 says of any 402. */
export async function check402(response: Response, { lab, side, url }: Bench, tier: Tier, label = ""): Promise<{ error: string }> {
  const text = await response.clone().text();
  expect(response.status, `${label}: ${text.slice(0, 300)}`).toBe(402);
  expect(response.headers.get("content-type"), label).toMatch(/^application\/json/);
  expect(response.headers.get("cache-control"), label).toContain("no-store");
  expect(response.headers.get("access-control-allow-origin"), label).toBe("*");
  expect(response.headers.get("access-control-allow-credentials"), label).toBeNull();
  expect(response.headers.get("x-request-id"), label).toBeTruthy();
  const exposed = (response.headers.get("access-control-expose-headers") ?? "").toLowerCase().split(/\s*,\s*/);
  expect(exposed, label).toEqual(
    expect.arrayContaining(["payment-required", "payment-response", "x-payment-response", "preference-applied", "retry-after", "x-request-id"]),
  );

  const raw = response.headers.get("payment-required") ?? "";
  expect(raw, label).toMatch(/^[A-Za-z0-9+/]+={0,2}$/);
  const header = JSON.parse(Buffer.from(raw, "base64").toString("utf8")) as Record<string, unknown> & {
    accepts: Record<string, unknown>[];
    resource: { url: string };
  };
  const body = JSON.parse(text) as Record<string, unknown> & { error: string; accepts: Record<string, unknown>[] };
  const chain = lab[side];
  const amount = String(PRICE[tier]);
  expect(
    Object.keys(header).filter((key) => !["x402Version", "error", "resource", "accepts", "extensions"].includes(key)),
    label,
  ).toEqual([]);
  expect(header.x402Version, label).toBe(2);
  expect(header.accepts, label).toHaveLength(1);
  const [entry] = header.accepts;
  expect(Object.keys(entry ?? {}).toSorted(), label).toEqual(["amount", "asset", "extra", "maxTimeoutSeconds", "network", "payTo", "scheme"]);
  expect(entry, label).toMatchObject({
    scheme: "exact",
    network: chain.network,
    amount,
    asset: chain.token,
    payTo: chain.payTo,
    maxTimeoutSeconds: expect.any(Number),
  });
  if (side === "evm") expect(entry?.extra, label).toEqual({ name: "USDC", version: "2" });
  else
    expect(
      lab.svm.feePayers.map(({ address }) => String(address)),
      label,
    ).toContain((entry?.extra as { feePayer: string }).feePayer);
  expect(header.resource, label).toEqual({
    ...{ url: `${url}/v1/jobs/commit/${tier}`, description: expect.any(String), mimeType: "application/json" },
    ...{ serviceName: "Compute Router", tags: expect.any(Array) },
  });

  expect(Object.keys(body), label).toEqual(["error", "accepts", "x402Version", "resource"]);
  expect(body.error, label).toMatch(/\S/);
  expect(body.x402Version, label).toBe(2);
  expect(body.resource, label).toEqual(header.resource);
  expect(body.accepts, label).toHaveLength(1);
  expect(body.accepts[0], label).toEqual({
    scheme: "exact",
    price: MONEY[tier],
    network: chain.network,
    payTo: chain.payTo,
    ...(side === "evm" && { asset: chain.token }),
    amount,
    maxTimeoutSeconds: entry?.maxTimeoutSeconds,
    extra: entry?.extra,
    maxAmountRequired: amount,
    resource: header.resource.url,
    description: expect.any(String),
    mimeType: "application/json",
  });
  return body;
}
