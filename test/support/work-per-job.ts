/** What one free job alone costs. `test/edge/hub/work-per-job.test.ts` holds these numbers, and `npm run bench` prints them. */
export const WORK_PER_JOB = {
  /** SQL statements of the hub, in their order. */
  statements: [
    // Commit: is it the second delivery of one that is known?
    "SELECT jobs",
    // The job with its claim, in one row.
    "INSERT jobs",
    // Its end, with result and receipt.
    "UPDATE jobs",
    // The end is read back for streams and polls.
    "SELECT jobs",
    // The outbox reads the row for D1, deletes it when D1 has it, notes what was copied of rows that have not ended, and looks whether one changed meanwhile.
    "SELECT jobs",
    "DELETE jobs",
    "UPDATE jobs",
    "SELECT jobs",
  ],
  /** RPCs to the hub: a commit and one poll, or a commit that waits for the end. */
  rpcs: { polled: ["commit", "job"], waited: ["commit"] },
  /** Batches of statements to D1; one takes up to 500 jobs under load. */
  d1Batches: 1,
  /** `job_assign`, `job_complete`, `job_complete_ack`: those of a worker that does not announce acknowledgements. */
  frames: { count: 3, bytes: 868 },
} as const;
