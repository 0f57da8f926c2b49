// The list of a user's jobs [JB14].
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { within } from "../support/wait.ts";
import { fullWorker } from "../support/worker.ts";

const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const TOKEN = { "x-user-token": "a secret of the user" };
let evm: Subject;

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

/** A user with a token. */
async function owner(): Promise<string> {
  const user = newUser();
  expect((await evm.api.post("/v1/trust/create", { user_id: user }, TOKEN)).status).toBe(201);
  return user;
}

const list = (user: string, query: Record<string, string> = {}, headers: Record<string, string> = TOKEN) =>
  evm.api.get(`/v1/jobs?${new URLSearchParams({ user_id: user, ...query })}`, headers);
const idsOf = ({ body }: { body: Record<string, unknown> }): unknown[] => (Array.isArray(body.jobs) ? body.jobs.map(({ id }) => id) : []);

/** Commits a job a moment after the last one: of jobs of one millisecond the larger id is the newer. */
async function later(body: object): Promise<{ id: string; cancel: () => Promise<unknown> }> {
  const last = Date.now();
  await within(
    1_000,
    () => (Date.now() > last ? true : undefined),
    () => "the next millisecond",
  );
  const answer = await evm.api.tryCommit(body);
  expect(answer.status).toBe(201);
  const [id, token] = [String(answer.body.job_id), answer.headers.get("x-cancel-token") ?? ""];
  return { id, cancel: () => evm.api.ask("DELETE", `/v1/jobs/${id}`, undefined, { "x-cancel-token": token }) };
}

describe("GET /v1/jobs", () => {
  test("[JB14] lists the jobs of the user, newest first, with id, type, status and times only: waiting, running, completed, failed", async () => {
    const user = await owner();
    const worker = await fullWorker(evm.socketUrl);
    const done = await evm.api.commit(task(user));
    await worker.assigned(done);
    await worker.complete(done, OUTPUT);
    const { id: running } = await later(llm(user));
    worker.ack(await worker.assigned(running));
    const { id: waiting } = await later(llm(user));
    await evm.api.commit(task(newUser()));
    // The end of the first job may be in the hub or in D1 now.
    const { status, body, headers } = await within(
      5_000,
      async () => list(user).then((answer) => (JSON.stringify(answer.body).includes("running") ? answer : undefined)),
      () => "the running job in the list",
    );
    const { created_at, completed_at } = await evm.api.job(done);
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        jobs: [
          { id: waiting, job_type: "LLM_INFER", status: "pending", created_at: expect.any(String), completed_at: null },
          { id: running, job_type: "LLM_INFER", status: "running", created_at: expect.any(String), completed_at: null },
          { id: done, job_type: "TASK", status: "completed", created_at, completed_at },
        ],
        next: null,
      },
    });
    expect(headers.get("cache-control")).toBe("no-store");
  });

  test("[JB14] without the token, with another one, and for a user without one it is 401", async () => {
    const user = await owner();
    await evm.api.commit(task(user));
    const unbound = newUser();
    expect((await evm.api.post("/v1/trust/create", { user_id: unbound })).status).toBe(201);
    for (const answer of [
      await list(user, {}, {}),
      await list(user, {}, { "x-user-token": "another" }),
      await list(unbound, {}, {}),
      await list(unbound),
      await list(newUser()),
    ]) {
      expect(answer).toMatchObject({ status: 401, body: { error: "user_token_required" } });
    }
  });

  test.each<[string, Record<string, string>]>([
    ["limit", { limit: "0" }],
    ["limit", { limit: "101" }],
    ["limit", { limit: "1.5" }],
    ["limit", { limit: "" }],
    ["before", { before: "" }],
    ["before", { before: "yesterday" }],
    ["before", { before: "2026-01-01T00:00:00.000Z,x" }],
    ["before", { before: "2026-01-01T00:00:00.000Z,7f9c24e8-3b12-4fef-91d0-1c3a5b7d9e11," }],
    ["user_id", { user_id: "" }],
  ])("[JB14] a wrong %s is 400, before the token is looked at (%#)", async (name, query) => {
    expect(await list(newUser(), query, {})).toMatchObject({ status: 400, body: { error: expect.stringContaining(name) } });
  });

  test("[JB14] no user_id, or a token that no header can have, is 400; other methods are 405", async () => {
    expect(await evm.api.get("/v1/jobs", TOKEN)).toMatchObject({ status: 400, body: { error: expect.stringContaining("user_id") } });
    expect((await list(newUser(), {}, { "x-user-token": "a\u00e9" })).status).toBe(400);
    expect((await evm.api.ask("DELETE", "/v1/jobs")).status).toBe(405);
  });

  test("[JB14] comes in pages: next leads to the older jobs, also after a restart; a time selects too", async () => {
    const user = await owner();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) {
      const { id, cancel } = await later(task(user));
      ids.unshift(id);
      // Those that have ended leave the hub, the others stay.
      if (n < 3) await cancel();
    }
    const first = await list(user, { limit: "2" });
    expect(idsOf(first)).toEqual(ids.slice(0, 2));
    await evm.kill();
    evm = await start("evm", undefined, evm);
    const second = await list(user, { limit: "2", before: String(first.body.next) });
    expect(idsOf(second)).toEqual(ids.slice(2, 4));
    const third = await list(user, { limit: "2", before: String(second.body.next) });
    expect({ ids: idsOf(third), next: third.body.next }).toEqual({ ids: ids.slice(4), next: null });
    const { created_at } = await evm.api.job(ids[2] ?? "");
    expect(idsOf(await list(user, { before: created_at }))).toEqual(ids.slice(3));
  });
});
