import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { newIdentity } from "../../conformance/support/identity.ts";
import { encode } from "../pay/envelope.ts";
import { balanceOf, type Payment } from "../pay/pay.ts";
import { WRONGS } from "../pay/wrongs.ts";
import { type FullLab, startLab } from "../start-lab.ts";
import { Bench, brief, idOf, SMALL_LAB } from "../support/bench.ts";
import { check402 } from "../support/check-402.ts";

let lab: FullLab;
beforeAll(async () => {
  lab = await startLab(SMALL_LAB);
});
afterAll(() => lab.stop());

type Bag = Record<string, unknown>;

describe.each(["evm", "svm"] as const)("the wire of a paid commit on %s", (side) => {
  let bench: Bench;
  beforeAll(async () => {
    await lab.facilitator.down();
    bench = await new Bench(lab, side).start();
    return () => bench.stop();
  });
  beforeEach(() => lab.facilitator.faults.clear());

  it("[PY12] 402 while the facilitator never was up, at once", async () => {
    const began = Date.now();
    const response = await bench.commit("cheap", "x");
    expect(response.status).toBe(402);
    expect(Date.now() - began).toBeLessThan(6_000);
    const header = JSON.parse(Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString()) as Bag;
    expect(header).toMatchObject({ x402Version: 2, accepts: [{ scheme: "exact", network: lab[side].network, amount: "1000" }] });
    expect(await response.json()).toMatchObject({ error: expect.any(String), accepts: [{ price: "$0.001" }] });
    await lab.facilitator.up();
    const up = Date.now();
    for (;;) {
      const again = await bench.commit("cheap", "x");
      const ready = JSON.parse(Buffer.from(again.headers.get("payment-required") ?? "", "base64").toString()) as { accepts: { extra: Bag }[] };
      if (Object.keys(ready.accepts[0]?.extra ?? {}).length > 0) break;
      expect(Date.now() - up, "a payable 402 after the facilitator came back").toBeLessThan(90_000);
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }, 100_000);

  it("[PY12] 402 with /supported hanging, garbage, 500", async () => {
    for (const fault of [{ kind: "hang" }, { kind: "garbage" }, { kind: "status" }, { kind: "garbage", body: "null" }] as const) {
      lab.facilitator.faults.add({ operation: "supported", fault });
      const began = Date.now();
      await check402(await bench.commit("cheap", "x"), bench, "cheap", fault.kind);
      expect(Date.now() - began, fault.kind).toBeLessThan(6_500);
      lab.facilitator.faults.clear();
    }
  });

  it("[PY4] without a payment, whatever the body is", async () => {
    for (const tier of ["fast", "cheap"] as const) {
      for (const body of [bench.body("x"), "", "{", "null", "[]", "{}"]) await check402(await bench.post(tier, body), bench, tier, `no header, body ${body}`);
      for (const name of ["PAYMENT-SIGNATURE", "X-PAYMENT"])
        await check402(await bench.post(tier, bench.body("x"), { [name]: "" }), bench, tier, `empty ${name}`);
      await check402(await bench.post(tier, bench.body("x"), { Origin: "https://a.example", "content-type": "text/plain" }), bench, tier, "origin");
    }
  });

  it("[API7] preflight for both payment headers; nothing else is gated", async () => {
    const response = await fetch(`${bench.url}/v1/jobs/commit/cheap`, {
      method: "OPTIONS",
      headers: {
        Origin: "https://a.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,x-payment,payment-signature,idempotency-key,prefer",
      },
    });
    expect(response.ok).toBe(true);
    const allowed = (response.headers.get("access-control-allow-headers") ?? "").toLowerCase();
    for (const name of ["content-type", "x-payment", "payment-signature", "idempotency-key", "prefer", "x-user-token", "last-event-id"])
      expect(allowed).toContain(name);
    expect((await fetch(`${bench.url}/v1/quote?job_type=TASK`)).status).toBe(200);
    expect((await fetch(`${bench.url}/v1/jobs/${crypto.randomUUID()}`)).status).toBe(404);
    const post = (path: string, body: object) => fetch(`${bench.url}/v1/trust/${path}`, { method: "POST", body: JSON.stringify(body) });
    const created = await post("create", { user_id: "a" });
    expect(created.status).toBe(201);
    const { pairing_code } = (await created.json()) as Bag;
    expect((await post("claim", { pairing_code, provider_pubkey: newIdentity().pubkey })).status).toBe(200);
    expect((await fetch(`${bench.url}/v1/trust/list?user_id=a`)).status).toBe(200);
  });

  // One of the two headers for each: unit/payment/read-payment reads both.
  it("[PY3] [PY4] malformed payment headers are 402 in full, in either header", async () => {
    lab.facilitator.log.clear();
    const good = await bench.pay("cheap");
    const message = good.message as Bag;
    const { scheme, network } = (message.accepted ?? {}) as Bag;
    const cases: Record<string, string> = {
      space: " ",
      "not base64": "%%%%",
      word: "hello",
      "base64 of text": Buffer.from("hello").toString("base64"),
      "JSON, not base64": JSON.stringify({ x402Version: 2 }),
      null: encode(null),
      true: encode(true),
      array: encode([]),
      "array of one": encode([message]),
      number: encode(7),
      string: encode("x"),
      "string of it": encode(JSON.stringify(message)),
      object: encode({}),
      "deep, cut": Buffer.from("[".repeat(10_000)).toString("base64"),
      deep: Buffer.from(`${"[".repeat(5_000)}${"]".repeat(5_000)}`).toString("base64"),
      "deep payload": Buffer.from(`{"x402Version":2,"accepted":{},"payload":${'{"a":'.repeat(1500)}1${"}".repeat(1500)}}`).toString("base64"),
      "17 KiB": encode({ ...message, padding: "x".repeat(13_500) }),
      "17 KiB of A": "A".repeat(17 * 1024),
      "invalid UTF-8": Buffer.from([0xff, 0xfe, 0x7b, 0x7d]).toString("base64"),
      "half of it": good.value.slice(0, Math.floor(good.value.length / 2)),
      "twice, joined": `${good.value}, ${good.value}`,
      __proto__: Buffer.from('{"__proto__":{"x402Version":2},"constructor":1}').toString("base64"),
    };
    for (const version of [0, 3, -1, 1.5, "2", "1", null, [2], {}, true])
      cases[`version ${JSON.stringify(version)}`] = encode({ ...message, x402Version: version });
    for (const key of ["x402Version", "accepted", "payload"]) {
      cases[`no ${key}`] = encode({ ...message, [key]: undefined });
      for (const odd of [null, [], 7, "x", true]) cases[`${key} ${JSON.stringify(odd)}`] = encode({ ...message, [key]: odd });
    }
    for (const key of ["scheme", "network", "amount", "asset", "payTo"]) {
      const accepted = message.accepted as Bag;
      cases[`accepted without ${key}`] = encode({ ...message, accepted: { ...accepted, [key]: undefined } });
      for (const odd of [null, [], 7, "", {}, "x"])
        cases[`accepted.${key} ${JSON.stringify(odd)}`] = encode({ ...message, accepted: { ...accepted, [key]: odd } });
    }
    for (const amount of ["0x3e8", "1e3", "01000", "1000.0", "-1000", "+1000", " 1000", 1000, "999", "1001", "1".repeat(90)])
      cases[`accepted.amount ${JSON.stringify(amount)}`] = encode({ ...message, accepted: { ...(message.accepted as Bag), amount } });
    const v1 = { x402Version: 1, scheme, network, payload: message.payload };
    for (const odd of ["upto", "", null, 7, undefined, "EXACT", ["exact"]]) cases[`v1 scheme ${JSON.stringify(odd)}`] = encode({ ...v1, scheme: odd });
    for (const odd of ["base-sepolia", "eip155:1", "", null, 7, undefined, `${String(network)} `, String(network).toUpperCase()])
      cases[`v1 network ${JSON.stringify(odd)}`] = encode({ ...v1, network: odd });
    for (const odd of [undefined, null, [], 7, "x", {}]) cases[`v1 payload ${JSON.stringify(odd)}`] = encode({ ...v1, payload: odd });

    const payload = message.payload as Bag;
    const inner = (name: string, changed: unknown): void => {
      cases[`v2 ${name}`] = encode({ ...message, payload: changed });
      cases[`v1 ${name}`] = encode({ ...v1, payload: changed });
    };
    if (side === "evm") {
      const authorization = payload.authorization as Bag;
      for (const key of Object.keys(authorization)) {
        for (const odd of [
          undefined,
          null,
          [],
          {},
          7,
          -1,
          "",
          "x",
          "0x",
          "-1",
          "1.5",
          (2n ** 256n).toString(),
          "9".repeat(100),
          `0x${"f".repeat(64)}ff`,
          true,
          "NaN",
        ])
          inner(`${key} ${JSON.stringify(odd)?.slice(0, 20)}`, { ...payload, authorization: { ...authorization, [key]: odd } });
      }
      for (const key of ["value", "validAfter", "validBefore"]) {
        const right = String(authorization[key]);
        for (const odd of [`0x${BigInt(right).toString(16)}`, `0${right}`, ` ${right}`, `${right} `, `${right}.0`, `+${right}`, `${right}n`, `${right}e0`])
          inner(`${key} ${odd}`, { ...payload, authorization: { ...authorization, [key]: odd } });
      }
      for (const odd of [
        undefined,
        null,
        [],
        {},
        7,
        "",
        "0x",
        "x",
        "0xzz",
        `0x${"00".repeat(65)}`,
        `0x${"ff".repeat(65)}`,
        `0x${"00".repeat(64)}`,
        `0x${"ab".repeat(2000)}`,
        String(payload.signature).slice(2),
      ])
        inner(`signature ${JSON.stringify(odd)?.slice(0, 20)}`, { ...payload, signature: odd });
      for (const odd of [undefined, null, [], 7, "x"]) inner(`authorization ${JSON.stringify(odd)}`, { ...payload, authorization: odd });
      inner("svm payload", { transaction: "AAAA" });
    } else {
      const transaction = String(payload.transaction);
      for (const odd of [
        undefined,
        null,
        [],
        {},
        7,
        "",
        "x",
        "AAAA",
        "%%%%",
        "A".repeat(1644),
        "A".repeat(2000),
        transaction.slice(4),
        transaction.slice(0, -8),
        `${transaction}AAAA`,
        Buffer.alloc(200).toString("base64"),
        Buffer.alloc(200, 255).toString("base64"),
      ])
        inner(`transaction ${JSON.stringify(odd)?.slice(0, 30)} ${String(odd).length}`, { transaction: odd });
      inner("evm payload", { signature: "0x", authorization: {} });
    }
    const bad: string[] = [];
    const gained = await bench.earning(async () => {
      // Two at a time, because many cases come in both envelopes.
      const all = Object.entries(cases).map(([label, value], at) => ({ label, value, name: at % 4 < 2 ? "PAYMENT-SIGNATURE" : "X-PAYMENT" }));
      for (let at = 0; at < all.length; at += 8) {
        await Promise.all(
          all.slice(at, at + 8).map(async ({ label, value, name }) => {
            const response = await bench.commit("cheap", "malformed", { [name]: value });
            try {
              await check402(response, bench, "cheap", `${name} ${label}`);
            } catch (error) {
              bad.push(
                `${name} ${label}: ${await brief(response).catch(() => response.status)} ${error instanceof Error ? error.message.split("\n")[0]?.slice(0, 120) : ""}`,
              );
            }
          }),
        );
      }
      expect(all.length).toBeGreaterThan(125);
    });
    expect(bad).toEqual([]);
    expect([gained, bench.settles()]).toEqual([0n, 0]);
  }, 120_000);

  it("[PY6] other spellings of one payment are one payment", async () => {
    const good = await bench.pay("cheap");
    const message = good.message as Bag;
    const payload = message.payload as Bag;
    const spellings: unknown[] = [];
    if (side === "evm") {
      const a = payload.authorization as Record<string, string>;
      const upper = (hex = ""): string => `0x${hex.slice(2).toUpperCase()}`;
      const variant = (changes: Bag, signature = payload.signature): void =>
        void spellings.push({ ...message, payload: { signature, authorization: { ...a, ...changes } } });
      variant({ from: a.from?.toLowerCase() });
      variant({ from: upper(a.from) });
      variant({ to: upper(a.to) });
      variant({ to: a.to?.toLowerCase() });
      variant({ nonce: upper(a.nonce) });
      variant({}, upper(String(payload.signature)));
    } else {
      const bytes = Buffer.from(String(payload.transaction), "base64");
      spellings.push({ ...message, payload: { transaction: bytes.toString("base64url") } });
      spellings.push({ ...message, payload: { transaction: bytes.toString("base64").replace(/=+$/, "") } });
      const filled = Buffer.from(bytes);
      filled.fill(7, 1, 65);
      spellings.push({ ...message, payload: { transaction: filled.toString("base64") } });
    }
    spellings.push({ x402Version: 1, scheme: "exact", network: lab[side].network, payload });
    spellings.push({ ...message, extensions: {} }, { ...message, more: 1 }, message);
    await bench.join(3);
    const ids = new Set<string>();
    const gained = await bench.earning(async () => {
      const sent = (from: number, to: number) =>
        spellings.slice(from, to).map((spelling, n) => bench.commit("cheap", `spelling ${from + n}`, { "X-PAYMENT": encode(spelling) }));
      // One is decided while at most eight wait for it; a tenth would be told to come again.
      const responses = [...(await Promise.all(sent(0, 9))), ...(await Promise.all(sent(9, Infinity)))];
      for (const response of responses) {
        if (response.status === 201) ids.add(await idOf(response));
        else await check402(response, bench, "cheap", "spelling");
      }
      for (const [n, spelling] of spellings.entries()) {
        const response = await bench.commit("cheap", `spelling ${n}`, { "PAYMENT-SIGNATURE": encode(spelling) });
        expect([201, 402], await brief(response)).toContain(response.status);
        if (response.status === 201) ids.add(await idOf(response));
      }
      await Promise.all([...ids].map((id) => bench.ended(id)));
    });
    expect(ids.size).toBe(1);
    expect(gained).toBe(1_000n);
  });

  it("[PY3] both headers: equal ones are one payment; unequal ones are refused, and so is one of which half is garbage", async () => {
    const equal = await bench.pay("cheap");
    expect(
      await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "both", { ...equal.headers("X-PAYMENT"), ...equal.headers() })))),
    ).toBe(1_000n);
    const [one, two] = [await bench.pay("cheap"), await bench.pay("cheap")];
    const gained = await bench.earning(async () => {
      const unequal = await bench.commit("cheap", "unequal", { ...one.headers("X-PAYMENT"), ...two.headers() });
      expect((await check402(unequal, bench, "cheap")).error).toContain("bring different payments");
      for (const headers of [
        { "X-PAYMENT": one.value, "PAYMENT-SIGNATURE": "garbage" },
        { "X-PAYMENT": "garbage", "PAYMENT-SIGNATURE": one.value },
      ])
        expect((await check402(await bench.commit("cheap", "half", headers), bench, "cheap")).error).toContain("must be base64 of UTF-8");
    });
    expect(gained).toBe(0n);
    // An empty header is none.
    const half = { "X-PAYMENT": one.value, "PAYMENT-SIGNATURE": "" };
    expect(await bench.earning(async () => bench.ended(await idOf(await bench.commit("cheap", "half", half))))).toBe(1_000n);
  });

  it("[PY3, PY11] every wrong payment, cheap in v1 and fast in v2: 402 in full and nothing charged", async () => {
    lab.facilitator.log.clear();
    const bad: string[] = [];
    const poor = () => balanceOf(lab[side], (side === "evm" ? lab.evm.poor : lab.svm.poor).address);
    const had = await poor();
    const gained = await bench.earning(async () => {
      for (const [tier, envelope] of [
        ["cheap", "v1"],
        ["fast", "v2"],
      ] as const)
        for (const wrong of Object.keys(WRONGS[side]) as (keyof (typeof WRONGS)["evm"])[]) {
          const label = `${tier} ${envelope} ${wrong}`;
          let paid: Payment;
          try {
            paid = await bench.pay(tier, { who: 3, envelope, wrong });
          } catch (error) {
            bad.push(`${label}: cannot make it: ${String(error)}`);
            continue;
          }
          const response = await bench.commit(tier, label, paid.headers(envelope === "v1" ? "X-PAYMENT" : "PAYMENT-SIGNATURE"));
          try {
            const { error } = await check402(response, bench, tier, label);
            // Refused before the facilitator is asked [PY11].
            if (wrong.endsWith("fee_payer")) expect(error).toContain("names a fee payer that is not the facilitator's");
          } catch (error) {
            bad.push(`${label}: ${await brief(response)} ${error instanceof Error ? error.message.split("\n")[0] : ""}`);
          }
        }
    });
    expect.soft(bad).toEqual([]);
    expect(gained).toBe(0n);
    expect(bench.settles()).toBe(0);
    expect(await poor()).toBe(had);
  }, 60_000);

  it("[PY4] 402s of verify, settle and replay have the whole header and body too", async () => {
    lab.facilitator.faults.add({ operation: "verify", fault: { kind: "refuse", reason: "because" }, times: 1 });
    const verify = await bench.pay("fast");
    expect((await check402(await bench.commit("fast", "v", verify.headers()), bench, "fast", "verify")).error).toContain("because");
    lab.facilitator.faults.add({ operation: "verify", fault: { kind: "refuse", reason: "status400", status: 400 }, times: 1 });
    await check402(await bench.commit("fast", "v", (await bench.pay("fast")).headers()), bench, "fast", "verify 400");
    lab.facilitator.faults.add({ operation: "settle", fault: { kind: "refuse", reason: "insufficient_funds" }, times: 1 });
    const settle = await bench.commit("fast", "s", (await bench.pay("fast")).headers());
    await check402(settle, bench, "fast", "settle");
    expect(settle.headers.get("payment-response")).toBe(settle.headers.get("x-payment-response"));
    const used = await bench.pay("fast");
    await bench.ended(await idOf(await bench.commit("fast", "u", used.headers())));
    expect((await check402(await bench.commit("fast", "other", used.headers()), bench, "fast", "used")).error).toContain("payment_already_used");
    await check402(await bench.commit("cheap", "u", used.headers()), bench, "cheap", "used on the other tier");
  });
});
