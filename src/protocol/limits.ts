/**
 * Every limit and every time of the service, in one place.
 * The coordinator enforces them, the docs print them, the tests read them. Source: DECISIONS LM1–LM3, JB4, WS, TR3; SPEC.md "Limits".
 */

export const KiB = 1024;
export const MiB = 1024 * KiB;
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Sizes and counts, always on [LM1]. Bytes are UTF-8 bytes. */
export const LIMITS = {
  /** Bytes of a request body; more is 413. */
  bodyBytes: 512 * KiB,
  /** Bytes of an LLM `prompt` or a TASK `input`; more is 413. */
  textBytes: 256 * KiB,
  /** Bytes of an output as JSON text. */
  outputBytes: 1 * MiB,
  /** Bytes of one socket frame; more closes the socket with 1009. */
  frameBytes: 1.25 * MiB,
  /** Nesting of objects and arrays in a body or frame. */
  jsonDepth: 32,
  /** Characters (code points) of a `user_id`. */
  userIdChars: 128,
  /** Bytes of an `X-PAYMENT` header. */
  paymentHeaderBytes: 16 * KiB,
  /** Characters of an `Idempotency-Key`. */
  idempotencyKeyChars: 255,
  /** Characters of a model's name, names of models that are kept of one worker, and their bytes: they stand in the socket's attachment, which may have 16 KiB in all [JB10]. */
  modelNameChars: 200,
  modelsPerWorker: 100,
  modelBytesPerWorker: 8 * KiB,
  /** Models that `GET /v1/models` lists [JB10]. */
  modelsListed: 1_000,
  /** Largest `max_tokens`. */
  maxTokens: 32_768,
  /** Tokens of an LLM answer when the job names no `max_tokens`. */
  defaultMaxTokens: 512,
  /** Tokens that a worker of this package gives one answer at most, whatever `max_tokens` says; its owner may change it (`--max-tokens`). */
  workerMaxTokens: 4_096,
  /** Characters of `result.message`, what a worker said about a failed job. */
  messageChars: 500,
  /** Jobs of one user that wait for a worker. */
  queuedJobsPerUser: 1_000,
  /** Jobs of one hub that wait for a worker. */
  queuedJobs: 10_000,
  /** Bytes of payload of the jobs of one hub that wait for a worker. */
  queuedPayloadBytes: 32 * MiB,
  /** Worker sockets of one hub. */
  sockets: 5_000,
  /** Worker sockets of one hub that have not registered yet. */
  unregisteredSockets: 256,
  /** Frames in a row without a good one before the socket is closed. */
  badFramesInARow: 10,
  /** Paired workers of one user that a PRIVATE job is offered to, newest first. */
  pairedKeys: 100,
  /** Held `wait` requests of one hub; past that a wait answers the present state at once. */
  waits: 2_000,
  /** Open event streams of one hub; past that 503 [API6]. */
  streams: 500,
  /** Bytes of streamed text that are kept of one job, newest first [API6]. */
  streamTextBytes: 1 * MiB,
  /** Bytes of streamed text and of ended jobs that one hub keeps for streams, all together. */
  streamBytes: 16 * MiB,
  /** Attempts of one job. */
  attempts: 3,
  /** Failed or refused jobs in a row after which a worker rests until the next tick. */
  failuresInARow: 5,
  /** Invalid results after which a worker is parked [RC4]. */
  strikes: 3,
  /** Settlements under way at once [PY7]. */
  settlements: 4,
  /** Payments of one payer that wait for a worker, or for an answer about their settlement [PY9]. */
  heldPayments: 4,
  /** Payments of one payer that are not settled yet, those that a worker is kept for included. */
  unsettledPayments: 32,
  /** Reads of stakes under way at once [ST2]. */
  stakeReads: 6,
  /** Workers whose stake one sweep reads again, those first that have waited longest: 9 sweeps go round all sockets of a hub [ST2]. */
  stakesPerSweep: 600,
  /** Results of jobs that are not live for which D1 is asked at once, wait to be asked for, and of these of one socket [WS10]. */
  lookups: 8,
  lookupsWaiting: 1_000,
  lookupsPerSocket: 32,
  /** Open pairing codes of one user [TR3]. */
  openPairingCodes: 5,
  /** Fresh pairing codes that are tried before giving up: with a million codes open, eight in a row are taken once in 10^9 times. */
  pairingCodeTries: 8,
  /** Characters of an `X-User-Token` [TR2]. */
  userTokenChars: 1_024,
  /** Ended or changed jobs of one hub that D1 does not have yet; past that commits are 503. */
  jobsBehind: 20_000,
  /** Clients that one isolate counts the requests of at once, per rate; the one unheard for longest is forgotten [LM2]. */
  countedClients: 10_000,
  /** Keys without a signature whose last job one hub remembers. */
  unprovenKeys: 5_000,
  /** Bytes of a facilitator's answer; a longer one is none. */
  facilitatorAnswerBytes: 64 * KiB,
  /** Bytes of an answer of a chain's RPC about stakes: on the SVM one of many hundred token accounts, which cost whoever makes them rent. */
  rpcAnswerBytes: 1 * MiB,
} as const;

