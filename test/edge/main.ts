/** The coordinator as the edge tests run it: what ships, but each hub reads the settings anew, so that each test file can have its own (`withSettings`). */
import type { Env } from "../../src/coordinator/config.ts";
import { WorkerHub as ShippedHub } from "../../src/coordinator/main.ts";

export { default } from "../../src/coordinator/main.ts";

/** The settings are remembered per `env` object, of which the platform has one for all hubs. */
export class WorkerHub extends ShippedHub {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, { ...env });
  }
}
