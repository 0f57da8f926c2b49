// The workers of the conformance tests, frame by frame.
import { onTestFinished } from "vitest";
import type { Fields } from "./api.ts";
import { type Identity, newIdentity, receiptFor, registerText, signText } from "./identity.ts";

/** A parsed frame. */
export type Frame = { type: string } & Fields;
/** How a socket ended. */
export type Closed = { code: number; reason: string };
type Waiter = { look: () => boolean };

const WAIT_MS = 10_000;
const HEARTBEAT = '{"type":"heartbeat"}';

let perTest = true;
const afterFile: { close: () => void }[] = [];

/** Closes the sockets that `keepSocketsOpen` left open; setup.ts calls it after the tests of a file. */
export function closeSockets(): void {
  for (const socket of afterFile.splice(0)) socket.close();
  perTest = true;
}

/** For files with concurrent tests: sockets are closed after the file, not after the test. */
export function keepSocketsOpen(): void {
  perTest = false;
}

/** One WebSocket of a worker, with all received frames. */
export class WorkerSocket {
  readonly identity: Identity;
  readonly frames: Frame[] = [];
  closed: Closed | undefined;
  /** True if it acknowledges each job at once. */
  acksAtOnce = false;
  /** What it does with each job, for a worker that serves many. */
  onAssign: ((frame: Frame) => void) | null = null;
  /** The time of each frame, by `performance.now()`. */
  readonly times: number[] = [];
  readonly #socket: WebSocket;
  readonly #waiters = new Set<Waiter>();
  #beat: NodeJS.Timeout | undefined;

  private constructor(url: string, identity: Identity, headers: Record<string, string>) {
    this.identity = identity;
    // Node's WebSocket takes headers; the type of the browsers' one does not know them.
    this.#socket = Reflect.construct(WebSocket, [url, { headers }]) as WebSocket;
    this.#socket.addEventListener("message", ({ data }) => {
      const frame = JSON.parse(String(data)) as Frame;
      if (this.acksAtOnce && frame.type === "job_assign") this.ack(frame);
      this.frames.push(frame);
      this.times.push(performance.now());
      if (frame.type === "job_assign") this.onAssign?.(frame);
      this.#wake();
    });
    this.#socket.addEventListener("close", ({ code, reason }) => {
      clearInterval(this.#beat);
      this.closed = { code, reason };
      this.#wake();
    });
  }

  /** Opens a socket, which is closed at the end of the test. `headers` may name the client's address, as a proxy does. */
  static async open(url: string, identity: Identity = newIdentity(), headers: Record<string, string> = {}): Promise<WorkerSocket> {
    const worker = new WorkerSocket(url, identity, headers);
    if (perTest) onTestFinished(() => worker.close());
    else afterFile.push(worker);
    await new Promise<void>((resolve, reject) => {
      worker.#socket.addEventListener("open", () => resolve());
      worker.#socket.addEventListener("error", () => reject(new Error(`cannot connect to ${url}`)));
    });
    return worker;
  }

  get pubkey(): string {
    return this.identity.pubkey;
  }

  send(frame: object | string | Uint8Array): void {
    this.#socket.send(typeof frame === "string" ? frame : frame instanceof Uint8Array ? new Uint8Array(frame) : JSON.stringify(frame));
  }

  /** Closes the socket. */
  close(code?: number): void {
    clearInterval(this.#beat);
    this.#socket.close(code);
  }

  /** Starts to send heartbeats. */
  beat(ms = 10_000, text = HEARTBEAT): void {
    clearInterval(this.#beat);
    this.#beat = setInterval(() => {
      if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(text);
    }, ms);
  }

  stopBeat(): void {
    clearInterval(this.#beat);
  }

  /** Waits for the first matching frame from index `from` on. */
  frame(matches: string | ((frame: Frame) => boolean), { from = 0, ms = WAIT_MS }: { from?: number; ms?: number } = {}): Promise<Frame> {
    const test = typeof matches === "string" ? (frame: Frame) => frame.type === matches : matches;
    return this.#until(
      () => this.frames.slice(from).find(test),
      ms,
      () => `frame ${String(matches)}`,
    );
  }

  /** Sends a frame and returns the first matching answer after it. */
  ask(frame: object | string | Uint8Array, matches: string | ((frame: Frame) => boolean), ms?: number): Promise<Frame> {
    const from = this.frames.length;
    this.send(frame);
    return this.frame(matches, { from, ...(ms !== undefined && { ms }) });
  }

  /** Waits for the close and returns how the coordinator closed the socket. */
  ended(ms = WAIT_MS): Promise<Closed> {
    return this.#until(
      () => this.closed,
      ms,
      () => "close",
    );
  }

  /** Resolves when everything sent before was handled: frames are handled in order. */
  async settled(): Promise<void> {
    await this.ask({ type: "heartbeat", mark: true }, (frame) => frame.type === "heartbeat_ack" && frame.status === "ok");
  }

  challenge(): Promise<Frame> {
    return this.frame("challenge");
  }

  /** Sends `register` without a signature, as the specification alone describes it; resolves with the ack. */
  registerPlain(changes: Fields = {}): Promise<Frame> {
    return this.ask({ type: "register", ...this.registration(), ...changes }, "register_ack");
  }

  /** Sends a signed `register`. */
  async registerSigned(changes: Fields = {}): Promise<Frame> {
    const challenge = await this.challenge();
    const signature = signText(this.identity, registerText(challenge, this.pubkey));
    return this.ask({ type: "register", ...this.registration(), signature, ...changes }, "register_ack");
  }

  registration(): Fields {
    return { provider_pubkey: this.pubkey, provider_type: "DESKTOP", capabilities: ["LLM_INFER", "TASK"] };
  }

  assigned(jobId: string, ms?: number): Promise<Frame> {
    return this.frame((frame) => frame.type === "job_assign" && frame.job_id === jobId, ms === undefined ? {} : { ms });
  }

  /** True if the worker ever got this job. */
  had(jobId: string): boolean {
    return this.frames.some((frame) => frame.type === "job_assign" && frame.job_id === jobId);
  }

  ack(assign: Frame): void {
    this.send({ type: "job_ack", job_id: assign.job_id, attempt: assign.attempt });
  }

  progress(assign: Frame, seq: number, delta = "x"): void {
    this.send({ type: "job_progress", job_id: assign.job_id, attempt: assign.attempt, seq, delta });
  }

  fail(assign: Frame, retryable: boolean, error = "boom"): void {
    this.send({ type: "job_failed", job_id: assign.job_id, attempt: assign.attempt, error, retryable });
  }

  /** Returns the job_complete frame of an output; `changes` replace members. */
  completion(jobId: string, output: unknown, changes: Fields = {}): Fields {
    return { type: "job_complete", job_id: jobId, output, ...receiptFor(this.identity, jobId, output), ...changes };
  }

  /** Completes a job; resolves with the job_complete_ack. */
  complete(jobId: string, output: unknown, changes: Fields = {}): Promise<Frame> {
    return this.ask(this.completion(jobId, output, changes), (frame) => frame.type === "job_complete_ack" && frame.job_id === jobId);
  }

  #wake(): void {
    for (const waiter of this.#waiters) if (waiter.look()) this.#waiters.delete(waiter);
  }

  #until<T>(look: () => T | undefined, ms: number, what: () => string): Promise<T> {
    const now = look();
    if (now !== undefined) return Promise.resolve(now);
    return new Promise<T>((resolve, reject) => {
      const state = (): string =>
        `got ${this.frames
          .map((frame) => JSON.stringify(frame).slice(0, 300))
          .join(" ")
          .slice(-2_000)}, closed ${JSON.stringify(this.closed)}`;
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        reject(new Error(`waited ${ms} ms for ${what()}; ${state()}`));
      }, ms);
      const waiter: Waiter = {
        look: () => {
          const value = look();
          if (value === undefined) return false;
          clearTimeout(timer);
          resolve(value);
          return true;
        },
      };
      this.#waiters.add(waiter);
    });
  }
}

