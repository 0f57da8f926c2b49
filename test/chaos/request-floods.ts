// The floods of npm run floods that are requests and not sockets.
import { randomBytes, randomUUID } from "node:crypto";
import { connect, type Socket } from "node:net";
import type { Attack, Flood } from "./attack.ts";
import { ADDRESS_HEADER, FloodSocket } from "./flood-socket.ts";

/** A plain connection that sends what it is given. */
async function plain(attack: Attack, head: string): Promise<Socket> {
  const socket = attack.keep(connect(attack.port, "127.0.0.1"));
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("connect", resolve).once("close", resolve));
  socket.write(head);
  return socket;
}

/** A poll of a job that nobody has. */
const poll = (attack: Attack, header = ""): string =>
  `GET /v1/jobs/${randomUUID()} HTTP/1.1\r\nHost: 127.0.0.1\r\n${ADDRESS_HEADER}: ${attack.address()}\r\n${header}\r\n`;

export const REQUEST_FLOODS: readonly Flood[] = [
  { name: "health", what: "GET /v1/health without end", run: (attack) => attack.repeat(32, async () => void (await (await attack.ask("/v1/health")).text())) },
  {
    name: "polls",
    what: "polls of unknown jobs, each with an id of its own",
    run: (attack) => attack.repeat(300, async () => void (await (await attack.ask(`/v1/jobs/${randomUUID()}`)).text())),
  },
  {
    name: "polls as bytes",
    what: "the same, written so that the front passes them on to workerd and not to the hub",
    run: (attack) => attack.repeat(300, async () => void (await (await attack.ask(`/v1/jobs/${randomUUID()}?as=bytes`)).text())),
  },
  {
    name: "event streams",
    what: "event streams of unknown jobs, each with an id of its own",
    run: (attack) => attack.repeat(300, async () => void (await (await attack.ask(`/v1/jobs/${randomUUID()}/events`)).text())),
  },
  {
    name: "lists of jobs",
    what: "lists of the jobs of users that nobody knows",
    run: (attack) =>
      attack.repeat(300, async () => {
        const headers = { "X-User-Token": randomBytes(32).toString("hex") };
        await (await attack.ask(`/v1/jobs?user_id=${randomUUID()}`, { headers })).text();
      }),
  },
  {
    name: "polls without waiting",
    what: "thousands of polls on one connection, as fast as it takes them",
    run: (attack) =>
      attack.repeat(100, async () => {
        const socket = await plain(attack, "");
        socket.resume();
        const many = Buffer.from(Array.from({ length: 500 }, () => poll(attack)).join(""));
        while (!attack.isOver && !socket.destroyed) {
          attack.bytes += many.length;
          if (!socket.write(many)) await new Promise((resolve) => socket.once("drain", resolve).once("close", resolve));
        }
        attack.count("connections");
      }),
  },
  {
    name: "header blanks",
    what: "polls with a header of 8 KB of blanks that ends in a byte that no header may have",
    run: (attack) =>
      attack.repeat(16, async () => {
        const head = poll(attack, `X:${" ".repeat(7_900)}\x01\r\n`);
        const socket = await plain(attack, head);
        attack.bytes += head.length;
        attack.count("polls");
        await new Promise((resolve) => socket.once("data", resolve).once("close", resolve));
        attack.drop(socket);
      }),
  },
  {
    name: "refused upgrades",
    what: "upgrades over the rate, and with a Host of 1,100 characters",
    run: (attack) =>
      attack.repeat(16, async (lane) => {
        const socket = attack.keep(
          lane % 2 === 0 ? new FloodSocket(attack.port, attack.address()) : new FloodSocket(attack.port, attack.address(), "h".repeat(1_100)),
        );
        attack.count(`upgrade ${await socket.opened}`);
        attack.drop(socket);
      }),
  },
  {
    name: "pairing codes",
    what: "wrong pairing codes, and codes for users that nobody knows",
    run: (attack) =>
      attack.repeat(16, async (lane) => {
        const claim = { pairing_code: randomBytes(3).toString("hex").toUpperCase(), provider_pubkey: randomBytes(32).toString("hex") };
        const [path, body] = lane % 2 === 0 ? ["claim", claim] : ["create", { user_id: randomUUID() }];
        await (await attack.ask(`/v1/trust/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } })).text();
      }),
  },
  {
    name: "stalled bodies",
    what: "commits whose body of 500 KB stops before its last byte",
    run: (attack) =>
      attack.repeat(8, async () => {
        const head = `POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: 127.0.0.1\r\n${ADDRESS_HEADER}: ${attack.address()}\r\nContent-Length: 500000\r\n\r\n`;
        const socket = await plain(attack, head);
        socket.write(Buffer.alloc(499_999, "b"));
        attack.bytes += 499_999;
        attack.count("bodies");
        await attack.rest(200);
      }),
  },
  {
    name: "unread pages",
    what: "pages and documents asked for by connections that read nothing",
    run: (attack) =>
      attack.repeat(8, async () => {
        const socket = await plain(attack, "");
        socket.pause();
        const ask = `GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n${ADDRESS_HEADER}: ${attack.address()}\r\n\r\n`;
        socket.write(ask.repeat(100));
        attack.bytes += 100 * ask.length;
        attack.count("connections");
        await attack.rest(400);
      }),
  },
];
