import type { AppContext } from "./app-env.ts";
import { refuse } from "./refuse.ts";

/** Every other method of a path that has `methods`: OPTIONS lists them, the rest is 405 [API1]. */
export const allowOnly =
  (methods: readonly string[]) =>
  (c: AppContext): Response => {
    c.header("Allow", [...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", "));
    return c.req.method === "OPTIONS" ? c.body(null, 204) : refuse(c, "method_not_allowed");
  };
