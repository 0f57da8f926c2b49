import { describe, expect, it } from "vitest";
import { LONGEST_HEAD, RequestReader } from "../../../scripts/front-requests.ts";

const UPGRADE = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const post = (body: string, headers = `Content-Length: ${body.length}`): string => `POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${body}`;

/** A request with a chunk for each of these texts. */
const chunked = (...texts: string[]): string =>
  post(`${texts.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join("")}0\r\n\r\n`, "Transfer-Encoding: chunked");

/** Where the first upgrade's head ends in these bytes, read in pieces of `size`; null if none does. */
function found(text: string, size = text.length): number | null {
  const reader = new RequestReader(() => {});
  const bytes = Buffer.from(text, "latin1");
  for (let from = 0; from < bytes.length; from += size) {
    const piece = bytes.subarray(from, from + size);
    const upgrade = reader.read(piece);
    if (upgrade !== null) return from + piece.length - upgrade.rest.length;
  }
  return null;
}

describe("the head of an upgrade", () => {
  it.each([
    ["alone", "", UPGRADE],
    ["after requests without a body", GET + GET, UPGRADE],
    ["after one with a body that looks like an upgrade", post(UPGRADE), UPGRADE],
    ["after a chunked one, which looks like an upgrade", chunked(UPGRADE, "GET"), UPGRADE],
    ["after a refused upgrade", UPGRADE, UPGRADE],
    ["with lines that end in LF", "", UPGRADE.replaceAll("\r", "")],
    ["whose last line alone ends in LF", "", UPGRADE.replace(/\r\n$/, "\n")],
  ])("is found %s, whole and byte by byte, and ends where workerd ends it", (_, before, head) => {
    const frames = `\x89\x80\0\0\0\0xxxx\r\n\r\n${UPGRADE}`;
    const skip = before === UPGRADE ? 1 : 0;
    for (const size of [1, 7, 10_000]) {
      const passed: Buffer[] = [];
      const reader = new RequestReader((part) => passed.push(part));
      const ends: number[] = [];
      const bytes = Buffer.from(before + head + frames, "latin1");
      for (let from = 0; from < bytes.length;) {
        const piece = bytes.subarray(from, from + size);
        const upgrade = reader.read(piece);
        from += piece.length - (upgrade?.rest.length ?? 0);
        if (upgrade !== null && ends.push(from) > skip) break;
      }
      expect(ends[skip]).toBe(before.length + head.length);
      expect(Buffer.concat(passed).toString("latin1")).toBe(before + head);
    }
  });

  it.each([
    ["of chunks and a length", post("0\r\n\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 5")],
    ["of chunks in another coding", post("0\r\n\r\n", "Transfer-Encoding: gzip, chunked")],
    ["of chunks with an extension", post("1;x\r\na\r\n0\r\n\r\n", "Transfer-Encoding: chunked")],
    ["of chunks with a trailer", post("0\r\nX: a\r\n\r\n", "Transfer-Encoding: chunked")],
    ["of chunks whose lines end in LF", post("0\n\n", "Transfer-Encoding: chunked")],
    ["of chunks whose sizes alone end in LF", post("1\na\r\n0\n\r\n", "Transfer-Encoding: chunked")],
    ["of chunks with a size that is too long", post("000000001\r\na\r\n0\r\n\r\n", "Transfer-Encoding: chunked")],
    ["of a chunk that is longer than it says", post("1\r\nab\r\n0\r\n\r\n", "Transfer-Encoding: chunked")],
    ["of two lengths", post("abc", "Content-Length: 3\r\nContent-Length: 1")],
    ["of a length that is no plain number", post("abc", "Content-Length: +3")],
    ["of a length with a space before the colon", post("abc", "Content-Length : 3")],
    ["of a folded length", post("abc", "Content-Length:\r\n 3")],
    ["whose length stands behind a CR alone", post("abc", "X: a\rContent-Length: 3")],
    ["whose length stands behind a NUL", post("abc", "X: a\0\r\nContent-Length: 3")],
    ["behind a line that is joined to the one before", post("", "X: a\r\n b")],
  ])("does not count after a body %s, because nobody knows for certain where it ends", (_, request) => {
    expect(found(request + UPGRADE)).toBeNull();
  });

  it.each([
    ["with a body", UPGRADE.replace("Host", "Content-Length: 5\r\nHost")],
    ["behind an empty line", `\r\n\r\n${UPGRADE}`],
    ["behind a tunnel", `CONNECT a:1 HTTP/1.1\r\n\r\n${UPGRADE}`],
    ["that is too long", UPGRADE.replace("Host: a", `Host: ${"a".repeat(LONGEST_HEAD)}`)],
    ["in one that is too long, whose own line came first", `GET / HTTP/1.1\r\nUpgrade: websocket\r\nX: ${"x".repeat(LONGEST_HEAD)}\r\n\r\n${UPGRADE}`],
  ])("does not count %s", (_, request) => {
    for (const size of [100, request.length]) expect(found(request, size)).toBeNull();
  });

  it("takes memory for one head at most", () => {
    const reader = new RequestReader(() => {});
    for (let n = 0; n < 100; n++) expect(reader.read(Buffer.alloc(10_000, "x"))).toBeNull();
    expect(reader.read(Buffer.from(`\r\n\r\n${UPGRADE}`))).toBeNull();
  });
});

