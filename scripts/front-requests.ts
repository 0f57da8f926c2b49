// Finds where each request of a connection begins. So the front knows which head a switch to WebSocket answers, and can name the client in each head. Pure:
// front-passage.ts moves the bytes.

/** The longest head that the front reads. After a longer one it trusts no switch and names no client. workerd accepts heads of 64 KiB at most. */
export const LONGEST_HEAD = 32 * 1024;
const UPGRADE = /\nupgrade:[ \t]*websocket[ \t]*\r?\n/i;
/** Every header that may announce a body, and the only two forms of these headers with which the end of the body is certain. */
const BODY = /\n(?:content-length|transfer-encoding)[ \t]*:/gi;
const LENGTH = /\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r?\n/i;
const CHUNKED = /\ntransfer-encoding:[ \t]*chunked[ \t]*\r?\n/i;
/** The first line of a chunk, without extensions, which nobody sends. */
const CHUNK_SIZE = /^([\da-f]{1,8})\r\n$/i;
const LONGEST_CHUNK_SIZE = 10;
const CRLF = "\r\n";
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const NOTHING = Buffer.alloc(0);

/** The head of an upgrade, and the bytes after it, which were not read. */
export type Upgrade = { head: string; rest: Buffer };

/**
 * Reads the requests of one connection as workerd does (`readHeader` of KJ's http.c++): a head ends with an empty line, and a line with LF, with or without CR.
 * If both disagreed where a head ends, a client could put bytes between the two ends, and workerd would read other frames than the front counts. As soon as it
 * is not certain where a request begins, no later head counts as an upgrade.
 */
export class RequestReader {
  readonly #pass: (bytes: Buffer) => void;
  readonly #mark: Buffer | null;
  /** The bytes of a head that has not ended. */
  #head: Buffer = NOTHING;
  /** What is left of a body. */
  #body: number | ChunkedBody = 0;
  #isLost = false;
  #asksForTunnel = false;

  /**
   * `pass` gets the bytes for workerd, heads in one piece. `mark` is a line that is added to each head. With a mark, nothing more is passed on as soon as the
   * beginning of a request is not certain, because a head without the mark could follow.
   */
  constructor(pass: (bytes: Buffer) => void, mark: string | null = null) {
    this.#pass = pass;
    this.#mark = mark === null ? null : Buffer.from(mark, "latin1");
  }

  /** True if it is not certain where the next request begins, so that nothing more is passed on. */
  get isRefused(): boolean {
    return this.#isLost && (this.#mark !== null || this.#asksForTunnel);
  }

  /** True if it is refused because of a CONNECT: workerd writes a line into the log for each one. */
  get asksForTunnel(): boolean {
    return this.#asksForTunnel;
  }

  /** Reads on, and passes on what it has read, up to the end of an upgrade's head; null if none ends here. */
  read(chunk: Buffer): Upgrade | null {
    let rest = chunk;
    while (rest.length > 0 && !this.#isLost) {
      if (this.#body !== 0) {
        rest = this.#readBody(rest, this.#body);
        continue;
      }
      const carried = this.#head.length;
      const all = carried === 0 ? rest : Buffer.concat([this.#head, rest]);
      const length = lengthOfHead(all, carried);
      if (length === null && all.length <= LONGEST_HEAD) {
        this.#head = all;
        return null;
      }
      this.#head = NOTHING;
      rest = all;
      this.#asksForTunnel = isConnect(all);
      const head = all.toString("latin1", 0, length ?? 0);
      const body = length === null || length > LONGEST_HEAD || this.#asksForTunnel ? null : bodyOf(head);
      const isUpgrade = UPGRADE.test(head);
      if (length === null || body === null || (isUpgrade && body !== 0)) {
        this.#isLost = true;
        continue;
      }
      this.#pass(this.#marked(all.subarray(0, length)));
      rest = all.subarray(length);
      if (isUpgrade) return { head, rest };
      this.#body = body;
    }
    if (rest.length > 0 && !this.isRefused) this.#pass(rest);
    return null;
  }

  /** Passes on what of these bytes belongs to the body; returns the others. */
  #readBody(bytes: Buffer, body: number | ChunkedBody): Buffer {
    const end = typeof body === "number" ? Math.min(body, bytes.length) : body.read(bytes);
    if (end === null) {
      this.#isLost = true;
      return bytes;
    }
    this.#pass(bytes.subarray(0, end));
    if (typeof body === "number") this.#body = body - end;
    else if (body.isOver) this.#body = 0;
    return bytes.subarray(end);
  }

  #marked(head: Buffer): Buffer {
    if (this.#mark === null) return head;
    // The mark stands before the empty line, because the last of several headers with the same name counts.
    const end = head.length - (head.at(-2) === RETURN ? 2 : 1);
    return Buffer.concat([head.subarray(0, end), this.#mark, head.subarray(end)]);
  }
}

/** A chunked body in its plainest form, which everybody reads in the same way: no extensions and no trailers (RFC 9112, 7.1). */
class ChunkedBody {
  isOver = false;
  /** The line that has begun: a size, or the end of a chunk. */
  #line = "";
  #expects: "size" | "data" | "end" | "last end" = "size";
  #left = 0;

  /** How many of these bytes belong to it; null if it has another form. */
  read(bytes: Buffer): number | null {
    let at = 0;
    while (at < bytes.length && !this.isOver) {
      if (this.#expects === "data") {
        const part = Math.min(this.#left, bytes.length - at);
        this.#left -= part;
        at += part;
        if (this.#left === 0) this.#expects = "end";
        continue;
      }
      const byte = bytes[at++];
      this.#line += String.fromCharCode(byte ?? 0);
      if (byte !== NEWLINE && this.#line.length < LONGEST_CHUNK_SIZE) continue;
      if (!this.#endLine(this.#line)) return null;
      this.#line = "";
    }
    return at;
  }

  #endLine(line: string): boolean {
    if (this.#expects === "size") {
      const size = CHUNK_SIZE.exec(line)?.[1];
      this.#left = Number.parseInt(size ?? "", 16);
      this.#expects = this.#left === 0 ? "last end" : "data";
      return size !== undefined;
    }
    this.isOver = this.#expects === "last end";
    this.#expects = "size";
    return line === CRLF;
  }
}

/** The bytes of the head that these begin with; null if it has not ended. The first `known` bytes have no end. */
function lengthOfHead(bytes: Buffer, known: number): number | null {
  // KJ takes no empty line for the end before the fifth byte.
  for (let at = bytes.indexOf(NEWLINE, Math.max(known, 4)); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) {
    const before = bytes[at - 1] === RETURN ? at - 2 : at - 1;
    if (bytes[before] === NEWLINE) return at + 1;
  }
  return null;
}

/** True for a request that asks for a tunnel (RFC 9110, 9.3.6), also in a head that is too long. */
function isConnect(head: Buffer): boolean {
  return /^connect[ \t]/i.test(head.toString("latin1", 0, "connect ".length));
}

/** The length of the body that follows a head, or a reader of it; null if its end is not certain. */
function bodyOf(head: string): number | ChunkedBody | null {
  // A head must not begin with an empty line. KJ also ends a line at a CR alone, and joins a line that begins with a space to the line before.
  if (/^[\r\n]|\r(?!\n)|\n[ \t]|\0/.test(head)) return null;
  const announced = head.match(BODY) ?? [];
  if (announced.length === 0) return 0;
  if (announced.length > 1) return null;
  const [, length] = LENGTH.exec(head) ?? [];
  if (length !== undefined) return Number(length);
  return CHUNKED.test(head) ? new ChunkedBody() : null;
}
