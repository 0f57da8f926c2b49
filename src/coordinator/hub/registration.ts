// Decides who may be a worker: keys, signatures, parking, tier. A worker registers before it gets jobs.
import { JobType } from "../../protocol/job.ts";
import { keptModels } from "../../protocol/models.ts";
import { isoTime } from "../../protocol/text.ts";
import { TIMING } from "../../protocol/times.ts";
import { CLOSE, type Register, type RegisterRefusal, registerText } from "../../protocol/worker-messages.ts";
import { parseSignature } from "../../receipt/bytes.ts";
import { isPublicKey } from "../../receipt/ed25519.ts";
import type { Settings } from "../config.ts";
import { contextsIn, foldedModels, type Registered, registerEvent } from "./attachment.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { Conn, Sockets } from "./sockets.ts";
import type { Tiers } from "./tiers.ts";
import { verifySync, type WorkerKeys } from "./worker-keys.ts";

/** Registers workers: checks key, signature and parking, reads the tier, and then tells the core [WS2–WS5, WS7]. */
export class Registration {
  readonly #settings: Settings;
  readonly #keys: WorkerKeys;
  readonly #sockets: Sockets;
  readonly #dispatcher: Dispatcher;
  readonly #tiers: Tiers;
  readonly #clock: () => number;
  #registrations = 0;

  constructor(parts: { settings: Settings; keys: WorkerKeys; sockets: Sockets; dispatcher: Dispatcher; tiers: Tiers; clock: () => number }) {
    this.#settings = parts.settings;
    this.#keys = parts.keys;
    this.#sockets = parts.sockets;
    this.#dispatcher = parts.dispatcher;
    this.#tiers = parts.tiers;
    this.#clock = parts.clock;
  }

