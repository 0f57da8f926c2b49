import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { pass } from "../support/wait.ts";
import { fullWorker, unsignedWorker } from "../support/worker.ts";

let evm: Subject;
/** Workers here announce TASK only, so that LLM_INFER jobs wait. */
const TASKS = { capabilities: ["TASK"] };
const OUTPUT = { sentiment: "positive", confidence: 0.9 };

beforeAll(async () => {
  evm = await share();
});

const key = (): Record<string, string> => ({ "idempotency-key": randomUUID() });

describe("Idempotency-Key", () => {
  test("[API5] the same commit again answers the stored 201", async () => {
    const headers = key();
    const body = llm(newUser());
    const first = await evm.api.tryCommit(body, "cheap", headers);
    const second = await evm.api.tryCommit(body, "cheap", headers);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body).toEqual(first.body);
  });

  test("[API5] still the same after the job has ended", async () => {
    const worker = await unsignedWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const headers = key();
    const body = task(user, "x", { privacy_class: "PRIVATE" });
    const id = await evm.api.commit(body, "fast", headers);
    await worker.assigned(id);
    await worker.complete(id, OUTPUT);
    await evm.api.until(id, "completed");
    expect((await evm.api.tryCommit(body, "fast", headers)).body).toEqual({ job_id: id });
  });

  test("[API5] other fields under the key: 409 idempotency_key_reused", async () => {
    const headers = key();
    const user = newUser();
    await evm.api.commit(llm(user, "two"), "cheap", headers);
    for (const [body, tier] of [
      [llm(user, "one"), "cheap"],
      [llm(user, "two"), "fast"],
      [task(user, "two"), "cheap"],
      [llm(user, "two", { payload: { prompt: "two", max_tokens: 5 } }), "cheap"],
    ] as const) {
      const answer = await evm.api.tryCommit(body, tier, headers);
      expect(answer.status).toBe(409);
      expect(answer.body).toEqual({ error: "idempotency_key_reused" });
    }
  });

  test("[API5] the key is per user_id", async () => {
    const headers = key();
    const ids = [await evm.api.commit(llm(newUser()), "cheap", headers), await evm.api.commit(llm(newUser()), "cheap", headers)];
    expect(new Set(ids).size).toBe(2);
  });

  test("[API5] ten at once are one job", async () => {
    const headers = key();
    const body = llm(newUser());
    const answers = await Promise.all(Array.from({ length: 10 }, () => evm.api.tryCommit(body, "cheap", headers)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 201));
    expect(new Set(answers.map(({ body: { job_id } }) => job_id)).size).toBe(1);
  });

  test("[API5] a 400 is not stored", async () => {
    const headers = key();
    const user = newUser();
    expect((await evm.api.tryCommit({ user_id: user }, "cheap", headers)).status).toBe(400);
    expect((await evm.api.tryCommit(llm(user), "cheap", headers)).status).toBe(201);
  });

  test("[API5] a 422 is not stored", async () => {
    const headers = key();
    const user = newUser();
    const body = task(user, "x", { privacy_class: "PRIVATE" });
    expect((await evm.api.tryCommit(body, "cheap", headers)).status).toBe(422);
    const worker = await unsignedWorker(evm.socketUrl, TASKS);
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(body, "cheap", headers);
    await worker.assigned(id);
    await worker.complete(id, OUTPUT);
  });

  test("[API5] a bad body under a used key is 400, as the key is looked up after it", async () => {
    const headers = key();
    const user = newUser();
    await evm.api.commit(llm(user), "cheap", headers);
    expect((await evm.api.tryCommit({ user_id: user }, "cheap", headers)).status).toBe(400);
  });
});

