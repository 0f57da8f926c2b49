// The limit in JavaScript: node:http, ws and node:sqlite, and one transaction for all that one turn of the event loop brings.
import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { newJobId } from "../../../src/coordinator/routes/job-id.ts";
import { Fleet, KEEP_ALIVE_MS } from "./fleet.ts";

const database = new DatabaseSync(join(process.env["STATE"] ?? ".", "plain.sqlite"));
database.exec(
  "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, job TEXT NOT NULL, result TEXT, receipt TEXT)",
);
const insert = database.prepare("INSERT INTO jobs (id, job) VALUES (?, ?)");
const complete = database.prepare("UPDATE jobs SET result = ?, receipt = ? WHERE id = ?");
const select = database.prepare("SELECT result, receipt FROM jobs WHERE id = ?");

const fleet = new Fleet();
const pending: { write: () => void; then: () => void }[] = [];

/** Writes with everything else of this turn; `then` runs when it is on disk. */
function commit(write: () => void, then: () => void): void {
  if (pending.push({ write, then }) > 1) return;
  setImmediate(() => {
    const all = pending.splice(0);
    database.exec("BEGIN");
    for (const one of all) one.write();
    database.exec("COMMIT");
    for (const one of all) one.then();
  });
}

function answer(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) }).end(body);
}

const server = createServer((request, response) => {
  if (request.method === "GET") {
    const id = request.url?.slice("/v1/jobs/".length) ?? "";
    const row = select.get(id);
    if (row === undefined) return answer(response, 404, '{"error":"Job not found"}');
    const status = row["receipt"] === null ? "pending" : "completed";
    return answer(response, 200, `{"id":"${id}","status":"${status}","result":${row["result"]},"receipt":${row["receipt"]}}`);
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = JSON.parse(Buffer.concat(chunks).toString());
    if (typeof body.user_id !== "string" || typeof body.payload !== "object") return answer(response, 400, '{"error":"bad request"}');
    const job = { id: newJobId(Date.now()), user_id: body.user_id, job_type: body.job_type, payload: body.payload };
    commit(
      () => void insert.run(job.id, JSON.stringify(job)),
      () => {
        answer(response, 201, `{"job_id":"${job.id}"}`);
        void fleet.run(job).then(({ output, receipt, ack }) => commit(() => void complete.run(JSON.stringify(output), JSON.stringify(receipt), job.id), ack));
      },
    );
  });
});
server.keepAliveTimeout = KEEP_ALIVE_MS;
fleet.listen(server);
server.listen(Number(process.env["PORT"]), "127.0.0.1", () => console.log("ready"));
