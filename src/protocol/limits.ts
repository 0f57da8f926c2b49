// Every size, count and rate that a rule or a table of the docs names; all others are in coordinator/tuning.ts. Each step of a job's way keeps them, the docs
// print them, tests read them. Source: LM1–LM3, TR3 (docs/rules.md).

/** Bytes of a kibibyte. */
export const KiB = 1024;
/** Bytes of a mebibyte. */
export const MiB = 1024 * KiB;

/** Sizes and counts. They are always enforced [LM1], except the shares of one client, which count only while `RATE_LIMITS` is on. Bytes are UTF-8 bytes. */
export const LIMITS = {
  /** Bytes of a request body; more is 413. */
  bodyBytes: 512 * KiB,
  /** Bytes of an LLM `prompt` or a TASK `input`; more is 413. */
  textBytes: 256 * KiB,
  /** Bytes of a payload as the worker gets it; more is 413. It can be longer than its body: a `prompt` is added to a chat, and JSON is written again. */
  payloadBytes: 768 * KiB,
  /** Bytes of an output as JSON text. */
  outputBytes: 1 * MiB,
  /** Bytes of one socket frame; more closes the socket with 1009. */
  frameBytes: 1.25 * MiB,
  /** Nesting of objects and arrays in a body or frame. */
  jsonDepth: 32,
  /** Values in a body, those inside others too: members, elements, objects and arrays. A chat of the most messages and parts has 12,000. */
  jsonValues: 16_384,
  /** Characters (code points) of a `user_id`. */
  userIdChars: 128,
  /** Bytes of an `X-PAYMENT` header. */
  paymentHeaderBytes: 16 * KiB,
  /** Characters of each text of a receipt; one with a longer text cannot be read. */
  receiptTextChars: 256,
  /** Characters of an `Idempotency-Key`. */
  idempotencyKeyChars: 255,
  /** Characters of a model name [JB10]. */
  modelNameChars: 200,
  /** Model names that the hub keeps for one worker [JB10]. */
  modelsPerWorker: 100,
  /** Bytes of all model names that the hub keeps for one worker. They are part of the socket's attachment, which may have 16 KiB in all [JB10]. */
  modelBytesPerWorker: 8 * KiB,
  /** Characters of each text by which a worker describes itself: `engine`, `name`, `version` [WS3]. */
  workerTextChars: 128,
  /** Jobs that one registration can resume [WS10]. */
  resumedJobs: 64,
  /** Messages of one chat, and texts that they have in parts, as OpenAI's API allows it [JB12, API9]. */
  chatMessages: 2_000,
  /** Texts of `stop` in one job [JB12]. */
  stops: 16,
  /** Characters of each text of `stop` [JB12]. */
  stopChars: 256,
  /** Places of model names in the indexes of one hub. A worker has one place for each of its models [JB10]. */
  modelPlaces: 50_000,
  /** Places of model names that the workers of one network may have together [JB10]. */
  modelPlacesPerNetwork: 1_000,
  /** Models that a hub remembers after their last worker has left [JB10]. */
  modelsRemembered: 1_000,
  /** Models of one network that a hub remembers after their last worker has left [JB10]. */
  modelsRememberedPerNetwork: 100,
  /** Of so many jobs one goes to a worker on probation although a proven worker is idle [JB11]. */
  probationShare: 5,
  /** Models that `GET /v1/models` lists [JB10]. */
  modelsListed: 1_000,
  /** Largest `max_tokens`. */
  maxTokens: 32_768,
  /** The most tokens of an LLM answer if the job has no `max_tokens`. */
  defaultMaxTokens: 512,
  /** The most tokens that a worker of this package generates for one answer, whatever `max_tokens` says. Its owner can change it (`--max-tokens`). */
  workerMaxTokens: 4_096,
  /** Characters of `result.message`, the text that a worker sent about a failed job. */
  messageChars: 500,
  /** Jobs of one user that wait for a worker; a setting. */
  queuedJobsPerUser: 1_000,
  /** Jobs of one hub that wait for a worker; a setting. */
  queuedJobs: 10_000,
  /** Payload bytes of all jobs of one hub that wait for a worker; a setting. */
  queuedPayloadBytes: 32 * MiB,
  /** The part of the queue, in jobs and in bytes, that one client may use, and one payer. */
  queueShare: 1 / 4,
  /** The part of the queue that is guaranteed to each pool: to each job type, and with a stake source to its FAST jobs too. */
  queueGuarantee: 1 / 8,
  /** Worker sockets of one hub. */
  sockets: 5_000,
  /** Sockets that a hub has closed and whose client has not disconnected yet. One client may have as many of these as open sockets. */
  lingeringSockets: 5_000,
  /** An IPv6 /48 may use this many times the rate of one client, which is a /64 [LM2]. */
  clientsPerNetwork: 8,
  /** Worker sockets of one hub that have not registered yet. */
  unregisteredSockets: 256,
  /** Worker sockets of one client that have not registered yet. */
  unregisteredSocketsPerClient: 16,
  /** Bytes that were sent to a worker and that it has not shown to have read. Above that its socket is closed, because they are kept in memory [LM1]. */
  unreadBytes: 4 * MiB,
  /** Unread bytes of all sockets of one client together: enough for the largest job on each of them. */
  unreadBytesPerClient: 64 * MiB,
  /** Bytes that each unread frame counts in addition to its text, because workerd keeps so much with it. `npm run floods -- --unread` measures it. */
  unreadFrameBytes: 1.25 * KiB,
  /** Invalid frames in a row after which the socket is closed. */
  badFramesInARow: 10,
  /** Results in a row, of jobs that the key has never held, after which the socket is closed [LM2]. */
  foreignResultsInARow: 32,
  /** Paired workers of one user to which a PRIVATE job is offered, newest pairing first. */
  pairedKeys: 100,
  /** Bytes of the queue that a waiting PRIVATE job counts for each of these workers: what the hub keeps in memory for it. */
  pairedKeyBytes: 200,
  /** Requests that wait at one hub (`wait`). Above that, such a request gets the current state at once. */
  waits: 2_000,
  /** Requests of one client that wait. */
  waitsPerClient: 200,
  /** Commits that wait for another commit with the same payment or idempotency key, and commits that wait for the end of the same job [API5, PY6]. */
  waitersPerKey: 8,
  /** Open event streams of one hub. Above that, a new one gets 503 [API6]. */
  streams: 500,
  /** Open event streams of one client. */
  streamsPerClient: 50,
  /** Bytes of streamed text kept for one job, newest first [API6]. */
  streamTextBytes: 1 * MiB,
  /** Bytes of streamed text and ended jobs that one hub keeps for all streams together. */
  streamBytes: 16 * MiB,
  /** Attempts of one job. */
  attempts: 3,
  /** Keys that one job remembers because they rejected it, the last ones, and because they got a strike for it, the first ones [JB4, RC4]. */
  keysPerJob: 32,
  /** Workers that may reject one job after they acknowledged it. From then on this counts as a retryable failure, and uses an attempt [WS9]. */
  startedRejections: 8,
  /** Failed or rejected jobs in a row after which a worker gets no job until the next tick. */
  failuresInARow: 5,
  /** Invalid results after which a worker is parked [RC4]. */
  strikes: 3,
  /** Completions for other people after which a key is proven [JB11]. */
  provenCompletions: 3,
  /** Failures, time-outs or strikes in a row after which a key is not proven any more [JB11]. */
  provenFailures: 2,
  /** Networks without a connected worker whose failures one hub remembers [JB11]. */
  networksRemembered: 5_000,
  /** Settlements that the hub itself has in progress at the same time: of held, retried and orphaned payments [PY7]. */
  settlements: 64,
  /** Payments of live jobs that wait until the hub may settle them. Above that, a paid commit that no idle worker can take gets 503 `queue_full` [PY7]. */
  queuedSettlements: 1_000,
  /** Payments of one payer that wait for a worker or for the outcome of their settlement [PY9]. */
  heldPayments: 4,
  /** Payments of one payer that are not settled yet, including those that already have a claimed worker. */
  unsettledPayments: 32,
  /** Settlements of one payer that are assumed within a day [PY8]. */
  assumedPerPayer: 3,
  /** Jobs of one payer within a day that reach `deadline_exceeded` after they streamed text and give their amount back [PY9]. */
  streamedCreditsPerPayer: 3,
  /** Settlements of one hub that are assumed within a day [PY8]. */
  assumedPerHub: 20,
  /** Stake reads in progress at the same time [ST2]. */
  stakeReads: 6,
  /** Workers whose stake one sweep reads again, the longest-waiting first. Nine sweeps cover all sockets of a hub [ST2]. */
  stakesPerSweep: 600,
  /** Blocks of one query for events: the smallest limit of public RPCs [PY8]. */
  chainPageBlocks: 100,
  /** Queries for events about one payment in one reading of the chain [PY8]. */
  chainPages: 5,
  /** A payment notes the block that is this many blocks older than the newest finalized one: it may have waited for a while before it is settled [PY8]. */
  chainMargin: 200,
  /** Signatures of one page of an account's history on Solana [PY8]. */
  chainSignatures: 1_000,
  /** Transactions of an account's history that one reading of the chain reads for one payment [PY8]. */
  chainTransactions: 10,
  /** Unresolved payments with which a hub that has started begins to read the chain, the oldest first [PY8]. */
  chainDoubts: 1_000,
  /** Late results, of jobs that are no longer live, that the hub looks up in D1 at the same time [WS10]. */
  lookups: 8,
  /** Late results that wait for their lookup [WS10]. */
  lookupsWaiting: 1_000,
  /** Late results of one socket that are looked up or wait for it [WS10]. */
  lookupsPerSocket: 32,
  /** Late results of one client that are looked up or wait for it: one for each of its sockets. */
  lookupsPerClient: 256,
  /** Bytes of the texts of late results that are looked up or wait for it, two for each character: a character may take as many in memory [LM1]. */
  lookupBytes: 16 * MiB,
  /** Bytes of late results of one client, or of one socket if the client is not known: enough for the largest frame [LM1]. */
  lookupBytesPerClient: 2.5 * MiB,
  /** Open pairing codes of one user [TR3]. */
  openPairingCodes: 5,
  /** Failed claims of pairing codes that one key may sign in an hour; after that its signed claims no longer pass when the common budget is spent [TR3]. */
  failedClaimsPerKey: 3,
  /** Failed claims per hour that are allowed because of their signature, after the common budget is spent [TR3]. */
  failedSparedClaims: 100,
  /** Random pairing codes that are tried before giving up. With a million open codes, eight tries in a row hit a used code once in 10^9 times. */
  pairingCodeTries: 8,
  /** Characters of an `X-User-Token` [TR2]. */
  userTokenChars: 1_024,
  /** Characters of a `Host` header. */
  hostChars: 1_024,
  /** The most jobs of one page of `GET /v1/jobs` [JB14]. */
  jobsPerPage: 100,
  /** Jobs of a page if the request has no `limit` [JB14]. */
  jobsListed: 20,
  /** Jobs of one hub that have ended and that D1 does not have yet. Above that, commits get 503. */
  jobsBehind: 20_000,
  /** Bytes of the payloads and results of these jobs. Above that, commits get 503. */
  behindBytes: 512 * MiB,
  /** If the hub's SQLite or D1 reaches this many bytes, commits get 503 `storage_full`; if D1 does, requests for pairing codes get it too. A setting [LM3]. */
  storageBytes: 6 * 1024 * MiB,
  /** What a job counts for besides its payload and result, for `clientStoredBytes` and `payerStoredBytes` [LM3]. */
  jobRowBytes: 1 * KiB,
  /** Bytes of a result that always count for the client and the payer of the job [LM3]. */
  resultBytes: 16 * KiB,
  /**
   * Bytes added to `resultBytes` for each byte of a TASK's payload: the records of a table repeat its header. What a result has beyond that counts for its
   * worker's network.
   */
  resultPerPayloadByte: 16,
  /** Bytes added to `resultBytes` for each token that an LLM answer may have: its `max_tokens`, or `defaultMaxTokens`. */
  resultPerToken: 64,
  /** Clients whose requests one isolate counts at the same time, per rate. It forgets first the client that was silent for longest [LM2]. */
  countedClients: 10_000,
  /** Keys of workers that have never completed a job and that one hub remembers; where keys need not sign, as many again that have signed [LM3, WS5]. */
  newKeys: 10_000,
  /** Keys of which nothing is stored and whose last job one hub remembers. */
  unprovenKeys: 5_000,
  /** Bytes of a facilitator's response. A longer one counts as no response. */
  facilitatorAnswerBytes: 64 * KiB,
  /** Bytes of a response of a chain's RPC. For stakes on the SVM this is room for many hundred token accounts, and each costs its creator rent. */
  rpcAnswerBytes: 1 * MiB,
} as const;

