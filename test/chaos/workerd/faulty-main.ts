import main, { WorkerHub as Hub } from "../../../src/coordinator/main.ts";
import type { Env } from "../../../src/coordinator/config.ts";
import { DatabaseFault } from "../database-fault.ts";
import { faultyDatabase } from "./faulty-database.ts";

/** Changed by a rewrite of this file, which reloads the coordinator as a deploy does. */
const DEPLOY = 0;

/** The coordinator as it is, on a D1 that asks the port in `FAULT_PORT` before every call what is to go wrong; without one, on the real D1. */
const faulty = (env: Env): Env => {
  const port = env.FAULT_PORT;
  return typeof port === "string" ? { ...env, DEPLOY, DB: faultyDatabase(env.DB, (what) => ask(port, what)) } : { ...env, DEPLOY };
};

async function ask(port: string, what: string): Promise<DatabaseFault> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/?${what}`);
    return DatabaseFault.parse(await answer.json());
  } catch {
    // Nobody there to make trouble.
    return { kind: "none" };
  }
}

// One object per isolate: settings are read once per env.
let wrapped: Env | undefined;

/** The hub on the faulty D1. */
export class WorkerHub extends Hub {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, faulty(env));
  }
}

export default {
  fetch: (request, env, context) => main.fetch(request, (wrapped ??= faulty(env)), context),
  scheduled: (controller, env) => main.scheduled(controller, (wrapped ??= faulty(env))),
} satisfies ExportedHandler<Env>;
