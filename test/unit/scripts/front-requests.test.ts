import { describe, expect, it } from "vitest";
import { LONGEST_HEAD, RequestReader } from "../../../scripts/front-requests.ts";

const UPGRADE = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const post = (body: string, headers = `Content-Length: ${body.length}`): string => `POST / HTTP/1.1\r\nHost: a\r\n${headers}\r\n\r\n${body}`;

/** Where the first upgrade's head ends in these bytes, read in pieces of `size`; null if none does. */
function found(text: string, size = text.length): number | null {
  const reader = new RequestReader();
  const bytes = Buffer.from(text, "latin1");
  for (let from = 0; from < bytes.length; from += size) {
    const upgrade = reader.read(bytes.subarray(from, from + size));
    if (upgrade !== null) return from + upgrade.end;
  }
  return null;
}

describe("the head of an upgrade", () => {
  it.each([
    ["alone", "", UPGRADE],
    ["after requests without a body", GET + GET, UPGRADE],
    ["after one with a body that looks like an upgrade", post(UPGRADE), UPGRADE],
    ["after a refused upgrade", UPGRADE, UPGRADE],
    ["with lines that end in LF", "", UPGRADE.replaceAll("\r", "")],
    ["whose last line alone ends in LF", "", UPGRADE.replace(/\r\n$/, "\n")],
  ])("is found %s, whole and byte by byte, and ends where workerd ends it", (_, before, head) => {
    const frames = `\x89\x80\0\0\0\0xxxx\r\n\r\n${UPGRADE}`;
    const skip = before === UPGRADE ? 1 : 0;
    for (const size of [1, 7, 10_000]) {
      const reader = new RequestReader();
      const ends: number[] = [];
      const bytes = Buffer.from(before + head + frames, "latin1");
      for (let from = 0; from < bytes.length;) {
        const upgrade = reader.read(bytes.subarray(from, from + size));
        if (upgrade === null) from += size;
        else ends.push((from += upgrade.end));
      }
      expect(ends[skip]).toBe(before.length + head.length);
    }
  });

  it.each([
    ["chunked", post("0\r\n\r\n", "Transfer-Encoding: chunked")],
    ["of two lengths", post("abc", "Content-Length: 3\r\nContent-Length: 1")],
    ["of a length that is no plain number", post("abc", "Content-Length: +3")],
    ["of a length with a space before the colon", post("abc", "Content-Length : 3")],
    ["of a folded length", post("abc", "Content-Length:\r\n 3")],
    ["whose length stands behind a CR alone", post("abc", "X: a\rContent-Length: 3")],
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
    const reader = new RequestReader();
    for (let n = 0; n < 100; n++) expect(reader.read(Buffer.alloc(10_000, "x"))).toBeNull();
    expect(reader.read(Buffer.from(`\r\n\r\n${UPGRADE}`))).toBeNull();
  });
});
