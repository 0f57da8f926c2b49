// Hono and NATS JetStream on files. The workers are on NATS themselves; this program checks their receipts and stores the results.
import { AckPolicy, connect, JSONCodec, RetentionPolicy } from "nats";
import { isValid, publicKey } from "./receipt.ts";
import { JOBS, RESULTS, type Result } from "./nats-workers.ts";
import { type Stored, serveRest } from "./rest.ts";
import type { Job } from "./fleet.ts";
import type { KeyObject } from "node:crypto";

const connection = await connect({ servers: `127.0.0.1:${process.env["NATS_PORT"]}` });
const manager = await connection.jetstreamManager();
for (const name of [JOBS, RESULTS]) await manager.streams.add({ name, subjects: [`${name}.*`], retention: RetentionPolicy.Workqueue });
for (const name of [JOBS, RESULTS]) await manager.consumers.add(name, { durable_name: name, ack_policy: AckPolicy.Explicit, max_ack_pending: 10_000 });
const stream = connection.jetstream();
const stored = await stream.views.kv("records", { history: 1 });
const [jobs, results, records] = [JSONCodec<Job>(), JSONCodec<Result>(), JSONCodec<Stored>()];
const keys = new Map<string, KeyObject>();

const consumer = await stream.consumers.get(RESULTS, RESULTS);
void (async () => {
  for await (const message of await consumer.consume({ max_messages: 1_000 })) {
    const { job_id, worker, output, receipt } = results.decode(message.data);
    let key = keys.get(worker);
    if (key === undefined) keys.set(worker, (key = publicKey(worker)));
    if (!isValid(receipt, job_id, worker, key, output)) throw new Error("invalid receipt");
    void stored.put(job_id, records.encode({ status: "completed", result: output, receipt })).then(() => {
      message.ack();
      connection.publish(`acks.${worker}`, job_id);
    });
  }
})();

serveRest({
  async add(job) {
    await stream.publish(`${JOBS}.${job.id}`, jobs.encode(job));
  },
  async get(id) {
    const entry = await stored.get(id);
    return entry === null ? { status: "pending", result: null, receipt: null } : records.decode(entry.value);
  },
});
