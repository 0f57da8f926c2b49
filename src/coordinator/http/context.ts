import type { Context } from "hono";
import type { Env, Settings } from "../config.ts";

/** What every route finds in its context. `hasPaid`: true if the payment of a commit is verified, or is a credit [LM2]. */
export type AppEnv = { Bindings: Env; Variables: { requestId: string; settings: Settings; hasPaid?: boolean } };

/** The context of a route. */
export type AppContext = Context<AppEnv>;
