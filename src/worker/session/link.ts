// The link to the coordinator: connect, sign the challenge, register, heartbeat, reconnect. Every job of a worker arrives and leaves over it.
import { CLOSE, HEARTBEAT, registerText } from "../../protocol/worker-messages.ts";
import { learnTime } from "./clock.ts";
import { resendAll, resumeList } from "./delivery.ts";
import { type RegisterAck, registerFrame } from "./frames.ts";
import { leaveIfDone } from "./running.ts";
import { sendFrame, tell, type Turn } from "./session-event.ts";
import { presentConn, type Proof, type SessionState, type Stop } from "./state.ts";
import type { SessionTiming } from "./timing.ts";

/** Opens a new socket. */
export function dial(state: SessionState, turn: Turn): void {
  const conn = state.nextConn++;
  state.link = { kind: "dialling", conn, due: turn.now + state.timing.connect };
  state.challenged = null;
  state.parkedFor = null;
  turn.effects.push({ type: "dial", conn });
  tell({ type: "connecting", try: state.tries + 1 }, turn);
}

/** Handles an open socket: the coordinator sends the first frame [WS2]. */
export function opened(state: SessionState, turn: Turn): void {
  if (state.link.kind !== "dialling") return;
  const wait = state.patient ? state.timing.patientChallenge : state.timing.challenge;
  state.link = { kind: "greeting", conn: state.link.conn, due: turn.now + wait };
}

/** Signs the challenge, unless it names another host: with such a signature its sender could register there as this worker [WS3]. */
export function challenged(state: SessionState, challenge: { nonce: string; network: string; host: string }, turn: Turn): void {
  const { link } = state;
  const late = link.kind === "registering" && link.proof === "no_challenge";
  if (link.kind !== "greeting" && !late) return;
  state.challenged = { network: challenge.network, host: challenge.host };
  if (state.network !== null && state.network !== challenge.network) {
    const message = `this coordinator serves ${challenge.network}, but this worker works only for ${state.network}`;
    return stopSession(state, { reason: "other_network", message }, turn);
  }
  if (challenge.host.toLowerCase() !== state.host) {
    const message = `the coordinator states that its host is ${challenge.host}, but this worker connected to ${state.host}: registering without a signature`;
    tell({ type: "warning", code: "other_host", message }, turn);
    return register(state, "other_host", undefined, turn);
  }
  const text = registerText({ network: challenge.network, host: state.host, nonce: challenge.nonce, pubkey: state.publicKey });
  state.link = { kind: "signing", conn: link.conn, due: turn.now + state.timing.register };
  turn.effects.push({ type: "sign", conn: link.conn, text });
}

/** Sends the registration; `resume` names all jobs that this worker still has [WS10]. */
export function register(state: SessionState, proof: Proof, signature: string | undefined, turn: Turn): void {
  const conn = presentConn(state);
  if (conn === null) return;
  state.link = { kind: "registering", conn, due: turn.now + state.timing.register, proof, profile: state.profile };
  const text = registerFrame({ publicKey: state.publicKey, profile: state.profile, resume: resumeList(state), ...(signature !== undefined && { signature }) });
  turn.effects.push({ type: "send", conn, text });
}

/** Handles the answer to a registration. */
export function registered(state: SessionState, ack: RegisterAck, turn: Turn): void {
  const { link } = state;
  // The answer to an announcement on a registered socket: only its time is new.
  if (link.kind === "online" && ack.status === "ok") return learnTime(state, ack.time, turn);
  if (link.kind !== "registering") return;
  if (ack.status !== "ok") return refused(state, link.proof, ack, turn);
  const { timing } = state;
  // A coordinator may ask for more frequent heartbeats than the specification states, but not for less frequent ones.
  const heartbeat = Math.min(timing.heartbeat, Math.max(1_000, ack.heartbeat_interval_ms ?? timing.heartbeat));
  state.link = {
    kind: "online",
    conn: link.conn,
    since: turn.now,
    heartbeatDue: turn.now + heartbeat,
    // A coordinator that sends no challenge may not acknowledge heartbeats either.
    silentDue: state.challenged === null ? Number.POSITIVE_INFINITY : turn.now + timing.silent,
    heartbeat,
    drained: false,
  };
  state.patient = false;
  const network = state.challenged?.network ?? null;
  const authenticated = ack.authenticated ?? false;
  tell({ type: "online", worker_id: ack.worker_id ?? null, authenticated, proof: link.proof, tier: ack.tier ?? null, network }, turn);
  learnTime(state, ack.time, turn);
  if (state.profile !== link.profile) announce(state, turn);
  resendAll(state, turn);
  leaveIfDone(state, turn);
}

