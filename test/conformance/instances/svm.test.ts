import { beforeAll, describe, expect, test } from "vitest";
import { ISO, llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity, receiptText, signText, verifyText } from "../support/identity.ts";
import { fullWorker, specWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
let svm: Subject;
const CHAIN = /^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$/;

beforeAll(async () => {
  [evm, svm] = await Promise.all([start("evm"), start("svm")]);
});

describe("the svm instance", () => {
  test("[SPEC] has one network identifier of its own everywhere", async () => {
    const health = await svm.api.get("/v1/health");
    expect(health.body).toEqual({ status: "ok", workers_online: 0, network: expect.stringMatching(CHAIN), timestamp: expect.stringMatching(ISO) });
    const { network } = health.body;
    expect(network).not.toBe("eip155:10143");
    expect((await svm.api.get("/v1/quote?job_type=LLM_INFER")).body).toEqual({
      price: "$0.010",
      endpoint: "/v1/jobs/commit/fast",
      policy_resolved: "FAST",
      network,
      expires_at: null,
    });
    expect(await (await WorkerSocket.open(svm.socketUrl)).challenge()).toMatchObject({ network });
  });

  test("[SPEC] runs the same life of a job", async () => {
    const worker = await fullWorker(svm.socketUrl);
    const plain = await specWorker(svm.socketUrl, { provider_type: "MOBILE" });
    const id = await svm.api.commit(llm(newUser(), "hi"), "fast");
    const assign = await worker.assigned(id);
    worker.ack(assign);
    expect((await worker.complete(id, { model: "m", output: "hi", usage: { completion_tokens: 1, prompt_tokens: 1 } })).status).toBe("accepted");
    const job = await svm.api.job(id);
    expect(job).toMatchObject({ status: "completed", result: { output: "hi" }, completed_at: expect.stringMatching(ISO) });
    expect(verifyText(worker.pubkey, receiptText(job.receipt ?? {}), String(job.receipt?.signature))).toBe(true);
    worker.close();
    await worker.ended();
    const second = await svm.api.commit(task(newUser()));
    await plain.assigned(second);
    expect((await plain.complete(second, { sentiment: "neutral", confidence: 0.5 })).status).toBe("accepted");
  });

  test("[SPEC] shares nothing with the evm instance: jobs, pairings, codes, workers", async () => {
    const user = newUser();
    const { pubkey } = newIdentity();
    const id = await evm.api.commit(task(user));
    expect((await svm.api.get(`/v1/jobs/${id}`)).status).toBe(404);
    const code = (await evm.api.post("/v1/trust/create", { user_id: user })).body.pairing_code;
    expect((await svm.api.post("/v1/trust/claim", { pairing_code: code, provider_pubkey: pubkey })).body).toEqual({ error: "invalid_code" });
    expect((await evm.api.post("/v1/trust/claim", { pairing_code: code, provider_pubkey: pubkey })).status).toBe(200);
    expect((await svm.api.get(`/v1/trust/list?user_id=${user}`)).body).toEqual({ providers: [] });
    const worker = await specWorker(svm.socketUrl);
    await evm.api.pair(user, worker);
    expect((await svm.api.tryCommit(task(user, "x", { privacy_class: "PRIVATE" }))).status).toBe(422);
    expect((await evm.api.tryCommit(task(user, "x", { privacy_class: "PRIVATE" }))).status).toBe(422);
    expect((await evm.api.get("/v1/health")).body.workers_online).toBe(0);
  });

  test("[TR4] a pairing signature names the network: evm's is refused here", async () => {
    const identity = newIdentity();
    const { network } = (await svm.api.get("/v1/health")).body;
    const code = String((await svm.api.post("/v1/trust/create", { user_id: newUser() })).body.pairing_code);
    const text = (chain: string): string => `compute-router/pair/v1\n${chain}\n${code}\n${identity.pubkey}`;
    const claim = (chain: string) =>
      svm.api.post("/v1/trust/claim", { pairing_code: code, provider_pubkey: identity.pubkey, signature: signText(identity, text(chain)) });
    expect((await claim("eip155:10143")).status).toBeGreaterThanOrEqual(400);
    expect((await claim(String(network))).status).toBe(200);
  });
});
