/** A finished result that the coordinator has not acknowledged yet. */
export type KeptResult = {
  jobId: string;
  attempt: number;
  /** The whole `job_complete` frame, sent again exactly as it is. */
  frame: string;
  /** Wall clock in ms since the epoch; the receipt says the same. */
  completedAt: number;
};

/** Where kept results outlive the process. */
export interface ResultShelf {
  load(): readonly KeptResult[];
  /** Replaces what is kept. Throws when that is not possible; the session goes on and says so. */
  save(results: readonly KeptResult[]): void;
}

const MAX_RESULTS = 16;
const MAX_CHARS = 16 * 1024 * 1024;

/** The newest results that fit the bounds of a shelf, oldest first. */
export function withinBounds<T extends KeptResult>(results: readonly T[]): T[] {
  let chars = 0;
  const newest = results.slice(-MAX_RESULTS).toReversed();
  const fitting = newest.findIndex((result) => (chars += result.frame.length) > MAX_CHARS);
  return newest.slice(0, fitting === -1 ? newest.length : fitting).toReversed();
}
