import { describe, expect, it } from "vitest";
import type { JobList, LocalJob } from "../../../src/sdk/index.ts";
import { readJobList } from "../../../src/sdk/local-jobs.ts";
import { rejection, reply } from "./support/faults.ts";
import { RouterServer } from "./support/router-server.ts";

const CLASSIFY = { job_type: "TASK", task_type: "classify", input: "good" } as const;
const idsOf = ({ jobs }: { jobs: { id: string }[] }): string[] => jobs.map(({ id }) => id);
it("the list in memory keeps the last 1,000 jobs, so that a client may live for ever", async () => {
  const list = readJobList(undefined);
  const job = { jobType: "TASK", createdAt: "2026-01-01T00:00:00.000Z", cancelToken: null, baseUrl: "http://a.example", userId: "u" } as const;
  for (let n = 0; n < 1_002; n++) await list.add({ ...job, jobId: String(n) });
  const kept = await list.all();
  expect([kept.length, kept[0]?.jobId, kept.at(-1)?.jobId]).toEqual([1_000, "2", "1001"]);
});

describe("jobs", () => {
  it("[JB14] of a user with a token come from the router, with the token in a header and never in the path", async () => {
    const router = await RouterServer.start();
    const client = router.client({ userToken: "secret" });
    await client.trust.create();
    const { jobId } = await client.submit(CLASSIFY);
    expect(await client.jobs({ limit: 5, before: "2026-01-01T00:00:00.000Z" })).toMatchObject({
      ...{ source: "router", next: null },
      jobs: [{ id: jobId, job_type: "TASK", status: "pending" }],
    });
    const [asked] = router.received.filter(({ path }) => path === "/v1/jobs");
    expect(asked?.headers["x-user-token"]).toBe("secret");
    expect(Object.fromEntries(asked?.query ?? [])).toEqual({ user_id: client.userId, limit: "5", before: "2026-01-01T00:00:00.000Z" });
    const other = router.client({ userId: client.userId, userToken: "wrong" });
    expect(await rejection(other.jobs())).toMatchObject({ code: "bad_request", reason: "user_token_required" });
  });

  it("[JB14] of a user without a token are those that the client knows, newest first and in pages, with their present state", async () => {
    const router = await RouterServer.start({ statuses: [] });
    const kept: LocalJob[] = [];
    const jobList: JobList = { add: (job) => void kept.push(job), all: () => kept };
    const client = router.client({ jobList, userId: "u" });
    for (let n = 0; n < 5; n++) await client.submit(CLASSIFY);
    await router.client({ jobList, userId: "somebody else" }).submit(CLASSIFY);
    kept.forEach((job, n) => (job.createdAt = new Date(Date.UTC(2026, 0, 1, 0, 0, n < 2 ? 0 : n)).toISOString()));
    kept.push({ ...kept[0]!, baseUrl: "http://another.example", jobId: "7f9c24e8-3b12-4fef-91d0-1c3a5b7d9e11" });
    const own = kept.slice(0, 5).toSorted((a, b) => (a.createdAt + a.jobId < b.createdAt + b.jobId ? 1 : -1));
    const first = await client.jobs({ limit: 3 });
    expect(first).toMatchObject({ source: "local", jobs: own.slice(0, 3).map(({ jobId }) => ({ id: jobId, job_type: "TASK", status: "completed" })) });
    expect(Object.keys(first.jobs[0] ?? {}).toSorted()).toEqual(["completed_at", "created_at", "id", "job_type", "status"]);
    const second = await client.jobs({ limit: 3, before: first.next ?? "" });
    expect({ ids: idsOf(second), next: second.next }).toEqual({ ids: own.slice(3).map(({ jobId }) => jobId), next: null });
    expect(idsOf(await client.jobs({ before: own[2]?.createdAt ?? "" }))).toEqual(own.slice(3).map(({ jobId }) => jobId));
    expect(idsOf(await router.client().jobs())).toEqual([]);
  });

  it("[JB14, API5] a list that only appends has a job twice if it was run again with its key: it is listed once, at its newest place", async () => {
    const router = await RouterServer.start({ statuses: [] });
    const kept: LocalJob[] = [];
    const client = router.client({ jobList: { add: (job) => void kept.push(job), all: () => kept } });
    const again = await client.submit(CLASSIFY, { idempotencyKey: "k" });
    const other = await client.submit(CLASSIFY);
    await client.submit(CLASSIFY, { idempotencyKey: "k" });
    expect(kept.map(({ jobId }) => jobId)).toEqual([again.jobId, other.jobId, again.jobId]);
    kept.forEach((job, n) => (job.createdAt = new Date(Date.UTC(2026, 0, 1, 0, 0, n)).toISOString()));
    expect(idsOf(await client.jobs())).toEqual([again.jobId, other.jobId]);
    const first = await client.jobs({ limit: 1 });
    expect(idsOf(first)).toEqual([again.jobId]);
    expect(await client.jobs({ limit: 1, before: first.next ?? "" })).toMatchObject({ jobs: [{ id: other.jobId }], next: null });
  });

  it.each(["2026-01-01T00:00:01Z", "2026-01-01T00:00:01.0Z"])("[JB14] before %s is before 1.000 s, for the local list and the router", async (before) => {
    const router = await RouterServer.start({ statuses: [] });
    const kept: LocalJob[] = [];
    const client = router.client({ jobList: { add: (job) => void kept.push(job), all: () => kept } });
    for (let n = 0; n < 3; n++) await client.submit(CLASSIFY);
    kept.forEach((job, n) => (job.createdAt = new Date(Date.UTC(2026, 0, 1, 0, 0, 0, 500 + n * 500)).toISOString()));
    expect(idsOf(await client.jobs({ before }))).toEqual([kept[0]?.jobId]);
    expect(idsOf(await client.jobs({ before: `${before},ffffffff-ffff-4fff-bfff-ffffffffffff` }))).toEqual([kept[1]?.jobId, kept[0]?.jobId]);
    const bound = router.client({ userToken: "secret" });
    await bound.trust.create();
    await bound.jobs({ before });
    expect(router.received.find(({ path }) => path === "/v1/jobs")?.query.get("before")).toBe("2026-01-01T00:00:01.000Z");
  });

  it("[JB14] a list that several routers share: no router is asked about the jobs of another one, and they take no place in a page", async () => {
    const [one, two] = [await RouterServer.start({ statuses: [] }), await RouterServer.start({ statuses: [] })];
    const kept: LocalJob[] = [];
    const jobList: JobList = { add: (job) => void kept.push(job), all: () => kept };
    const own = await one.client({ jobList, userId: "u" }).submit(CLASSIFY);
    for (let n = 0; n < 2; n++) await two.client({ jobList, userId: "u" }).submit(CLASSIFY);
    kept.forEach((job, n) => (job.createdAt = new Date(Date.UTC(2026, 0, 1, 0, 0, n)).toISOString()));
    expect(await one.client({ jobList, userId: "u" }).jobs({ limit: 1 })).toMatchObject({ jobs: [{ id: own.jobId }], next: null });
    expect(one.received.filter(({ path }) => path.startsWith("/v1/jobs/") && !path.includes("commit")).map(({ path }) => path)).toEqual([
      `/v1/jobs/${own.jobId}`,
    ]);
    // Nor is a token sent to a router that did not give it.
    expect(await rejection(one.client({ jobList, userId: "u" }).cancel(kept[1]?.jobId ?? ""))).toMatchObject({
      name: "InvalidOptionError",
      option: "cancelToken",
    });
  });

  it("[JB14] leaves out what the router has deleted, and fails with the router", async () => {
    const router = await RouterServer.start();
    const client = router.client({ maxRetries: 0 });
    const { jobId } = await client.submit(CLASSIFY);
    await client.submit(CLASSIFY);
    router.jobs.delete(jobId);
    expect((await client.jobs()).jobs).toHaveLength(1);
    router.fail("GET /v1/jobs", reply(503, { error: "overloaded" }));
    expect(await rejection(client.jobs())).toMatchObject({ code: "unavailable" });
  });

  it.each<[string, object]>([
    ["limit", { limit: 0 }],
    ["limit", { limit: 101 }],
    ["before", { before: "" }],
    ["before", { before: 5 }],
    ["before", { before: "yesterday" }],
    ["before", { before: "2026-10-01" }],
    ["before", { before: "2026-10-01T25:00:00.000Z" }],
    ["before", { before: "2026-10-01T12:00:00.000Z,1" }],
  ])("names %s in %j and sends nothing", async (option, options) => {
    const router = await RouterServer.start();
    expect(await rejection(router.client().jobs(options))).toMatchObject({ name: "InvalidOptionError", option });
    expect(router.received).toEqual([]);
  });
});
