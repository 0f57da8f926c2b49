import { describe, expect, test } from "vitest";
import { registerText } from "../../../src/protocol/worker-messages.ts";
import { signText } from "../../../src/receipt/index.ts";
import { TestHub, withSettings } from "../support/worker-hub.ts";
import type { TestWorker } from "../support/worker.ts";

withSettings({ WORKER_AUTH: "required", PUBLIC_HOST: "Compute.Example:443" });

async function refused(worker: TestWorker, fields: Record<string, unknown>): Promise<unknown> {
  worker.send(worker.registration(fields));
  const { error } = await worker.next("register_ack");
  expect(await worker.closed()).toBe(4401);
  return error;
}

describe("WORKER_AUTH=required", () => {
  test("[WS5] a registration without a signature is auth_required and closes with 4401", async () => {
    const hub = new TestHub();
    expect(await refused(await hub.connect(), {})).toBe("auth_required");
    expect(await refused(await hub.connect(), { signature: null })).toBe("auth_required");
    expect(await hub.workersOnline()).toBe(0);
  });

  test("[WS3] a signed one is accepted", async () => {
    const hub = new TestHub();
    expect((await (await hub.connect()).register({ signed: true })).authenticated).toBe(true);
  });

  test("[WS2] the challenge has PUBLIC_HOST as a URL has it, whatever host the worker connected to", async () => {
    const hub = new TestHub();
    expect((await hub.connect(undefined, "http://other.test:8080/")).challenge.host).toBe("compute.example");
  });

  test("[WS3] every line of the signed text counts: another network, host, nonce, key, prefix or a final newline is refused", async () => {
    const hub = new TestHub();
    const wrong = (lines: (right: { network: string; host: string; nonce: string; pubkey: string }) => string) => async () => {
      const worker = await hub.connect();
      const { network, host, nonce } = worker.challenge;
      const text = lines({ network: String(network), host: String(host), nonce: String(nonce), pubkey: worker.key.publicKey });
      return refused(worker, { signature: signText(text, worker.key.secret) });
    };
    const texts = [
      wrong((right) => registerText({ ...right, network: "eip155:1" })),
      wrong((right) => registerText({ ...right, host: "hub.test" })),
      wrong((right) => registerText({ ...right, nonce: "0".repeat(64) })),
      wrong((right) => registerText({ ...right, pubkey: "0".repeat(64) })),
      wrong((right) => registerText(right).replace("register", "pair")),
      wrong((right) => `${registerText(right)}\n`),
    ];
    for (const text of texts) expect(await text()).toBe("invalid_signature");
  });

  test("[WS2] the nonce is for its own socket's registration only", async () => {
    const hub = new TestHub();
    const first = await hub.connect();
    const { signature } = first.registration({ signed: true });
    await first.register({ signature });
    expect(await refused(await hub.connect(first.key), { signature })).toBe("invalid_signature");
    expect(await hub.workersOnline()).toBe(1);
  });

  test("[WS3] the challenge survives the loss of the hub's memory", async () => {
    const hub = new TestHub();
    const worker = await hub.connect();
    await hub.evict();
    expect((await worker.register({ signed: true })).authenticated).toBe(true);
  });

  test("[WS3] a second register of the same key needs no new signature", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ signed: true });
    expect((await worker.register({ capabilities: ["TASK"] })).authenticated).toBe(true);
  });
});
