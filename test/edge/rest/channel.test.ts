import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { app } from "../../../src/coordinator/app.ts";
import { LONGEST_POLL, openChannel } from "../../../src/coordinator/http/channel.ts";
import { CHANNEL_KEY, type ChannelRequest, OF_ANY_SIZE } from "../../../src/coordinator/http/channel-messages.ts";
import { WorkerHub } from "../../../src/coordinator/main.ts";
import { findJobs } from "../../../src/coordinator/store/jobs.ts";
import { MOST_TOGETHER, SharedLookups } from "../../../src/coordinator/store/shared-lookups.ts";
import { dial, KEY, ORIGIN, TestChannel } from "../support/channel.ts";
import { TestHub, until, withSettings } from "../support/worker-hub.ts";

withSettings({ [CHANNEL_KEY]: KEY });

afterEach(() => vi.restoreAllMocks());

/** Returns the id of a completed job that only D1 has. */
async function jobOfD1(hub: TestHub): Promise<string> {
  const worker = await hub.plainWorker();
  const id = await hub.commit();
  await worker.complete(await worker.assigned());
  await until(async () => (await hub.sql("SELECT id FROM jobs")).length === 0, "in D1");
  await hub.evict();
  return id;
}

const HEADERS: [string, string][] = [["host", "hub.test"]];
const COMMIT = JSON.stringify({ job_type: "TASK", user_id: "someone", payload: { task_type: "classify", input: "Good." } });

test("[API1, API6, RC1] a channel answers commits and polls as the router does, several at once, and one that waits when its job has ended", async () => {
  const hub = new TestHub();
  const worker = await hub.plainWorker();
  const channel = await TestChannel.open(hub);
  channel.send(
    [1, "POST", `${ORIGIN}/v1/jobs/commit/cheap`, [...HEADERS, ["prefer", "wait=20"]], COMMIT],
    [2, "GET", `${ORIGIN}/v1/jobs/${crypto.randomUUID()}`, HEADERS, null],
  );
  const absent = (await channel.answers(1)).get(2);
  expect(absent).toMatchObject({ status: 404, body: '{"error":"Job not found"}' });
  expect(absent?.headers.get("access-control-allow-origin")).toBe("*");
  expect(channel.messages.flat().filter(([id]) => id !== true)).toHaveLength(1);
  const job = await worker.assigned();
  await worker.complete(job);
  const done = (await channel.answers(2)).get(1);
  expect(done).toMatchObject({ status: 201 });
  expect(done?.headers.get("preference-applied")).toBe("wait=20");
  expect(done?.headers.get("x-cancel-token")).toMatch(/./);
  expect(JSON.parse(done?.body ?? "")).toMatchObject({ job_id: job.job_id, job: { status: "completed", receipt: { job_id: job.job_id } } });
  channel.send(
    [3, "GET", `${ORIGIN}/v1/jobs/${job.job_id}`, HEADERS, null],
    [4, "POST", `${ORIGIN}/v1/jobs/commit/cheap`, HEADERS, "{"],
    [5, "DELETE", `${ORIGIN}/v1/health`, HEADERS, null],
  );
  const last = await channel.answers(5);
  expect([3, 4, 5].map((id) => last.get(id)?.status)).toEqual([200, 400, 405]);
  expect(JSON.parse(last.get(3)?.body ?? "")).toEqual(JSON.parse(done?.body ?? "").job);
  // Those that need nothing of D1 go together.
  expect(new Set(channel.messages.at(-1)?.map(([id]) => id))).toEqual(new Set([3, 4, 5, true]));
  // The hub asked itself: the only call from outside was for the socket of the worker.
  expect(hub.rpcs).toEqual(["fetch"]);
});