/** A worker that follows the specification alone: heartbeats, but no signature and no acks. It gets no job in its first 2 s [JB2]. */
export async function specWorker(url: string, changes: Fields = {}, identity?: Identity): Promise<WorkerSocket> {
  const worker = await WorkerSocket.open(url, identity);
  const ack = await worker.registerPlain(changes);
  if (ack.status !== "ok") throw new Error(`register answered ${JSON.stringify(ack)}`);
  worker.beat(10_000, JSON.stringify({ type: "heartbeat", provider_pubkey: worker.pubkey }));
  return worker;
}

/** A worker that does not sign, but announces `ack` and acknowledges each job, so it gets jobs at once [JB2]. */
export async function unsignedWorker(url: string, changes: Fields = {}, identity?: Identity, headers?: Record<string, string>): Promise<WorkerSocket> {
  const worker = await WorkerSocket.open(url, identity, headers);
  worker.acksAtOnce = true;
  const ack = await worker.registerPlain({ features: ["ack"], ...changes });
  if (ack.status !== "ok") throw new Error(`register answered ${JSON.stringify(ack)}`);
  worker.beat();
  return worker;
}

/** A worker that follows all rules of docs/rules.md: it signs and acknowledges. */
export async function fullWorker(url: string, changes: Fields = {}, identity?: Identity, headers?: Record<string, string>): Promise<WorkerSocket> {
  const worker = await WorkerSocket.open(url, identity, headers);
  const ack = await worker.registerSigned({ features: ["ack"], ...changes });
  if (ack.status !== "ok" || ack.authenticated !== true) throw new Error(`register answered ${JSON.stringify(ack)}`);
  worker.beat();
  return worker;
}
