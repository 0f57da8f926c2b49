import { expect, test } from "vitest";
import type { Payment } from "../../../src/coordinator/dispatch/index.ts";
import { Batch } from "../../../src/coordinator/hub/batch.ts";

const NOW = Date.UTC(2026, 4, 6);

test("[PY6] the texts of a payment are written with it, also if it moves again before that", () => {
  const held: Payment = {
    ...{ key: "key", digest: "digest", binding: "binding", payer: "0xaa", asset: "eip155:10143/0x00", amount: "1000", expiresAt: NOW, jobId: "job" },
    ...{ doubts: 0, lostAnswer: false, phase: { kind: "held" } },
  };
  const payment: Payment = { ...held, phase: { kind: "settling", until: NOW } };
  const texts = { payload: "payload", requirements: "requirements" };
  const batch = new Batch();
  batch.add({ rows: [{ type: "save_payment", payment: held }], sends: [], settles: [] }, { payment: { key: "key", ...texts } });
  batch.add({ rows: [{ type: "save_payment", payment }], sends: [], settles: [] }, {});
  expect(batch.payments.get("key")).toEqual({ payment, texts: { key: "key", ...texts } });
});
