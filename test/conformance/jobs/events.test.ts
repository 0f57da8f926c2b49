import { beforeAll, describe, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { fullWorker } from "../support/worker.ts";

const OUTPUT = { sentiment: "positive", confidence: 0.9 };
let evm: Subject;

type Event = { id: string; event: string; data: unknown };

/** Returns the events of a job until the stream ends. */
async function events(id: string, headers: Record<string, string> = {}): Promise<Event[]> {
  const response = await fetch(`${evm.url}/v1/jobs/${id}/events`, { headers });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
  const field = (block: string, name: string): string => new RegExp(`^${name}: ?(.*)$`, "m").exec(block)?.[1] ?? "";
  return (await response.text())
    .split("\n\n")
    .filter((block) => block.includes("data:"))
    .map((block) => ({ id: field(block, "id"), event: field(block, "event"), data: JSON.parse(field(block, "data")) as unknown }));
}

describe("event stream", () => {
  beforeAll(async () => {
    evm = await share();
  });

  test("[API6] status, delta, reset and done, each with an id, then the end; resumable by Last-Event-ID", async () => {
    const worker = await fullWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }));
    const first = await worker.assigned(id);
    const streaming = events(id);
    worker.ack(first);
    worker.progress(first, 0, "He");
    worker.progress(first, 0, "He");
    worker.fail(first, true);
    const second = await worker.frame((frame) => frame.type === "job_assign" && frame.attempt === 2);
    worker.ack(second);
    worker.progress(second, 0, "Hel");
    worker.progress(second, 1, "lo");
    await worker.complete(id, OUTPUT);
    const all = await streaming;
    expect(all.every(({ id: number }) => /^\d+$/.test(number))).toBe(true);
    expect(
      all
        .filter(({ event }) => event === "delta")
        .slice(-2)
        .map(({ data }) => data),
    ).toEqual([
      { attempt: 2, seq: 0, delta: "Hel" },
      { attempt: 2, seq: 1, delta: "lo" },
    ]);
    expect(all.filter(({ event }) => event === "reset")).toHaveLength(1);
    expect(all.map(({ event }) => event)).toContain("status");
    expect(all.at(-1)).toMatchObject({ event: "done", data: await evm.api.job(id) });
    const late = await events(id, { "last-event-id": all.at(-2)?.id ?? "" });
    expect(late.at(-1)).toMatchObject({ event: "done" });
    expect(late.filter(({ event }) => event === "delta")).toEqual([]);
  });

  test.each([1, 2, 3])("[API6] %i readers of one streamed LLM job: each has every word and the end as it happens; nothing is logged", async (count) => {
    const worker = await fullWorker(evm.socketUrl);
    const id = await evm.api.commit(llm(newUser()), "fast");
    const assign = await worker.assigned(id);
    const words = ["One ", "two ", "three."];
    const readers = await Promise.all(Array.from({ length: count }, () => fetch(`${evm.url}/v1/jobs/${id}/events`)));
    const told = Promise.all(readers.map((response) => response.text()));
    worker.ack(assign);
    for (const [seq, word] of words.entries()) {
      worker.progress(assign, seq, word);
      await worker.settled();
    }
    expect(await worker.complete(id, words.join(""))).toMatchObject({ status: "accepted" });
    for (const text of await told) {
      expect(text.match(/"delta":"[^"]*"/g)).toEqual(words.map((word) => `"delta":"${word}"`));
      expect(text.match(/^event: done$/gm)).toHaveLength(1);
      // A comment comes every 15 s: one before the end means that the end came late.
      expect(text.slice(text.lastIndexOf("event: delta"))).not.toMatch(/^:/m);
    }
    expect(evm.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
  });

  test("[API6] an unknown job is 404", async () => {
    expect((await evm.api.get("/v1/jobs/11111111-2222-4333-8444-555555555555/events")).status).toBe(404);
  });
});
