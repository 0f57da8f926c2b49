import { TIMING } from "../../protocol/limits.ts";

/** D1 did not answer in time or failed; what a write did is unknown. */
export class StoreUnavailable extends Error {
  override readonly name: string = "StoreUnavailable";
  /** What D1 itself said: tables and codes, never a value. */
  readonly reason: string;
  constructor(cause: unknown) {
    super("the store did not answer", { cause });
    this.reason = rootMessage(cause);
  }
}

/** The message at the bottom of a chain of causes: drizzle's own, on top, lists the query's parameters. */
function rootMessage(error: unknown): string {
  let root = error;
  while (root instanceof Error && root.cause !== undefined) root = root.cause;
  return root instanceof Error ? root.message : typeof root;
}

/** Awaits one D1 call for at most 5 s: D1 has been seen to stall for 30 s and more. @throws {StoreUnavailable} when it is late or fails */
export async function withDeadline<T>(call: PromiseLike<T>, deadline: number = TIMING.store): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer in ${deadline} ms`)), deadline);
  });
  try {
    return await Promise.race([call, late]);
  } catch (error) {
    throw new StoreUnavailable(error);
  } finally {
    clearTimeout(timer);
  }
}
