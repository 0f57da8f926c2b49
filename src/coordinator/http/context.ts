import type { Context } from "hono";
import type { Env, Settings } from "../config.ts";

/** What every route finds in its context. */
export type AppEnv = { Bindings: Env; Variables: { requestId: string; settings: Settings } };

/** The context of a route. */
export type AppContext = Context<AppEnv>;
