// The frames that the front before workerd passes on: any split of the bytes, and the limits.
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  ClientFrames,
  closeFrame,
  type FrameHeader,
  FrameGuard,
  FrameReader,
  MESSAGE_MS,
  MOST_MESSAGE_BYTES,
  type Refusal,
} from "../../../scripts/frame-guard.ts";
import { RATES } from "../../../src/protocol/limits.ts";

type Part = { opcode: number; fin: boolean; bytes: number };

const TEXT = 1;
const PING = 9;
const LARGE = 1_000_000;

/** A frame of a client, with the shortest header. */
function frame({ opcode, fin, bytes }: Part): Buffer {
  const first = (fin ? 0x80 : 0) | opcode;
  const mask = [1, 2, 3, 4];
  const length = [bytes >>> 24, (bytes >>> 16) & 0xff, (bytes >>> 8) & 0xff, bytes & 0xff];
  const head =
    bytes < 126
      ? [first, 0x80 | bytes, ...mask]
      : bytes < 65_536
        ? [first, 0x80 | 126, ...length.slice(2), ...mask]
        : [first, 0x80 | 127, 0, 0, 0, 0, ...length, ...mask];
  return Buffer.concat([Buffer.from(head), Buffer.alloc(bytes)]);
}
const message = (bytes: number): Buffer => frame({ opcode: TEXT, fin: true, bytes });
const begun = (bytes: number): Buffer => frame({ opcode: TEXT, fin: false, bytes });
const part = (bytes: number): Buffer => frame({ opcode: 0, fin: false, bytes });
const ping = (): Buffer => frame({ opcode: PING, fin: true, bytes: 0 });

/** The first refusal, and how many of the buffers passed before it. */
/** What the hub reads of a socket, by default. */
const MESSAGES = { perSecond: RATES.messagesPerSecond, burst: RATES.messageBurst };

function judge(buffers: readonly Uint8Array[], guard = new FrameGuard(MESSAGES, null, 0), every = 0): { refusal: Refusal | null; passed: number } {
  for (const [at, buffer] of buffers.entries()) {
    const refusal = guard.read(buffer, at * every);
    if (refusal !== null) return { refusal, passed: at };
  }
  return { refusal: null, passed: buffers.length };
}

const anyPart = fc.record({ opcode: fc.constantFrom(0, TEXT, 2, PING), fin: fc.boolean(), bytes: fc.constantFrom(0, 1, 125, 126, 300, 65_535, 65_536) });

