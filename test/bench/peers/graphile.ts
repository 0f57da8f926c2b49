// Hono, ws and graphile-worker on PostgreSQL, with commits that wait for the disk. The rows of the jobs are in a table of their own.
import { run } from "graphile-worker";
import { Pool } from "pg";
import { Fleet, type Job } from "./fleet.ts";
import { serveRest } from "./rest.ts";

const pool = new Pool({ connectionString: process.env["POSTGRES"], max: 12 });
const fleet = new Fleet();
await pool.query("CREATE TABLE IF NOT EXISTS bench_jobs (id uuid PRIMARY KEY, job jsonb NOT NULL, result jsonb, receipt jsonb)");
await run({
  pgPool: pool,
  concurrency: 256,
  noHandleSignals: true,
  pollInterval: 1_000,
  taskList: {
    async run(payload) {
      const job = payload as Job;
      const { output, receipt, ack } = await fleet.run(job);
      await pool.query("UPDATE bench_jobs SET result = $2, receipt = $3 WHERE id = $1", [job.id, JSON.stringify(output), JSON.stringify(receipt)]);
      ack();
    },
  },
});

fleet.listen(
  serveRest({
    async add(job) {
      // One statement, so one transaction and one wait for the disk.
      await pool.query("WITH stored AS (INSERT INTO bench_jobs (id, job) VALUES ($1, $2)) SELECT graphile_worker.add_job('run', $2::json)", [
        job.id,
        JSON.stringify(job),
      ]);
    },
    async get(id) {
      const { rows } = await pool.query("SELECT result, receipt FROM bench_jobs WHERE id = $1", [id]);
      const [row] = rows;
      if (row === undefined) return null;
      return { status: row.receipt === null ? "pending" : "completed", result: row.result, receipt: row.receipt };
    },
  }),
);
