// A WebSocket client of raw bytes for npm run floods: it can stop to read, send frames of any size, and leave messages unfinished.
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** The header that names the client's address to the coordinator under test. */
export const ADDRESS_HEADER = "x-client-address";

type Frame = Record<string, unknown> & { type?: unknown };

/** One connection. It dials at once; `opened` resolves to the status of the answer, 0 without one. */
export class FloodSocket {
  readonly opened: Promise<number>;
  /** Called for each frame of the coordinator. */
  onFrame: (frame: Frame) => void = () => {};
  /** Called for the close frame of the coordinator. It ends the connection, unless a flood ignores it. */
  onClose: () => void = () => this.destroy();
  #opens: (status: number) => void = () => {};
  readonly #socket: Socket;
  #status = 0;
  #pending: Buffer = Buffer.alloc(0);

  constructor(port: number, address: string, host = `127.0.0.1:${port}`) {
    this.opened = new Promise((resolve) => (this.#opens = resolve));
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.on("data", (data) => this.#read(data));
    // Each wait below listens for the end.
    this.#socket.setMaxListeners(0);
    this.#socket.on("error", () => {});
    this.#socket.on("close", () => this.#opens(0));
    const lines = [`Host: ${host}`, `${ADDRESS_HEADER}: ${address}`, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"];
    this.#socket.write(["GET / HTTP/1.1", ...lines, `Sec-WebSocket-Key: ${randomBytes(16).toString("base64")}`, "", ""].join("\r\n"));
  }

  /** True if the connection has ended, on either side. */
  get ended(): boolean {
    return this.#socket.destroyed || this.#socket.readyState !== "open";
  }

  /** Registers a fresh, signed key; resolves to true if the coordinator accepted it. */
  async register(changes: Record<string, unknown> = {}): Promise<boolean> {
    if ((await this.opened) !== 101) return false;
    const { publicKey, key } = newKey();
    // The challenge is not parsed yet, see below.
    const accepted = new Promise<boolean>((resolve) => {
      this.#socket.once("close", () => resolve(false));
      const next = this.onFrame;
      this.onFrame = (frame) => {
        if (frame.type === "challenge") {
          const text = `compute-router/register/v1\n${String(frame.network)}\n${String(frame.host)}\n${String(frame.nonce)}\n${publicKey}`;
          const signature = sign(null, Buffer.from(text), key).toString("base64");
          const register = { type: "register", provider_pubkey: publicKey, provider_type: "DESKTOP", capabilities: [], features: ["ack"], signature };
          this.send({ ...register, ...changes });
        } else if (frame.type === "register_ack") {
          this.onFrame = next;
          resolve(frame.status === "ok");
        }
      };
    });
    return accepted;
  }

  /** Reads nothing from now on. */
  pause(): void {
    this.#socket.pause();
  }

  /** Sends a text frame; false if the connection takes no more for now. */
  send(frame: object | string): boolean {
    return this.#frame(0x81, Buffer.from(typeof frame === "string" ? frame : JSON.stringify(frame)));
  }

  /** Sends a part of a message that does not end with it. */
  sendPart(bytes: Buffer, isFirst: boolean): boolean {
    return this.#frame(isFirst ? 0x01 : 0x00, bytes);
  }

  /** Sends bytes that {@link framed} made. */
  sendRaw(bytes: Buffer): boolean {
    return this.#socket.write(bytes);
  }

  /** Resolves when the connection takes more, or has ended, or after `ms`. */
  async drained(ms = 1_000): Promise<void> {
    if (this.ended || !this.#socket.writableNeedDrain) return;
    const stop = new AbortController();
    const late = setTimeout(() => stop.abort(), ms);
    const events = ["drain", "close"].map((event) => once(this.#socket, event, { signal: stop.signal }).catch(() => {}));
    await Promise.race(events);
    clearTimeout(late);
    stop.abort();
  }

  /** Resolves when the connection has ended, or after `ms`. */
  async gone(ms: number): Promise<void> {
    if (!this.ended) await once(this.#socket, "close", { signal: AbortSignal.timeout(ms) }).catch(() => {});
  }

  /** Ends the connection without a close frame. */
  destroy(): void {
    this.#socket.destroy();
  }

  #frame(first: number, body: Buffer): boolean {
    this.#socket.write(headOf(first, body.length));
    return this.#socket.write(body);
  }

  #read(data: Buffer): void {
    this.#pending = this.#pending.length === 0 ? data : Buffer.concat([this.#pending, data]);
    if (this.#status === 0) {
      const end = this.#pending.indexOf("\r\n\r\n");
      if (end < 0) return;
      this.#status = Number(this.#pending.subarray(9, 12).toString());
      this.#pending = this.#pending.subarray(end + 4);
      this.#opens(this.#status);
      // Whoever waits for the answer sets `onFrame` first.
      return void setImmediate(() => this.#parse());
    }
    this.#parse();
  }

  #parse(): void {
    while (this.#status === 101 && this.#pending.length >= 2) {
      const short = (this.#pending[1] ?? 0) & 0x7f;
      const start = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (this.#pending.length < start) return;
      const length = short < 126 ? short : short === 126 ? this.#pending.readUInt16BE(2) : Number(this.#pending.readBigUInt64BE(2));
      if (this.#pending.length < start + length) return;
      const opcode = (this.#pending[0] ?? 0) & 0x0f;
      const body = this.#pending.subarray(start, start + length);
      this.#pending = this.#pending.subarray(start + length);
      if (opcode === 1) this.onFrame(JSON.parse(body.toString()) as Frame);
      if (opcode === 8) return this.onClose();
    }
  }
}

/** A text frame as bytes, so that many can be sent in one write. */
export function framed(text: string): Buffer {
  const body = Buffer.from(text);
  return Buffer.concat([headOf(0x81, body.length), body]);
}

/** The head of a masked frame. The mask is zero, so that the body stays as it is. */
function headOf(first: number, length: number): Buffer {
  const mask = Buffer.alloc(4);
  if (length < 126) return Buffer.concat([Buffer.from([first, 0x80 | length]), mask]);
  const long = length < 65_536 ? Buffer.alloc(4) : Buffer.alloc(10);
  long[0] = first;
  if (long.length === 4) {
    long[1] = 0xfe;
    long.writeUInt16BE(length, 2);
  } else {
    long[1] = 0xff;
    long.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([long, mask]);
}

/** A key that nobody has seen. */
export function newKey(): { publicKey: string; key: KeyObject } {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  return { publicKey: publicKey.export({ type: "spki", format: "der" }).subarray(-32).toString("hex"), key: privateKey };
}
