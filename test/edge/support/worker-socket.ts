// The worker's end of a socket in the edge tests: it keeps every frame until the test asks for it.
import { HEARTBEAT } from "../../../src/protocol/worker-messages.ts";

/** A received frame, parsed. */
export type Frame = { type: string; [member: string]: unknown };

/** The longest wait for a frame, in ms. It only limits a failing test. */
const PATIENCE = 4_000;

/** The worker's end of a socket. It keeps everything that arrives, in order, until a test asks for it. */
export class WorkerSocket {
  readonly #ws: WebSocket;
  readonly #arrived: Frame[] = [];
  readonly #texts: string[] = [];
  #wake: () => void = () => {};
  #closed: { code: number; reason: string } | null = null;
  #beats = 0;

  constructor(ws: WebSocket) {
    this.#ws = ws;
    ws.addEventListener("message", ({ data }) => {
      const text = typeof data === "string" ? data : "binary";
      this.#texts.push(text);
      this.#arrived.push(JSON.parse(text));
      this.#wake();
    });
    ws.addEventListener("close", ({ code, reason }) => {
      this.#closed ??= { code, reason };
      // In workerd only the accepting side answers a close by itself, so this side has to close too.
      if (code !== 1006) this.close(code);
      this.#wake();
    });
    ws.accept();
  }

  send(frame: object | string | ArrayBuffer): void {
    this.#ws.send(typeof frame === "string" || frame instanceof ArrayBuffer ? frame : JSON.stringify(frame));
  }

  close(code = 1000): void {
    try {
      this.#ws.close(code);
    } catch {
      // Closed already.
    }
  }

  /** All texts that have arrived, unchanged. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** Waits for the next frame, which must have this type. */
  async next(type: string): Promise<Frame> {
    await this.#until(() => this.#arrived.length > 0 || this.#closed !== null, type);
    const frame = this.#arrived.shift();
    if (frame === undefined) throw new Error(`closed (${this.#closed?.code}) instead of ${type}`);
    if (frame.type !== type) throw new Error(`${JSON.stringify(frame)} instead of ${type}`);
    return frame;
  }

  /** Waits for the close and ignores frames before it. */
  async ended(): Promise<number> {
    await this.#until(() => this.#closed !== null, "close");
    return this.#closed?.code ?? 0;
  }

  /** Waits for the close, which must be the next event: no frame may be left before it. */
  async closed(): Promise<number> {
    await this.#until(() => this.#closed !== null, "close");
    const [frame] = this.#arrived;
    if (frame !== undefined) throw new Error(`${JSON.stringify(frame)} before the close`);
    return this.#closed?.code ?? 0;
  }

  /** Sends a heartbeat whose answer must be the next frame. This proves that the hub has handled every earlier frame and sends nothing else. */
  async quiet(): Promise<void> {
    this.send({ type: "heartbeat", beat: ++this.#beats });
    await this.next("heartbeat_ack");
  }

  /** Sends a heartbeat that the platform answers, and returns the answer. */
  beat(): Promise<Frame> {
    this.send(HEARTBEAT);
    return this.next("heartbeat_ack");
  }

  async #until(ready: () => boolean, what: string): Promise<void> {
    if (ready()) return;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const guard = setTimeout(() => reject(new Error(`no ${what} in ${PATIENCE} ms`)), PATIENCE);
    this.#wake = () => {
      if (ready()) resolve();
    };
    await promise.finally(() => clearTimeout(guard));
  }
}
