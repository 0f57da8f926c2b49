/** Exit codes of `compute-router`; the help prints them. */
export const EXIT = {
  ok: 0,
  /** Something unexpected. */
  error: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The key file cannot be used, or another process is this worker. */
  key: 3,
  /** Another worker with the same key has connected. */
  replaced: 4,
  /** The coordinator refuses: registration, signature, network, payment, pairing code. */
  refused: 5,
  /** The coordinator cannot be reached. */
  unreachable: 6,
  /** The job failed or did not end in time. */
  job: 7,
  /** A receipt does not verify. */
  receipt: 8,
  /** `worker status`: no worker runs here. */
  notRunning: 9,
} as const;

/** The meanings, one a line, for the help. */
export const EXIT_HELP =
  "Exit codes: 0 ok, 1 error, 2 usage, 3 key file or lock, 4 replaced by another worker, 5 refused, 6 unreachable, 7 job failed, 8 receipt invalid, 9 no worker runs, 130/143 second signal";