/** Announces on the registered socket what the worker can do now. Without `resume` its leases stay unchanged [WS10]. */
export function announce(state: SessionState, turn: Turn): void {
  sendFrame(state, registerFrame({ publicKey: state.publicKey, profile: state.profile }), turn);
}

function refused(state: SessionState, proof: Proof, ack: RegisterAck, turn: Turn): void {
  switch (ack.error) {
    case "invalid_signature":
    case "auth_required":
      return unauthorized(state, proof, turn);
    case "parked":
      return parked(state, ack.retry_after_s, turn);
    case "already_connected":
      return alreadyConnected(state, turn);
    case "invalid_key":
    case "invalid_register":
      return stopSession(state, { reason: "refused", message: `the coordinator refused this worker's registration: ${ack.error}` }, turn);
    default:
      return reconnect(state, { code: null, cause: `registration refused: ${ack.error ?? "no reason given"}` }, turn);
  }
}

/** Handles a coordinator that requires a signature, or refuses this one [WS4]. */
function unauthorized(state: SessionState, proof: Proof, turn: Turn): void {
  switch (proof) {
    case "no_challenge":
      if (state.patient)
        return stopSession(state, { reason: "refused", message: "the coordinator requires a signed registration, but sends no challenge to sign" }, turn);
      state.patient = true;
      return reconnect(state, { code: CLOSE.unauthorized, cause: "the coordinator requires a signature; waiting longer for its challenge" }, turn);
    case "other_host": {
      const host = state.challenged?.host ?? "another host";
      const message = `the coordinator requires a signature for ${host}, but this worker connected to ${state.host}: use ${host}, or set PUBLIC_HOST=${state.host} on the coordinator`;
      return stopSession(state, { reason: "refused", message }, turn);
    }
    case "signed":
      return stopSession(state, { reason: "refused", message: "the coordinator refused this worker's signature" }, turn);
    default:
      return proof satisfies never;
  }
}

/** Handles a closed socket. Its code decides what the worker does [WS4]. */
export function closed(state: SessionState, code: number, reason: string, turn: Turn): void {
  const { link } = state;
  switch (code) {
    case CLOSE.replaced:
      return stopSession(
        state,
        { reason: "replaced", message: "another worker with the same key has connected: give each worker its own key (--key FILE)" },
        turn,
      );
    case CLOSE.badMessage:
      return stopSession(
        state,
        { reason: "refused", message: `the coordinator does not understand this worker${reason === "" ? "" : ` (${reason})`}: one of the two must be updated` },
        turn,
      );
    case CLOSE.unauthorized:
      return unauthorized(state, link.kind === "registering" ? link.proof : link.kind === "greeting" ? "no_challenge" : "signed", turn);
    case CLOSE.parked:
      return parked(state, state.parkedFor, turn);
    case CLOSE.alreadyConnected:
      return alreadyConnected(state, turn);
    default:
      return reconnect(state, { code, cause: reason === "" ? "connection lost" : reason }, turn);
  }
}

type Cause = { code: number | null; cause: string };

/** Abandons the socket and reconnects later, with jitter. */
function reconnect(state: SessionState, cause: Cause, turn: Turn): void {
  if (state.link.kind === "online" && turn.now - state.link.since >= state.timing.stable) state.tries = 0;
  backOff(state, reconnectDelay(state.tries++, state.timing, turn.random()), cause, turn);
}

/** Stays away for as long as the coordinator states, at most an hour, and a little longer [WS4]. */
function parked(state: SessionState, retryAfterS: number | null | undefined, turn: Turn): void {
  const { park, parkMax, reconnectFirst } = state.timing;
  const stated = typeof retryAfterS === "number" && retryAfterS > 0 ? retryAfterS * 1000 : park;
  backOff(state, Math.round(Math.min(stated, parkMax) + turn.random() * reconnectFirst), { code: CLOSE.parked, cause: "parked" }, turn);
}

/**
 * Waits until an unsigned registration may replace another socket of this key. It may be the last one of this worker, which the coordinator still believes to
 * be open, or another process with this key [WS7].
 */
function alreadyConnected(state: SessionState, turn: Turn): void {
  const { alive, reconnectFirst } = state.timing;
  const cause = "the coordinator still has another connection of this key, and this one is not signed";
  backOff(state, Math.round(alive + turn.random() * reconnectFirst), { code: CLOSE.alreadyConnected, cause }, turn);
}