test("the commits of a message are stored together, and their answers go as one message, which says that it is done", async () => {
  const hub = new TestHub();
  const channel = await TestChannel.open(hub);
  const written = await hub.inside((_, { storage }) => vi.spyOn(storage, "transactionSync"));
  const ids = [1, 2, 3, 4, 5, 6, 7, 8];
  channel.send(...ids.map((id): ChannelRequest => [id, "POST", `${ORIGIN}/v1/jobs/commit/cheap`, HEADERS, COMMIT]));
  await channel.answers(ids.length);
  expect(channel.messages.map((parts) => parts.map(([id, status]) => [id, status]))).toEqual([[...ids.map((id) => [id, 201]), [true, undefined]]]);
  expect(written).toHaveBeenCalledTimes(1);
});

test("a message that cannot be read is done too, so that the next one comes", async () => {
  const channel = await TestChannel.open(new TestHub());
  channel.write("[");
  await until(async () => channel.messages.length === 1, "an answer");
  expect(channel.messages).toEqual([[[true]]]);
  channel.send([1, "GET", `${ORIGIN}/v1/jobs/${crypto.randomUUID()}`, HEADERS, null]);
  expect((await channel.answers(1)).get(1)?.status).toBe(404);
});

test("[API6] a poll with a large answer is left to the front, a commit that waited for it is not", async () => {
  const hub = new TestHub();
  const worker = await hub.plainWorker();
  const channel = await TestChannel.open(hub);
  channel.send([1, "POST", `${ORIGIN}/v1/jobs/commit/cheap`, [...HEADERS, ["prefer", "wait=20"]], COMMIT]);
  const job = await worker.assigned();
  await worker.complete(job, { summary: "x".repeat(LONGEST_POLL), word_count: 1 });
  const waited = (await channel.answers(1)).get(1);
  expect(waited?.status).toBe(201);
  expect(waited?.body?.length).toBeGreaterThan(LONGEST_POLL);
  channel.send([2, "GET", `${ORIGIN}/v1/jobs/${job.job_id}`, HEADERS, null]);
  expect((await channel.answers(2)).get(2)).toMatchObject({ status: 0, body: "" });
  channel.send([3, "GET", `${ORIGIN}/v1/jobs/${job.job_id}`, HEADERS, OF_ANY_SIZE]);
  const whole = (await channel.answers(3)).get(3);
  expect(JSON.parse(whole?.body ?? "")).toEqual(JSON.parse(waited?.body ?? "").job);
});

test("a request whose answer fails gets 500, and a socket that it asked for is given up, as one that is refused", async () => {
  vi.spyOn(console, "error").mockImplementation(() => {});
  const ended: number[] = [];
  const near = { connect: () => null, receive: () => {}, noteQuiet: () => {}, end: (code: number) => void ended.push(code) };
  const respond = ({ url }: Request) => (url.endsWith("/busy") ? new Response("busy", { status: 429 }) : Promise.reject(new Error("test")));
  const { webSocket } = openChannel({ respond, gather: async (read) => read(), dial: () => near });
  if (webSocket === null) throw new Error("no socket");
  const messages: unknown[] = [];
  webSocket.accept();
  webSocket.addEventListener("message", ({ data }) => void messages.push(...JSON.parse(String(data))));
  const upgrade: [string, string][] = [...HEADERS, ["upgrade", "websocket"]];
  const parts: ChannelRequest[] = [
    [1, "GET", `${ORIGIN}/broken`, HEADERS, null],
    [2, "GET", `${ORIGIN}/broken`, upgrade, null],
    [3, "GET", `${ORIGIN}/busy`, upgrade, null],
  ];
  webSocket.send(JSON.stringify(parts));
  await until(async () => messages.length > parts.length, "all answers");
  const failed = [500, [["content-type", "application/json"]], '{"error":"internal_error"}'];
  expect(messages).toEqual(expect.arrayContaining([[1, ...failed], [2, ...failed], [3, 429, expect.anything(), "busy"], [true]]));
  expect(ended).toEqual([1006, 1006]);
  webSocket.close();
  await until(async () => webSocket.readyState === WebSocket.CLOSED, "the end of the channel");
  expect(ended).toHaveLength(2);
});

