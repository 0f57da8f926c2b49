// Models that nobody offers [JB10]: the first minute of a coordinator is over before they are refused. Meanwhile bodies stop before their end [LM1].
import { beforeAll, expect, test } from "vitest";
import { TIMING } from "../../../src/protocol/times.ts";
import { newUser } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { RawHttp } from "../support/raw-http.ts";
import { pass, stopwatch, within } from "../support/wait.ts";
import { fullWorker, keepSocketsOpen } from "../support/worker.ts";

keepSocketsOpen();

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

test.concurrent(
  "[JB10] a model of nobody is no_such_model, with the models that are online, PRIVATE or not; one that has just left is waited for",
  { timeout: 90_000 },
  async () => {
    const commit = (model: string, changes: object = {}) =>
      evm.api.tryCommit({ job_type: "LLM_INFER", user_id: newUser(), payload: { prompt: "Hi", model }, ...changes });
    expect((await commit("cat")).status).toBe(201);
    await pass(61_000);
    const ant = await fullWorker(evm.socketUrl, { models: ["Ant", "bee"] });
    const refusal = { status: 404, body: { error: "no_such_model", models: ["Ant", "bee"] } };
    expect(await commit("cat")).toMatchObject(refusal);
    expect(await commit("cat", { privacy_class: "PRIVATE" })).toMatchObject(refusal);
    expect(await commit("bee", { privacy_class: "PRIVATE" })).toMatchObject({ status: 422 });
    ant.close();
    expect((await commit("ANT")).status).toBe(201);
  },
);

test.concurrent(
  "[LM1] a body that stops before its end is refused after 30 s, announced or in chunks, and its connection ends",
  { timeout: 90_000 },
  async () => {
    const elapsed = stopwatch();
    const raws = ["Content-Length: 500000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n7d000\r\n"].map((rest) => {
      const raw = new RawHttp(evm.port);
      raw.write(`POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: ${evm.host}\r\n${rest}${"b".repeat(400_000)}`);
      return raw;
    });
    for (const raw of raws) {
      await within(
        TIMING.body + 20_000,
        () => (raw.all.includes("Body must be complete within 30 s") && raw.ended ? true : undefined),
        () => `an answer and the end; got ${raw.all.slice(0, 500)}, ended ${raw.ended}`,
      );
      expect(raw.all).toMatch(/^HTTP\/1.1 400/);
    }
    expect(elapsed()).toBeGreaterThanOrEqual(TIMING.body - 1_000);
  },
);
