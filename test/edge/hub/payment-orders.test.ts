import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { shortJobId } from "../../../src/protocol/text.ts";
import type { PaymentInput } from "../../../src/coordinator/hub/rpc.ts";
import { commitInput, TestHub, until } from "../support/worker-hub.ts";

const HOUR = 3_600_000;

const warnings = vi.spyOn(console, "warn");
const errors = vi.spyOn(console, "error");
beforeEach(async () => {
  warnings.mockReset();
  errors.mockReset();
  await env.DB.prepare("DELETE FROM payment_orders")
    .run()
    .catch(() => undefined);
});
afterEach(() => {
  warnings.mockReset();
  errors.mockReset();
});

/** A verified payment; nobody is there to take its job. */
function paymentInput(): PaymentInput {
  const terms = JSON.stringify({ scheme: "exact", network: "eip155:10143", amount: "1000" });
  const facts = { digest: "digest", binding: "binding", payer: "0xAA", asset: "eip155:10143/0x00", amount: "1000", expiresAt: Date.now() + HOUR };
  return { key: crypto.randomUUID(), ...facts, payload: `{"accepted":${terms},"payload":{}}`, requirements: terms };
}

/** A payment in doubt: its row as it is after the hub has asked for a day. */
async function unresolved(hub: TestHub): Promise<{ payment: PaymentInput; jobId: string }> {
  const payment = paymentInput();
  const input = commitInput();
  await hub.stub.reserve(input, payment);
  expect(await hub.stub.submit(input, payment.key, "0xaa", payment)).toMatchObject({ ok: true, jobId: input.id });
  const phase = JSON.stringify({ kind: "unresolved", reason: "expired", retryDue: null });
  await hub.sql(`UPDATE payments SET kind = 'unresolved', phase = '${phase}', doubts = 3, rev = rev + 1`);
  await hub.evict();
  return { payment, jobId: input.id };
}

async function write(key: string, verb: string): Promise<string> {
  const id = crypto.randomUUID();
  const values = [id, key, verb, "seen on the chain", Date.now()];
  await env.DB.prepare("INSERT INTO payment_orders (id, payment_key, verb, reason, created_at) VALUES (?, ?, ?, ?, ?)")
    .bind(...values)
    .run();
  return id;
}

const outcome = async (id: string) => (await env.DB.prepare("SELECT outcome FROM payment_orders WHERE id = ?").bind(id).first())?.["outcome"];
const carriedOut = (id: string) => until(async () => (await outcome(id)) !== null, "the order has an outcome");
const phase = async (hub: TestHub) => (await hub.sql("SELECT phase ->> '$.kind' AS kind, phase ->> '$.reason' AS reason FROM payments"))[0];
const rev = async (hub: TestHub) => (await hub.sql("SELECT rev FROM payments"))[0]?.["rev"];

