// The floods of npm run floods, one function each: in bytes, with fresh keys, and with connections that read nothing.
import { randomBytes, randomUUID } from "node:crypto";
import { LIMITS, MiB } from "../../src/protocol/limits.ts";
import type { Attack, Flood } from "./attack.ts";
import { type FloodSocket, framed } from "./flood-socket.ts";
import { REQUEST_FLOODS } from "./request-floods.ts";

const MEGABYTE = "x".repeat(1_150_000);
/** A heartbeat that the platform does not answer by itself. */
const ODD = framed('{"type":"heartbeat","more":1}');
const EXACT = framed('{"type":"heartbeat"}');
/** Frames of WebSocket without content: each is a head and a mask. */
const bare = (first: number): Buffer => Buffer.concat(Array.from({ length: 2_000 }, () => Buffer.from([first, 0x80, 0, 0, 0, 0])));
const BAD = framed("{");
const PINGS = bare(0x89);
const EMPTY_PARTS = bare(0x00);

const llm = (prompt: string, more: object = {}) => ({
  ...{ job_type: "LLM_INFER", user_id: randomUUID(), payload: { job_type: "LLM_INFER", prompt, ...more } },
});
const task = (input: string, more: object = {}) => ({
  ...{ job_type: "TASK", user_id: randomUUID(), payload: { job_type: "TASK", task_type: "classify", input, ...more } },
});

/** Random text of so many bytes: it cannot be compressed. */
const text = (bytes: number): string => randomBytes((bytes * 3) / 4).toString("base64");

/** Writes as much as the connection takes, until it ends. */
async function pour(attack: Attack, socket: FloodSocket, bytes: Buffer): Promise<void> {
  while (!attack.isOver && !socket.ended) {
    attack.bytes += bytes.length;
    if (!socket.sendRaw(bytes)) await socket.drained();
  }
  attack.count("ended by the coordinator");
}

/** Keys that come with a habit, and come back as others after each job. */
async function fresh(attack: Attack, width: number, habit: (socket: FloodSocket, job: Record<string, unknown>) => void): Promise<void> {
  await attack.repeat(width, async () => {
    let done: () => void = () => {};
    const over = new Promise<void>((resolve) => (done = resolve));
    const socket = await attack.worker({ capabilities: ["TASK"] }, (own, frame) => {
      if (frame.type !== "job_assign") return;
      attack.count("jobs taken");
      habit(own, frame);
      setTimeout(done, 50);
    });
    if (socket === null) return;
    await Promise.race([over, attack.rest(10_000), socket.gone(10_000)]);
    attack.drop(socket);
  });
}

