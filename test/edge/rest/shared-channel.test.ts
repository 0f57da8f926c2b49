import { expect, onTestFinished, test } from "vitest";
import { LONGEST_POLL } from "../../../src/coordinator/http/shared-channel.ts";
import { CHANNEL_KEY, CHANNEL_KEY_HEADER, type SharedAnswer, type SharedRequest } from "../../../src/coordinator/http/shared-messages.ts";
import { TestHub, until, withSettings } from "../support/worker-hub.ts";

const KEY = "0123456789abcdef";
withSettings({ [CHANNEL_KEY]: KEY });

const URL = "http://hub.test";
const HEADERS: [string, string][] = [["host", "hub.test"]];
const COMMIT = JSON.stringify({ job_type: "TASK", user_id: "someone", payload: { task_type: "classify", input: "Good." } });

/** Opens a socket with this key at the hub. */
async function dial(hub: TestHub, key: string): Promise<WebSocket> {
  const { webSocket } = await hub.stub.fetch(URL, { headers: { Upgrade: "websocket", [CHANNEL_KEY_HEADER]: key } });
  if (webSocket === null) throw new Error("no socket");
  webSocket.accept();
  // A hub with such a socket is not evicted.
  onTestFinished(() => webSocket.close());
  return webSocket;
}

/** A channel, and what has come on it. */
async function open(hub: TestHub) {
  const socket = await dial(hub, KEY);
  const messages: SharedAnswer[][] = [];
  socket.addEventListener("message", ({ data }) => void messages.push(JSON.parse(String(data))));
  const answers = () => new Map(messages.flat().map(([id, status, headers, body]) => [id, { status, headers: new Headers(headers), body }]));
  return {
    messages,
    ask: (...requests: SharedRequest[]) => socket.send(JSON.stringify(requests)),
    /** The answers by their ids, as soon as there are so many. */
    answers: async (count: number) => {
      await until(async () => answers().size >= count, `${count} answers`);
      return answers();
    },
  };
}

test("[API1, API6, RC1] a channel answers commits and polls as the router does, several at once, and one that waits when its job has ended", async () => {
  const hub = new TestHub();
  const worker = await hub.plainWorker();
  const channel = await open(hub);
  channel.ask(
    [1, "POST", `${URL}/v1/jobs/commit/cheap`, [...HEADERS, ["prefer", "wait=20"]], COMMIT],
    [2, "GET", `${URL}/v1/jobs/${crypto.randomUUID()}`, HEADERS, null],
  );
  const absent = (await channel.answers(1)).get(2);
  expect(absent).toMatchObject({ status: 404, body: '{"error":"Job not found"}' });
  expect(absent?.headers.get("access-control-allow-origin")).toBe("*");
  expect(channel.messages.flat()).toHaveLength(1);
  const job = await worker.assigned();
  await worker.complete(job);
  const done = (await channel.answers(2)).get(1);
  expect(done).toMatchObject({ status: 201 });
  expect(done?.headers.get("preference-applied")).toBe("wait=20");
  expect(done?.headers.get("x-cancel-token")).toMatch(/./);
  expect(JSON.parse(done?.body ?? "")).toMatchObject({ job_id: job.job_id, job: { status: "completed", receipt: { job_id: job.job_id } } });
  channel.ask(
    [3, "GET", `${URL}/v1/jobs/${job.job_id}`, HEADERS, null],
    [4, "POST", `${URL}/v1/jobs/commit/cheap`, HEADERS, "{"],
    [5, "DELETE", `${URL}/v1/health`, HEADERS, null],
  );
  const last = await channel.answers(5);
  expect([3, 4, 5].map((id) => last.get(id)?.status)).toEqual([200, 400, 405]);
  expect(JSON.parse(last.get(3)?.body ?? "")).toEqual(JSON.parse(done?.body ?? "").job);
  // The hub asked itself: the only call from outside was for the socket of the worker.
  expect(hub.rpcs).toEqual(["fetch"]);
});

test("[API6] a poll with a large answer is left to the front, a commit that waited for it is not", async () => {
  const hub = new TestHub();
  const worker = await hub.plainWorker();
  const channel = await open(hub);
  channel.ask([1, "POST", `${URL}/v1/jobs/commit/cheap`, [...HEADERS, ["prefer", "wait=20"]], COMMIT]);
  const job = await worker.assigned();
  await worker.complete(job, { summary: "x".repeat(LONGEST_POLL), word_count: 1 });
  const waited = (await channel.answers(1)).get(1);
  expect(waited?.status).toBe(201);
  expect(waited?.body.length).toBeGreaterThan(LONGEST_POLL);
  channel.ask([2, "GET", `${URL}/v1/jobs/${job.job_id}`, HEADERS, null]);
  expect((await channel.answers(2)).get(2)).toMatchObject({ status: 0, body: "" });
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
