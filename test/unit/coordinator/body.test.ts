import { describe, expect, test } from "vitest";
import { readJsonBody } from "../../../src/coordinator/http/request.ts";
import { KiB, LIMITS, MiB } from "../../../src/protocol/limits.ts";

/** A request whose body arrives in these pieces; says how far it was read. */
function pieces(chunks: (Uint8Array | Error)[], headers: Record<string, string> = {}): { request: Request; taken: () => number; cancelled: () => boolean } {
  let taken = 0;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[taken++];
        if (chunk === undefined) controller.close();
        else if (chunk instanceof Error) controller.error(chunk);
        else controller.enqueue(chunk);
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const init: RequestInit & { duplex: "half" } = { method: "POST", body, headers, duplex: "half" };
  return { request: new Request("http://router.test", init), taken: () => taken, cancelled: () => cancelled };
}
const utf8 = (text: string) => new TextEncoder().encode(text);

describe("readJsonBody", () => {
  test("[API2] a character whose bytes arrive in two pieces is read correctly", async () => {
    const bytes = utf8('{"a":"é😀"}');
    const { request } = pieces([...bytes].map((byte) => Uint8Array.of(byte)));
    expect(await readJsonBody(request)).toEqual({ ok: true, value: { json: { a: "é😀" }, text: '{"a":"é😀"}' } });
  });

  test("[LM1] of a body that is too long all up to 16 MiB is read, then reading stops, and the sender is told to stop", async () => {
    const endless = pieces(Array.from({ length: 1_000 }, () => new Uint8Array(64 * KiB)));
    expect(await readJsonBody(endless.request)).toMatchObject({ ok: false, reason: { status: 413 } });
    expect(endless.taken()).toBe((16 * MiB) / (64 * KiB) + 1);
    expect(endless.cancelled()).toBe(true);
  });

  test("[LM1] bytes are counted, not characters", async () => {
    expect(await readJsonBody(pieces([utf8('"éé"')]).request, 6)).toMatchObject({ ok: true });
    expect(await readJsonBody(pieces([utf8('"éé"')]).request, 5)).toMatchObject({ ok: false, reason: { status: 413 } });
  });

  test("[LM1] an announced length of more than 16 MiB is refused unread, a shorter one after its end", async () => {
    const large = pieces([utf8("{}")], { "content-length": String(16 * MiB + 1) });
    expect(await readJsonBody(large.request)).toMatchObject({ ok: false, reason: { status: 413 } });
    expect(large.taken()).toBe(0);
    const smaller = pieces(
      Array.from({ length: 256 }, () => new Uint8Array(64 * KiB)),
      { "content-length": String(16 * MiB) },
    );
    expect(await readJsonBody(smaller.request)).toMatchObject({ ok: false, reason: { status: 413 } });
    expect(smaller.taken()).toBe(257);
  });

  test.each([
    ["a byte order mark is skipped", [utf8("\uFEFF{}")], { ok: true, value: { json: {}, text: "{}" } }],
    ["a cut character at the end", [utf8('"é"').slice(0, 2)], { ok: false, reason: { status: 400 } }],
    ["a byte that is not UTF-8", [Uint8Array.of(0x22, 0xff, 0x22)], { ok: false, reason: { status: 400 } }],
    ["UTF-16", [Uint8Array.of(0xff, 0xfe, 0x7b, 0, 0x7d, 0)], { ok: false, reason: { status: 400 } }],
    ["a body that breaks off", [utf8('{"a'), new Error("gone")], { ok: false, reason: { status: 400 } }],
    ["no body", [], { ok: false, reason: { status: 400 } }],
    ["two values", [utf8("{} {}")], { ok: false, reason: { status: 400 } }],
    ["NaN", [utf8("NaN")], { ok: false, reason: { status: 400 } }],
  ])("[API2] %s", async (_name, chunks, reading) => {
    expect(await readJsonBody(pieces(chunks).request)).toMatchObject(reading);
  });

  test("[LM1] JSON of more values than allowed is refused, however they are nested; commas in strings are no values", async () => {
    const list = (values: number) => `{"list":[${Array.from({ length: values }, () => '{"a":[]}').join(",")}]}`;
    // Each element is an object with an array, and all but the first come after a comma.
    const most = Math.floor((LIMITS.jsonValues - 3) / 3);
    expect(await readJsonBody(pieces([utf8(list(most))]).request)).toMatchObject({ ok: true });
    for (const many of [list(most + 1), `[${"[],".repeat(LIMITS.jsonValues)}0]`, `{${'"a":1,'.repeat(LIMITS.jsonValues)}"b":2}`]) {
      const read = await readJsonBody(pieces([utf8(many)]).request);
      expect(read).toEqual({ ok: false, reason: { status: 400, error: `Body has more than ${LIMITS.jsonValues} values` } });
    }
    expect(await readJsonBody(pieces([utf8(`{"a":"${",[{".repeat(LIMITS.jsonValues)}"}`)]).request)).toMatchObject({ ok: true });
  });

  test.each(["gzip", "br", "gzip, identity"])("[LM1] Content-Encoding %s is 415, and nothing is read", async (encoding) => {
    const encoded = pieces([utf8("{}")], { "content-encoding": encoding });
    expect(await readJsonBody(encoded.request)).toMatchObject({ ok: false, reason: { status: 415 } });
    expect(encoded.taken()).toBe(0);
  });

  test("[LM1] Content-Encoding identity is read", async () => {
    expect(await readJsonBody(pieces([utf8("{}")], { "content-encoding": "identity" }).request)).toMatchObject({ ok: true });
  });
});
