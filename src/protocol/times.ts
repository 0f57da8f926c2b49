// Every time of the service. Each step of a job's way keeps them, the docs print them, tests read them. Source: JB4, LM3, PY7, PY8, WS (docs/rules.md).

/** Milliseconds of a second. */
export const SECOND = 1_000;
/** Milliseconds of a minute. */
export const MINUTE = 60 * SECOND;
/** Milliseconds of an hour. */
export const HOUR = 60 * MINUTE;
/** Milliseconds of a day. */
export const DAY = 24 * HOUR;

/** The longest `wait` in seconds. A larger value counts as this one [API6]. */
export const MAX_WAIT_SECONDS = 25;

/** Times in milliseconds. */
export const TIMING = {
  /** How often the hub offers waiting jobs again [SPEC]. */
  retryTick: 2 * SECOND,
  /** How long a job waits for a worker. The time starts again after a requeue [JB4]. */
  claimWindow: 30 * SECOND,
  /** How long a worker without the feature `ack` gets no job after it registered: it may attach its job listener a moment later [JB2]. */
  arrival: 2 * SECOND,
  /** How long a worker with the feature `ack` may take to acknowledge a job [WS9]. */
  ack: 5 * SECOND,
  /** Execution time of a TASK, per attempt. An acknowledgement or progress renews it. */
  executeTask: 30 * SECOND,
  /** Execution time of an LLM_INFER, per attempt. An acknowledgement or progress renews it. */
  executeLlm: 60 * SECOND,
  /** A renewed execution deadline is saved when it has moved by this much, because the hub may hibernate. */
  renewalSaved: 5 * SECOND,
  /** How long a lease survives its closed socket. */
  grace: 15 * SECOND,
  /** The longest life of a job, from commit to end. */
  total: 180 * SECOND,
  /** How long a model counts as offered after its last worker has left [JB10]. */
  modelRemembered: 5 * MINUTE,
  /** How long after a restart any model counts as offered, because its workers may come back [JB10]. */
  modelsReturn: MINUTE,
  /** How long a job may wait that waited when the coordinator went down, counted from its start: its workers come back meanwhile [JB4]. */
  outageWindow: MINUTE,
  /** Heartbeat interval of a worker [SPEC]. */
  heartbeat: 10 * SECOND,
  /** A worker that is silent for longer gets no job [WS6]. */
  silentUnclaimable: 25 * SECOND,
  /** The sweep closes the socket of a worker that is silent for longer [WS6]. */
  silentClosed: 30 * SECOND,
  /** How often the hub sweeps its sockets while there are any [WS6]. */
  sweep: 30 * SECOND,
  /** How long the body of a request may take to arrive [LM1]. */
  body: 30 * SECOND,
  /** How long a socket may stay unregistered [WS2]. */
  register: 10 * SECOND,
  /** A socket that has sent something within this time is not replaced by an unsigned registration of its key [WS7]. */
  alive: 15 * SECOND,
  /** How far a receipt's `completed_at` may be from the coordinator's clock [RC3]. */
  receiptSkew: 5 * MINUTE,
  /** A CHEAP job is queued as if it had been committed this much later [JB3]. */
  cheapDelay: 10 * SECOND,
  /** Validity of a pairing code [SPEC]. */
  pairingCode: 1 * HOUR,
  /** How long the first parking lasts. Each next one is twice as long, up to `parkMax` [WS4]. */
  park: 60 * SECOND,
  /** The longest parking [WS4]. */
  parkMax: 1 * HOUR,
  /** Each period of this length since the last parking makes the next parking half as long [RC4]. */
  parkHalving: 1 * DAY,
  /** How far the first failure of a worker on probation moves its network back. Each next one moves it twice as far, up to `backOffMax` [JB11]. */
  backOff: 2 * SECOND,
  /** The furthest that a network is moved back [JB11]. */
  backOffMax: 5 * MINUTE,
  /** How long a key that has never completed a job is remembered after it was last seen [LM3]. */
  newKey: 1 * DAY,
  /** How long a key that has completed a job, or has signed where keys need not sign, is remembered after it was last seen [WS5]. */
  authenticatedKey: 30 * DAY,
  /** How long a payment stays reserved while it is verified [PY5]. */
  reservation: 60 * SECOND,
  /** How often an open event stream gets a comment [API6]. */
  streamComment: 15 * SECOND,
  /** How long a worker stays claimed while a payment settles, from the beginning of the settle call: as long as `settle` [PY7]. */
  hold: 20 * SECOND,
  /** After this time a settle call whose outcome nobody has reported counts as lost [PY8]. */
  settleReport: 25 * SECOND,
  /** The first pause before the hub asks again for the outcome of an unknown settlement [PY8]. */
  settleRetry: 2 * SECOND,
  /**
   * A settle call without an answer may run this long at the facilitator, because facilitators on Solana wait 30 s for a transaction: no second one begins
   * before [PY8].
   */
  settleCall: 32 * SECOND,
  /** The longest pause before the hub asks again while the authorization is valid, and the first pause after it has expired [PY8]. */
  settleRetryMax: 5 * MINUTE,
  /** The longest pause before the hub asks again after the authorization has expired [PY8]. */
  settleRetryLate: 1 * HOUR,
  /** When the chain is read about a payment, after its doubt began, or when a search goes on [PY8]. */
  chainFirst: 1 * SECOND,
  /** How long the chain's RPC may take for one request about payments [PY8]. */
  chainAnswer: 5 * SECOND,
  /** How long Solana's RPC is asked whether a transaction has failed that the facilitator reported as settled [PY8]. */
  svmStatus: 3 * SECOND,
  /** How long the hub keeps asking for an unknown settlement after its authorization has expired [PY8]. */
  unknownSettlement: 24 * HOUR,
  /** How long a socket may exceed its message rate before it is closed [LM2]. */
  flood: 5 * SECOND,
  /** How long a socket must keep its rate before its flood counts as over. */
  floodOver: 1 * SECOND,
  /** How long an unregistered socket is safe when the hub is full; after that it may be closed to make room for a new one [LM1]. */
  unregisteredSafe: 2 * SECOND,
  /** How long one D1 call may take. */
  store: 5 * SECOND,
  /** How often the sweep reads a worker's stake again [ST2]. */
  stakeRefresh: 5 * MINUTE,
  /** A random time up to this is subtracted from `stakeRefresh`, so that workers that connected together are not always read together. */
  stakeSpread: 1 * MINUTE,
  /** How long a stake read may wait behind others. */
  stakeWait: 5 * SECOND,
  /** How long a chain's RPC may take. Together with `stakeWait` it is shorter than `register`. */
  stakeAnswer: 4 * SECOND,
  /** How long a commit waits for its settlement: a little longer than `settle`. */
  settleWait: 25 * SECOND,
  /** How much longer an EVM authorization must be valid: 30 s for the wait for a worker, and the rest for its settlement on the chain [PY7]. */
  evmMargin: 40 * SECOND,
  /** The longest validity that counts for an EVM authorization. It may be valid forever, but a job may not wait forever. */
  evmLongest: 24 * HOUR,
  /** How long an SVM transaction counts as valid. Its blockhash is valid for 60 to 90 s [PY8]. */
  svmLifetime: 120 * SECOND,
  /** How long a signed payment must stay valid: `maxTimeoutSeconds` of a 402. */
  paymentValid: 300 * SECOND,
  /** The largest difference between the clock of Solana and ours at which a transaction that is not in the history can become void [PY8]. */
  svmClock: 10 * MINUTE,
  /**
   * How much earlier and later than its time a transaction is looked for, because the clocks of Solana and of the hub may have moved apart since then [PY8].
   */
  svmDrift: 10 * MINUTE,
  /** How long after its time a transaction that is not in the history of Solana is void: later a node may have forgotten the history [PY8]. */
  svmHistory: 1 * HOUR,
  /** This long before an authorization ends, the hub asks once more for an unknown outcome, without waiting for the next retry [PY8]. */
  settleLastChance: 10 * SECOND,
  /** The period of a rate "per minute". */
  ratePeriod: 1 * MINUTE,
  /** How long failed claims of pairing codes count for the key that signed them [TR3]. */
  failedClaims: 1 * HOUR,
  /** How long the facilitator may take to answer which payments it supports [PY8]. */
  supported: 5 * SECOND,
  /** How long the facilitator may take to verify a payment [PY8]. */
  verify: 5 * SECOND,
  /** How long the facilitator may take to settle a payment [PY8]. */
  settle: 20 * SECOND,
  /** The period of a rate "per 10 s". */
  pollRatePeriod: 10 * SECOND,
} as const;

