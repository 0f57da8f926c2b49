// The REST side of a peer, on Hono: one endpoint to commit, one to poll. A queue stores.
import type { Server } from "node:http";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import * as z from "zod";
import { newJobId } from "../../../src/coordinator/routes/job-id.ts";
import { type Job, KEEP_ALIVE_MS } from "./fleet.ts";
import type { Receipt } from "./receipt.ts";

/** What a poll answers. */
export type Stored = { status: "pending" | "completed"; result: unknown; receipt: Receipt | null };
/** `add` resolves when the job is durable. */
export type Queue = { add(job: Job): Promise<void>; get(id: string): Promise<Stored | null> };

const Commit = z.object({
  job_type: z.enum(["LLM_INFER", "TASK"]),
  user_id: z.string().min(1).max(128),
  payload: z.record(z.string(), z.unknown()),
});

/** Serves the queue on the port that the environment names, says so, and returns the server for the sockets. */
export function serveRest(queue: Queue): Server {
  const app = new Hono();
  app.post("/v1/jobs/commit/cheap", async (c) => {
    const commit = Commit.safeParse(await c.req.json());
    if (!commit.success) return c.json({ error: "bad request" }, 400);
    const id = newJobId(Date.now());
    await queue.add({ id, ...commit.data });
    return c.json({ job_id: id }, 201);
  });
  app.get("/v1/jobs/:id", async (c) => {
    const id = c.req.param("id");
    const record = await queue.get(id);
    return record === null ? c.json({ error: "Job not found" }, 404) : c.json({ id, ...record });
  });
  const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.env["PORT"]) }, () => console.log("ready")) as Server;
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  return server;
}
