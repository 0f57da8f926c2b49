export { clockSentence, offText, verdictOf } from "./clock.ts";
export { type ResultShelf, withinBounds } from "./delivery.ts";
export { createExecutor, seal, seedSigner, type TaskThread, ThreadedTasks, type ThreadHooks } from "./executor.ts";
export type { Profile } from "./frames.ts";
export { type Socket, WorkerSession } from "./session.ts";
export { type KeptResult, SESSION_TIMING, type SessionNote, type SessionTiming, type Stop } from "./state.ts";
