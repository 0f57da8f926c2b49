import { beforeAll, describe, expect, test } from "vitest";
import { llm, newUser, task } from "../support/api.ts";
import { share, type Subject } from "../support/coordinator.ts";
import { unsignedWorker, WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
const PRIVATE = { privacy_class: "PRIVATE" };
/** A busy test machine is slow, but work that grows with the square of the input would take minutes. */
const AT_ONCE_MS = 3_000;

beforeAll(async () => {
  evm = await share();
});

describe("bodies", () => {
  test.each([
    ["brackets, 500,000 deep", "[".repeat(500_000)],
    ["objects, 80,000 deep", '{"a":'.repeat(80_000)],
    [
      "nested below payload",
      `{"job_type":"TASK","user_id":"u","payload":{"task_type":"classify","input":"x","deep":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`,
    ],
    ["an open string of quotes and backslashes", `"${"\\".repeat(400_001)}`],
    ["half a megabyte of blanks", " ".repeat(500_000)],
    ["bytes that are no UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0xc0, 0xaf, 0x22, 0x7d])],
    ["UTF-16", Buffer.from(JSON.stringify(task("u")), "utf16le")],
    ["a surrogate in three bytes", Buffer.concat([Buffer.from('{"user_id":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')])],
    ["a comment", `/* */${JSON.stringify(task("u"))}`],
    ["two values", `${JSON.stringify(task("u"))}{}`],
    ["a number", "1e400"],
    ["null", "null"],
    ["an array of commits", JSON.stringify([task("u")])],
  ])("[API1, API2, LM1] %s: 400, at once", async (_name, body) => {
    const answer = await evm.api.tryCommit(body);
    expect(answer.status).toBe(400);
    expect(answer.body.error).toContain("job_type, payload, user_id");
    expect(answer.ms).toBeLessThan(AT_ONCE_MS);
  });

  test("[API2, WS8] a payload of 16,000 members, and integer-like names in the worst order, is a job like another", async () => {
    const plain = `{${Array.from({ length: 16_000 }, (_, index) => `"${index.toString(36)}":0`).join(",")}}`;
    const numbers = `{${Array.from({ length: 16_000 }, (_, index) => `"${(4_294_967_000 - index * 40_961) % 4_294_967_295}":0`).join(",")}}`;
    const worker = await unsignedWorker(evm.socketUrl);
    for (const members of [plain, numbers]) {
      const user = newUser();
      await evm.api.pair(user, worker);
      const body = `{"job_type":"LLM_INFER","user_id":"${user}","privacy_class":"PRIVATE","payload":{"prompt":"x","more":${members}}}`;
      const answer = await evm.api.tryCommit(body, "cheap", { "idempotency-key": newUser() });
      expect(answer.status, answer.text.slice(0, 200)).toBe(201);
      expect(answer.ms).toBeLessThan(AT_ONCE_MS);
      const { payload } = await worker.assigned(String(answer.body.job_id));
      expect(Object.keys((payload as { more: object }).more).length).toBe(16_000);
      await worker.complete(String(answer.body.job_id), "done");
    }
  });

  test("[LM1, API1] bodies of very many small values are refused unparsed, with or without a key or a payment", async () => {
    const values = Array.from({ length: 8_500 }, () => `${"[".repeat(28)}${"]".repeat(28)}`).join(",");
    const body = `{"job_type":"TASK","user_id":"u","payload":{"task_type":"classify","input":"x","more":[${values}]}}`;
    for (const headers of [{}, { "idempotency-key": newUser() }, { "x-payment": "e30=" }]) {
      const answer = await evm.api.tryCommit(body, "cheap", headers);
      expect([answer.status, answer.body.error]).toEqual([400, expect.stringContaining("more than 16384 values")]);
      expect(answer.ms).toBeLessThan(AT_ONCE_MS);
    }
  });

  test("[WS8, API2] members called __proto__ and constructor are forwarded as ordinary members and change no object", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const payload =
      '{"__proto__":{"task_type":"summarize","admin":true},"constructor":{"prototype":{"input":"p"}},"job_type":"TASK","task_type":"classify","input":"x"}';
    const body = `{"__proto__":{"privacy_class":"PUBLIC"},"job_type":"TASK","user_id":"${user}","privacy_class":"PRIVATE","payload":${payload}}`;
    const id = await evm.api.commit(body);
    expect(JSON.stringify((await worker.assigned(id)).payload)).toBe(payload);
    await worker.complete(id, OUTPUT);
    for (const bad of [
      '{"__proto__":{"user_id":"u","job_type":"TASK","payload":{}}}',
      `{"job_type":"TASK","user_id":"u","payload":{"__proto__":{"task_type":"classify","input":"x"}}}`,
    ])
      expect((await evm.api.tryCommit(bad)).status).toBe(400);
    expect((await evm.api.post("/v1/trust/create", '{"constructor":{"user_id":"u"},"__proto__":{"user_id":"u"}}')).status).toBe(400);
  });

  test("[API2] of members that come twice the last counts, for the check and for the worker alike", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const id = await evm.api.commit(
      `{"user_id":"somebody","job_type":"LLM_INFER","job_type":"TASK","privacy_class":"PRIVATE","user_id":"${user}","payload":{"input":"","task_type":"x","input":"last","task_type":"classify"}}`,
    );
    expect((await worker.assigned(id)).payload).toEqual({ job_type: "TASK", input: "last", task_type: "classify" });
    await worker.complete(id, OUTPUT);
    const good = JSON.stringify(task(newUser()));
    expect((await evm.api.tryCommit(good.replace(/}$/, ',"user_id":7}'))).status).toBe(400);
  });

  test("[API2, WS8] NUL, U+FFFD, text from right to left and a byte order mark inside a prompt reach the worker; half a pair does not", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const user = newUser();
    await evm.api.pair(user, worker);
    const prompt = "\0\ufffd\u202eabc\u2066\ufeffe\u0301\u{10ffff}\u2028";
    const id = await evm.api.commit(llm(user, prompt, PRIVATE));
    expect((await worker.assigned(id)).payload).toMatchObject({ prompt });
    await worker.complete(id, OUTPUT);
    const half = JSON.stringify(llm(user, "HALF", PRIVATE));
    for (const text of [half.replace("HALF", "\\ud800"), half.replace('"prompt"', '"\\udc00":1,"prompt"'), half.replace(user, "\\ud83e")])
      expect((await evm.api.tryCommit(text)).status).toBe(400);
    for (const odd of ["a\0b", "\u0085", "\u007f", "\n", "u".repeat(129), "\u{1f98a}".repeat(129), ""])
      expect((await evm.api.post("/v1/trust/create", { user_id: odd })).status, JSON.stringify(odd.slice(0, 9))).toBe(400);
    expect((await evm.api.post("/v1/trust/create", { user_id: "\u{1f98a}".repeat(128) })).status).toBe(201);
  });
});