  /** Answers a `register` frame. */
  async register(conn: Conn, frame: Register): Promise<void> {
    const { worker } = conn.attachment;
    if (worker !== null) return this.#update(conn, worker, frame);
    // While the tier is being read another register frame changes nothing.
    if (conn.registering) return;
    const { provider_pubkey: key, signature } = frame;
    if (!isPublicKey(key)) return this.refuse(conn, "invalid_key");
    const authenticated = typeof signature === "string";
    if (authenticated && !this.#proves(conn, key, signature)) return this.refuse(conn, "invalid_signature");
    if (!this.#admits(conn, key, authenticated)) return;

    conn.registering = true;
    conn.registration = ++this.#registrations;
    const { tier, tierDue } = await this.#tiers.readAtRegistration(key);
    conn.registering = false;
    // Reading the tier takes time. Meanwhile the socket may be gone, or the key parked, or authenticated on another socket.
    if (!this.#sockets.isHere(conn) || !this.#admits(conn, key, authenticated)) return;
    const older = this.#sockets.get(this.#dispatcher.state.workers.get(key)?.connId ?? "");
    // The key may also have registered on a newer socket. To replace that one would close it with 4001, and its worker would not reconnect [WS7].
    if (older !== undefined && older.registration > conn.registration && older.attachment.worker?.authenticated === authenticated) {
      return this.#dispatcher.close(conn.id, CLOSE.replaced, "replaced");
    }
    const capabilities = capabilitiesOf(frame);
    const models = modelsOf(frame, capabilities);
    const registered: Registered = {
      key,
      id: crypto.randomUUID(),
      authenticated,
      capabilities,
      tier,
      tierDue,
      acks: frame.features?.includes("ack") ?? false,
      registeredAt: this.#clock(),
      context: contextOf(frame),
      // Kept by key. Otherwise a worker that reconnects often would always be the least recently used.
      lastUsedAt: Math.max(this.#keys.find(key)?.lastUsedAt ?? 0, older?.attachment.worker?.lastUsedAt ?? 0),
      draining: false,
      models,
      contexts: contextsOf(frame, models),
      chats: frame.features?.includes("chat") ?? false,
    };
    this.#keys.seen(key, authenticated, registered.lastUsedAt, this.#clock());
    this.#sockets.identify(conn, registered);
    this.#acknowledge(conn, registered);
    const resume = frame.resume?.map((entry) => ({ jobId: entry.job_id, attempt: entry.attempt }));
    const known = { record: this.#dispatcher.recordOf(key), publicOnly: this.#keys.isPublicOnly(authenticated), resume };
    this.#dispatcher.apply(registerEvent(conn.attachment, registered, known));
  }

  /** Refuses a registration and closes the socket [WS4]. If it has a worker from an earlier register frame, that worker is disconnected. */
  refuse(conn: Conn, error: RegisterRefusal, retryAfter?: number): void {
    const { id } = conn;
    this.#dispatcher.apply({ type: "disconnect", connId: id });
    this.#dispatcher.send(id, { type: "register_ack", status: "error", error, ...(retryAfter !== undefined && { retry_after_s: retryAfter }) });
    this.#dispatcher.close(id, CLOSE_OF[error], error);
  }

  /** True if this is a signature of the key for this socket [WS5]. */
  #proves({ attachment: { host, nonce } }: Conn, key: string, signature: string): boolean {
    const bytes = parseSignature(signature);
    return bytes !== null && verifySync(registerText({ network: this.#settings.network, host, nonce, pubkey: key }), bytes, key);
  }

  /** Checks that a key may register now. If it may not, this refuses it and returns false [WS5, WS7, RC4]. */
  #admits(conn: Conn, key: string, authenticated: boolean): boolean {
    // A key that has signed may have no place in the table.
    const hasSigned = typeof this.#keys.find(key)?.authenticatedAt === "number" || this.#dispatcher.state.workers.get(key)?.authenticated === true;
    if (!authenticated && (hasSigned || this.#settings.workerAuth === "required")) {
      this.refuse(conn, "auth_required");
      return false;
    }
    if (!authenticated && this.#isAlive(key)) {
      this.refuse(conn, "already_connected", TIMING.alive / 1_000);
      return false;
    }
    const left = this.#dispatcher.recordOf(key).parkedUntil - this.#clock();
    if (left > 0) this.refuse(conn, "parked", Math.ceil(left / 1_000));
    return left <= 0;
  }

  /** True if a socket of this key has sent something recently, heartbeats that the platform answered included. */
  #isAlive(key: string): boolean {
    const older = this.#dispatcher.state.workers.get(key);
    return older !== undefined && this.#clock() - this.#sockets.lastSeen(older.connId) <= TIMING.alive;
  }

  #update(conn: Conn, worker: Registered, frame: Register): void {
    const { id } = conn;
    if (frame.provider_pubkey !== worker.key) {
      this.#dispatcher.send(id, { type: "error", code: "already_registered", message: "this socket is registered with another key" });
      return;
    }
    const capabilities = capabilitiesOf(frame);
    const acks = frame.features?.includes("ack") ?? worker.acks;
    const chats = frame.features?.includes("chat") ?? worker.chats;
    const models = modelsOf(frame, capabilities);
    const updated = { ...worker, capabilities, acks, context: contextOf(frame), contexts: contextsOf(frame, models), models, chats };
    this.#sockets.identify(conn, updated);
    this.#acknowledge(conn, updated);
    const { context } = updated;
    const contexts = contextsIn(updated);
    this.#dispatcher.apply({ type: "update", connId: id, capabilities: new Set(capabilities), models: foldedModels(models), chats, acks, context, contexts });
  }

  #acknowledge(conn: Conn, worker: Registered): void {
    this.#dispatcher.send(conn.id, {
      type: "register_ack",
      status: "ok",
      worker_id: worker.id,
      authenticated: worker.authenticated,
      tier: worker.tier,
      heartbeat_interval_ms: TIMING.heartbeat,
      time: isoTime(this.#clock()),
    });
  }
}

const CLOSE_OF = {
  invalid_key: CLOSE.badMessage,
  invalid_register: CLOSE.badMessage,
  invalid_signature: CLOSE.unauthorized,
  auth_required: CLOSE.unauthorized,
  already_connected: CLOSE.alreadyConnected,
  parked: CLOSE.parked,
} as const satisfies Record<RegisterRefusal, number>;

/**
 * The context of the model that runs a job that names none: the first of `models`, or the largest context if that model has none. 0 if the worker announces
 * none [WS3].
 */
function contextOf({ context, models }: Register): number {
  if (typeof context === "number") return context;
  const given = Object.entries(context ?? {});
  const first = given.find(([model]) => model === models?.[0]);
  return first?.[1] ?? Math.max(0, ...given.map(([, tokens]) => tokens));
}

/** The contexts of these models, in the form in which the attachment stores them; 0 for a model without one [WS3]. */
function contextsOf({ context }: Register, models: string): string {
  if (context === undefined || context === null || typeof context === "number") return "";
  const given = new Map(Object.entries(context).map(([model, tokens]) => [model.toLowerCase(), tokens]));
  return foldedModels(models)
    .map((model) => given.get(model) ?? 0)
    .join("\n");
}

/** The names of the models of a worker that may get LLM jobs, in the form in which the attachment stores them [JB10]. */
function modelsOf({ models }: Register, capabilities: readonly JobType[]): string {
  return capabilities.includes("LLM_INFER") ? keptModels(models ?? []).join("\n") : "";
}

/** The job types that a worker may get: the known ones that it announced, and only TASK for a mobile worker [WS3]. */
function capabilitiesOf({ capabilities, provider_type: kind }: Register): JobType[] {
  if (kind === "MOBILE") return ["TASK"];
  return JobType.options.filter((type) => capabilities.includes(type));
}
