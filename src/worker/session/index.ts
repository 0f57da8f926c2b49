export { type KeptResult, type ResultShelf, withinBounds } from "./kept-result.ts";
export type { Profile } from "./profile.ts";
export { createExecutor, type Execution, type Executor, type TaskExecutor } from "./runner.ts";
export { type SessionOptions, type Socket, WorkerSession } from "./session.ts";
export type { SessionNote } from "./session-event.ts";
export { seedSigner, type Signer } from "./signer.ts";
export type { Stop } from "./state.ts";
export type { SessionTiming } from "./timing.ts";
