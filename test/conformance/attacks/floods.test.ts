import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { newUser, task } from "../support/api.ts";
import { start, type Subject } from "../support/coordinator.ts";
import { newIdentity } from "../support/identity.ts";
import { RawHttp } from "../support/raw-http.ts";
import { RawSocket } from "../support/raw-socket.ts";
import { within } from "../support/wait.ts";
import { fullWorker, unsignedWorker, type WorkerSocket } from "../support/worker.ts";

let evm: Subject;
const OUTPUT = { sentiment: "positive", confidence: 0.9 };
/** The longest time of an honest request during a flood on a busy machine. Normally it takes milliseconds. */
const STILL_SERVED_MS = 3_000;
/** The pause between the jobs of an honest worker: without it the worker itself would exceed its rate. */
const HONEST_PAUSE_MS = 100;

beforeAll(async () => {
  evm = await start("evm", { TESTNET_MODE: "true", RATE_LIMITS: "on", TRUSTED_IP_HEADER: "x-test-ip" });
});

let last = 0;
/** The headers of a new client in a /24 of its own. */
const from = (): Record<string, string> => ({ "x-test-ip": `10.${Math.floor(++last / 250)}.${last % 250}.7` });

/** Connects a worker, and creates a user whose PRIVATE jobs it runs. */
async function honest(): Promise<{ worker: WorkerSocket; user: string }> {
  const worker = await fullWorker(evm.socketUrl);
  const user = newUser();
  const { pairing_code } = (await evm.api.post("/v1/trust/create", { user_id: user }, from())).body;
  const claimed = await evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey: worker.pubkey }, from());
  expect(claimed.status).toBe(200);
  return { worker, user };
}

/** Runs a job from commit to result during a flood, and returns its time in ms. */
async function served({ worker, user }: Awaited<ReturnType<typeof honest>>): Promise<number> {
  const started = performance.now();
  const id = await evm.api.commit(task(user, "x", { privacy_class: "PRIVATE" }), "cheap", from());
  await worker.assigned(id);
  expect((await worker.complete(id, OUTPUT)).status).toBe("accepted");
  return performance.now() - started;
}