/** Times in milliseconds. */
export const TIMING = {
  /** How often waiting jobs are offered again [SPEC]. */
  retryTick: 2 * SECOND,
  /** How long a job waits for a worker, afresh after a requeue [JB4]. */
  claimWindow: 30 * SECOND,
  /** How long a worker that does not announce `ack` is given no job after it registered: its job listener may come a moment later [JB2]. */
  arrival: 2 * SECOND,
  /** How long a worker that announced `ack` may take to acknowledge [WS9]. */
  ack: 5 * SECOND,
  /** Execution of a TASK, per attempt, renewed by acknowledgement and progress. */
  executeTask: 30 * SECOND,
  /** Execution of an LLM_INFER, per attempt, renewed by acknowledgement and progress. */
  executeLlm: 60 * SECOND,
  /** An execution time that was renewed by this much is saved, in case the hub sleeps. */
  renewalSaved: 5 * SECOND,
  /** How long a lease outlives its socket. */
  grace: 15 * SECOND,
  /** A job's whole life. */
  total: 180 * SECOND,
  /** Heartbeat interval of a worker [SPEC]. */
  heartbeat: 10 * SECOND,
  /** A worker silent for longer is not claimable [WS6]. */
  silentUnclaimable: 25 * SECOND,
  /** A worker silent for longer is closed by the sweep [WS6]. */
  silentClosed: 30 * SECOND,
  /** How often sockets are swept while there are any [WS6]. */
  sweep: 30 * SECOND,
  /** How long a socket may stay unregistered [WS2]. */
  register: 10 * SECOND,
  /** How far a receipt's `completed_at` may be from the coordinator's clock [RC3]. */
  receiptSkew: 5 * MINUTE,
  /** What a CHEAP job's place in the queue is behind that of a FAST one [JB3]. */
  cheapDelay: 10 * SECOND,
  /** Validity of a pairing code [SPEC]. */
  pairingCode: 1 * HOUR,
  /** How long a first parking lasts; it doubles up to `parkMax` [WS4]. */
  park: 60 * SECOND,
  parkMax: 1 * HOUR,
  /** The doubling is halved for each of these since a key was last parked [RC4]. */
  day: 1 * DAY,
  /** How long a key that has authenticated is remembered after it was last seen [WS5]. */
  authenticatedKey: 30 * DAY,
  /** How long a payment is reserved while it is verified [PY5]. */
  reservation: 60 * SECOND,
  /** How often an open event stream is sent a comment [API6]. */
  streamComment: 15 * SECOND,
  /** How long a worker is kept while a payment is settled [PY7]. */
  hold: 10 * SECOND,
  /** First and longest pause before an unknown settlement is asked for again [PY8]. */
  settleRetry: 2 * SECOND,
  settleRetryMax: 5 * MINUTE,
  /** How long after its authorization has expired an unknown settlement is asked for [PY8]. */
  unknownSettlement: 24 * HOUR,
  /** How long a socket may go on sending too much before it is closed [LM2]. */
  flood: 5 * SECOND,
  /** How long a socket must have kept its rate for a flood to be over. */
  floodOver: 1 * SECOND,
  /** How long a socket that has not registered is safe from making room for another, while there is room for none [LM1]. */
  strangerSafe: 2 * SECOND,
  /** How long one call of D1 may take. */
  store: 5 * SECOND,
  /** How often a worker's stake is read again, in the sweep [ST2]. */
  stakeRefresh: 5 * MINUTE,
  /** How much earlier than that at most, at random, so that workers that came together are not read together for ever; once after a registration more. */
  stakeSpread: 1 * MINUTE,
  /** How long a question for a stake may wait behind others. */
  stakeWait: 5 * SECOND,
  /** How long a chain's RPC may take: with the longest wait before it, less than a socket may stay unregistered. */
  stakeAnswer: 4 * SECOND,
  /** How long a commit waits for its settlement: as long as the facilitator may take, and a moment. */
  settleWait: 25 * SECOND,
  /** How much longer than now an EVM authorization must be good: 30 s of waiting for a worker, and then its settlement on the chain [PY7]. */
  evmMargin: 40 * SECOND,
  /** The longest an EVM authorization counts as good: it may be so for ever, and a job may not wait for ever. */
  evmLongest: 24 * HOUR,
  /** How long an SVM transaction is taken to be alive: its blockhash lives for 60 to 90 s [PY8]. */
  svmLifetime: 120 * SECOND,
  /** How long a signed payment must stay good: `maxTimeoutSeconds` of a 402. */
  paymentValid: 300 * SECOND,
  /** How long before the end of an authorization an unknown outcome is asked for whatever the pause [PY8]. */
  settleLastChance: 10 * SECOND,
  /** What a rate "per minute" counts over. */
  minute: 1 * MINUTE,
  /** How long the facilitator may take to say what it supports, to verify and to settle [PY8]. */
  supported: 5 * SECOND,
  verify: 5 * SECOND,
  settle: 20 * SECOND,
  /** What a rate "per 10 s" counts over. */
  tenSeconds: 10 * SECOND,
} as const;