describe("polls of jobs that the hub does not have", () => {
  const poll = (id: number, job: string): ChannelRequest => [id, "GET", `${ORIGIN}/v1/jobs/${job}`, HEADERS, null];
  const absent = (count: number): ChannelRequest[] => Array.from({ length: count }, (_, n) => poll(n + 1, crypto.randomUUID()));
  const reads = () => vi.spyOn(env.DB, "prepare");

  test("[API6] share the queries of D1, and each gets its own answer", async () => {
    const hub = new TestHub();
    const id = await jobOfD1(hub);
    const channel = await TestChannel.open(hub);
    const queries = reads();
    channel.send(...absent(40), poll(41, id), poll(42, id));
    const answers = await channel.answers(42);
    expect([...answers].filter(([, { status }]) => status !== 404).map(([of, { status, body }]) => [of, status, JSON.parse(body)])).toEqual(
      [41, 42].map((of) => [of, 200, expect.objectContaining({ id, status: "completed" })]),
    );
    expect(queries).toHaveBeenCalledTimes(1 + Math.ceil(40 / MOST_TOGETHER));
  });

  test("[LM2] leave the runtime time for its sockets between two queries", async () => {
    const log: string[] = [];
    const raw = () => (log.push("query"), Promise.resolve([]));
    reads().mockImplementation(() => ({ bind: () => ({ raw }) }) as unknown as D1PreparedStatement);
    const lookups = new SharedLookups(async (ids) => new Map((await findJobs(env.DB, ids)).map((job) => [job.id, job])));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tick = (): void => {
      if (log.at(-1) !== "timer") log.push("timer");
      timer = setTimeout(tick, 0);
    };
    tick();
    expect(await Promise.all(Array.from({ length: 1 + 2 * MOST_TOGETHER }, () => lookups.find(crypto.randomUUID())))).toEqual(
      Array.from({ length: 1 + 2 * MOST_TOGETHER }, () => null),
    );
    clearTimeout(timer);
    expect(log.slice(0, 6)).toEqual(["timer", "query", "timer", "query", "timer", "query"]);
  });

  test("[API1] are 503 while D1 does not answer, without a query for each", async () => {
    const channel = await TestChannel.open(new TestHub());
    const queries = reads().mockImplementation(() => {
      throw new Error("down");
    });
    channel.send(...absent(20));
    expect([...(await channel.answers(20)).values()].map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 503));
    expect(queries.mock.calls.length).toBeLessThan(5);
    queries.mockRestore();
    channel.send(poll(21, crypto.randomUUID()));
    expect((await channel.answers(21)).get(21)?.status).toBe(404);
  });
});

