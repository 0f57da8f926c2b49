// Workers on NATS, for the driver: each has a connection of its own and takes one job at a time.
import { connect, JSONCodec, StringCodec } from "nats";
import type { Job } from "./fleet.ts";
import type { Receipt } from "./receipt.ts";

export const [JOBS, RESULTS] = ["jobs", "results"] as const;
export type Result = { job_id: string; worker: string; output: unknown; receipt: Receipt };

/** What makes a worker of the driver: its key, and how it answers a job. */
export type Hand = { publicKey: string; answer: (jobId: string) => Omit<Result, "job_id" | "worker"> };

/** Connects the workers; `onAck` is called with the id of each job whose result is stored. Resolves to their end. */
export async function connectWorkers(port: number, hands: readonly Hand[], onAck: (jobId: string) => void): Promise<() => Promise<void>> {
  const [jobs, results, text] = [JSONCodec<Job>(), JSONCodec<Result>(), StringCodec()];
  const connections = await Promise.all(
    hands.map(async ({ publicKey, answer }) => {
      const connection = await connect({ servers: `127.0.0.1:${port}` });
      connection.subscribe(`acks.${publicKey}`, { callback: (_, message) => onAck(text.decode(message.data)) });
      const stream = connection.jetstream();
      const consumer = await stream.consumers.get(JOBS, JOBS);
      const messages = await consumer.consume({ max_messages: 1 });
      void (async () => {
        for await (const message of messages) {
          const { id } = jobs.decode(message.data);
          await stream.publish(`${RESULTS}.${id}`, results.encode({ job_id: id, worker: publicKey, ...answer(id) }));
          message.ack();
        }
      })();
      return connection;
    }),
  );
  return async () => {
    await Promise.all(connections.map((connection) => connection.close()));
  };
}