export const FLOODS: readonly Flood[] = [
  { name: "honest jobs only", what: "no flood: what the honest jobs beside the others cost", run: async () => {} },
  {
    name: "big frames",
    what: "frames of 1.1 MB on sockets that never register",
    run: async (attack) => {
      const bytes = framed(JSON.stringify({ type: "heartbeat", pad: MEGABYTE }));
      await attack.repeat(16, async () => {
        const socket = await attack.dial();
        if (socket === null) return;
        await pour(attack, socket, bytes);
        attack.drop(socket);
      });
    },
  },
  {
    name: "oversize frames",
    what: "frames of 3 MB, which close their socket",
    run: async (attack) => {
      const bytes = framed("y".repeat(3 * MiB));
      await attack.repeat(8, async () => {
        const socket = await attack.dial();
        if (socket === null) return;
        attack.bytes += bytes.length;
        socket.sendRaw(bytes);
        await socket.gone(5_000);
        attack.drop(socket);
      });
    },
  },
  {
    name: "unfinished messages",
    isOpen: true,
    what: "30 MB of a message that never ends, on registered sockets that stay",
    run: async (attack) => {
      const part = Buffer.alloc(MiB, "z");
      await attack.repeat(32, async () => {
        const socket = await attack.worker();
        if (socket === null) return;
        for (let sent = 0; sent < 30 && !socket.ended && !attack.isOver; sent++) {
          attack.bytes += part.length;
          if (!socket.sendPart(part, sent === 0)) await socket.drained(5_000);
        }
        await Promise.race([attack.rest(20_000), socket.gone(20_000)]);
        attack.count(socket.ended ? "ended by the coordinator" : "kept");
        attack.drop(socket);
      });
    },
  },
  {
    name: "foreign results",
    what: "results of 500 KB for jobs that the key never held",
    run: async (attack) => {
      await attack.repeat(8, async () => {
        const socket = await attack.worker();
        if (socket === null) return;
        const receipt = { job_id: "", provider_pubkey: "00", output_hash: "00", completed_at: new Date().toISOString(), payment_ref: null };
        while (!attack.isOver && !socket.ended) {
          const result = { type: "job_complete", job_id: randomUUID(), output: MEGABYTE.slice(0, 500_000), receipt };
          attack.bytes += 500_000;
          if (!socket.send(result)) await socket.drained();
          await attack.rest(20);
        }
        attack.count("ended by the coordinator");
        attack.drop(socket);
      });
    },
  },
  {
    name: "fresh keys register",
    what: "ever-fresh keys that register and leave",
    run: (attack) =>
      attack.repeat(8, async () => {
        const socket = await attack.worker({ capabilities: ["LLM_INFER"], models: [randomUUID()] });
        if (socket !== null) attack.drop(socket);
      }),
  },
  { name: "fresh keys hang", what: "20 ever-fresh keys that take a job and do nothing", run: (attack) => fresh(attack, 20, () => {}) },
  {
    name: "fresh keys reject",
    what: "20 ever-fresh keys that reject each job, every second one after an acknowledgement",
    run: (attack) =>
      fresh(attack, 20, (socket, { job_id, attempt }) => {
        if (Math.random() < 0.5) socket.send({ type: "job_ack", job_id, attempt });
        socket.send({ type: "job_reject", job_id, reason: "busy" });
      }),
  },
  {
    name: "fresh keys fail",
    what: "20 ever-fresh keys that end each job for good",
    run: (attack) =>
      fresh(attack, 20, (socket, { job_id, attempt }) => {
        socket.send({ type: "job_failed", job_id, attempt, error: "no", message: "m".repeat(10_000), retryable: false });
      }),
  },
  {
    name: "large payloads",
    what: "commits of 500 KB that no worker can run",
    run: (attack) => attack.repeat(8, async () => void (await attack.commit("fast", llm(text(250_000), { more: text(240_000) })))),
  },
  {
    name: "many values",
    what: "commits of as many small values as a body may have, and of more",
    run: (attack) =>
      attack.repeat(8, async () => {
        for (const count of [16_000, 40_000]) await attack.commit("fast", llm("hi", Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 1]))));
      }),
  },
  {
    name: "large results",
    what: "own TASK jobs of 500 KB, run by an own worker with an output of 900 KB",
    run: async (attack) => {
      const output = { sentiment: "positive", confidence: 1, more: "r".repeat(900_000) };
      const workers = fresh(attack, 4, (socket, { job_id, attempt }) => {
        socket.send({ type: "job_ack", job_id, attempt });
        socket.send({ type: "job_complete", job_id, attempt, output, receipt: {}, receipt_signature: "" });
      });
      await Promise.all([workers, attack.repeat(4, async () => void (await attack.commit("cheap", task(text(250_000), { more: text(240_000) }))))]);
    },
  },
  {
    name: "queue",
    what: "small LLM jobs that no worker can run, beside TASK jobs",
    run: (attack) => attack.repeat(16, async () => void (await attack.commit("fast", llm("hi")))),
  },
  {
    name: "idempotency keys",
    what: "each commit with a key of its own, and repeats of old ones",
    run: async (attack) => {
      const old: { body: object; headers: Record<string, string> }[] = [];
      await attack.repeat(16, async () => {
        const again = old.length > 20 && Math.random() < 0.5 ? old[Math.floor(Math.random() * old.length)] : undefined;
        const commit = again ?? { body: llm("hi"), headers: { "idempotency-key": text(186) } };
        if (again === undefined && old.length < 1_000) old.push(commit);
        await attack.commit("fast", commit.body, { ...commit.headers, prefer: "wait=5" });
      });
    },
  },
  {
    name: "streams and waits",
    what: "event streams and waits of a job that nobody runs, kept open as long as they last",
    run: async (attack) => {
      let job: string | null = null;
      const jobs = attack.repeat(1, async () => {
        job = (await attack.commit("fast", llm("hi"))) ?? job;
        await attack.rest(20_000);
      });
      const waits = attack.repeat(600, async (lane) => {
        if (job === null) return attack.rest(100);
        const response = await attack.ask(lane % 2 === 0 ? `/v1/jobs/${job}/events` : `/v1/jobs/${job}?wait=25`);
        await response.arrayBuffer();
        if (response.status !== 200) await attack.rest(500);
      });
      await Promise.all([jobs, waits]);
    },
  },
  {
    name: "unread answers",
    what: "ever-fresh registered sockets that read nothing and ask as often as allowed; they stay when they have been closed",
    run: async (attack) => {
      await attack.repeat(256, async () => {
        const socket = await attack.worker();
        if (socket === null) return attack.rest(2_000);
        socket.pause();
        // So often is allowed: after so many seconds 4 MiB are unread and the socket is closed.
        for (let second = 0; second < 200 && !socket.ended && !attack.isOver; second++) {
          for (let n = 0; n < LIMITS.badFramesInARow * 4; n++) socket.sendRaw(ODD);
          attack.bytes += ODD.length * LIMITS.badFramesInARow * 4;
          await attack.rest(1_000);
        }
      });
    },
  },
  {
    name: "unread heartbeats",
    what: "registered sockets that read nothing, with a pending frame, and heartbeats as fast as they go",
    run: async (attack) => {
      const many = Buffer.concat(Array.from({ length: 2_000 }, () => EXACT));
      await attack.repeat(4, async () => {
        const socket = await attack.worker();
        if (socket === null) return;
        socket.pause();
        const end = performance.now() + 60_000;
        while (!attack.isOver && !socket.ended && performance.now() < end) {
          attack.bytes += many.length;
          socket.sendRaw(ODD);
          if (!socket.sendRaw(many)) await socket.drained();
        }
        attack.count(socket.ended ? "ended by the coordinator" : "kept");
      });
    },
  },
  {
    name: "heartbeats",
    what: "registered sockets that read, each with 45 heartbeats a second in another form",
    run: (attack) =>
      attack.repeat(250, async () => {
        const socket = await attack.worker();
        if (socket === null) return attack.rest(2_000);
        while (!attack.isOver && !socket.ended) {
          for (let n = 0; n < 9; n++) socket.sendRaw(ODD);
          attack.bytes += 9 * ODD.length;
          await attack.rest(200);
        }
        attack.count("ended by the coordinator");
        attack.drop(socket);
      }),
  },
  {
    name: "exact heartbeats",
    what: "registered sockets that read, with exact heartbeats as fast as they go",
    run: async (attack) => {
      const many = Buffer.concat(Array.from({ length: 2_000 }, () => EXACT));
      await attack.repeat(4, async () => {
        const socket = await attack.worker();
        if (socket === null) return;
        await pour(attack, socket, many);
        attack.drop(socket);
      });
    },
  },
  {
    name: "pings",
    isOpen: true,
    what: "unregistered sockets that read, with pings of the WebSocket protocol as fast as they go",
    run: (attack) =>
      attack.repeat(2, async () => {
        const socket = await attack.dial();
        if (socket === null) return;
        await pour(attack, socket, PINGS);
        attack.drop(socket);
      }),
  },
  {
    name: "empty parts",
    isOpen: true,
    what: "a message of empty parts that never ends, as fast as it goes",
    run: (attack) =>
      attack.repeat(1, async () => {
        const socket = await attack.dial();
        if (socket === null) return;
        socket.sendPart(Buffer.alloc(0), true);
        await pour(attack, socket, EMPTY_PARTS);
        attack.drop(socket);
      }),
  },
  {
    name: "closed sockets that send",
    what: "sockets that were closed for bad messages, stay, and send small frames as fast as they go",
    run: async (attack) => {
      const many = Buffer.concat(Array.from({ length: 200 }, () => ODD));
      await attack.repeat(8, async () => {
        const socket = await attack.dial();
        if (socket === null) return;
        socket.pause();
        await pour(attack, socket, many);
        attack.drop(socket);
      });
    },
  },
  {
    name: "closed sockets that ping",
    what: "sockets that are told to close for bad messages, and then send pings as fast as they go",
    run: (attack) =>
      attack.repeat(10, async () => {
        const socket = await attack.dial();
        if (socket === null) return;
        const told = new Promise<void>((resolve) => (socket.onClose = resolve));
        // Ten bad messages in a row close a socket.
        for (let n = 0; n < 12; n++) socket.sendRaw(BAD);
        await Promise.race([told, attack.rest(5_000), socket.gone(5_000)]);
        await pour(attack, socket, PINGS);
        attack.drop(socket);
      }),
  },
  {
    name: "lingering sockets",
    what: "sockets that never register, read nothing, and stay when they have been closed",
    run: (attack) =>
      attack.repeat(16, async () => {
        const socket = await attack.dial();
        socket?.pause();
      }),
  },
  ...REQUEST_FLOODS,
];
