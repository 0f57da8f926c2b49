// Hono, ws and BullMQ on Redis. A job is durable as Redis is told to be: appendonly, fsync every second.
import { Job as BullJob, Queue, Worker } from "bullmq";
import { type Done, Fleet, type Job } from "./fleet.ts";
import { serveRest } from "./rest.ts";

const NAME = "jobs";
// One Worker of BullMQ fetches jobs one after the other: four of them were measured to be the fastest.
const WORKERS = 4;
const CONCURRENCY = 64;
const connection = { host: "127.0.0.1", port: Number(process.env["REDIS_PORT"]), maxRetriesPerRequest: null };

const queue = new Queue<Job>(NAME, { connection });
const fleet = new Fleet();
const acks = new Map<string, () => void>();
for (let n = 0; n < WORKERS; n++) {
  const worker = new Worker<Job, Omit<Done, "ack">>(
    NAME,
    async ({ data }) => {
      const { ack, ...done } = await fleet.run(data);
      acks.set(data.id, ack);
      return done;
    },
    { connection, concurrency: CONCURRENCY },
  );
  worker.on("completed", ({ data }) => {
    acks.get(data.id)?.();
    acks.delete(data.id);
  });
  worker.on("error", (error) => console.error(error));
}

fleet.listen(
  serveRest({
    async add(job) {
      await queue.add("run", job, { jobId: job.id });
    },
    async get(id) {
      const job = await BullJob.fromId<Job, Omit<Done, "ack"> | null>(queue, id);
      if (job === undefined) return null;
      const done = job.finishedOn === undefined ? null : job.returnvalue;
      return done === null ? { status: "pending", result: null, receipt: null } : { status: "completed", result: done.output, receipt: done.receipt };
    },
  }),
);