/** The longest `wait` in seconds; more is read as this [API6]. */
export const MAX_WAIT_SECONDS = 25;

/** How long things are kept, in milliseconds; each is a setting [LM3]. */
export const RETENTION = {
  /** Payload and result, after the job's end. */
  result: 7 * DAY,
  /** Job and receipt rows, after the job's end. */
  job: 30 * DAY,
  /** Idempotency keys. */
  idempotency: 24 * HOUR,
  /** Pairing codes that nobody claimed, after they expired: so long a late claim is told `expired`. */
  expiredCode: 24 * HOUR,
} as const;

/** What `Retry-After` says to a refusal for a passing reason, in seconds; a rate says when it has room again. */
export const RETRY_AFTER = { overloaded: 2, queue_full: 5, facilitator_unavailable: 5, too_many_held_payments: 5, rate_limited: 60 } as const;

/** Rates, in force while `RATE_LIMITS` is on; each is a setting [LM2, TR3]. An IPv6 client counts by its /64. */
export const RATES = {
  /** Commits per minute and IP, whatever they are answered. */
  commitsPerMinute: 60,
  /** Polls of jobs per 10 s and IP. */
  pollsPerTenSeconds: 200,
  /** Requests to the pairing endpoints per minute and IP. */
  trustPerMinute: 10,
  /** Worker sockets per IP. */
  socketsPerIp: 256,
  /** Worker sockets that an IP may open in a minute: all that it may have, once more after a restart. Each costs checks, a new key a row. */
  connectsPerMinute: 512,
  /** Frames per second and socket; heartbeats that the platform answers are none. */
  messagesPerSecond: 50,
  /** Frames of one socket in one burst. */
  messageBurst: 100,
  /** Claims of pairing codes per minute and IP. */
  pairingClaimsPerMinute: 10,
  /** Failed claims of pairing codes per minute, all together. */
  failedPairingClaimsPerMinute: 30,
} as const;

/** Reference client behaviour [SPEC]. */
export const CLIENT = {
  pollInterval: 500,
  timeoutTask: 30 * SECOND,
  timeoutLlm: 60 * SECOND,
  /** Between two looks for the worker that claims a code: with `trustPerMinute` for an address, user and worker at one address have room for the rest. */
  pairingInterval: 10 * SECOND,
} as const;