describe("requests that never end", () => {
  test("[LM1] three hundred requests that never end, in the head or in the body, do not delay others", { timeout: 60_000 }, async () => {
    const pair = await honest();
    const raws = Array.from({ length: 300 }, () => new RawHttp(evm.port));
    try {
      for (const [index, raw] of raws.entries()) {
        if (index % 3 === 0) raw.write("GET /v1/health HT");
        else if (index % 3 === 1) raw.write(`GET /v1/health HTTP/1.1\r\nHost: ${evm.host}\r\nX-A: `);
        else raw.write(`POST /v1/jobs/commit/cheap HTTP/1.1\r\nHost: ${evm.host}\r\nContent-Length: 400000\r\n\r\n{"job_type":`);
      }
      for (let round = 0; round < 5; round += 1) {
        for (const raw of raws) raw.write("a");
        expect(await served(pair)).toBeLessThan(STILL_SERVED_MS);
        expect((await evm.api.get("/v1/health", from())).ms).toBeLessThan(STILL_SERVED_MS);
      }
      expect(raws.some(({ all }) => all.includes("job_id"))).toBe(false);
    } finally {
      for (const raw of raws) raw.end();
    }
    expect(await served(pair)).toBeLessThan(STILL_SERVED_MS);
  });

  test("[LM1, WS2] a hundred sockets that connect and send nothing: a worker can still register", { timeout: 60_000 }, async () => {
    const pair = await honest();
    const raws = await Promise.all(Array.from({ length: 100 }, () => RawSocket.open(evm.port, "/", [`Host: ${evm.host}`, ...lines(from())])));
    try {
      expect(await served(pair)).toBeLessThan(STILL_SERVED_MS);
      expect(await served(await honest())).toBeLessThan(STILL_SERVED_MS);
    } finally {
      for (const raw of raws) raw.end();
    }
  });

  test("[LM2] a worker that sends requests and never reads the answers is closed, and the hub's memory does not grow", { timeout: 60_000 }, async () => {
    const pair = await honest();
    const raw = new RawHttp(evm.port);
    raw.socket.pause();
    raw.write(
      `GET / HTTP/1.1\r\nHost: ${evm.host}\r\nx-test-ip: ${String(from()["x-test-ip"])}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString("base64")}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
    );
    const key = newIdentity().pubkey;
    raw.write(frame(JSON.stringify({ type: "register", provider_pubkey: key, provider_type: "DESKTOP", capabilities: [] })));
    const odd = frame('{"type":"heartbeat","more":1}').repeat(200);
    const flood = setInterval(() => raw.write(odd), 20);
    try {
      const until = Date.now() + 6_000;
      while (Date.now() < until) {
        expect(await served(pair)).toBeLessThan(STILL_SERVED_MS);
        await delay(HONEST_PAUSE_MS);
      }
    } finally {
      clearInterval(flood);
    }
    // When it reads again, it finds the close (4008 with the reason) and before that at most the answers of two bursts and six seconds.
    raw.socket.resume();
    await within(
      10_000,
      () => (raw.all.includes("\x0f\xa8flooding") ? true : undefined),
      () => `a close frame; got ${JSON.stringify(raw.all.slice(-300))}`,
    );
    expect(raw.all.split('{"type":"').length).toBeLessThan(800);
    raw.end();
  });
});

describe("bytes of a socket", () => {
  const MEGABYTE = "x".repeat(1_100_000);
  /** Sends a frame ten times a second until the socket is closed, and an honest job after each; returns the times of the jobs in ms, and the close. */
  async function flood(text: string): Promise<{ times: number[]; closed: { code: number; reason: string } | undefined }> {
    const pair = await honest();
    const flooder = await unsignedWorker(evm.socketUrl);
    const times: number[] = [];
    const sending = setInterval(() => flooder.send(text), 100);
    try {
      const until = Date.now() + 20_000;
      while (flooder.closed === undefined && Date.now() < until) {
        times.push(await served(pair));
        await delay(HONEST_PAUSE_MS);
      }
    } finally {
      clearInterval(sending);
    }
    return { times, closed: flooder.closed };
  }

  test("[LM2] eleven megabytes a second from one socket: it is closed, and an honest job is served meanwhile", { timeout: 60_000 }, async () => {
    const { times, closed } = await flood(JSON.stringify({ type: "heartbeat", pad: MEGABYTE }));
    expect(closed).toEqual({ code: 4008, reason: "flooding" });
    expect(Math.max(...times)).toBeLessThan(STILL_SERVED_MS);
  });

  test(
    "[LM2] one address with twelve sockets, each below its own rate: together they are over the address's, and an honest job is served meanwhile",
    {
      timeout: 60_000,
    },
    async () => {
      const pair = await honest();
      const address = from();
      const flooders = await Promise.all(Array.from({ length: 12 }, () => fullWorker(evm.socketUrl, { capabilities: [] }, undefined, address)));
      const times: number[] = [];
      const text = JSON.stringify({ type: "heartbeat", pad: MEGABYTE });
      const sending = setInterval(() => flooders.forEach((flooder) => flooder.send(text)), 700);
      try {
        const until = Date.now() + 40_000;
        while (!flooders.some(({ closed }) => closed !== undefined) && Date.now() < until) {
          times.push(await served(pair));
          await delay(HONEST_PAUSE_MS);
        }
      } finally {
        clearInterval(sending);
      }
      expect(flooders.find(({ closed }) => closed !== undefined)?.closed).toEqual({ code: 4008, reason: "flooding" });
      expect(Math.max(...times)).toBeLessThan(STILL_SERVED_MS);
    },
  );

  test("[LM2] megabytes of results for jobs that the key never held: the same", { timeout: 60_000 }, async () => {
    const receipt = { provider_pubkey: newIdentity().pubkey, output_hash: "00", completed_at: "2026-01-01T00:00:00.000Z", payment_ref: null };
    const result = { type: "job_complete", job_id: "11111111-2222-4333-8444-555555555555", output: MEGABYTE.slice(0, 1_000_000), receipt };
    const { times, closed } = await flood(JSON.stringify(result));
    expect(closed?.code).toBe(4008);
    expect(Math.max(...times)).toBeLessThan(STILL_SERVED_MS);
  });
});

describe("updates of a registration", () => {
  const NAMES = 100;
  let names = 0;
  const freshNames = () => Array.from({ length: NAMES }, () => `m${(names += 1).toString(36)}`);

  test.each([
    ["name a hundred new models each time", { idle: 0, flooding: 30, models: freshNames }],
    ["name none, beside a thousand names of idle workers", { idle: 10, flooding: 60, models: () => [] }],
  ])(
    "[LM2, WS3, JB10] forty a second of each socket of one address that %s: they are closed, and an honest job is served meanwhile",
    { timeout: 60_000 },
    async (_, { idle, flooding, models }) => {
      const pair = await honest();
      const address = from();
      const connect = async (sockets: number, naming: () => string[]) => {
        const connected: WorkerSocket[] = [];
        // A client may have 16 that have not registered.
        while (connected.length < sockets) {
          const some = Array.from({ length: 10 }, () => fullWorker(evm.socketUrl, { capabilities: ["LLM_INFER"], models: naming() }, undefined, address));
          connected.push(...(await Promise.all(some)));
        }
        return connected;
      };
      const named = await connect(idle, freshNames);
      const flooders = await connect(flooding, () => []);
      const times: number[] = [];
      const sending = setInterval(() => {
        for (const flooder of flooders)
          if (flooder.closed === undefined) flooder.send({ type: "register", ...flooder.registration(), capabilities: ["LLM_INFER"], models: models() });
      }, 25);
      try {
        const until = Date.now() + 30_000;
        while (flooders.some(({ closed }) => closed === undefined) && Date.now() < until) {
          times.push(await served(pair));
          await delay(HONEST_PAUSE_MS);
        }
      } finally {
        clearInterval(sending);
      }
      expect(flooders.map(({ closed }) => closed)).toEqual(Array.from({ length: flooding }, () => ({ code: 4008, reason: "flooding" })));
      expect(flooders.flatMap(({ frames }) => frames.flatMap(({ code, message }) => (code === "rate_limited" ? [message] : [])))).toContain(
        "more updates than 1 a second; this frame was not read",
      );
      expect(named.filter(({ closed }) => closed !== undefined)).toEqual([]);
      expect(Math.max(...times)).toBeLessThan(STILL_SERVED_MS);
    },
  );
});

describe("guessing pairing codes", () => {
  test(
    "[TR3] thirty wrong guesses a minute from thirty networks, and then no unsigned guess is looked at, a right one neither",
    { timeout: 60_000 },
    async () => {
      const code = String((await evm.api.post("/v1/trust/create", { user_id: newUser() }, from())).body.pairing_code);
      const guess = (pairing_code: string) => evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey: newIdentity().pubkey }, from());
      const statuses: number[] = [];
      for (let each = 0; each < 40; each += 1) statuses.push((await guess(each.toString(16).padStart(6, "0").toUpperCase())).status);
      expect(statuses.filter((status) => status === 400).length).toBeLessThanOrEqual(30);
      expect(statuses.at(-1)).toBe(429);
      const right = await guess(code);
      expect(right).toMatchObject({ status: 429, body: { error: "rate_limited" } });
      expect(Number(right.headers.get("retry-after"))).toBeGreaterThan(0);
    },
  );

  test("[TR3] simultaneous guesses are counted before they are answered: together they get at most thirty", { timeout: 60_000 }, async () => {
    const guess = (pairing_code: string) => evm.api.post("/v1/trust/claim", { pairing_code, provider_pubkey: newIdentity().pubkey }, from());
    const answers = await Promise.all(Array.from({ length: 120 }, (_, index) => guess(`F${index.toString(16).padStart(5, "0")}`.toUpperCase())));
    expect(answers.filter(({ status }) => status !== 429).length).toBeLessThanOrEqual(30);
  });

  test("[LM2] an address that a client claims in other headers is ignored", async () => {
    const one = from();
    const statuses: number[] = [];
    for (let each = 0; each < 12; each += 1) {
      const spoof = {
        "x-forwarded-for": `9.9.9.${each}`,
        "cf-connecting-ip": `8.8.8.${each}`,
        "x-real-ip": `7.7.7.${each}`,
        "x-router-client": `6.6.6.${each}`,
      };
      statuses.push((await evm.api.post("/v1/trust/create", { user_id: newUser() }, { ...one, ...spoof })).status);
    }
    expect(statuses.filter((status) => status === 201)).toHaveLength(10);
    expect(statuses.slice(10)).toEqual([429, 429]);
    // A proxy appends the address that it saw. What a client wrote before that does not count.
    const behind = (each: number) => ({ "x-test-ip": `5.5.5.${each}, ${String(one["x-test-ip"])}` });
    expect((await evm.api.post("/v1/trust/create", { user_id: newUser() }, behind(1))).status).toBe(429);
  });
});

function lines(headers: Record<string, string>): string[] {
  return Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
}

/** Returns a masked text frame as latin1 text, with a mask of zeros. */
function frame(text: string): string {
  const body = Buffer.from(text);
  const length = body.length < 126 ? Buffer.from([0x80 | body.length]) : Buffer.from([0xfe, body.length >> 8, body.length & 255]);
  return Buffer.concat([Buffer.from([0x81]), length, Buffer.alloc(4), body]).toString("latin1");
}