describe("orders of the operator", () => {
  test("[PY8] the cron carries out an order once: in the ledger, then in D1, logged; the credit pays for the next job", async () => {
    const hub = new TestHub();
    const { payment, jobId } = await unresolved(hub);
    const id = await write(payment.key, "credit");
    await hub.stub.wake();
    await carriedOut(id);
    expect(await outcome(id)).toBe("done");
    expect(await phase(hub)).toEqual({ kind: "credit", reason: null });
    const logged = warnings.mock.calls.map(([line]) => JSON.parse(String(line)) as Record<string, unknown>);
    expect(logged).toContainEqual({ level: "warning", event: "payment_order", order: id.slice(0, 8), verb: "credit", outcome: "done", job: shortJobId(jobId) });
    expect(logged).toContainEqual(expect.objectContaining({ event: "credit_opened" }));
    await until(async () => {
      const copy = await env.DB.prepare("SELECT state FROM payments WHERE key = ?").bind(payment.key).first();
      return copy?.["state"] === "credit";
    }, "the credit in D1");
    const again = commitInput();
    expect(await hub.stub.reserve(again, payment)).toEqual({ state: "credit" });
  });

  test("[PY8] an order whose outcome D1 did not take is not carried out again, only noted", async () => {
    const hub = new TestHub();
    const { payment } = await unresolved(hub);
    const id = await write(payment.key, "void");
    await hub.stub.wake();
    await carriedOut(id);
    const before = await rev(hub);
    // Meanwhile the payment has come into doubt again, as no payment does: a second order would be seen.
    await hub.sql(`UPDATE payments SET kind = 'unresolved', phase = '{"kind":"unresolved","reason":"expired","retryDue":null}'`);
    await env.DB.prepare("UPDATE payment_orders SET done_at = NULL, outcome = NULL").run();
    await hub.evict();
    await hub.stub.wake();
    await carriedOut(id);
    expect([await outcome(id), await rev(hub)]).toEqual(["done", before]);
    expect(await phase(hub)).toMatchObject({ kind: "unresolved" });
  });

  test("[PY8] a hub that wakes up with a payment in doubt reads the orders; one without does not ask D1", async () => {
    const hub = new TestHub();
    const { payment } = await unresolved(hub);
    const id = await write(payment.key, "void");
    await hub.stub.workersOnline();
    await carriedOut(id);
    expect(await phase(hub)).toEqual({ kind: "void", reason: "by_operator" });
    expect(await hub.sql("SELECT payload, requirements FROM payments")).toEqual([{ payload: null, requirements: null }]);
    const later = await write(payment.key, "credit");
    await hub.evict();
    await hub.stub.workersOnline();
    await hub.stub.wake();
    await carriedOut(later);
    expect(await outcome(later)).toBe("not_unresolved");
  });

  test("[PY8] an order about a payment that the facilitator is asked about waits, and is carried out when the answer has left it in doubt", async () => {
    const hub = new TestHub();
    const { payment } = await unresolved(hub);
    const asked = JSON.stringify({ kind: "settling", until: Date.now() + HOUR, by: "request" });
    await hub.sql(`UPDATE payments SET kind = 'settling', phase = '${asked}'`);
    await hub.evict();
    const [id, next] = [await write(payment.key, "credit"), await write("nobody's", "credit")];
    await env.DB.prepare("UPDATE payment_orders SET created_at = created_at + 1 WHERE id = ?").bind(next).run();
    await hub.stub.wake();
    await carriedOut(next);
    expect(await outcome(id)).toBeNull();
    await hub.sql(`UPDATE payments SET kind = 'unresolved', phase = '{"kind":"unresolved","reason":"expired","retryDue":null}'`);
    await hub.evict();
    await hub.stub.wake();
    await carriedOut(id);
    expect([await outcome(id), (await phase(hub))?.["kind"]]).toEqual(["done", "credit"]);
  });

  test("[PY8] an order about no payment, and one that was written by hand and is wrong, get their outcome too", async () => {
    const hub = new TestHub();
    const { payment } = await unresolved(hub);
    const [unknown, wrong] = [await write("nobody's", "credit"), await write(payment.key, "refund")];
    await hub.stub.wake();
    await carriedOut(unknown);
    await carriedOut(wrong);
    expect([await outcome(unknown), await outcome(wrong)]).toEqual(["no_such_payment", "invalid"]);
    expect(await phase(hub)).toMatchObject({ kind: "unresolved" });
  });

  test("[PY8] an order decides about a payment that a bug has set aside; one whose money is in a balance stays, and its order gets a word for that", async () => {
    for (const [credit, said, kind] of [
      ["NULL", "done", "credit"],
      [`'{"left":"1000","lent":"0","since":1,"transaction":"0x01"}'`, "has_balance", "unresolved"],
    ] as const) {
      const hub = new TestHub();
      const { payment } = await unresolved(hub);
      // Its job fails when the hub starts.
      await hub.sql(`UPDATE payments SET phase = '{"kind":"unresolved","reason":"illegal_move","retryDue":null}'`);
      await hub.sql(`UPDATE payments SET credit = ${credit}`);
      await hub.evict();
      const id = await write(payment.key, "credit");
      await hub.stub.wake();
      await until(async () => {
        if ((await outcome(id)) === null) await hub.stub.wake();
        return (await outcome(id)) !== null;
      }, "the order has an outcome");
      expect([await outcome(id), (await phase(hub))?.["kind"]]).toEqual([said, kind]);
    }
  });

  test("[PY8] while D1 is down an order waits, and that is logged", async () => {
    const hub = new TestHub();
    const { payment } = await unresolved(hub);
    const id = await write(payment.key, "credit");
    await hub.breakD1({ read: () => Promise.reject(new Error("down")) });
    await hub.stub.wake();
    await until(async () => errors.mock.calls.some(([line]) => String(line).includes("payment_orders_failed")), "the failure in the log");
    expect(await outcome(id)).toBeNull();
    await hub.healD1();
    await hub.stub.wake();
    await carriedOut(id);
    expect(await outcome(id)).toBe("done");
  });
});
