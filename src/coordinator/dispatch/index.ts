export type {
  Answer,
  Changes,
  DispatchEvent,
  EventOf,
  JobEnd,
  OrderOutcome,
  OrderVerb,
  Outcome,
  Reduced,
  RowChange,
  Send,
  Submission,
  Verdict,
} from "./events.ts";
export { reduce } from "./reduce.ts";
export { restore, type SavedJob, Snapshot, snapshotOf } from "./snapshot.ts";
export {
  createState,
  type DispatchSettings,
  type DispatchState,
  isIdle,
  type JobFacts,
  type KeyRecord,
  type LiveJob,
  nextDue,
  statusOf,
  type Worker,
} from "./state.ts";
export {
  balanceOf,
  type Finding,
  IllegalMove,
  isInDoubt,
  MOVES,
  ownerOf,
  type Payment,
  type PaymentFacts,
  type PaymentStep,
  quarantined,
  type Reservation,
  type Settlement,
  stepOf,
} from "./ledger.ts";
export { paysAlready, restorePayments } from "./reservation.ts";
export type { StoredModel } from "./known-models.ts";
export { isKnownNetwork, NEW_KEY } from "./standing.ts";
export { OrderedPool } from "./pools.ts";
export { FairShare } from "./shares.ts";
