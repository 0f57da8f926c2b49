import { expect, test } from "vitest";
import type { Env } from "../../../src/coordinator/config.ts";
import { askHubToStore, HubAnswer, HubUnavailable, insideHub, storesCommits } from "../../../src/coordinator/http/hub-client.ts";
import type { Hub } from "../../../src/coordinator/hub/rpc.ts";
import { TUNING } from "../../../src/coordinator/tuning.ts";

const START = 1_750_000_000_000;

/** A hub that answers when the test says so, and a clock that the pauses of waiting requests move. */
function setUp(most: number) {
  let now = START;
  let moving: Promise<unknown> | null = null;
  const questions: PromiseWithResolvers<number>[] = [];
  const wait = async (ms: number) => {
    // One step of the clock is for all requests that wait.
    moving ??= Promise.resolve().then(() => {
      now += ms;
      moving = null;
    });
    await moving;
  };
  const answer = new HubAnswer<number>(
    most,
    () => {
      const question = Promise.withResolvers<number>();
      questions.push(question);
      return question.promise;
    },
    { clock: () => now, wait },
  );
  const env = { HUB: { getByName: () => ({}) as Hub } } as unknown as Env;
  return { ask: () => answer.of(env), questions, pass: (ms: number) => void (now += ms), now: () => now };
}

/** Lets everything run that waits for nothing else. */
const turns = async (count = 20) => {
  for (let n = 0; n < count; n++) await Promise.resolve();
};

test("[API1, JB10] requests that come before the first answer ask the hub no more than `most` times, and all get it", async () => {
  const { ask, questions } = setUp(2);
  const answers = Array.from({ length: 100 }, ask);
  await turns();
  expect(questions).toHaveLength(2);
  for (const question of questions) question.resolve(7);
  expect(new Set(await Promise.all(answers))).toEqual(new Set([7]));
  expect(questions).toHaveLength(2);
});

test("[API1, JB10] an answer is used for a second from its question on", async () => {
  const { ask, questions, pass } = setUp(1);
  const first = ask();
  pass(400);
  questions[0]?.resolve(1);
  expect(await first).toBe(1);
  pass(599);
  expect(await ask()).toBe(1);
  pass(1);
  const [second, meanwhile] = [ask(), ask()];
  questions[1]?.resolve(2);
  expect([await second, await meanwhile, await ask(), questions.length]).toEqual([2, 2, 2, 2]);
});

test("[API1, JB10] while the hub is slow, one request a second asks, and the others get the last answer", async () => {
  const { ask, questions, pass, now } = setUp(1);
  void ask();
  questions[0]?.resolve(1);
  await turns();
  pass(TUNING.hubAnswerFresh);
  void ask();
  const [asked, others] = [now(), await Promise.all(Array.from({ length: 100 }, ask))];
  expect([new Set(others), questions.length]).toEqual([new Set([1]), 2]);
  expect(now() - asked).toBeLessThan(2 * TUNING.hubAnswerPatience);
  pass(TUNING.hubAnswerFresh);
  void ask();
  expect([await ask(), questions.length]).toEqual([1, 3]);
});

test("[API1] a request that gets no answer in time from others, and has no last one, is refused as overloaded", async () => {
  const { ask, questions } = setUp(1);
  const refusals: unknown[] = [];
  const all = Array.from({ length: 20 }, ask);
  for (const one of all) one.catch((reason: unknown) => refusals.push(reason));
  await expect(all.at(-1)).rejects.toThrow("hub overloaded");
  await turns();
  expect(questions.length).toBeLessThanOrEqual(TUNING.hubAnswerOld / TUNING.hubAnswerFresh + 1);
  expect(refusals).toHaveLength(all.length - questions.length);
});

test("[API1] after an error the next request asks again, and the error is its own", async () => {
  const { ask, questions } = setUp(1);
  const failing = ask();
  questions[0]?.reject(new TypeError("a bug"));
  await expect(failing).rejects.toThrow("a bug");
  const next = ask();
  questions[1]?.resolve(3);
  expect(await next).toBe(3);
});

test("[JB10] an answer of the time before the clock was set back is not used", async () => {
  const { ask, questions, pass } = setUp(1);
  void ask();
  questions[0]?.resolve(1);
  await turns();
  pass(-60_000);
  const next = ask();
  questions[1]?.resolve(2);
  expect(await next).toBe(2);
});

test("[LM3] a commit that a router inside the hub could not store counts for the instance, and one that it could store too", async () => {
  const hub: Hub = { ...Object.create(null) };
  const env: Env = { HUB: { getByName: () => hub }, ...Object.create(null) };
  const inside = insideHub(env, hub);
  await expect(askHubToStore(inside, () => Promise.reject(Object.assign(new Error("busy"), { overloaded: true })))).rejects.toThrow(HubUnavailable);
  expect(storesCommits(env, Date.now())).toBe(false);
  await askHubToStore(inside, async () => ({ ok: true }));
  expect(storesCommits(env, Date.now())).toBe(true);
});
