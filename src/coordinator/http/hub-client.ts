// Calls the hub, once more if a call was lost, says what its failures mean, and lets requests share an answer. On a job's way: between the router and the hub.
import type { Env } from "../config.ts";
import { isWithin } from "../deadline.ts";
import type { Hub } from "../hub/rpc.ts";
import { TUNING } from "../tuning.ts";

/** The name of the hub: each instance has one. */
const HUB_NAME = "hub";

/** workerd's message if the hub's class lacks the method: during a deploy a new router may call a hub of an older version. */
const UNKNOWN_METHOD = /^The RPC receiver does not implement the method /;

/** The hub is overloaded, lacks the called method because it is older, or cannot be reached. */
export class HubUnavailable extends Error {
  override readonly name = "HubUnavailable";
  /** True if the hub lacks the method, so that nothing happened. */
  readonly isOlder: boolean;

  constructor(fault: "overloaded" | "older" | "lost", cause: unknown) {
    super(`hub ${fault}`, { cause });
    this.isOlder = fault === "older";
  }
}

/**
 * Calls the hub. If the call is lost, so that nobody knows what it did, it is made a second time with `again` true. Every call may be repeated:
 * a commit carries the job id that the router chose, so the hub recognises the second delivery. A stub that failed stays broken, so each try
 * gets a new one.
 * @throws {HubUnavailable} if the hub is overloaded (a retry would make that worse), lacks the method, or the call is lost twice.
 *   An error that the hub's own code throws passes through.
 */
export async function askHub<T>(env: Env, ask: (hub: Hub, again: boolean) => Promise<T>): Promise<T> {
  try {
    return await ask(env.HUB.getByName(HUB_NAME), false);
  } catch (error) {
    if (faultOf(error) !== "lost") throw toUnavailable(error);
  }
  await scheduler.wait(Math.random() * TUNING.hubRetryPause);
  try {
    return await ask(env.HUB.getByName(HUB_NAME), true);
  } catch (error) {
    throw toUnavailable(error);
  }
}

/** For a router inside the hub, the `env` of the one outside: what is noted of an instance counts for both. */
const outside = new WeakMap<Env, Env>();

/** The `env` of a router that runs inside the hub, and calls it directly. */
export function insideHub(env: Env, hub: Hub): Env {
  const inside: Env = { ...env, HUB: { getByName: () => hub } };
  outside.set(inside, env);
  return inside;
}

/**
 * When the last commit of an instance failed because the hub could not be reached or could not write it, ms since the epoch. A commit that works deletes it.
 */
const notStored = new WeakMap<Env, number>();

/** The same as {@link askHub} for a call that writes a job, and notes for {@link storesCommits} whether it worked. No stranger must be able to make it fail. */
export async function askHubToStore<T>(env: Env, ask: (hub: Hub, again: boolean) => Promise<T>): Promise<T> {
  const instance = outside.get(env) ?? env;
  try {
    const answer = await askHub(env, ask);
    if (typeof answer === "object" && answer !== null && Reflect.get(answer, "reason") === "overloaded") notStored.set(instance, Date.now());
    else notStored.delete(instance);
    return answer;
  } catch (error) {
    if (error instanceof HubUnavailable) notStored.set(instance, Date.now());
    throw error;
  }
}

/** False if the last commit in this isolate has just failed, as on a full disk, where a hub that only reads seems to work. */
export function storesCommits(env: Env, now: number): boolean {
  const at = notStored.get(env);
  return at === undefined || !isWithin(now, at, TUNING.commitFailed);
}

/** Classifies the error of a call by the marks that the platform puts on it. */
function faultOf(error: unknown): "overloaded" | "older" | "lost" | "thrown" {
  if (typeof error !== "object" || error === null) return "thrown";
  if (error instanceof TypeError && UNKNOWN_METHOD.test(error.message)) return "older";
  const is = (mark: string) => Reflect.get(error, mark) === true;
  if (is("overloaded")) return "overloaded";
  // The error of an object that was reset (a deploy, an abort) may be marked `remote` too, so this is checked before `remote`.
  if (is("retryable") || is("durableObjectReset")) return "lost";
  if (is("remote")) return "thrown";
  // If the disk of the object fails, the error has no mark: it is a plain Error. Errors of our own code have names of their own.
  return error instanceof Error && error.name === "Error" ? "lost" : "thrown";
}

/** Turns a fault of the call into {@link HubUnavailable}; an error that the hub's code threw stays as it is. */
function toUnavailable(error: unknown): unknown {
  const fault = faultOf(error);
  return fault === "thrown" ? error : new HubUnavailable(fault, error);
}

/** What is known of one instance: since when questions are counted, how many there were, and the last answer with the time of its question. */
type Known<T> = { since: number; asks: number; last: { value: T; at: number } | null };

/** The parts that tests replace. */
type Means = { clock: () => number; wait: (ms: number) => Promise<unknown> };

/**
 * One question to the hub, for each instance that this isolate serves. If many requests come at once, the first ones
 * ask the hub, at most `most` per second, and the others use their answers. Requests cannot share a promise, because a
 * request may wait only for what it has begun itself. So the others look again after short pauses. If the hub is slow,
 * they take an older answer.
 */
export class HubAnswer<T> {
  readonly #most: number;
  readonly #ask: (hub: Hub) => Promise<T>;
  readonly #means: Means;
  readonly #known = new WeakMap<Env, Known<T>>();

  constructor(most: number, ask: (hub: Hub) => Promise<T>, means: Means = { clock: () => Date.now(), wait: (ms) => scheduler.wait(ms) }) {
    this.#most = most;
    this.#ask = ask;
    this.#means = means;
  }

  /** The answer, at most a second old unless the hub is slow. @throws {HubUnavailable} if the hub does not answer the others either */
  async of(env: Env): Promise<T> {
    const { clock, wait } = this.#means;
    const known = this.#known.get(env) ?? { since: Number.NEGATIVE_INFINITY, asks: 0, last: null };
    this.#known.set(env, known);
    let waited = 0;
    for (let pause = 10; !this.#mayAsk(known); pause = Math.min(2 * pause, TUNING.hubAnswerPatience)) {
      const fresh = waited < TUNING.hubAnswerPatience ? TUNING.hubAnswerFresh : TUNING.hubAnswerOld;
      if (known.last !== null && isWithin(clock(), known.last.at, fresh)) return known.last.value;
      if (waited >= TUNING.hubAnswerOld) throw new HubUnavailable("overloaded", new Error("the hub has not answered other requests"));
      await wait(pause);
      waited += pause;
    }
    known.asks++;
    const at = clock();
    try {
      const value = await askHub(env, this.#ask);
      known.last = { value, at };
      return value;
    } catch (error) {
      // A question without an answer does not count: the next request asks again.
      known.asks = Math.max(0, known.asks - 1);
      throw error;
    }
  }

  #mayAsk(known: Known<T>): boolean {
    const now = this.#means.clock();
    if (!isWithin(now, known.since, TUNING.hubAnswerFresh)) {
      known.since = now;
      known.asks = 0;
    }
    return known.asks < this.#most;
  }
}
