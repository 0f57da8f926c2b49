import { describe, expect, test } from "vitest";
import type { Reduced, Verdict } from "../../../src/coordinator/dispatch/index.ts";
import { Desk, words } from "./desk.ts";

const J1 = { jobId: "j", attempt: 1 };
const J2 = { jobId: "j", attempt: 2 };

/** `w` can run the TASK `j` and announced `ack`; `s` runs only LLM_INFER and never held it. */
function leased(): Desk {
  const desk = new Desk();
  desk.register("s", { capabilities: ["LLM_INFER"] });
  desk.register("w");
  desk.submit("j");
  return desk;
}

function running(): Desk {
  const desk = leased();
  desk.tell({ type: "ack", connId: "w#1", ...J1 });
  return desk;
}

const STATES = {
  /** It waits again: `w` had attempt 1 and failed. */
  pending: () => {
    const desk = leased();
    desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true });
    return desk;
  },
  leased,
  running,
  /** `w` runs it and its socket is gone. */
  orphaned: () => {
    const desk = running();
    desk.tell({ type: "disconnect", connId: "w#1" });
    return desk;
  },
  ended: () => {
    const desk = running();
    desk.tell({ type: "complete", connId: "w#1", ...J1, verdict: "valid" });
    return desk;
  },
} as const;

type Row = { rule: string; event: string; tell: (desk: Desk) => Reduced | Reduced[] } & Record<keyof typeof STATES, string>;

const completes = (connId: string, attempt: number | undefined, verdict: Verdict) => (desk: Desk) =>
  desk.tell({ type: "complete", connId, jobId: "j", attempt, verdict });
const stop = (attempt: number) => `cancel j ${attempt} on w#1: not_assigned`;
const replaced = "close w#1 4001";
const kept = { pending: "pending", leased: "assigned w 1", running: "running w 1", orphaned: "running w 1 gone", ended: "completed w" };

