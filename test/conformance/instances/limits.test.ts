import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, llm, newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const KIB = 1024;
const BODY = 512 * KIB;
const TEXT = 256 * KIB;

beforeAll(async () => {
  evm = await start("evm");
});

/** Returns a valid commit of exactly this many bytes. */
function sized(bytes: number): string {
  const body = JSON.stringify(llm(newUser(), "x".repeat(1_000)));
  return body + " ".repeat(bytes - body.length);
}

/** Runs `count` commits, 40 at a time. */
async function flood(count: number, body: (index: number) => unknown): Promise<Answer[]> {
  const answers: Answer[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: 40 }, async () => {
      while (next < count) answers.push(await evm.api.tryCommit(body(next++)));
    }),
  );
  return answers;
}

function expectFull(answer: Answer | undefined): void {
  expect(answer?.status).toBe(503);
  expect(answer?.body).toMatchObject({ error: "queue_full", request_id: expect.any(String) });
  expect(Number(answer?.headers.get("retry-after"))).toBeGreaterThan(0);
}

describe("sizes", () => {
  test("[LM1] a prompt and an input of 256 KiB are taken and reach the worker; one byte more is refused", async () => {
    for (const [make, output] of [
      [llm, "ok"],
      [task, { sentiment: "neutral", confidence: 1 }],
    ] as const) {
      const worker = await unsignedWorker(evm.socketUrl);
      const user = newUser();
      await evm.api.pair(user, worker);
      const id = await evm.api.commit(make(user, "x".repeat(TEXT), { privacy_class: "PRIVATE" }));
      const assign = await worker.assigned(id);
      const { prompt, input } = assign.payload as { prompt?: string; input?: string };
      expect((prompt ?? input)?.length).toBe(TEXT);
      await worker.complete(id, output);
      const answer = await evm.api.tryCommit(make(newUser(), "x".repeat(TEXT + 1)));
      // By API2 it would be 400, by API1 413.
      expect([400, 413]).toContain(answer.status);
    }
  });

  test("[LM1, API1] a body of 512 KiB is read, one byte more is 413 payload_too_large", async () => {
    expect((await evm.api.tryCommit(sized(BODY))).status).toBe(201);
    const answer = await evm.api.tryCommit(sized(BODY + 1));
    expect(answer.status).toBe(413);
    expect(answer.body).toEqual({ error: "payload_too_large" });
  });

  test("[WS8, JB12] a chat whose transcript has more than 256 KiB is 400, and one message of 256 KiB is accepted", async () => {
    const chat = (count: number, content: string) => ({
      ...llm(newUser()),
      payload: { messages: Array.from({ length: count }, () => ({ role: "user", content })) },
    });
    const answer = await evm.api.tryCommit(chat(1_999, "x".repeat(130)));
    expect([answer.status, answer.body.error]).toEqual([400, expect.stringMatching(/^payload\.messages make a prompt of more than 262144 bytes/)]);
    expect((await evm.api.tryCommit(chat(1, "x".repeat(TEXT)))).status).toBe(201);
    const many = await evm.api.tryCommit(chat(2_001, "x"));
    expect([many.status, many.body.error]).toEqual([400, expect.stringContaining("at most 2000")]);
  });

  test("[LM1] a payload that becomes longer than 768 KiB is 413, with a prompt that is added in escapes; so many numbers that are written anew are 400", async () => {
    const escaped = await evm.api.tryCommit({ ...llm(newUser()), payload: { messages: [{ role: "user", content: "\u0001".repeat(80_000) }] } });
    expect([escaped.status, escaped.body]).toEqual([413, { error: "payload_too_large" }]);
    const numbers = `{"messages":[{"role":"user","content":"hi"}],"x":[${Array(80_000).fill("1e20").join()}]}`;
    const anew = await evm.api.post("/v1/chat/completions", numbers);
    expect([anew.status, anew.body.error]).toEqual([400, expect.objectContaining({ message: expect.stringContaining("16384 values") })]);
  });

  test("[LM1] the trust endpoints' bodies are bounded too", async () => {
    const answer = await evm.api.post("/v1/trust/create", JSON.stringify({ user_id: newUser() }) + " ".repeat(BODY));
    expect(answer.status).toBe(413);
  });

  test("[LM1] 256 KiB are bytes of UTF-8", async () => {
    expect((await evm.api.tryCommit(llm(newUser(), "é".repeat(TEXT / 2)))).status).toBe(201);
    expect([400, 413]).toContain((await evm.api.tryCommit(llm(newUser(), "é".repeat(TEXT / 2 + 1)))).status);
  });
});

describe("counts", () => {
  test("[LM1] 256 unregistered sockets are held; one more takes the place of the oldest, or has none", { timeout: 60_000 }, async () => {
    // The first one is alone, so that it is the oldest: the coordinator accepts the sockets of a batch in any order.
    const raws = [await RawSocket.open(evm.port)];
    try {
      for (let batch = 0; batch < 15; batch += 1) raws.push(...(await Promise.all(Array.from({ length: 17 }, () => RawSocket.open(evm.port)))));
      expect(raws).toHaveLength(256);
      expect(raws.every(({ head }) => head.startsWith("HTTP/1.1 101"))).toBe(true);
      const extra = await RawSocket.open(evm.port);
      raws.push(extra);
      if (extra.head.startsWith("HTTP/1.1 101")) expect(await raws[0]?.closeCode(5_000)).toBe(4008);
      else expect(extra.head).toMatch(/^HTTP\/1\.1 (503|429) /);
    } finally {
      for (const raw of raws) raw.end();
    }
  });

  test("[LM1] after they left a worker can connect again", async () => {
    const deadline = Date.now() + 20_000;
    let ok = false;
    while (!ok && Date.now() < deadline) {
      try {
        const worker = await WorkerSocket.open(evm.socketUrl);
        ok = (await worker.registerPlain()).status === "ok";
      } catch {
        // Not all of them are there yet.
      }
    }
    expect(ok).toBe(true);
  });

  test(
    "[LM1, API1] 1,000 queued jobs of one user are taken; the next is 503 queue_full with Retry-After, another user's is not",
    { timeout: 60_000 },
    async () => {
      const user = newUser();
      const answers = await flood(1_000, (index) => llm(user, `job ${index}`));
      expect(answers.filter(({ status }) => status === 201).length).toBe(1_000);
      expectFull(await evm.api.tryCommit(llm(user)));
      expect((await evm.api.tryCommit(llm(newUser()))).status).toBe(201);
    },
  );
});
