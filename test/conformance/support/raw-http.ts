// A TCP client for HTTP requests that no HTTP library would send.
import { connect, type Socket } from "node:net";
import { within } from "./wait.ts";

/** The answer on a TCP connection: status and body of the first answer, and all bytes. */
export type RawAnswer = { status: number; head: string; body: string; all: string };

/** A TCP connection that sends exact bytes. */
export class RawHttp {
  all = "";
  ended = false;
  readonly socket: Socket;

  constructor(port: number) {
    this.socket = connect(port, "127.0.0.1");
    this.socket.setEncoding("latin1");
    this.socket.on("data", (data) => (this.all += String(data)));
    this.socket.on("close", () => (this.ended = true));
    this.socket.on("error", () => (this.ended = true));
  }

  write(text: string): void {
    if (!this.ended) this.socket.write(text, "latin1");
  }

  /** Waits for the first complete answer. Status 0 means that the connection was closed without one. */
  async answer(ms = 10_000): Promise<RawAnswer> {
    await within(
      ms,
      () => (this.ended || this.#isWhole() ? true : undefined),
      () => `an answer; got ${JSON.stringify(this.all.slice(0, 500))}`,
    );
    const [head, body = ""] = splitOnce(this.all, "\r\n\r\n");
    return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0), head, body: body.slice(0, lengthOf(head) ?? undefined), all: this.all };
  }

  end(): void {
    this.socket.destroy();
  }

  #isWhole(): boolean {
    const [head, body] = splitOnce(this.all, "\r\n\r\n");
    if (body === undefined) return false;
    const length = lengthOf(head);
    return length === null ? body.endsWith("0\r\n\r\n") : body.length >= length;
  }
}

/** Sends bytes on a new connection and resolves with the first answer. */
export async function rawRequest(port: number, text: string, ms?: number): Promise<RawAnswer> {
  const raw = new RawHttp(port);
  try {
    raw.write(text);
    return await raw.answer(ms);
  } finally {
    raw.end();
  }
}

/**
 * Sends all of these texts before it reads a byte, as some clients do. Gives everything that comes, as soon as it is whole.
 * @throws if the connection breaks
 */
export async function sendThenRead(port: number, texts: Iterable<string>, isWhole: (answers: string) => boolean): Promise<string> {
  const socket = connect(port, "127.0.0.1").pause();
  const broken = new Promise<never>((_resolve, reject) => socket.once("error", reject));
  const write = (text: string) => new Promise<void>((resolve, reject) => socket.write(text, (error) => (error ? reject(error) : resolve())));
  const sendAndRead = async (): Promise<string> => {
    for (const text of texts) await write(text);
    let answers = "";
    socket.on("data", (data) => (answers += String(data))).resume();
    await within(
      10_000,
      () => (isWhole(answers) ? true : undefined),
      () => `all answers; got ${answers}`,
    );
    return answers;
  };
  try {
    return await Promise.race([broken, sendAndRead()]);
  } finally {
    socket.destroy();
  }
}

/** Returns the head of a request from these lines, with the blank line. */
export function head(...lines: string[]): string {
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function lengthOf(heading: string): number | null {
  if (/\r\ntransfer-encoding: chunked/i.test(heading)) return null;
  return Number(/\r\ncontent-length: (\d+)/i.exec(heading)?.[1] ?? 0);
}

function splitOnce(text: string, at: string): [string, string?] {
  const index = text.indexOf(at);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + at.length)];
}
