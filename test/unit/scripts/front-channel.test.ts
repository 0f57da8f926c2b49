// The front with a channel, before another server in workerd's place, and with a hub that answers when a test wants it to.
import { Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { CONNECTIONS_PER_CLIENT } from "../../../scripts/front-clients.ts";
import type { HubChannel, ShortAnswer } from "../../../scripts/front-channel.ts";
import { IDLE_MS, Opening } from "../../../scripts/front-opening.ts";
import { STALLED_MS, Stalls } from "../../../scripts/front-stalls.ts";
import { type ChannelRequest, OF_ANY_SIZE } from "../../../src/coordinator/http/channel-messages.ts";
import { ADDRESS, frontWithChannel } from "../../support/front.ts";
import { until } from "../../support/until.ts";

const ID = "019acd00-0000-7000-8000-0123456789ab";
const POLL = `GET /v1/jobs/${ID} HTTP/1.1\r\nHost: a\r\n\r\n`;
const OTHER = "GET /other HTTP/1.1\r\nHost: a\r\n\r\n";
const commit = (body: string): string => `POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
/** More than the buffers of the system take. */
const HUGE = "x".repeat(24 * 1024 * 1024);

/** A connection of its own on this channel. */
function openedOn(channel: Pick<HubChannel, "isOpen" | "ask">): { client: Socket; passed: string[]; opening: Opening } {
  const [client, passed] = [new Socket(), [] as string[]];
  const parts = { client, peer: null, mark: null, channel, commits: true, stalls: new Stalls(1), now: () => 0 };
  return { client, passed, opening: new Opening({ ...parts, socket: () => expect.unreachable(), pass: (bytes) => passed.push(bytes.toString()) }) };
}

/** Has the front read all answers so far: on the channel they keep their order. */
async function hasReadAnswers(front: Awaited<ReturnType<typeof frontWithChannel>>): Promise<void> {
  const other = await front.dial();
  const count = front.asked().length;
  other.socket.write(POLL);
  front.answer([idOf((await front.askedFor(count + 1))[count]), 200, [], "after it"]);
  await got(other, "after it");
}

const idOf = (request: ChannelRequest | undefined): number => request?.[0] ?? expect.unreachable();
const got = (client: { got: () => string }, text: string) => until(`“${text}” in ${client.got()}`, () => client.got().includes(text) || undefined);
const closed = (socket: Socket): Promise<unknown> => until("the end of the connection", () => socket.closed || undefined);

describe("requests on the channel", () => {
  test("of many clients go together, each with the address of its client last, and each client gets its own answer", async () => {
    const front = await frontWithChannel();
    expect(front.keys).toEqual(["k"]);
    const [one, other] = [await front.dial(), await front.dial()];
    one.socket.write(commit("Zoë").replace("\r\n\r\n", "\r\nX-Peer: 198.51.100.1\r\n\r\n"));
    other.socket.write(POLL);
    const [first, second] = (await front.askedFor(2)).toSorted(([, a], [, b]) => (a < b ? 1 : -1));
    expect(first?.slice(1)).toEqual([
      "POST",
      "http://a/v1/jobs/commit/cheap",
      [
        ["host", "a"],
        ["content-length", "4"],
        ["x-peer", "198.51.100.1"],
        ["x-peer", ADDRESS],
      ],
      "Zoë",
    ]);
    expect(second?.slice(1)).toEqual([
      "GET",
      `http://a/v1/jobs/${ID}`,
      [
        ["host", "a"],
        ["x-peer", ADDRESS],
      ],
      null,
    ]);
    front.answer([idOf(second), 404, [["x-b", "2"]], "b"], [idOf(first), 201, [["x-a", "1"]], "ä"]);
    await Promise.all([got(one, "ä"), got(other, "\r\n\r\nb")]);
    expect(one.got()).toBe("HTTP/1.1 201 Created\r\nx-a: 1\r\nContent-Length: 2\r\n\r\nä");
    expect(other.got()).toBe("HTTP/1.1 404 Not Found\r\nx-b: 2\r\nContent-Length: 1\r\n\r\nb");
    expect(front.passed).toEqual([]);
  });

  test("of one client go one after the other, however many it sends at once, and what is none is passed on with all that follows", async () => {
    const front = await frontWithChannel();
    const client = await front.dial();
    client.socket.write(POLL + POLL + OTHER + POLL);
    const [first] = await front.askedFor(1);
    front.answer([idOf(first), 200, [], "first"]);
    const [, second] = await front.askedFor(2);
    expect(front.passed).toEqual([]);
    front.answer([idOf(second), 200, [], "second"]);
    await until("two that were passed on", () => front.passed.length === 2 || undefined);
    expect(front.passed).toEqual(["GET /other", `GET /v1/jobs/${ID}`]);
    await until("all answers", () => client.got().split("passed on").length === 3 || undefined);
    expect(client.got().match(/first|second|passed on/g)).toEqual(["first", "second", "passed on", "passed on"]);
    expect(front.asked()).toHaveLength(2);
  });

  test("may come in pieces, and one that does not get complete is passed on", async () => {
    const front = await frontWithChannel();
    const [halves, slow] = [await front.dial(), await front.dial()];
    for (const { socket } of [halves, slow]) socket.write(commit("body").slice(0, -4));
    halves.socket.write("body");
    const [request] = await front.askedFor(1);
    expect(request?.[4]).toBe("body");
    await front.set(1_001);
    slow.socket.write("body");
    await got(slow, "passed on");
    expect(front.asked()).toHaveLength(1);
  });

  test("are passed on if they come in more than 8 pieces, and if the channel takes no more", () => {
    const channel = { isOpen: true, ask: () => expect.unreachable() };
    const opened = () => openedOn(channel);
    const slow = opened();
    for (let n = 0; n < 9; n++) slow.client.emit("data", Buffer.from(POLL[n] ?? ""));
    expect(slow.passed).toEqual([POLL.slice(0, 9)]);
    // From then on the bytes belong to the passage.
    slow.client.emit("data", Buffer.from("x"));
    expect(slow.passed).toHaveLength(1);
    channel.isOpen = false;
    const late = opened();
    late.client.emit("data", Buffer.from(POLL));
    expect(late.passed).toEqual([POLL]);
  });

  test("that the hub does not answer, because the answer is large, are passed on with all that follows", async () => {
    const front = await frontWithChannel();
    const client = await front.dial();
    client.socket.write(POLL + OTHER);
    const [request] = await front.askedFor(1);
    front.answer([idOf(request), 0, [], ""]);
    await until("both", () => client.got().split("passed on").length === 3 || undefined);
    expect(front.passed).toEqual([`GET /v1/jobs/${ID}`, "GET /other"]);
  });

  test("whose answer is large are asked again when the coordinator stops: nobody listens where they could be passed on", async () => {
    const front = await frontWithChannel();
    const client = await front.dial();
    client.socket.write(POLL);
    const [first] = await front.askedFor(1);
    front.front.leave();
    front.answer([idOf(first), 0, [], ""]);
    const [, again] = await front.askedFor(2);
    expect(again?.slice(1)).toEqual([...(first?.slice(1, -1) ?? []), OF_ANY_SIZE]);
    front.answerLong([idOf(again), 200, [], "x".repeat(100_000)]);
    await closed(client.socket);
    expect(client.got()).toContain("x".repeat(100_000));
    expect(front.passed).toEqual([]);
  });

  test("whose answer is long get it as a message of its own, and others get theirs before it comes", async () => {
    const front = await frontWithChannel();
    const [large, other] = [await front.dial(), await front.dial()];
    for (const { socket } of [large, other]) socket.write(POLL);
    const [first, second] = await front.askedFor(2);
    const body = `é\n${"x\n".repeat(50_000)}`;
    front.answer([idOf(second), 200, [], "small"]);
    front.answerLong([idOf(first), 200, [["A", "b"]], body]);
    await got(other, "small");
    await got(large, body);
    expect(large.got()).toBe(`HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  });

  test("are polls only where commits are none [PY5]", async () => {
    const front = await frontWithChannel({ commits: false });
    const [commits, polls] = [await front.dial(), await front.dial()];
    commits.socket.write(commit("x"));
    await got(commits, "passed on");
    polls.socket.write(POLL);
    await front.askedFor(1);
  });

  test("whose client has left are answered to nobody, and those behind them are not asked", async () => {
    const front = await frontWithChannel();
    const [half, broken] = [await front.dial(), await front.dial()];
    half.socket.end(POLL + POLL);
    await front.askedFor(1);
    await closed(half.socket);
    broken.socket.write(POLL);
    const [first, second] = await front.askedFor(2);
    broken.socket.resetAndDestroy();
    front.answer([idOf(first), 200, [], "x"], [idOf(second), 200, [], "x"]);
    const next = await front.dial();
    next.socket.write(POLL);
    await front.askedFor(3);
    expect(half.got()).toBe("");
    expect(front.asked()).toHaveLength(3);
  });
});

test("a client that sends more than may wait behind a request goes on when it has its answer", async () => {
  const front = await frontWithChannel();
  const client = await front.dial();
  const body = "x".repeat(60_000);
  client.socket.write(commit(body).repeat(5));
  for (let n = 1; n <= 5; n++) {
    const request = (await front.askedFor(n))[n - 1];
    expect(request?.[4]).toBe(body);
    front.answer([idOf(request), 201, [], `answer ${n}`]);
    await got(client, `answer ${n}`);
  }
});

test("[LM1] a client that sends many requests at once is not read until few wait", () => {
  const asked: ((answer: ShortAnswer) => void)[] = [];
  const { client } = openedOn({ isOpen: true, ask: (_, answered) => asked.push(answered) });
  const answer = (): void => asked.at(-1)?.({ status: 404, headers: [], body: "" });
  client.write = () => true;
  const some = Buffer.from(POLL.repeat(500));
  let waiting = 0;
  for (; waiting < 128 * 1024; waiting += some.length) client.emit("data", some);
  expect(client.isPaused()).toBe(true);
  for (; waiting > 65 * 1024; waiting -= POLL.length) {
    expect(client.isPaused()).toBe(true);
    answer();
  }
  for (let n = 0; n < 20; n++) answer();
  expect(client.isPaused()).toBe(false);
});

test("[LM1] a connection that has ended does not count for its client any more", async () => {
  const front = await frontWithChannel();
  for (let n = 0; n < CONNECTIONS_PER_CLIENT; n++) {
    const { socket } = await front.dial();
    socket.end();
    await closed(socket);
  }
  // Time for new ones.
  await front.set(1_000);
  const next = await front.dial();
  next.socket.write(POLL);
  await front.askedFor(1);
});

describe("while the hub works", () => {
  test("what comes waits, and then goes together; frames and requests keep their order", async () => {
    const front = await frontWithChannel({ isDone: false });
    const clients = [await front.dial(), await front.dial(), await front.dial()];
    clients[0]?.socket.write(POLL);
    const [first] = await front.askedFor(1);
    for (const { socket } of clients.slice(1)) socket.write(POLL);
    front.answer([idOf(first), 200, [], "early"]);
    await got(clients[0] ?? expect.unreachable(), "early");
    clients[0]?.socket.write(commit("next"));
    const other = await front.dial();
    other.socket.write(OTHER);
    // What is passed on waits for nothing, and tells that the front has read the others.
    await got(other, "passed on");
    expect(front.messages).toHaveLength(1);
    front.answer([true]);
    await front.askedFor(4);
    expect(front.messages.map((parts) => parts.length)).toEqual([1, 3]);
  });

  test("another channel does not wait for it", async () => {
    const front = await frontWithChannel({ isDone: false });
    const [one, other] = [await front.dial(), await front.dial()];
    one.socket.write(POLL);
    await front.askedFor(1);
    other.socket.write(POLL);
    front.channels[0]?.terminate();
    await Promise.all([got(one, "overloaded"), got(other, "overloaded")]);
    await until("another channel", () => front.channels.length === 2 || undefined);
    const next = await front.dial();
    next.socket.write(POLL);
    front.answer([idOf((await front.askedFor(2))[1]), 200, [], "again"]);
    await got(next, "again");
  });
});

describe("a channel that ends", () => {
  test("its requests get 503 with the headers of any error, and another one opens", async () => {
    const front = await frontWithChannel();
    const client = await front.dial();
    client.socket.write(POLL);
    await front.askedFor(1);
    front.channels[0]?.terminate();
    await got(client, "overloaded");
    const [head = "", body = ""] = client.got().split("\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\nContent-Type: application\/json\r\nRetry-After: \d+\r\nX-Request-Id: /);
    expect(JSON.parse(body)).toEqual({ error: "overloaded", request_id: expect.stringMatching(/^[\da-f-]{36}$/) });
    // Until then everything is passed on.
    client.socket.write(POLL);
    await got(client, "passed on");
    await until("another channel", () => front.channels.length === 2 || undefined);
    const next = await front.dial();
    next.socket.write(POLL);
    const [, second] = await front.askedFor(2);
    front.answer([idOf(second), 200, [], "again"]);
    await got(next, "again");
  });

  test("when the coordinator stops, after the last answer: idle connections end at once, the others with their answer", async () => {
    const front = await frontWithChannel();
    const [idle, waits] = [await front.dial(), await front.dial()];
    waits.socket.write(POLL + POLL);
    const [request] = await front.askedFor(1);
    front.front.close();
    front.front.leave();
    await closed(idle.socket);
    expect(front.channels[0]?.readyState).toBe(1);
    front.answer([idOf(request), 200, [], "last"]);
    await closed(waits.socket);
    expect(waits.got()).toBe("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast");
    await until("the end of the channel", () => front.channels[0]?.readyState === 3 || undefined);
    expect(front.asked()).toHaveLength(1);
  });
});

describe("who is dropped", () => {
  test(`[LM1] a client that sends nothing for ${IDLE_MS / 1_000} s, not before, and not one that waits`, async () => {
    const front = await frontWithChannel();
    const [silent, waits] = [await front.dial(), await front.dial()];
    waits.socket.write(POLL);
    const [request] = await front.askedFor(1);
    await front.set(IDLE_MS);
    expect(silent.socket.closed).toBe(false);
    await front.set(IDLE_MS + 1);
    await closed(silent.socket);
    front.answer([idOf(request), 200, [], "late"]);
    await got(waits, "late");
    await front.set(2 * IDLE_MS + 2);
    await closed(waits.socket);
  });

  test("[LM1] a client that reads nothing: until it does, nothing more is asked or passed on for it", async () => {
    const front = await frontWithChannel();
    const client = await front.dial();
    client.socket.pause();
    client.socket.write(POLL + POLL + POLL.slice(0, 9));
    const [request] = await front.askedFor(1);
    front.answer([idOf(request), 200, [], HUGE]);
    await hasReadAnswers(front);
    await front.set(5_000);
    expect(front.asked()).toHaveLength(2);
    client.socket.resume();
    const [, , next] = await front.askedFor(3);
    client.socket.pause();
    front.answer([idOf(next), 200, [], HUGE]);
    await hasReadAnswers(front);
    await front.set(5_000 + STALLED_MS);
    await front.set(5_001 + STALLED_MS);
    client.socket.resume();
    await closed(client.socket);
    expect(front.passed).toEqual([]);
  });

  test("[LM1] one of too many that read nothing, also after others of them have left", async () => {
    const front = await frontWithChannel();
    const open = () => new Promise<number>((resolve) => front.front.getConnections((_, count) => resolve(count)));
    const stalled = async (): Promise<Socket> => {
      const { socket } = await front.dial();
      socket.pause();
      const count = front.asked().length;
      socket.write(POLL);
      front.answer([idOf((await front.askedFor(count + 1))[count]), 200, [], HUGE]);
      await hasReadAnswers(front);
      return socket;
    };
    const others = await open();
    for (const socket of [await stalled(), await stalled()]) socket.destroy();
    for (let n = 0; n < 3; n++) await stalled();
    // Beside each is the connection that knows its answer to be read.
    await until("one that was dropped", async () => ((await open()) === others + 5 + 2 ? true : undefined));
  });

  test(`[LM1] a client that reads nothing of its answer for ${STALLED_MS / 1_000} s, or if too many do so`, async () => {
    const front = await frontWithChannel();
    for (let n = 1; n <= 3; n++) {
      const client = await front.dial();
      client.socket.pause();
      client.socket.write(POLL);
      const request = (await front.askedFor(n))[n - 1];
      front.answer([idOf(request), 200, [], HUGE]);
    }
    const ended = async () => {
      const open = await new Promise<number>((resolve) => front.front.getConnections((_, count) => resolve(count)));
      return 3 - open;
    };
    await until("one that was dropped", async () => ((await ended()) === 1 ? true : undefined));
    await front.set(STALLED_MS);
    expect(await ended()).toBe(1);
    await front.set(STALLED_MS + 1);
    await until("all that were dropped", async () => ((await ended()) === 3 ? true : undefined));
  });
});
