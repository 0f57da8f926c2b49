// Cancelling a job [JB13].
import { beforeAll, beforeEach, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { within } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const CANCELLED = { status: "failed", result: { error: "cancelled" }, receipt: null };

beforeAll(async () => {
  evm = await start("evm");
});

beforeEach(async () => {
  await within(
    10_000,
    async () => ((await evm.api.get("/v1/health")).body.workers_online === 0 ? true : undefined),
    () => "the last test's workers to leave",
  );
});

async function commit(body: object, headers?: Record<string, string>): Promise<{ id: string; token: string }> {
  const answer = await evm.api.tryCommit(body, "cheap", headers);
  expect(answer.status).toBe(201);
  return { id: String(answer.body.job_id), token: answer.headers.get("x-cancel-token") ?? "" };
}

const cancel = (id: string, token?: string) => evm.api.ask("DELETE", `/v1/jobs/${id}`, undefined, token === undefined ? {} : { "x-cancel-token": token });

test("[JB13] a waiting job fails with cancelled and is never assigned; a second cancel answers the same job", async () => {
  const { id, token } = await commit(task(newUser()));
  expect(token).toMatch(/^[0-9a-f]{32}$/);
  const answer = await cancel(id, token);
  expect(answer).toMatchObject({ status: 200, body: { id, ...CANCELLED } });
  expect((await evm.api.get(`/v1/jobs/${id}`)).text).toBe(answer.text);
  expect((await cancel(id, token)).text).toBe(answer.text);
  const worker = await fullWorker(evm.socketUrl);
  const next = await evm.api.commit(task(newUser()));
  await worker.assigned(next);
  expect(worker.had(id)).toBe(false);
});

test("[JB13] the worker of a running job is told to stop, gets the next job at once, and its late result changes nothing", async () => {
  const worker = await fullWorker(evm.socketUrl);
  const { id, token } = await commit(llm(newUser()));
  worker.ack(await worker.assigned(id));
  const next = await evm.api.commit(task(newUser()));
  expect((await cancel(id, token)).body).toMatchObject(CANCELLED);
  expect(await worker.frame("job_cancel")).toMatchObject({ job_id: id, attempt: 1, reason: "cancelled" });
  await worker.assigned(next);
  expect(await worker.complete(id, "too late")).toMatchObject({ status: "rejected", error: "already_terminal" });
  expect(await evm.api.job(id)).toMatchObject(CANCELLED);
});

test("[JB13] a job that has ended stays as it is", async () => {
  const worker = await fullWorker(evm.socketUrl);
  const { id, token } = await commit(task(newUser()));
  await worker.assigned(id);
  await worker.complete(id, OUTPUT);
  expect(await cancel(id, token)).toMatchObject({ status: 200, body: { status: "completed", result: OUTPUT } });
});

test("[JB13] no token, a wrong one, another job's, and an unknown job are 404, and the job goes on", async () => {
  const { id, token } = await commit(task(newUser()));
  const other = await commit(task(newUser()));
  const unknown = "11111111-2222-4333-8444-555555555555";
  const wrong = `${token.slice(0, 31)}${token.endsWith("0") ? "1" : "0"}`;
  for (const [at, given] of [[id], [id, wrong], [id, other.token], [id, token.slice(0, 16)], [id, "%"], [unknown, token], ["x", token]] as const) {
    expect(await cancel(at, given)).toMatchObject({ status: 404, body: { error: "Job not found" } });
  }
  expect((await evm.api.job(id)).status).toBe("pending");
});

test("[JB13, API5] a commit that comes again gets the same token, after a restart too", async () => {
  const [body, headers] = [task(newUser()), { "idempotency-key": "k" }];
  const first = await commit(body, headers);
  expect(await commit(body, headers)).toEqual(first);
  await evm.kill();
  evm = await start("evm", undefined, evm);
  expect(await commit(body, headers)).toEqual(first);
  expect((await cancel(first.id, first.token)).body).toMatchObject(CANCELLED);
});
