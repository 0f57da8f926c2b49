/**
 * The coordinator for the edge tests. It is the shipped code, but each hub reads the settings again, so that each test file can have its own (`withSettings`).
 */
import type { Env } from "../../src/coordinator/config.ts";
import { WorkerHub as ShippedHub } from "../../src/coordinator/main.ts";

export { default, Settler } from "../../src/coordinator/main.ts";

/** The settings are cached per `env` object. The platform has one `env` for all hubs, so each hub gets a copy. */
export class WorkerHub extends ShippedHub {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, { ...env });
  }
}
