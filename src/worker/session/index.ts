export { type KeptResult, type ResultShelf, withinBounds } from "./kept-result.ts";
export type { Profile } from "./profile.ts";
export { createExecutor } from "./runner.ts";
export { seal } from "./seal.ts";
export { type Socket, WorkerSession } from "./session.ts";
export type { SessionNote } from "./session-event.ts";
export { seedSigner } from "./signer.ts";
export type { Stop } from "./state.ts";
export type { SessionTiming } from "./timing.ts";
