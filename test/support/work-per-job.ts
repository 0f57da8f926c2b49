/** What one free job alone costs. `test/edge/hub/work-per-job.test.ts` holds these numbers, and `npm run bench` prints them. */
export const WORK_PER_JOB = {
  /** SQL statements of the hub, in their order. */
  statements: [
    // The job with its claim, in one row.
    "INSERT jobs",
    // Its end, with result and receipt. It returns the row, for streams, polls and D1.
    "UPDATE jobs",
    // It leaves when D1 has it. Under load one statement deletes many.
    "DELETE jobs",
  ],
  /**
   * RPCs to the hub: a commit and polls while the job lives, or a commit that waits for the end. Where the router runs in the hub's isolate, a poll of its end
   * needs none.
   */
  rpcs: { polled: ["commit"], waited: ["commit"] },
  /** Batches of statements to D1; one takes up to 256 jobs under load. */
  d1Batches: 1,
  /** `job_assign`, `job_complete`, `job_complete_ack`: those of a worker that does not announce acknowledgements. */
  frames: { count: 3, bytes: 868 },
} as const;