/** How long records are kept, in milliseconds. Each is a setting [LM3]. */
export const RETENTION = {
  /** Payload and result, after the job's end. */
  result: 7 * DAY,
  /** Job and receipt rows, after the job's end. */
  job: 30 * DAY,
  /** Idempotency keys. */
  idempotency: 24 * HOUR,
  /** Unclaimed pairing codes, after they expired. During this time a late claim gets `expired`. */
  expiredCode: 24 * HOUR,
  /** Pairings and users, after the user's last PRIVATE commit, or after the pairing if there was none. */
  pairing: 180 * DAY,
} as const;

/** The `Retry-After` of a temporary refusal, in seconds. A rate limit may state a more exact time. */
export const RETRY_AFTER = {
  overloaded: 2,
  queue_full: 5,
  storage_full: 300,
  facilitator_unavailable: 5,
  too_many_held_payments: 5,
  rate_limited: 60,
} as const;

/** How the reference client behaves, in milliseconds [SPEC]. */
export const CLIENT = {
  /** Pause between two polls of a job. */
  pollInterval: 500,
  /** How long the client waits for the end of a TASK. */
  timeoutTask: 30 * SECOND,
  /** How long the client waits for the end of an LLM_INFER. */
  timeoutLlm: 60 * SECOND,
  /** Pause between two checks whether a worker has claimed a pairing code. It leaves room within `trustPerMinute`, also if user and worker share an address. */
  pairingInterval: 10 * SECOND,
} as const;
