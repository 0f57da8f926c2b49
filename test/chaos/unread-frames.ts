// What workerd keeps for each frame that a Durable Object sends and nobody reads: memory divided by frames, for frames of several sizes.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { freePort } from "../../scripts/coordinator-process.ts";
import { LIMITS, MiB } from "../../src/protocol/limits.ts";
import { memoryOf } from "../bench/processes.ts";
import { runtimesOf } from "../support/process-tree.ts";
import { FloodSocket } from "./flood-socket.ts";

const FRAMES = 200_000;
const SIZES = [24, 40, 120, 1_000];
/** More than the kernel keeps of a connection, so that all frames after it stay in the process. */
const FILLER = 32 * MiB;

/** An object as the hub is one: sockets that may hibernate, and one that answers a frame with what the frame asks for. */
const SOURCE = `
import { DurableObject } from "cloudflare:workers";
export class Sender extends DurableObject {
  async fetch() {
    const { 0: far, 1: near } = new WebSocketPair();
    this.ctx.acceptWebSocket(near);
    return new Response(null, { status: 101, webSocket: far });
  }
  async webSocketMessage(ws, data) {
    const { count, size } = JSON.parse(data);
    const text = "f".repeat(size);
    for (let n = 0; n < count; n++) ws.send(text);
  }
}
export default { fetch: (request, env) => env.SENDER.get(env.SENDER.idFromName("one")).fetch(request) };
`;

/** Prints what each unread frame costs, beside the bytes that the coordinator counts for it. */
export async function measureUnread(): Promise<void> {
  console.log("| Bytes of a frame | Memory for each, bytes | Beside its text | Counted for it |\n| --- | --- | --- | --- |");
  for (const size of SIZES) {
    const each = await measure(size);
    console.log(`| ${size} | ${each.toFixed(0)} | ${(each - size).toFixed(0)} | ${size + LIMITS.unreadFrameBytes} |`);
    if (each > size + LIMITS.unreadFrameBytes) process.exitCode = 1;
  }
}

async function measure(size: number): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "unread-"));
  const port = await freePort();
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      ...{ host: "127.0.0.1", port: 0, cf: false, telemetry: { enabled: false }, resourceTmpPath: folder, log: new Log(LogLevel.WARN) },
      workers: [
        {
          name: "sender",
          compatibilityDate: "2026-01-01",
          modules: [{ type: "ESModule", path: "main.js", contents: SOURCE }],
          durableObjects: { SENDER: { className: "Sender", useSQLite: true } },
          unsafeDirectSockets: [{ host: "127.0.0.1", port }],
        },
      ],
    }),
  );
  await miniflare.ready;
  const runtimes = runtimesOf(process.pid);
  const memory = (): number => memoryOf(runtimes.map(({ pid }) => pid));
  const socket = new FloodSocket(port, "192.0.2.1");
  await socket.opened;
  socket.pause();
  const ask = async (count: number, bytes: number): Promise<number> => {
    socket.send({ count, size: bytes });
    return settled(memory);
  };
  await ask(1, FILLER);
  const before = await ask(1_000, size);
  const after = await ask(FRAMES, size);
  socket.destroy();
  await miniflare.dispose();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  return (after - before) / FRAMES;
}

/** The memory when it has stopped to change: the same within 1 MiB, three looks in a row. */
async function settled(memory: () => number): Promise<number> {
  let [last, calm] = [0, 0];
  while (calm < 3) {
    await new Promise((resolve) => setTimeout(resolve, 500));
    const now = memory();
    calm = Math.abs(now - last) < MiB ? calm + 1 : 0;
    last = now;
  }
  return last;
}
