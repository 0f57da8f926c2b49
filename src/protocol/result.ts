/** The result of a function with expected failures: a value, or a reason. Only bugs throw. */
export type Result<T, E> = { ok: true; value: T } | { ok: false; reason: E };
