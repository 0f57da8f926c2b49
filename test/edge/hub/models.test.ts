import { TIMING } from "../../../src/protocol/times.ts";
import { env } from "cloudflare:workers";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { ModelList } from "../../../src/protocol/models.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";
import { refusal, rest } from "../rest/rest.ts";
import { muteErrors } from "../support/errors.ts";
import { commitInput, TestHub } from "../support/worker-hub.ts";
import { newKey } from "../support/worker.ts";

/** Returns `GET /v1/models`, after the cached list has expired. */
async function list(hub: TestHub): Promise<ModelList> {
  hub.skip(1_000);
  const { status, body } = await hub.request("/v1/models");
  expect(status).toBe(200);
  return ModelList.strict().parse(body);
}

const counts = ({ data }: ModelList) => data.map(({ id, workers }) => `${id} ${workers}`);

describe("GET /v1/models", () => {
  test("[JB10] is OpenAI's list, and has the number of workers that take LLM jobs", async () => {
    const hub = new TestHub();
    expect(await list(hub)).toEqual({ object: "list", data: [], workers_online: 0 });
    const now = Math.floor(Date.now() / 1_000);
    await hub.worker({ models: ["llama3.2:latest"] });
    expect(await list(hub)).toEqual({
      object: "list",
      data: [{ id: "llama3.2:latest", object: "model", created: now, owned_by: "workers", workers: 1 }],
      workers_online: 1,
    });
  });

  test("[JB10] counts the workers of a model, whatever the case of its name, the most first", async () => {
    const hub = new TestHub();
    await hub.worker({ models: ["Qwen3-8B", "gemma", "auto"] });
    hub.skip(5_000);
    await hub.worker({ models: ["qwen3-8b", "QWEN3-8B"] });
    await hub.worker({ models: ["zephyr", "qwen3-8b"] });
    const answer = await list(hub);
    expect(counts(answer)).toEqual(["Qwen3-8B 3", "gemma 1", "zephyr 1"]);
    expect(answer.workers_online).toBe(3);
  });

  test("[JB10] a worker without a model counts as a worker; one that takes no LLM jobs does not, whatever it announces", async () => {
    const hub = new TestHub();
    await hub.worker();
    await hub.worker({ capabilities: ["TASK"], models: ["idle"] });
    await hub.worker({ provider_type: "MOBILE", models: ["pocket"] });
    expect(await list(hub)).toEqual({ object: "list", data: [], workers_online: 1 });
    // A hub that has just started expects workers to come back.
    hub.skip(TIMING.modelsReturn);
    for (const model of ["idle", "pocket"]) {
      const answer = await hub.stub.commit(commitInput({ jobType: "LLM_INFER", model, payload: '{"job_type":"LLM_INFER","prompt":"p"}' }));
      expect(answer).toMatchObject({ ok: false, reason: "no_such_model" });
    }
  });

  test("[JB10] has no model that no job can reach: its worker found no place for it", async () => {
    // Of the hub itself, which has no part of the router's.
    for (const [name, value] of Object.entries({ RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" })) {
      const before = Reflect.get(env, name);
      Reflect.set(env, name, value);
      onTestFinished(() => void (before === undefined ? Reflect.deleteProperty(env, name) : Reflect.set(env, name, before)));
    }
    const hub = new TestHub();
    const all = Array.from({ length: 100 }, (_, n) => `m${n}`);
    const headers = { "x-test-ip": "203.0.113.7" };
    const workers = [];
    for (let n = 0; n <= LIMITS.modelPlacesPerNetwork / 100; n++) {
      const worker = await hub.connect(newKey(), undefined, headers);
      await worker.register({ models: n === 0 ? all : [`first of ${n}`, ...all.slice(1)].map((name) => name.replaceAll(" ", "-")) });
      workers.push(worker);
    }
    const { data } = await list(hub);
    expect(data.find(({ id }) => id === "m99")?.workers).toBe(LIMITS.modelPlacesPerNetwork / 100);
    expect(data.map(({ id }) => id)).not.toContain("first-of-10");
  });

  test("[JB10] the names in a refusal are a second old at most, and are not put together again for each", async () => {
    const hub = new TestHub();
    await hub.worker({ models: ["here"] });
    hub.skip(TIMING.modelsReturn);
    const refused = async (): Promise<unknown> =>
      hub.stub.commit(commitInput({ jobType: "LLM_INFER", model: "gone", payload: '{"job_type":"LLM_INFER","prompt":"p"}' }));
    expect(await refused()).toMatchObject({ reason: "no_such_model", models: ["here"] });
    await hub.worker({ models: ["new"] });
    expect(await refused()).toMatchObject({ models: ["here"] });
    hub.skip(TUNING.refusedModelsFresh);
    expect(await refused()).toMatchObject({ models: ["here", "new"] });
  });

  test("[JB10] [WS3] a second register of the socket replaces the models", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ models: ["old", "same"] });
    await worker.register({ models: ["new", "same"] });
    expect(counts(await list(hub))).toEqual(["new 1", "same 1"]);
    await worker.register({ capabilities: ["TASK"], models: [] });
    expect(await list(hub)).toMatchObject({ data: [], workers_online: 0 });
  });

  test("[JB10] [WS7] [WS11] one that left, was replaced or drains is not counted", async () => {
    const hub = new TestHub();
    const key = newKey();
    const gone = await hub.worker({ models: ["m"] });
    await hub.worker({ key, models: ["m"] });
    const newer = await hub.worker({ key, signed: true, models: ["m"] });
    expect(await list(hub)).toMatchObject({ data: [{ id: "m", workers: 2 }], workers_online: 2 });
    gone.close();
    await hub.online(1);
    expect(await list(hub)).toMatchObject({ data: [{ id: "m", workers: 1 }], workers_online: 1 });
    const job = await hub.commit("fast", { job_type: "LLM_INFER" });
    expect((await newer.assigned()).job_id).toBe(job);
    newer.send({ type: "drain" });
    await newer.quiet();
    expect(await list(hub)).toEqual({ object: "list", data: [], workers_online: 0 });
  });

  test("[JB10] names that do not fit are left out", async () => {
    const hub = new TestHub();
    const bad = ["", "a b", "ü", "\u001b[31m", "<b>", "x".repeat(201), "x".repeat(100_000), "line\nbreak", "\u202e"];
    await hub.worker({ models: [...bad, "x".repeat(200), "org/Model.v1:8b@q4+x_-"] });
    expect(counts(await list(hub))).toEqual(["org/Model.v1:8b@q4+x_- 1", `${"x".repeat(200)} 1`]);
  });

  test("[JB10] at most 100 names and 8 KiB are kept for one worker", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ models: Array.from({ length: 100_000 }, (_, index) => `m${index}`) });
    expect((await list(hub)).data).toHaveLength(100);
    await worker.register({ models: Array.from({ length: 100 }, (_, index) => String(index).padEnd(200, "m")) });
    expect((await list(hub)).data).toHaveLength(Math.floor(LIMITS.modelBytesPerWorker / 200));
  });

  test("[JB10, WS3] the models and their contexts survive the loss of the hub's memory, as many as a worker may have", async () => {
    const hub = new TestHub();
    const models = Array.from({ length: 100 }, (_, index) => String(index).padStart(81, "m"));
    const worker = await hub.worker({ models, context: Object.fromEntries(models.map((model) => [model, Number.MAX_SAFE_INTEGER])) });
    const before = await list(hub);
    expect(before.data).toHaveLength(100);
    // A claim writes the attachment again.
    const job = await hub.commit("fast", { job_type: "LLM_INFER" });
    expect((await worker.assigned()).job_id).toBe(job);
    await hub.evict();
    expect(await list(hub)).toEqual(before);
    expect(await hub.inside((_, state) => state.getWebSockets().map((ws) => JSON.stringify(ws.deserializeAttachment()).length))).toEqual([
      expect.toSatisfy((bytes: number) => bytes > LIMITS.modelBytesPerWorker && bytes < 11 * 1024),
    ]);
  });

  test("[JB10] workers that name thousands of new models make the hub write a bounded number of rows; the newest names are written in the end", async () => {
    const hub = new TestHub();
    await hub.worker({ models: ["first"] });
    await hub.sql("CREATE TABLE written (name TEXT)");
    await hub.sql("CREATE TRIGGER counts AFTER INSERT ON models BEGIN INSERT INTO written VALUES (new.name); END");
    const began = Date.now();
    for (let n = 0; n < 30; n++) (await hub.worker({ models: Array.from({ length: 100 }, (_, index) => `new-${n}-${index}`) })).close();
    await hub.online(1);
    const seconds = (Date.now() - began) / 1_000;
    const [{ rows } = { rows: 0 }] = await hub.sql<{ rows: number }>("SELECT count(*) AS rows FROM written");
    // Each name comes and goes: 6,000 changes.
    expect(rows).toBeGreaterThan(TUNING.modelRows.burst / 2);
    expect(rows).toBeLessThan(TUNING.modelRows.burst + TUNING.modelRows.perSecond * (seconds + 1));
    hub.skip(120_000);
    await hub.worker({ models: ["last"] });
    const left = (await hub.sql<{ name: string }>("SELECT name FROM models WHERE left_at IS NOT NULL")).map(({ name }) => name);
    expect(left).toEqual(expect.arrayContaining(Array.from({ length: 100 }, (_, index) => `new-29-${index}`)));
    expect(left.length).toBeLessThanOrEqual(LIMITS.modelsRemembered);
  });

  test("[JB10] a hub that wakes up writes nothing about the models that are still on offer", async () => {
    const hub = new TestHub();
    const worker = await hub.worker({ models: ["one", "two"] });
    await hub.sql("CREATE TABLE written (name TEXT)");
    await hub.sql("CREATE TRIGGER counts AFTER INSERT ON models BEGIN INSERT INTO written VALUES (new.name); END");
    await hub.evict();
    await hub.online(1);
    expect(await hub.sql("SELECT name FROM written")).toEqual([]);
    worker.close();
    await hub.online(0);
    expect(await hub.sql("SELECT name FROM written ORDER BY name")).toEqual([{ name: "one" }, { name: "two" }]);
  });

  test("[JB10] a router answers from memory for a second, and asks again when its clock was put back", async () => {
    const hub = new TestHub();
    hub.skip(0);
    const workers = async () => (await hub.request("/v1/models")).body.workers_online;
    expect(await workers()).toBe(0);
    await hub.worker();
    hub.skip(999);
    expect(await workers()).toBe(0);
    hub.skip(1);
    expect(await workers()).toBe(1);
    await hub.worker();
    vi.setSystemTime(Date.now() - 60_000);
    expect(await workers()).toBe(2);
  });

  test("[JB10] [API1] a hub of an older version, which does not know the question, is 503 and is asked once", async () => {
    const errors = muteErrors();
    let calls = 0;
    const models = async () => {
      calls++;
      // This is workerd's message; the test pool has another one.
      throw Object.assign(new TypeError('The RPC receiver does not implement the method "models".'), { remote: true });
    };
    const response = await rest("/v1/models", {}, { HUB: { getByName: () => ({ models }) } });
    expect(await refusal(response, 503)).toBe("overloaded");
    expect([calls, response.headers.get("retry-after"), errors.events()]).toEqual([1, "2", ["overloaded"]]);
  });
});