describe("requests that the front passes on, for jobs that the hub does not have,", () => {
  /** The router of these is not in the hub. */
  const ask = (hub: TestHub, path: string) => hub.fetch(new Request(`${ORIGIN}/v1/jobs/${path}`));
  const paths = (count: number) => Array.from({ length: count }, (_, n) => `${crypto.randomUUID()}${n % 2 === 0 ? "" : "/events"}`);
  /** Holds the first query of a table until the hub was asked for `count` rows of it. Returns what counts all queries of the table. */
  const holdUntilAsked = (lookUp: "lookUpJob" | "lookUpToken", table: string, count: number) => {
    const asked = vi.spyOn(WorkerHub.prototype, lookUp);
    const prepare = env.DB.prepare.bind(env.DB);
    let isFirst = true;
    const isOf = (sql: string): boolean => sql.includes(`from "${table}"`);
    const all = vi.spyOn(env.DB, "prepare").mockImplementation((sql) => {
      const statement = prepare(sql);
      if (!isFirst || !isOf(sql)) return statement;
      isFirst = false;
      const bind = statement.bind.bind(statement);
      vi.spyOn(statement, "bind").mockImplementation((...values) => {
        const bound = bind(...values);
        const raw = bound.raw.bind(bound);
        vi.spyOn(bound, "raw").mockImplementation(async () => {
          await until(async () => asked.mock.calls.length === count, `${count} rows asked for`);
          return raw();
        });
        return bound;
      });
      return statement;
    });
    return () => all.mock.calls.filter(([sql]) => isOf(sql)).length;
  };

  test("[API6, LM2] share the queries of D1 too, and each gets its own answer", async () => {
    const hub = new TestHub();
    const id = await jobOfD1(hub);
    const queries = holdUntilAsked("lookUpJob", "jobs", 40);
    const answers = await Promise.all([...paths(38), id, `${id}/events`].map((path) => ask(hub, path)));
    expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 38 }, () => 404), 200, 200]);
    expect(await answers[38]?.json()).toMatchObject({ id, status: "completed", receipt: { job_id: id } });
    expect(await answers[39]?.text()).toMatch(new RegExp(`event: done\\ndata: .*"id":"${id}"`));
    // The first has at least one of them.
    expect(queries()).toBeLessThanOrEqual(1 + Math.ceil(39 / MOST_TOGETHER));
  });

  test("[JB14, LM2] lists of the jobs of users share queries of D1 too, and a token counts for its own user only", async () => {
    const hub = new TestHub();
    const [one, two] = [crypto.randomUUID(), crypto.randomUUID()];
    for (const user of [one, two]) {
      const init = { method: "POST", headers: { "x-user-token": `token-of-${user}` }, body: JSON.stringify({ user_id: user }) };
      expect((await hub.request("/v1/trust/create", init)).status).toBe(201);
    }
    const id = await hub.commit("cheap", { user_id: one });
    const list = (user: string, token = `token-of-${user}`) => hub.request(`/v1/jobs?user_id=${user}`, { headers: { "x-user-token": token } });
    const queries = holdUntilAsked("lookUpToken", "users", 40);
    const answers = await Promise.all([...Array.from({ length: 37 }, () => list(crypto.randomUUID())), list(one, `token-of-${two}`), list(two), list(one)]);
    expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 38 }, () => 401), 200, 200]);
    expect(answers.slice(38).map(({ body }) => body)).toEqual([
      { jobs: [], next: null },
      { jobs: [expect.objectContaining({ id })], next: null },
    ]);
    // The first has at least one of them.
    expect(queries()).toBeLessThanOrEqual(1 + Math.ceil(39 / MOST_TOGETHER));
  });

  test("[API1] are 503 while D1 does not answer", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const hub = new TestHub();
    await hub.workersOnline();
    const queries = vi.spyOn(env.DB, "prepare").mockImplementation(() => {
      throw new Error("down");
    });
    const answers = await Promise.all(paths(4).map((path) => ask(hub, path)));
    expect(answers.map(({ status, headers }) => [status, headers.get("retry-after")])).toEqual(Array.from({ length: 4 }, () => [503, expect.any(String)]));
    queries.mockRestore();
    expect((await ask(hub, crypto.randomUUID())).status).toBe(404);
  });

  test("[API6] read D1 themselves if the hub does not answer", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const hub = new TestHub();
    const id = await jobOfD1(hub);
    const job = vi.fn<() => Promise<string>>(() => Promise.reject(Object.assign(new Error("full"), { overloaded: true })));
    const noHub = { ...env, HUB: { getByName: () => ({ job }) } };
    const response = await app.fetch(new Request(`${ORIGIN}/v1/jobs/${id}`), noHub, createExecutionContext());
    expect(await response.json()).toMatchObject({ id, status: "completed" });
    expect(job).toHaveBeenCalledTimes(1);
  });
});

test("without the key of its process the hub opens no channel: the socket is that of a worker", async () => {
  const hub = new TestHub();
  for (const key of ["", "0123456789abcdeg", `${KEY}0`]) {
    const socket = await dial(hub, key);
    const messages: string[] = [];
    socket.addEventListener("message", ({ data }) => void messages.push(String(data)));
    await until(async () => messages.length > 0, "a challenge");
    expect(JSON.parse(messages[0] ?? "")).toMatchObject({ type: "challenge" });
  }
});
