export { clockSentence, offText, verdictOf } from "./clock.ts";
export { type ResultShelf, withinBounds } from "./delivery.ts";
export type { Profile } from "./frames.ts";
export { createExecutor } from "./runner.ts";
export { seal, seedSigner } from "./seal.ts";
export { type Socket, WorkerSession } from "./session.ts";
export type { SessionNote } from "./session-event.ts";
export type { KeptResult, Stop } from "./state.ts";
export { SESSION_TIMING, type SessionTiming } from "./timing.ts";
