// The link to the coordinator: connect, sign the challenge, register, heartbeat, reconnect. On a job's way: every frame between coordinator and worker.
import { CLOSE, HEARTBEAT, registerText } from "../../protocol/worker-messages.ts";
import { learnTime } from "./clock.ts";
import { resendAll, resumeList } from "./delivery.ts";
import { type RegisterAck, registerFrame } from "./frames.ts";
import { closeSocket, leaveIfDone, stopSession } from "./leaving.ts";
import { currentConn, type Proof, sendFrame, type SessionState, type SessionTiming, tell, type ReduceContext } from "./state.ts";

/** Opens a new socket. */
export function dial(state: SessionState, ctx: ReduceContext): void {
  const conn = state.nextConn++;
  state.link = { kind: "dialling", conn, due: ctx.now + state.timing.connect };
  state.challenged = null;
  state.parkedFor = null;
  ctx.effects.push({ type: "dial", conn });
  tell({ type: "connecting", try: state.tries + 1 }, ctx);
}

/** Handles an open socket: the coordinator sends the first frame [WS2]. */
export function opened(state: SessionState, ctx: ReduceContext): void {
  if (state.link.kind !== "dialling") return;
  const wait = state.patient ? state.timing.patientChallenge : state.timing.challenge;
  state.link = { kind: "greeting", conn: state.link.conn, due: ctx.now + wait };
}

/** Signs the challenge, unless it names another host: with such a signature its sender could register there as this worker [WS3]. */
export function challenged(state: SessionState, challenge: { nonce: string; network: string; host: string }, ctx: ReduceContext): void {
  const { link } = state;
  const late = link.kind === "registering" && link.proof === "no_challenge";
  if (link.kind !== "greeting" && !late) return;
  state.challenged = { network: challenge.network, host: challenge.host };
  if (state.network !== null && state.network !== challenge.network) {
    const message = `this coordinator serves ${challenge.network}, but this worker works only for ${state.network}`;
    return stopSession(state, { reason: "other_network", message }, ctx);
  }
  if (challenge.host.toLowerCase() !== state.host) {
    const message = `the coordinator states that its host is ${challenge.host}, but this worker connected to ${state.host}: registering without a signature`;
    tell({ type: "warning", code: "other_host", message }, ctx);
    return register(state, "other_host", undefined, ctx);
  }
  const text = registerText({ network: challenge.network, host: state.host, nonce: challenge.nonce, pubkey: state.publicKey });
  state.link = { kind: "signing", conn: link.conn, due: ctx.now + state.timing.register };
  ctx.effects.push({ type: "sign", conn: link.conn, text });
}

/** Sends the registration; `resume` names all jobs that this worker still has [WS10]. */
export function register(state: SessionState, proof: Proof, signature: string | undefined, ctx: ReduceContext): void {
  const conn = currentConn(state);
  if (conn === null) return;
  state.link = { kind: "registering", conn, due: ctx.now + state.timing.register, proof, profile: state.profile };
  const text = registerFrame({ publicKey: state.publicKey, profile: state.profile, resume: resumeList(state), ...(signature !== undefined && { signature }) });
  ctx.effects.push({ type: "send", conn, text });
}

/** Handles the answer to a registration. */
export function registered(state: SessionState, ack: RegisterAck, ctx: ReduceContext): void {
  const { link } = state;
  // The answer to an announcement on a registered socket: only its time is new.
  if (link.kind === "online" && ack.status === "ok") {
    link.unanswered = Math.max(0, link.unanswered - 1);
    if (link.unanswered === 0) link.announceDue = Number.POSITIVE_INFINITY;
    return learnTime(state, ack.time, ctx);
  }
  if (link.kind !== "registering") return;
  if (ack.status !== "ok") return refused(state, link.proof, ack, ctx);
  const { timing } = state;
  // A coordinator may ask for more frequent heartbeats than the specification states, but not for less frequent ones.
  const heartbeat = Math.min(timing.heartbeat, Math.max(1_000, ack.heartbeat_interval_ms ?? timing.heartbeat));
  state.link = {
    kind: "online",
    conn: link.conn,
    since: ctx.now,
    heartbeatDue: ctx.now + heartbeat,
    // A coordinator that sends no challenge may not acknowledge heartbeats either.
    silentDue: state.challenged === null ? Number.POSITIVE_INFINITY : ctx.now + timing.silent,
    heartbeat,
    drained: false,
    unanswered: 0,
    announceDue: Number.POSITIVE_INFINITY,
  };
  state.patient = false;
  const network = state.challenged?.network ?? null;
  const authenticated = ack.authenticated ?? false;
  tell({ type: "online", worker_id: ack.worker_id ?? null, authenticated, proof: link.proof, tier: ack.tier ?? null, network }, ctx);
  learnTime(state, ack.time, ctx);
  if (state.profile !== link.profile) announce(state, ctx);
  resendAll(state, ctx);
  leaveIfDone(state, ctx);
}

