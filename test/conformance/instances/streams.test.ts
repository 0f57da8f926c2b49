import { beforeAll, expect, test } from "vitest";
import { LIMITS } from "../../../src/protocol/limits.ts";
import { TIMING } from "../../../src/protocol/times.ts";
import { llm, newUser } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { unsignedWorker } from "../support/worker.ts";

let evm: Subject;

beforeAll(async () => {
  evm = await start("evm");
});

/** Opens a stream and reads its first bytes, which proves that it is open. */
async function open(id: string): Promise<{ status: number; retryAfter: string | null; reader: ReadableStreamDefaultReader<Uint8Array> | null }> {
  const response = await fetch(`${evm.url}/v1/jobs/${id}/events`);
  const reader = response.status === 200 ? (response.body?.getReader() ?? null) : null;
  await reader?.read();
  if (reader === null) await response.text();
  return { status: response.status, retryAfter: response.headers.get("retry-after"), reader };
}

test("[API6] so many streams are open at once; past that 503, while polls are answered; who leaves makes room", { timeout: 90_000 }, async () => {
  const worker = await unsignedWorker(evm.socketUrl);
  const id = await evm.api.commit(llm(newUser()));
  await worker.assigned(id);
  const streams = [];
  for (let batch = 0; batch < LIMITS.streams / 50; batch += 1) streams.push(...(await Promise.all(Array.from({ length: 50 }, () => open(id)))));
  expect(streams.map(({ status }) => status)).toEqual(Array.from({ length: LIMITS.streams }, () => 200));
  const refused = await open(id);
  expect(refused.status).toBe(503);
  expect(Number(refused.retryAfter)).toBeGreaterThan(0);
  expect(await evm.api.job(id)).toMatchObject({ status: "running" });
  for (const { reader } of streams.slice(0, 100)) await reader?.cancel();
  await expect.poll(async () => (await open(id)).status, { timeout: 20_000, interval: 500 }).toBe(200);
  await worker.complete(id, "done");
  for (const { reader } of streams.slice(100)) {
    let text = "";
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) text += new TextDecoder().decode(part.value);
    expect(text).toContain("event: done\n");
  }
});

test("[API6] a comment comes every 15 s", { timeout: 60_000 }, async () => {
  const worker = await unsignedWorker(evm.socketUrl);
  const id = await evm.api.commit(llm(newUser()));
  await worker.assigned(id);
  const response = await fetch(`${evm.url}/v1/jobs/${id}/events`);
  const times: number[] = [];
  const begun = performance.now();
  let line = "";
  for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    line += part;
    if (!/^:/m.test(line)) continue;
    line = "";
    times.push(performance.now() - begun);
    if (times.length === 2) break;
  }
  for (const [index, time] of times.entries()) expect(Math.abs(time - (index + 1) * TIMING.streamComment)).toBeLessThan(2_000);
  await worker.complete(id, "done");
});