/** What each event does in each state. A comma parts the state from what is sent. */
const TABLE: readonly Row[] = [
  { ...kept, rule: "JB9", event: "submit again while it lives", tell: (desk) => (desk.state.jobs.has("j") ? desk.submit("j") : []) },
  {
    ...kept,
    rule: "WS9",
    event: "job_ack",
    tell: (desk) => desk.tell({ type: "ack", connId: "w#1", ...J1 }),
    pending: `pending, ${stop(1)}`,
    leased: "running w 1",
    ended: `completed w, ${stop(1)}`,
  },
  {
    ...kept,
    rule: "WS9",
    event: "job_ack of another attempt",
    tell: (desk) => desk.tell({ type: "ack", connId: "w#1", ...J2 }),
    pending: `pending, ${stop(2)}`,
    leased: `assigned w 1, ${stop(2)}`,
    running: `running w 1, ${stop(2)}`,
    ended: `completed w, ${stop(2)}`,
  },
  {
    ...kept,
    rule: "WS9",
    event: "job_progress",
    tell: (desk) => desk.tell({ type: "progress", connId: "w#1", ...J1 }),
    pending: `pending, ${stop(1)}`,
    leased: "running w 1",
    ended: `completed w, ${stop(1)}`,
  },
  {
    ...kept,
    rule: "JB6",
    event: "a valid result",
    tell: completes("w#1", 1, "valid"),
    pending: "completed w, accepted",
    leased: "completed w, accepted",
    running: "completed w, accepted",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "WS10",
    event: "a valid result without an attempt",
    tell: completes("w#1", undefined, "valid"),
    pending: "completed w, accepted",
    leased: "completed w, accepted",
    running: "completed w, accepted",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "WS12",
    event: "a result of one who never held it",
    tell: completes("s#1", 1, "valid"),
    pending: "pending, rejected: not_assigned",
    leased: "assigned w 1, rejected: not_assigned",
    running: "running w 1, rejected: not_assigned",
    orphaned: "running w 1 gone, rejected: not_assigned",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "RC4",
    event: "an invalid receipt",
    tell: completes("w#1", 1, "invalid_receipt"),
    pending: "pending, rejected: invalid_receipt",
    leased: "pending, rejected: invalid_receipt",
    running: "pending, rejected: invalid_receipt",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "RC4",
    event: "an invalid receipt of another attempt",
    tell: completes("w#1", 2, "invalid_receipt"),
    pending: "pending, rejected: invalid_receipt",
    leased: "assigned w 1, rejected: invalid_receipt",
    running: "running w 1, rejected: invalid_receipt",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "LM1",
    event: "an output that is too large",
    tell: completes("w#1", 1, "output_too_large"),
    pending: "pending, rejected: output_too_large",
    leased: "pending, rejected: output_too_large",
    running: "pending, rejected: output_too_large",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "JB5",
    event: "an output that is an error",
    tell: completes("w#1", 1, "worker_error"),
    pending: "pending, accepted",
    leased: "failed worker_error, accepted",
    running: "failed worker_error, accepted",
    ended: "completed w",
  },
  {
    ...kept,
    rule: "WS9",
    event: "job_failed, retryable",
    tell: (desk) => desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true }),
    leased: "pending",
    running: "pending",
  },
  {
    ...kept,
    rule: "WS9",
    event: "job_failed for good",
    tell: (desk) => desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: false }),
    leased: "failed worker_error",
    running: "failed worker_error",
  },
  {
    ...kept,
    rule: "JB5",
    event: "job_failed for good, with a cause of its own and a message",
    tell: (desk) => desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: false, cause: "content_refused", message: "not that" }),
    leased: "failed content_refused: not that",
    running: "failed content_refused: not that",
  },
  {
    ...kept,
    rule: "JB5",
    event: "job_failed, the context is too small and nobody has a larger one",
    tell: (desk) => desk.tell({ type: "failed", connId: "w#1", ...J1, retryable: true, cause: "context_length_exceeded" }),
    leased: "failed context_length_exceeded",
    running: "failed context_length_exceeded",
  },
  {
    ...kept,
    rule: "LM1",
    event: "a frame over the limit",
    tell: (desk) => desk.tell({ type: "oversized", connId: "w#1", jobId: "j" }),
    leased: "pending, rejected: output_too_large",
    running: "pending, rejected: output_too_large",
  },
  { ...kept, rule: "WS9", event: "job_failed of another attempt", tell: (desk) => desk.tell({ type: "failed", connId: "w#1", ...J2, retryable: false }) },
  {
    ...kept,
    rule: "WS9",
    event: "job_reject",
    tell: (desk) => desk.tell({ type: "reject", connId: "w#1", jobId: "j" }),
    leased: "pending",
    running: "pending",
  },
  {
    ...kept,
    rule: "JB4",
    event: "the socket closes",
    tell: (desk) => desk.tell({ type: "disconnect", connId: "w#1" }),
    leased: "assigned w 1 gone",
    running: "running w 1 gone",
  },
  {
    rule: "WS10",
    event: "register without resume",
    tell: (desk) => desk.register("w"),
    pending: `pending, ${replaced}`,
    leased: `assigned w 1, ${replaced}`,
    running: `running w 1, ${replaced}`,
    orphaned: "running w 1",
    ended: `completed w, ${replaced}`,
  },
  {
    rule: "WS10",
    event: "register that lists it",
    tell: (desk) => desk.register("w", { resume: [J1] }),
    pending: `pending, ${replaced}, cancel j 1 on w#2: not_assigned`,
    leased: `running w 1, ${replaced}`,
    running: `running w 1, ${replaced}`,
    orphaned: "running w 1",
    ended: `completed w, ${replaced}, cancel j 1 on w#2: not_assigned`,
  },
  {
    rule: "WS10",
    event: "register that lists it twice",
    tell: (desk) => desk.register("w", { resume: [J1, J1] }),
    pending: `pending, ${replaced}, cancel j 1 on w#2: not_assigned, cancel j 1 on w#2: not_assigned`,
    leased: `running w 1, ${replaced}`,
    running: `running w 1, ${replaced}`,
    orphaned: "running w 1",
    ended: `completed w, ${replaced}, cancel j 1 on w#2: not_assigned, cancel j 1 on w#2: not_assigned`,
  },
  {
    rule: "WS10",
    event: "register that lists another attempt",
    tell: (desk) => desk.register("w", { resume: [J2] }),
    pending: `pending, ${replaced}, cancel j 2 on w#2: not_assigned`,
    leased: `pending, ${replaced}, cancel j 2 on w#2: not_assigned`,
    running: `pending, ${replaced}, cancel j 2 on w#2: not_assigned`,
    orphaned: "pending, cancel j 2 on w#2: not_assigned",
    ended: `completed w, ${replaced}, cancel j 2 on w#2: not_assigned`,
  },
  {
    rule: "WS10",
    event: "register with an empty resume",
    tell: (desk) => desk.register("w", { resume: [] }),
    pending: `pending, ${replaced}`,
    leased: `pending, ${replaced}`,
    running: `pending, ${replaced}`,
    orphaned: "pending",
    ended: `completed w, ${replaced}`,
  },
  {
    ...kept,
    rule: "WS11",
    event: "drain",
    tell: (desk) => desk.tell({ type: "drain", connId: "w#1" }),
    pending: "pending, drained w#1, close w#1 1000",
    ended: "completed w, drained w#1, close w#1 1000",
  },
  {
    ...kept,
    rule: "JB5",
    event: "cancel",
    tell: (desk) => desk.tell({ type: "cancel", jobId: "j" }),
    pending: "failed cancelled",
    leased: "failed cancelled, cancel j 1 on w#1: cancelled",
    running: "failed cancelled, cancel j 1 on w#1: cancelled",
    orphaned: "failed cancelled",
  },
  { ...kept, rule: "WS7", event: "a frame of a socket that nobody knows", tell: completes("w#9", 1, "valid") },
];

for (const row of TABLE) {
  describe(`[${row.rule}] ${row.event}`, () => {
    for (const [state, make] of Object.entries(STATES) as [keyof typeof STATES, () => Desk][]) {
      test(`${state} → ${row[state]}`, () => {
        const desk = make();
        const sent = words(row.tell(desk));
        expect([desk.where("j"), sent].filter(Boolean).join(", ")).toBe(row[state]);
      });
    }
  });
}