/** Announces on the registered socket what the worker can do now. Without `resume` its leases stay unchanged [WS10]. */
export function announce(state: SessionState, ctx: ReduceContext): void {
  const { link, timing } = state;
  if (link.kind !== "online") return;
  sendFrame(state, registerFrame({ publicKey: state.publicKey, profile: state.profile }), ctx);
  link.unanswered++;
  // At random, because the workers of one address share a rate. A coordinator that sends no challenge may not answer either.
  if (state.challenged !== null) link.announceDue = ctx.now + timing.announce * (1 + ctx.random());
}

function refused(state: SessionState, proof: Proof, ack: RegisterAck, ctx: ReduceContext): void {
  switch (ack.error) {
    case "invalid_signature":
      return unauthorized(state, proof, ctx);
    case "auth_required":
      return proof === "signed" ? registeredTooEarly(state, ctx) : unauthorized(state, proof, ctx);
    case "parked":
      return parked(state, ack.retry_after_s, ctx);
    case "already_connected":
      return alreadyConnected(state, ctx);
    case "invalid_key":
    case "invalid_register":
      return stopSession(state, { reason: "refused", message: `the coordinator refused this worker's registration: ${ack.error}` }, ctx);
    default:
      return reconnect(state, { code: null, cause: `registration refused: ${ack.error ?? "no reason given"}` }, ctx);
  }
}

/**
 * Handles the answer to a registration that was sent before its challenge came, while the signed one is being made or is on its way: it says nothing about
 * the signature.
 */
function registeredTooEarly(state: SessionState, ctx: ReduceContext): void {
  state.patient = true;
  reconnect(state, { code: CLOSE.unauthorized, cause: "the coordinator requires a signature; waiting longer for its challenge" }, ctx);
}

/** Handles a coordinator that requires a signature, or refuses this one [WS4]. */
function unauthorized(state: SessionState, proof: Proof, ctx: ReduceContext): void {
  switch (proof) {
    case "no_challenge":
      if (state.patient)
        return stopSession(state, { reason: "refused", message: "the coordinator requires a signed registration, but sends no challenge to sign" }, ctx);
      return registeredTooEarly(state, ctx);
    case "other_host": {
      const host = state.challenged?.host ?? "another host";
      const message = `the coordinator requires a signature for ${host}, but this worker connected to ${state.host}: use ${host}, or set PUBLIC_HOST=${state.host} on the coordinator`;
      return stopSession(state, { reason: "refused", message }, ctx);
    }
    case "signed":
      return stopSession(state, { reason: "refused", message: "the coordinator refused this worker's signature" }, ctx);
    default:
      return proof satisfies never;
  }
}

/** Handles a closed socket. Its code decides what the worker does [WS4]. */
export function closed(state: SessionState, code: number, reason: string, ctx: ReduceContext): void {
  const { link } = state;
  switch (code) {
    case CLOSE.replaced:
      return stopSession(
        state,
        { reason: "replaced", message: "another worker with the same key has connected: give each worker its own key (--key FILE)" },
        ctx,
      );
    case CLOSE.badMessage:
      return stopSession(
        state,
        { reason: "refused", message: `the coordinator does not understand this worker${reason === "" ? "" : ` (${reason})`}: one of the two must be updated` },
        ctx,
      );
    case CLOSE.unauthorized:
      if (link.kind === "signing") return registeredTooEarly(state, ctx);
      return unauthorized(state, link.kind === "registering" ? link.proof : link.kind === "greeting" ? "no_challenge" : "signed", ctx);
    case CLOSE.parked:
      return parked(state, state.parkedFor, ctx);
    case CLOSE.alreadyConnected:
      return alreadyConnected(state, ctx);
    default:
      return reconnect(state, { code, cause: reason === "" ? "connection lost" : reason }, ctx);
  }
}

type Cause = { code: number | null; cause: string };

/** Abandons the socket and reconnects later, with jitter. */
function reconnect(state: SessionState, cause: Cause, ctx: ReduceContext): void {
  if (state.link.kind === "online" && ctx.now - state.link.since >= state.timing.stable) state.tries = 0;
  backOff(state, reconnectDelay(state.tries++, state.timing, ctx.random()), cause, ctx);
}

/** Stays away for as long as the coordinator states, at most an hour, and a little longer [WS4]. */
function parked(state: SessionState, retryAfterS: number | null | undefined, ctx: ReduceContext): void {
  const { park, parkMax, reconnectFirst } = state.timing;
  const stated = typeof retryAfterS === "number" && retryAfterS > 0 ? retryAfterS * 1000 : park;
  backOff(state, Math.round(Math.min(stated, parkMax) + ctx.random() * reconnectFirst), { code: CLOSE.parked, cause: "parked" }, ctx);
}

