// Sends REST requests to the app inside workerd, for the edge tests.
import { env } from "cloudflare:workers";
import { applyD1Migrations, createExecutionContext, reset } from "cloudflare:test";
import { expect } from "vitest";
import * as z from "zod";
import { app } from "../../../src/coordinator/app.ts";
import type { Env } from "../../../src/coordinator/config.ts";
import { ErrorBody } from "../../../src/protocol/rest.ts";

export const ORIGIN = "http://router.test";

/** Variables and bindings that a test may replace. */
export type Overrides = { [name: string]: unknown };

/** Empties the instance: no jobs, users or workers. Call it before each test with a worker, or the worker gets jobs that earlier tests left waiting. */
export async function freshInstance(): Promise<void> {
  await reset();
  await applyD1Migrations(env.DB, env.TEST_MIGRATIONS);
}

/**
 * Sends one request to the whole app, with the bindings of this instance (testnet mode) and `overrides`. Rate limits are off unless a test sets them,
 * also with `TESTNET_MODE=false`: the test files of one runtime share its counts.
 */
export async function rest(path: string, init: RequestInit = {}, overrides: Overrides = {}): Promise<Response> {
  const bindings: Env = { RATE_LIMITS: "off", ...env, ...overrides };
  return await app.fetch(new Request(new URL(path, ORIGIN), { redirect: "manual", ...init }), bindings, createExecutionContext());
}

/** Posts `body` as JSON text, or a string unchanged. */
export async function post(path: string, body: unknown, headers: Record<string, string> = {}, overrides: Overrides = {}): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return await rest(path, { method: "POST", body: text, headers: { "content-type": "application/json", ...headers } }, overrides);
}

/** Returns the body of an answer, which must match `schema`. */
export async function read<T>(response: Response, schema: z.ZodType<T>): Promise<T> {
  expect(response.headers.get("content-type")).toBe("application/json");
  return schema.parse(await response.json());
}

/** Checks that an answer is a refusal as API1 requires; returns its `error`. */
export async function refusal(response: Response, status: number): Promise<string> {
  const body = await read(response, z.strictObject(ErrorBody.shape));
  expect(response.status, body.error).toBe(status);
  expect(body.request_id).toBe(status >= 500 ? response.headers.get("x-request-id") : undefined);
  return body.error;
}

/** A valid body of a commit. */
export const TASK = { job_type: "TASK", user_id: "user-1", payload: { task_type: "classify", input: "good" } } as const;
export const LLM = { job_type: "LLM_INFER", user_id: "user-1", payload: { prompt: "say hi", max_tokens: 16 } } as const;

/** A D1 that does not work. */
export function failingDb(message = "D1_ERROR: Network connection lost."): D1Database {
  const fail = async (): Promise<never> => {
    throw new Error(message);
  };
  const statement: D1PreparedStatement = { bind: () => statement, first: fail, run: fail, all: fail, raw: fail };
  const session = { prepare: () => statement, batch: fail, getBookmark: () => null };
  return { ...session, exec: fail, dump: fail, withSession: () => session };
}

/** A hub namespace that executes the first call but loses its answer. */
export function failingAnswer(): { HUB: unknown } {
  let calls = 0;
  const getByName = (name: string): unknown =>
    new Proxy(env.HUB.getByName(name), {
      get:
        (target, property) =>
        async (...args: unknown[]) => {
          const answer: unknown = await Reflect.get(target, property)(...args);
          if (++calls === 1) throw Object.assign(new Error("lost"), { retryable: true });
          return answer;
        },
    });
  return { HUB: { getByName } };
}

/** A hub namespace whose first `times` calls fail with an error that has `flags`; later calls reach the real hub. */
export function failingHub(flags: Record<string, boolean>, times = Number.POSITIVE_INFINITY): { HUB: unknown; calls: () => number } {
  let calls = 0;
  const getByName = (name: string): unknown => {
    const real: object = env.HUB.getByName(name);
    return new Proxy(real, {
      get:
        (target, property) =>
        async (...args: unknown[]) => {
          calls++;
          if (calls <= times) throw Object.assign(new Error("secret internals of the platform"), flags);
          return await Reflect.get(target, property)(...args);
        },
    });
  };
  return { HUB: { getByName }, calls: () => calls };
}