describe("frames of a client", () => {
  test("[LM2] every split of the bytes gives the same headers and the same judgement", () => {
    fc.assert(
      fc.property(fc.array(anyPart, { maxLength: 6 }), fc.array(fc.nat(70_000), { maxLength: 30 }), (parts, cuts) => {
        const whole = Buffer.concat(parts.map(frame));
        const at = [0, ...cuts.map((cut) => Math.min(cut, whole.length)), whole.length].toSorted((a, b) => a - b);
        const pieces = at.slice(1).map((end, index) => whole.subarray(at[index], end));
        const headers: FrameHeader[] = [];
        const reader = new FrameReader();
        for (const piece of pieces)
          reader.read(piece, (header) => {
            headers.push(header);
            return null;
          });
        expect(headers.map(({ opcode, isLast, length }) => ({ opcode, fin: isLast, bytes: length }))).toEqual(parts);
        expect(reader.isAtBorder).toBe(true);
        expect(judge(pieces).refusal).toEqual(judge([whole]).refusal);
      }),
    );
  });

  test("[LM2] byte by byte: headers of each length", () => {
    for (const bytes of [0, 125, 126, 65_535, 65_536]) {
      const guard = new FrameGuard(MESSAGES, null, 0);
      const whole = message(bytes);
      for (let at = 0; at < whole.length; at++) if (guard.read(whole.subarray(at, at + 1), 0) !== null) expect.fail(`refused at ${at}`);
      expect(guard.isLate(2 * MESSAGE_MS)).toBe(false);
    }
  });

  test.each<[string, (bytes: Buffer) => void]>([
    ["with a reserved bit", (bytes) => bytes.writeUInt8(bytes.readUInt8(0) | 0x40, 0)],
    ["with an opcode that is none", (bytes) => bytes.writeUInt8(0x83, 0)],
    ["that is a ping in parts", (bytes) => bytes.writeUInt8(PING, 0)],
    ["that is a part of nothing", (bytes) => bytes.writeUInt8(0x80, 0)],
  ])("[LM2] a frame %s ends the connection with 1002", (_, spoil) => {
    const bytes = message(10);
    expect(judge([bytes]).refusal).toBeNull();
    spoil(bytes);
    expect(judge([bytes]).refusal).toMatchObject({ code: 1002 });
  });

  test("[LM2] a frame without a mask ends the connection with 1002, whole as it is", () => {
    expect(judge([Buffer.from([0x81, 2, 0x68, 0x69])]).refusal).toMatchObject({ code: 1002 });
  });

  test("[LM2] a ping of more than 125 bytes, and a message inside another one: 1002", () => {
    expect(judge([frame({ opcode: PING, fin: true, bytes: 126 })]).refusal).toMatchObject({ code: 1002 });
    expect(judge([begun(5), message(5)]).refusal).toMatchObject({ code: 1002 });
    expect(judge([begun(5), ping(), part(5)]).refusal).toBeNull();
  });

  test("[LM1] a message above the limit, whole or in parts, is refused with 1009 at its header", () => {
    expect(judge([message(MOST_MESSAGE_BYTES)]).refusal).toBeNull();
    expect(judge([message(MOST_MESSAGE_BYTES + 1).subarray(0, 14)]).refusal).toMatchObject({ code: 1009 });
    expect(judge([begun(LARGE), part(LARGE), part(LARGE)])).toMatchObject({ refusal: { code: 1009 }, passed: 2 });
    expect(judge(Array.from({ length: 5 }, () => message(LARGE))).refusal).toBeNull();
    // 64 bits of length.
    expect(judge([Uint8Array.of(0x81, 0xff, ...Array.from({ length: 12 }, () => 0xff))]).refusal).toMatchObject({ code: 1009 });
  });

  test("[LM2] pings, empty parts and tiny parts as fast as they go are refused with 1008, at an honest pace they are not", () => {
    const many = (bytes: Buffer): Buffer[] => Array.from({ length: 2_000 }, () => bytes);
    for (const flood of [many(ping()), [begun(1), ...many(part(0))], [begun(1), ...many(part(1))], many(message(1))]) {
      const { refusal, passed } = judge(flood);
      expect(refusal).toMatchObject({ code: 1008 });
      expect(passed).toBeLessThan(1_000);
    }
    for (const small of [ping(), message(0)]) expect(judge(many(small))).toMatchObject({ refusal: { reason: "too many frames" }, passed: 100 });
    expect(judge(many(ping()), undefined, 1_000).refusal).toBeNull();
    expect(judge(many(message(100)), undefined, 20).refusal).toBeNull();
  });

  test("[LM2] a message of more than 256 parts is refused with 1008 at any pace", () => {
    expect(judge([begun(1), ...Array.from({ length: 300 }, () => part(1))], undefined, 100)).toMatchObject({ refusal: { code: 1008 }, passed: 256 });
  });

  test("[LM2] where the hub reads more frames of a socket, more of them pass", () => {
    const results = Array.from({ length: 5_000 }, () => message(100));
    expect(judge(results).refusal).toMatchObject({ code: 1008 });
    expect(judge(results, new FrameGuard({ perSecond: 1_000, burst: 2_000 }, null, 0)).refusal).toBeNull();
  });

  test("[LM2] sockets of one client share a budget, and what they have begun and not finished is bounded and given back", () => {
    const client = new ClientFrames(MESSAGES, 0);
    const sockets = Array.from({ length: 40 }, () => new FrameGuard(MESSAGES, client, 0));
    const pinging = sockets.filter((guard) => judge(Array.from({ length: 90 }, ping), guard).refusal === null);
    expect(pinging.length).toBeGreaterThan(10);
    expect(pinging.length).toBeLessThan(20);

    const other = new ClientFrames(MESSAGES, 0);
    const beginning = Array.from({ length: 80 }, () => new FrameGuard(MESSAGES, other, 0));
    const head = begun(LARGE).subarray(0, 20);
    expect(beginning.filter((guard) => guard.read(head, 0) === null)).toHaveLength(67);
    for (const guard of beginning) guard.release();
    expect(other.unfinishedBytes).toBe(0);
    const finished = new FrameGuard(MESSAGES, other, 0);
    expect(judge([message(LARGE)], finished).refusal).toBeNull();
    expect(other.unfinishedBytes).toBe(0);
  });

  test("[LM1] a message or a header that does not end is late, one that ended is not, nor is one after it", () => {
    const guard = new FrameGuard(MESSAGES, null, 0);
    expect(judge([begun(10), ping()], guard).refusal).toBeNull();
    expect(judge([part(1), ping()], guard, MESSAGE_MS / 2).refusal).toBeNull();
    expect(guard.isLate(MESSAGE_MS)).toBe(false);
    expect(guard.isLate(MESSAGE_MS + 1)).toBe(true);
    guard.read(Buffer.concat([frame({ opcode: 0, fin: true, bytes: 1 }), begun(3)]), MESSAGE_MS);
    expect(guard.isLate(MESSAGE_MS + 1)).toBe(false);
    const half = new FrameGuard(MESSAGES, null, 0);
    half.read(message(10).subarray(0, 1), 0);
    expect(half.isLate(MESSAGE_MS + 1)).toBe(true);
  });

  test("a close frame has the code and the reason", () => {
    expect(Buffer.from(closeFrame({ code: 1008, reason: "no" }))).toEqual(Buffer.from([0x88, 4, 0x03, 0xf0, 0x6e, 0x6f]));
  });
});
