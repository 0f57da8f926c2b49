import type { DatabaseFault } from "../database-fault.ts";

/** The texts of D1's own passing errors. */
const LOST = "D1_ERROR: Network connection lost.";
const RUNS: readonly (string | symbol)[] = ["first", "run", "all", "raw"];

/** A D1 in front of the real one, which asks before each call (`SELECT`, `INSERT`, `UPDATE`, `DELETE`, `BATCH`) what is to go wrong with it. */
export function faultyDatabase(real: D1Database, ask: (what: string) => Promise<DatabaseFault>): D1Database {
  const whole = new WeakMap<object, D1PreparedStatement>();

  async function call<T>(what: string, run: () => Promise<T>): Promise<T> {
    const fault = await ask(what);
    if (fault.kind === "fails") throw new Error(LOST);
    if (fault.kind === "slow") await scheduler.wait(fault.ms);
    const result = await run();
    if (fault.kind === "loses") throw new Error(LOST);
    return result;
  }

  function statement(prepared: D1PreparedStatement, what: string): D1PreparedStatement {
    const proxy = new Proxy(prepared, {
      get(target, member) {
        if (member === "bind") return (...values: unknown[]) => statement(target.bind(...values), what);
        const value: unknown = Reflect.get(target, member);
        if (typeof value !== "function") return value;
        if (!RUNS.includes(member)) return value.bind(target);
        return (...given: unknown[]) => call(what, async () => value.apply(target, given));
      },
    });
    whole.set(proxy, prepared);
    return proxy;
  }

  return new Proxy(real, {
    get(target, member) {
      if (member === "prepare") return (query: string) => statement(target.prepare(query), query.trimStart().slice(0, 6).toUpperCase());
      if (member === "batch") return (list: D1PreparedStatement[]) => call("BATCH", () => target.batch(list.map((each) => whole.get(each) ?? each)));
      const value: unknown = Reflect.get(target, member);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
