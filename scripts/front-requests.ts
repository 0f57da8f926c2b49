// Where the requests of a connection begin, for the front: so it knows which head a switch to WebSocket answers. Pure: front.ts moves the bytes.

/** A longer head is passed on, and no switch after it is trusted. workerd takes heads of 64 KiB at most. */
export const LONGEST_HEAD = 32 * 1024;
const UPGRADE = /\nupgrade:[ \t]*websocket[ \t]*\r?\n/i;
/** Every member that may tell of a body, and the only form of it whose length is certain. */
const BODY = /\n(?:content-length|transfer-encoding)/gi;
const LENGTH = /\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r?\n/i;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const NOTHING = Buffer.alloc(0);

/** The head of an upgrade, and where it ends in the bytes that were read last. */
export type Upgrade = { head: string; end: number };

/**
 * Reads the requests of one connection as workerd does (`readHeader` of KJ's http.c++): a head ends with an empty line, and a line with LF, with or without CR. If
 * it read otherwise, a client could put bytes between the two ends, and the frames that workerd reads would not be those that the front counts. As soon as
 * a place is not certain, no later head counts as an upgrade.
 */
export class RequestReader {
  /** The bytes of a head that has not ended. */
  #head: Buffer = NOTHING;
  #bodyLeft = 0;
  #isLost = false;

  /** Reads on, up to the end of an upgrade's head; null if none ends here. What follows such a head was not read. */
  read(chunk: Buffer): Upgrade | null {
    let from = 0;
    while (!this.#isLost && from < chunk.length) {
      if (this.#bodyLeft > 0) {
        const part = Math.min(this.#bodyLeft, chunk.length - from);
        this.#bodyLeft -= part;
        from += part;
        continue;
      }
      const carried = this.#head.length;
      const all = carried === 0 ? chunk.subarray(from) : Buffer.concat([this.#head, chunk.subarray(from)]);
      const length = lengthOfHead(all, carried);
      if (length === null) {
        this.#head = all;
        if (all.length > LONGEST_HEAD) this.#lose();
        return null;
      }
      this.#head = NOTHING;
      from += length - carried;
      const head = all.toString("latin1", 0, length);
      const body = bodyOf(head);
      const isUpgrade = UPGRADE.test(head);
      if (length > LONGEST_HEAD || body === null || (isUpgrade && body > 0)) this.#lose();
      else if (isUpgrade) return { head, end: from };
      else this.#bodyLeft = body;
    }
    return null;
  }

  #lose(): void {
    this.#isLost = true;
    this.#head = NOTHING;
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

/** The bytes of the body that follows a head; null if that is not certain. */
function bodyOf(head: string): number | null {
  // A tunnel has no end, and a head that begins with an empty line is none. KJ ends a line of a head at a CR alone too, and joins a line that begins with a space.
  if (/^(?:[\r\n]|connect[ \t])|\r(?!\n)|\n[ \t]|\0/i.test(head)) return null;
  const members = head.match(BODY) ?? [];
  if (members.length === 0) return 0;
  const [, length] = LENGTH.exec(head) ?? [];
  return members.length > 1 || length === undefined ? null : Number(length);
}