function backOff(state: SessionState, delay: number, { code, cause }: Cause, turn: Turn): void {
  abandon(state, turn);
  // It never started and is not in `resume`, so the coordinator gives it to another worker.
  state.waiting = null;
  state.link = { kind: "waiting", due: turn.now + delay, parked: code === CLOSE.parked };
  tell({ type: "offline", code, cause, retry_in_ms: delay }, turn);
  leaveIfDone(state, turn);
}

/** Milliseconds before try number `tries` (0 is the first): full jitter below a bound that doubles from 5 s to 30 s [WS4]. */
function reconnectDelay(tries: number, timing: SessionTiming, random: number): number {
  // 2 ** 1100 is Infinity, and Math.min handles that.
  return Math.round(random * Math.min(timing.reconnectMax, timing.reconnectFirst * 2 ** tries));
}

function abandon(state: SessionState, turn: Turn): void {
  const conn = presentConn(state);
  if (conn !== null) turn.effects.push({ type: "close", conn, code: CLOSE.normal, reason: "" });
}

/** Ends the session for good. A run is aborted; kept results stay on the shelf. */
export function stopSession(state: SessionState, stop: Stop, turn: Turn): void {
  if (state.link.kind === "stopped") return;
  if (state.job !== null) turn.effects.push({ type: "abort", jobId: state.job.jobId, attempt: state.job.attempt });
  state.job = null;
  state.waiting = null;
  abandon(state, turn);
  state.link = { kind: "stopped", stop };
  tell({ type: "stopped", ...stop }, turn);
}

/** Handles a sleep of the machine. Deadlines may be long overdue, and the coordinator has probably closed this link without this worker noticing. */
export function woken(state: SessionState, slept: number, turn: Turn): void {
  const { link } = state;
  tell({ type: "woke", slept_ms: Math.round(slept) }, turn);
  // Only the coordinator ends a parking.
  if (link.kind === "waiting" && !link.parked) link.due = turn.now;
  // Either the machine slept or its clock was set. Only the coordinator's time can tell which.
  const knewTime = state.coordinatorOffset !== null;
  state.coordinatorOffset = null;
  if (link.kind !== "online") return;
  link.heartbeatDue = turn.now;
  if (Number.isFinite(link.silentDue)) link.silentDue = Math.min(link.silentDue, turn.now + state.timing.wake);
  if (knewTime) announce(state, turn);
}

/** Records a sign of life of the coordinator. Any frame is one. */
export function heard(state: SessionState, isAck: boolean, turn: Turn): void {
  if (state.link.kind !== "online") return;
  if (isAck || Number.isFinite(state.link.silentDue)) state.link.silentDue = turn.now + state.timing.silent;
}

/** Checks the link now: ends a wait before a reconnect (but not a parking), and sends a heartbeat over an open link to see whether it still works. */
export function nudged(state: SessionState, turn: Turn): void {
  const { link, timing } = state;
  if (link.kind === "waiting" && !link.parked) return dial(state, turn);
  if (link.kind !== "online") return;
  link.heartbeatDue = turn.now + link.heartbeat;
  if (Number.isFinite(link.silentDue)) link.silentDue = Math.min(link.silentDue, turn.now + timing.probe);
  turn.effects.push({ type: "send", conn: link.conn, text: HEARTBEAT });
}

/** Acts on the link's deadlines that have passed. */
export function passLinkTime(state: SessionState, turn: Turn): void {
  const { link } = state;
  switch (link.kind) {
    case "idle":
    case "stopped":
      return;
    case "waiting":
      return link.due <= turn.now ? dial(state, turn) : undefined;
    case "dialling":
      return link.due <= turn.now ? reconnect(state, { code: null, cause: "no connection" }, turn) : undefined;
    case "greeting":
      return link.due <= turn.now ? register(state, "no_challenge", undefined, turn) : undefined;
    case "signing":
    case "registering":
      return link.due <= turn.now ? reconnect(state, { code: null, cause: "registration not answered" }, turn) : undefined;
    case "online":
      if (link.silentDue <= turn.now) return reconnect(state, { code: null, cause: "the coordinator is silent" }, turn);
      if (link.heartbeatDue > turn.now) return;
      link.heartbeatDue = turn.now + link.heartbeat;
      turn.effects.push({ type: "send", conn: link.conn, text: HEARTBEAT });
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
      return Math.min(link.heartbeatDue, link.silentDue);
    default:
      return link.due;
  }
}