describe("waiting", () => {
  test.each(["abc", "1.5", "", "-1", "1e1", "1e1x", "NaN", "%20", "%201", "0x", "0x1"])("[API6] wait=%s is 400", async (wait) => {
    const id = await evm.api.commit(llm(newUser()));
    const answer = await evm.api.get(`/v1/jobs/${id}?wait=${wait}`);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toContain("wait");
  });

  test("[API6] wait=1 answers the present state after a second; without wait and with wait=0 at once", async () => {
    const id = await evm.api.commit(llm(newUser()));
    const waited = await evm.api.get(`/v1/jobs/${id}?wait=1`);
    expect(waited.status).toBe(200);
    expect(waited.body).toMatchObject({ id, status: "pending" });
    expect(waited.ms).toBeGreaterThan(900);
    expect(waited.ms).toBeLessThan(2_500);
    for (const path of [`/v1/jobs/${id}`, `/v1/jobs/${id}?wait=0`]) {
      const now = await evm.api.get(path);
      expect(now.body).toMatchObject({ id, status: "pending" });
      expect(now.ms).toBeLessThan(800);
    }
  });

  test("[API6] wait answers as soon as the job is completed, for all who wait", async () => {
    const worker = await fullWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    worker.ack(await worker.assigned(id));
    const waiting = Promise.all([20, 25, 1_000].map((wait) => evm.api.get(`/v1/jobs/${id}?wait=${wait}`)));
    await pass(700);
    await worker.complete(id, OUTPUT);
    for (const answer of await waiting) {
      expect(answer.body).toMatchObject({ id, status: "completed", result: OUTPUT });
      expect(answer.ms).toBeGreaterThan(600);
      expect(answer.ms).toBeLessThan(3_000);
    }
    const after = await evm.api.get(`/v1/jobs/${id}?wait=20`);
    expect(after.ms).toBeLessThan(800);
    expect(after.headers.get("cache-control")).toContain("no-store");
  });

  test("[API6] wait answers as soon as the job has failed", async () => {
    const worker = await fullWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    const assign = await worker.assigned(id);
    const waiting = evm.api.get(`/v1/jobs/${id}?wait=20`);
    worker.ack(assign);
    worker.fail(assign, false);
    const answer = await waiting;
    expect(answer.body).toMatchObject({ status: "failed", result: { error: "worker_error" }, receipt: null });
    expect(answer.ms).toBeLessThan(3_000);
  });

  test("[API6] an unknown job is 404 at once", async () => {
    const answer = await evm.api.get("/v1/jobs/11111111-2222-4333-8444-555555555555?wait=10");
    expect(answer.status).toBe(404);
    expect(answer.ms).toBeLessThan(2_000);
  });

  test("[API6] Prefer: wait on a commit answers job_id and the ended job, with Preference-Applied", async () => {
    const worker = await unsignedWorker(evm.socketUrl, TASKS);
    const user = newUser();
    await evm.api.pair(user, worker);
    const committing = evm.api.tryCommit(task(user, "x", { privacy_class: "PRIVATE" }), "fast", { prefer: "wait=20" });
    const assign = await worker.frame("job_assign");
    await worker.complete(String(assign.job_id), OUTPUT);
    const answer = await committing;
    expect(answer.status).toBe(201);
    expect(answer.headers.get("preference-applied")).toBe("wait=20");
    expect(Object.keys(answer.body).toSorted()).toEqual(["job", "job_id"]);
    expect(answer.body.job).toEqual(await evm.api.job(String(answer.body.job_id)));
    expect(answer.body.job).toMatchObject({ id: assign.job_id, status: "completed", result: OUTPUT });
    expect(answer.ms).toBeLessThan(5_000);
  });

  test("[API6] Prefer: wait=1 without a worker answers the pending job after a second", async () => {
    const answer = await evm.api.tryCommit(llm(newUser()), "cheap", { prefer: "wait=1" });
    expect(answer.status).toBe(201);
    expect(answer.headers.get("preference-applied")).toBe("wait=1");
    expect(answer.body).toMatchObject({ job_id: expect.any(String), job: { status: "pending", result: null } });
    expect(answer.ms).toBeGreaterThan(900);
    expect(answer.ms).toBeLessThan(3_000);
  });

  test("[API6] Prefer among others is found; other preferences are ignored", async () => {
    const both = await evm.api.tryCommit(llm(newUser()), "cheap", { prefer: "respond-async, wait=1" });
    expect(both.body).toHaveProperty("job");
    const other = await evm.api.tryCommit(llm(newUser()), "cheap", { prefer: "return=minimal" });
    expect(other.status).toBe(201);
    expect(other.headers.get("preference-applied")).toBeNull();
    expect(Object.keys(other.body)).toEqual(["job_id"]);
  });
});