describe("headers and queries", () => {
  const blanks = " ".repeat(60_000);
  test.each([
    ["blanks before a quote", `wait=${blanks}"`],
    ["blanks before and after", `wait${blanks.slice(0, 20_000)}=${blanks.slice(0, 20_000)}=`],
    ["blanks around a word", `wait=${blanks.slice(0, 30_000)}x${blanks.slice(0, 20_000)}y`],
    ["commas", ",".repeat(60_000)],
    ["an open quote of backslashes", `wait="${"\\a".repeat(30_000)}`],
    ["sixty thousand quotes", '"'.repeat(60_000)],
  ])("[API6] a Prefer header of 60 KB, %s, costs no more than another", async (_name, prefer) => {
    const answer = await evm.api.tryCommit(llm(newUser(), "x", PRIVATE), "cheap", { prefer });
    // Refused, so that no worker of a later test gets the job. The header is still read.
    expect(answer.status).toBe(422);
    expect(answer.ms).toBeLessThan(AT_ONCE_MS);
  });

  test.each(["٣", "３", "1 ", "+1", "1_0", "0b1", "1,1", "∞", "1\u0000", "1%00", "1e2"])("[API6] wait=%s is 400: digits are 0 to 9", async (wait) => {
    expect((await evm.api.get(`/v1/jobs/11111111-2222-4333-8444-555555555555?wait=${encodeURIComponent(wait)}`)).status).toBe(400);
  });
});

describe("frames", () => {
  test("[WS1, LM1] a million brackets, a hundred thousand members, an open string: bad_message at once, and the worker stays", async () => {
    const worker = await unsignedWorker(evm.socketUrl);
    const members = `{${Array.from({ length: 90_000 }, (_, index) => `"${index}":0`).join(",")}}`;
    for (const frame of [
      "[".repeat(1_000_000),
      `{"type":${"{".repeat(900_000)}`,
      members,
      `{"type":"job_ack","x":${members}}`,
      `"${"\\".repeat(1_000_001)}`,
      "\0",
      "[]",
      "null",
      "{}",
    ]) {
      const started = performance.now();
      expect(await worker.ask(frame, "error"), frame.slice(0, 30)).toMatchObject({ code: "bad_message" });
      expect(performance.now() - started).toBeLessThan(AT_ONCE_MS);
      await worker.settled();
    }
    expect(worker.closed).toBeUndefined();
  });

  test("[WS1] a type that is a member of every object, as constructor, is not a frame type", async () => {
    const worker = await WorkerSocket.open(evm.socketUrl);
    await worker.registerPlain();
    for (const type of ["constructor", "__proto__", "toString", "hasOwnProperty", "", "REGISTER", "register ", "job_assign", "register_ack", "challenge"])
      expect(await worker.ask({ type }, "error"), type).toMatchObject({ code: "bad_message" });
  }, 20_000);
});