describe("the name of the client", () => {
  const MARK = "x-peer: 203.0.113.7\r\n";
  const SPOOFED = GET.replace("\r\n\r\n", "\r\nx-peer: 198.51.100.1\r\n\r\n");

  /** What is passed on of these bytes, read in pieces of `size`, and whether the rest was refused. */
  function passedOn(text: string, size: number): { passed: string; isRefused: boolean } {
    const parts: Buffer[] = [];
    const reader = new RequestReader((part) => parts.push(part), MARK);
    const bytes = Buffer.from(text, "latin1");
    for (let from = 0; from < bytes.length; from += size) reader.read(bytes.subarray(from, from + size));
    return { passed: Buffer.concat(parts).toString("latin1"), isRefused: reader.isRefused };
  }
  const marked = (request: string): string =>
    request.replace(/\r?\n\r?\n/, (end) => `${end.slice(0, end.indexOf("\n") + 1)}${MARK}${end.slice(end.indexOf("\n") + 1)}`);

  it.each([
    ["requests without a body", [GET, GET]],
    ["one with a body that looks like a request, and the next one", [post(GET + GET), GET]],
    ["one with chunks that look like requests, and the next one", [chunked(GET, `${GET}\r\n`, "x"), GET]],
    ["one whose lines end in LF", [GET.replaceAll("\r", ""), GET]],
    ["an upgrade", [UPGRADE]],
  ])("is in the head of each of %s, and nothing else changes", (_, requests) => {
    for (const size of [1, 7, 10_000])
      expect(passedOn(requests.join(""), size)).toEqual({ passed: requests.map((request) => marked(request)).join(""), isRefused: false });
  });

  it.each([
    ["two lengths", post("abc", "Content-Length: 3\r\nContent-Length: 1")],
    ["chunks and a length", post("0\r\n\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked")],
    ["a chunk with an extension", post("1;x\r\na\r\n0\r\n\r\n", "Transfer-Encoding: chunked")],
    ["a folded line", post("", "X: a\r\n b")],
    ["a tunnel", "CONNECT a:1 HTTP/1.1\r\n\r\n"],
    ["a head that is too long", `GET / HTTP/1.1\r\nX: ${"x".repeat(LONGEST_HEAD)}\r\n\r\n`],
  ])("is in every head that is passed on: after %s nothing is", (_, request) => {
    for (const size of [1_000, 100_000]) {
      const { passed, isRefused } = passedOn(GET + request + SPOOFED, size);
      expect(isRefused).toBe(true);
      expect(passed.startsWith(marked(GET))).toBe(true);
      expect(passed).not.toContain(SPOOFED);
    }
  });
});

describe("a request for a tunnel", () => {
  it.each([
    ["alone", "", ""],
    ["behind a request", GET, ""],
    ["with a head that is too long", "", `X: ${"x".repeat(LONGEST_HEAD)}\r\n`],
  ])("is refused %s, and not passed on, also where clients are not named", (_, before, headers) => {
    const passed: Buffer[] = [];
    const reader = new RequestReader((part) => passed.push(part));
    expect(reader.read(Buffer.from(`${before}CONNECT a:1 HTTP/1.1\r\n${headers}\r\n`))).toBeNull();
    expect([reader.isRefused, reader.asksForTunnel]).toEqual([true, true]);
    expect(Buffer.concat(passed).toString()).toBe(before);
  });
});
