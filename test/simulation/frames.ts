import type { JobType } from "../../src/protocol/job.ts";
import type { Send, Verdict } from "../../src/coordinator/dispatch/index.ts";

/** What a simulated worker sends: the wire messages, with the receipt already judged. */
export type UpFrame =
  | {
      type: "register";
      key: string;
      capabilities: readonly JobType[];
      acks: boolean;
      context: number;
      models: readonly string[];
      chats: boolean;
      resume: { jobId: string; attempt: number }[] | undefined;
    }
  | { type: "heartbeat" }
  | { type: "ack"; jobId: string; attempt: number }
  | { type: "progress"; jobId: string; attempt: number }
  | { type: "failed"; jobId: string; attempt: number; retryable: boolean; cause?: "context_length_exceeded" }
  | { type: "reject"; jobId: string; tooLong?: boolean }
  | { type: "complete"; jobId: string; attempt: number | undefined; verdict: Verdict }
  | { type: "drain" };

/** What the hub sends to a worker. */
export type DownFrame =
  | Extract<Send, { type: "assign" | "cancel_attempt" | "drained" }>
  | { type: "completion_ack"; jobId: string; status: "accepted" | "rejected" };
