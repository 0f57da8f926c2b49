// A WebSocket client of raw bytes, for frames that no library would send.
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { within } from "./wait.ts";

/** A received frame: opcode and bytes. */
export type RawFrame = { opcode: number; data: Buffer };

/** A WebSocket client that sends raw bytes, for frames that the global WebSocket refuses to send. */
export class RawSocket {
  readonly frames: RawFrame[] = [];
  /** The head of the handshake's answer, or of another HTTP answer. */
  head = "";
  ended = false;
  readonly #socket: Socket;
  #pending: Buffer = Buffer.alloc(0);

  private constructor(port: number) {
    this.#socket = connect(port, "127.0.0.1");
    this.#socket.on("data", (data) => this.#read(Buffer.concat([this.#pending, data])));
    this.#socket.on("close", () => (this.ended = true));
    this.#socket.on("error", () => (this.ended = true));
  }

  /** Sends an upgrade request for `path` with these header lines and waits for the head of the answer. */
  static async open(port: number, path = "/", headers: string[] = [`Host: 127.0.0.1:${port}`]): Promise<RawSocket> {
    const raw = new RawSocket(port);
    const key = randomBytes(16).toString("base64");
    const lines = [
      `GET ${path} HTTP/1.1`,
      ...headers,
      "Upgrade: websocket",
      "Connection: Upgrade",
      `Sec-WebSocket-Key: ${key}`,
      "Sec-WebSocket-Version: 13",
      "",
      "",
    ];
    raw.#socket.write(lines.join("\r\n"));
    await within(
      10_000,
      () => (raw.head !== "" || raw.ended ? true : undefined),
      () => `an answer on ${path}`,
    );
    return raw;
  }

  /** One masked frame. */
  send(opcode: number, data: Uint8Array | string, fin = true): void {
    const body = Buffer.from(data as string);
    const mask = randomBytes(4);
    const length = body.length < 126 ? Buffer.from([body.length | 0x80]) : body.length < 65_536 ? Buffer.alloc(3) : Buffer.alloc(9);
    if (length.length === 3) {
      length[0] = 0xfe;
      length.writeUInt16BE(body.length, 1);
    } else if (length.length === 9) {
      length[0] = 0xff;
      length.writeBigUInt64BE(BigInt(body.length), 1);
    }
    const masked = Buffer.from(body.map((byte, index) => byte ^ (mask[index % 4] ?? 0)));
    this.#socket.write(Buffer.concat([Buffer.from([opcode | (fin ? 0x80 : 0)]), length, mask, masked]));
  }

  /** Waits for the first matching frame; for a text frame it also returns the JSON. */
  frame(matches: (json: Record<string, unknown>, frame: RawFrame) => boolean, ms = 10_000): Promise<RawFrame> {
    return within(
      ms,
      () => this.frames.find((frame) => matches(frame.opcode === 1 ? (JSON.parse(frame.data.toString()) as Record<string, unknown>) : {}, frame)),
      () => `a raw frame; got ${this.frames.map((frame) => `${frame.opcode}:${frame.data.toString()}`).join(" ")}`,
    );
  }

  /** Waits for the code of the close frame; 1006 without one. */
  async closeCode(ms = 10_000): Promise<number> {
    await within(
      ms,
      () => (this.ended || this.frames.some(({ opcode }) => opcode === 8) ? true : undefined),
      () => "a close",
    );
    const close = this.frames.find(({ opcode }) => opcode === 8);
    return close && close.data.length >= 2 ? close.data.readUInt16BE(0) : 1006;
  }

  end(): void {
    this.#socket.destroy();
  }

  #read(data: Buffer): void {
    let rest = data;
    if (this.head === "") {
      const end = rest.indexOf("\r\n\r\n");
      if (end >= 0) {
        this.head = rest.subarray(0, end).toString();
        rest = rest.subarray(end + 4);
      }
    }
    while (this.head.startsWith("HTTP/1.1 101") && rest.length >= 2) {
      const short = (rest[1] ?? 0) & 0x7f;
      const start = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (rest.length < start) break;
      const length = short < 126 ? short : short === 126 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
      if (rest.length < start + length) break;
      this.frames.push({ opcode: (rest[0] ?? 0) & 0x0f, data: rest.subarray(start, start + length) });
      rest = rest.subarray(start + length);
    }
    this.#pending = rest;
  }
}