/**
 * Rates while `RATE_LIMITS` is on, each a setting [LM2, TR3]. An IPv6 /64 is one client. Its /48 has eight times the rate, and what a client uses counts for
 * it.
 */
export const RATES = {
  /**
   * Commits without a payment per minute and IP, accepted or refused. One with a payment counts here too if its payment is invalid, not verified, or came
   * before.
   */
  commitsPerMinute: 60,
  /** Commits with a payment per minute and IP, accepted or refused. */
  paidCommitsPerMinute: 600,
  /** Polls of jobs per 10 s and IP. */
  pollsPerTenSeconds: 200,
  /** Requests to the pairing endpoints per minute and IP. */
  trustPerMinute: 10,
  /** Worker sockets per IP. */
  socketsPerIp: 256,
  /** Worker sockets that an IP may open per minute: twice `socketsPerIp`, because all of them reconnect after a restart. */
  connectsPerMinute: 512,
  /** Frames per second and socket. Heartbeats do not count, because Cloudflare answers them. */
  messagesPerSecond: 50,
  /** Frames that one socket may send in one burst. */
  messageBurst: 100,
  /** Bytes of frames per second and socket. */
  bytesPerSecond: 2 * MiB,
  /** Bytes of frames that one socket may send in one burst. */
  byteBurst: 8 * MiB,
  /** Frames per second of all sockets of one IP together: each may stream as fast as rule WS9 allows. Only where addresses are known. */
  clientMessagesPerSecond: 6_000,
  /** Frames that all sockets of one IP may send in one burst. */
  clientMessageBurst: 12_000,
  /** Bytes of frames per second of all sockets of one IP together. Only where addresses are known. */
  clientBytesPerSecond: 8 * MiB,
  /** Bytes of frames that all sockets of one IP may send in one burst. */
  clientByteBurst: 32 * MiB,
  /** Updates per second and socket: a `register` on a socket that is registered. Each may name new models, which costs far more than another frame [WS3]. */
  updatesPerSecond: 1,
  /** Updates that one socket may send in one burst. */
  updateBurst: 5,
  /** Updates per second of all sockets of one IP together. Only where addresses are known. */
  clientUpdatesPerSecond: 20,
  /** Updates that all sockets of one IP may send in one burst. */
  clientUpdateBurst: 60,
  /**
   * Bytes that the ended jobs of one client store in 24 hours: payloads, results and rows; as many more of excess results of its workers. Only where addresses
   * are known.
   */
  clientStoredBytes: 256 * MiB,
  /** Bytes that the ended jobs of one payer store in 24 hours, from any number of addresses. */
  payerStoredBytes: 512 * MiB,
  /** Claims of pairing codes per minute and IP. */
  pairingClaimsPerMinute: 10,
  /** Failed claims of pairing codes per minute, of all clients together. */
  failedPairingClaimsPerMinute: 30,
  /** Failed claims of pairing codes per minute from one IPv4 /24 or IPv6 /48. */
  failedPairingClaimsPerBlock: 20,
  /** Minutes for which a worker must have been connected to claim a code by its signature after the common budget is spent. */
  pairingConnectedMinutes: 10,
} as const;