/**
 * Waits until an unsigned registration may replace another socket of this key. It may be the last one of this worker, which the coordinator still believes to
 * be open, or another process with this key [WS7].
 */
function alreadyConnected(state: SessionState, ctx: ReduceContext): void {
  const { alive, reconnectFirst } = state.timing;
  const cause = "the coordinator still has another connection of this key, and this one is not signed";
  backOff(state, Math.round(alive + ctx.random() * reconnectFirst), { code: CLOSE.alreadyConnected, cause }, ctx);
}

function backOff(state: SessionState, delay: number, { code, cause }: Cause, ctx: ReduceContext): void {
  closeSocket(state, "", ctx);
  // It never started and is not in `resume`, so the coordinator gives it to another worker.
  state.waiting = null;
  state.link = { kind: "waiting", due: ctx.now + delay, parked: code === CLOSE.parked };
  tell({ type: "offline", code, cause, retry_in_ms: delay }, ctx);
  leaveIfDone(state, ctx);
}

/** Milliseconds before try number `tries` (0 is the first): full jitter below a bound that doubles from 5 s to 30 s [WS4]. */
function reconnectDelay(tries: number, timing: SessionTiming, random: number): number {
  // 2 ** 1100 is Infinity, and Math.min handles that.
  return Math.round(random * Math.min(timing.reconnectMax, timing.reconnectFirst * 2 ** tries));
}

/** Handles a sleep of the machine. Deadlines may be long overdue, and the coordinator has probably closed this link without this worker noticing. */
export function woken(state: SessionState, slept: number, ctx: ReduceContext): void {
  const { link } = state;
  tell({ type: "woke", slept_ms: Math.round(slept) }, ctx);
  // Only the coordinator ends a parking.
  if (link.kind === "waiting" && !link.parked) link.due = ctx.now;
  // Either the machine slept or its clock was set. Only the coordinator's time can tell which.
  const knewTime = state.coordinatorOffset !== null;
  state.coordinatorOffset = null;
  if (link.kind !== "online") return;
  link.heartbeatDue = ctx.now;
  if (Number.isFinite(link.silentDue)) link.silentDue = Math.min(link.silentDue, ctx.now + state.timing.wake);
  if (knewTime) announce(state, ctx);
}

/** Records a sign of life of the coordinator. Any frame is one. */
export function heard(state: SessionState, isAck: boolean, ctx: ReduceContext): void {
  if (state.link.kind !== "online") return;
  if (isAck || Number.isFinite(state.link.silentDue)) state.link.silentDue = ctx.now + state.timing.silent;
}

/** Checks the link now: ends a wait before a reconnect (but not a parking), and sends a heartbeat over an open link to see whether it still works. */
export function nudged(state: SessionState, ctx: ReduceContext): void {
  const { link, timing } = state;
  if (link.kind === "waiting" && !link.parked) return dial(state, ctx);
  if (link.kind !== "online") return;
  link.heartbeatDue = ctx.now + link.heartbeat;
  if (Number.isFinite(link.silentDue)) link.silentDue = Math.min(link.silentDue, ctx.now + timing.probe);
  ctx.effects.push({ type: "send", conn: link.conn, text: HEARTBEAT });
}

/** Acts on the link's deadlines that have passed. */
export function passLinkTime(state: SessionState, ctx: ReduceContext): void {
  const { link } = state;
  switch (link.kind) {
    case "idle":
    case "stopped":
      return;
    case "waiting":
      return link.due <= ctx.now ? dial(state, ctx) : undefined;
    case "dialling":
      return link.due <= ctx.now ? reconnect(state, { code: null, cause: "no connection" }, ctx) : undefined;
    case "greeting":
      return link.due <= ctx.now ? register(state, "no_challenge", undefined, ctx) : undefined;
    case "signing":
    case "registering":
      return link.due <= ctx.now ? reconnect(state, { code: null, cause: "registration not answered" }, ctx) : undefined;
    case "online":
      if (link.silentDue <= ctx.now) return reconnect(state, { code: null, cause: "the coordinator is silent" }, ctx);
      if (link.announceDue <= ctx.now) {
        // The coordinator has not read the announcements without an answer, so only the answer to this one counts.
        link.unanswered = 0;
        announce(state, ctx);
      }
      if (link.heartbeatDue > ctx.now) return;
      link.heartbeatDue = ctx.now + link.heartbeat;
      ctx.effects.push({ type: "send", conn: link.conn, text: HEARTBEAT });
      return;
    default:
      return link satisfies never;
  }
}

/** The next deadline of the link. */
export function linkDue(state: SessionState): number {
  const { link } = state;
  switch (link.kind) {
    case "idle":
    case "stopped":
      return Number.POSITIVE_INFINITY;
    case "online":
      return Math.min(link.heartbeatDue, link.silentDue, link.announceDue);
    default:
      return link.due;
  }
}
