import { HEARTBEAT } from "../../../src/protocol/worker-messages.ts";

/** A frame as it came, parsed. */
export type Frame = { type: string; [member: string]: unknown };

/** How long a test waits for a frame that does not come, ms: a guard, not a pause. */
const PATIENCE = 4_000;

/** The far end of one worker socket: everything that arrives is kept in order until a test asks for it. */
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
      // In workerd the accepting side answers a close by itself; this end has to.
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

  /** Every text that has arrived so far, as it came. */
  get texts(): readonly string[] {
    return this.#texts;
  }

  /** The next frame; it has to be of this type. */
  async next(type: string): Promise<Frame> {
    await this.#until(() => this.#arrived.length > 0 || this.#closed !== null, type);
    const frame = this.#arrived.shift();
    if (frame === undefined) throw new Error(`closed (${this.#closed?.code}) instead of ${type}`);
    if (frame.type !== type) throw new Error(`${JSON.stringify(frame)} instead of ${type}`);
    return frame;
  }

  /** The close, whatever came before it. */
  async ended(): Promise<number> {
    await this.#until(() => this.#closed !== null, "close");
    return this.#closed?.code ?? 0;
  }

  /** The close, once every frame before it has been taken. */
  async closed(): Promise<number> {
    await this.#until(() => this.#closed !== null, "close");
    const [frame] = this.#arrived;
    if (frame !== undefined) throw new Error(`${JSON.stringify(frame)} before the close`);
    return this.#closed?.code ?? 0;
  }

  /** Proves that the hub has taken in everything sent here and has nothing more to say: its answer to this heartbeat comes next. */
  async quiet(): Promise<void> {
    this.send({ type: "heartbeat", beat: ++this.#beats });
    await this.next("heartbeat_ack");
  }

  /** A heartbeat that the platform answers; resolves with the answer. */
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
